"""The program's own files for the browser: modules, styles and recorded runs, from named folders and nothing else.
Gradio's routes for files, which also fetch addresses and know folders of this machine by their path, stay closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from explorer import ASSETS, papers
from explorer.export.bundle import own_files

PREFIX = "files"


def folders() -> dict[str, Path]:
    """What is served, by the name in the address. Raises UserError for an extra folder that is not there."""
    named = {name: ASSETS / name for name in ("player", "page", "learn", "words")}
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
    """The routes. Views beside a person's own method files, of which a public host has none, stand in a folder of the
    player, so that they import what its own views do."""
    return [
        Route(f"/{PREFIX}/player/own/{{record}}.js", own_view),
        *(
            Mount(f"/{PREFIX}/{name}", (Recordings if name.startswith("traces") else StaticFiles)(directory=folder))
            for name, folder in folders().items()
        ),
    ]


async def own_view(request: Request) -> Response:
    """The view of a record that lies beside the method file."""
    path = own_files().get(request.path_params["record"])
    if path is None:
        raise HTTPException(404)
    return FileResponse(path, media_type="text/javascript", headers={"cache-control": "no-cache"})


class Recordings(StaticFiles):
    """Recorded runs and their pictures. The browser asks each time whether they changed: a run that is recorded again
    keeps its name."""

    def file_response(self, *args: Any, **given: Any) -> Response:
        """The file, or that it did not change."""
        answer = super().file_response(*args, **given)
        answer.headers["cache-control"] = "no-cache"
        return answer
