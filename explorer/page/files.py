"""The program's own files for the browser: scripts, styles, words and recorded runs, and nothing else.
Gradio's routes for files, which also fetch addresses and know folders of this machine by their path, stay closed."""

from pathlib import Path

import anyio
import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from engines import ASSETS, TraceError
from explorer import papers
from explorer.page import client
from explorer.runs.gallery import gallery, played

PREFIX = "files"


def folders() -> dict[str, Path]:
    """What is served, by the name in the address. Raises UserError for an extra folder that is not there."""
    named = {"words": ASSETS / "words"}
    return named | {
        f"traces{number or ''}": place / "traces"
        for number, place in enumerate(papers.folders())
        if (place / "traces").is_dir()
    }


def address(file: Path) -> str:
    """Where the browser finds a file, relative to the page. Raises ValueError for one that is in none of the
    folders."""
    for name, folder in folders().items():
        if file.is_relative_to(folder):
            return "/".join((PREFIX, name, *file.relative_to(folder).parts))
    raise ValueError(f"{file} is in none of the folders that are served.")


def mounts() -> list[BaseRoute]:
    """The routes."""
    return [
        client.route(f"/{PREFIX}"),
        *(
            Mount(f"/{PREFIX}/{name}", (Recordings if name.startswith("traces") else StaticFiles)(directory=folder))
            for name, folder in folders().items()
        ),
    ]


def _beside(path: str) -> Path | None:
    """The file of the run that a recorded run is shown beside."""
    recorded, name = gallery(), path.partition(".")[0]
    card = next((card for card in recorded.cards if card.id == name), None)
    return recorded.path(card.beside) if card and card.beside else None


class Recordings(StaticFiles):
    """Recorded runs as the player reads them: with their figures. Nothing is kept by the browser: the file may be the
    same where the figures are others."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file's text with its figures; as it is where it cannot be read."""
        place, facts = await anyio.to_thread.run_sync(self.lookup_path, path)
        if facts and path.endswith((".json", ".json.gz")):
            try:
                packed = await anyio.to_thread.run_sync(played, Path(place), _beside(path), facts.st_mtime_ns)
            except (TraceError, msgspec.DecodeError):
                pass  # the player says what is wrong with it
            else:
                headers = {"cache-control": "no-cache"}
                return Response(packed, headers=headers, media_type="application/gzip")
        return await super().get_response(path, scope)
