"""The program's own files for the browser, and nothing else. Gradio's routes for files, which also fetch addresses and
know folders of this machine by their path, stay closed.

Scripts and styles come as few files. The document names a script with all that the first boards need; it draws these
and lets Gradio's page come only then. A second script holds the other modules of the page, and the views that few runs
need come by themselves. All have an address with the hash of what they hold: a browser keeps them. Words and recorded
runs come from their folders."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

import anyio
import gradio.routes
import msgspec
from jinja2 import ChoiceLoader, DictLoader
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

import engines
from engines import ASSETS, TraceError
from explorer import papers
from explorer.export.bundle import CLIENT, module_name, own_files, registry, script_of, styles, views, views_of
from explorer.figures.definitions import script
from explorer.own_files import own_text
from explorer.page import files
from explorer.page.theme import tokens
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
    """Where the browser finds a file, relative to the page. Raises ValueError for one in none of the folders."""
    for name, folder in folders().items():
        if file.is_relative_to(folder):
            return "/".join((PREFIX, name, *file.relative_to(folder).parts))
    raise ValueError(f"{file} is in none of the folders that are served.")


def mounts() -> list[BaseRoute]:
    """The routes."""
    return [
        files.route(f"/{PREFIX}"),
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


DOCUMENT = "frontend/index.html"  # among Gradio's templates
FIRST = ("page/first.js", "page/stage.js", "page/toolbar.js", "page/opening.js", "player/gradio.js")
LATER = ("page", "learn")  # folders of what the rest of the page is drawn by
YEAR = 365 * 24 * 60 * 60  # seconds
DETAILS = 100  # views from this place on stand under Details, which loads them when it is opened (loader.js)
_GRADIO = re.compile(r'<script type="module" crossorigin src="(\./assets/[\w.-]+\.js)"></script>')
_CONFIG = "<script>window.gradio_config"


@cache
def scripts() -> dict[str, str]:
    """The text of each file that the document leads to, by its name."""
    board, rest = [*FIRST, *map(module_name, _opening())], sorted(_modules() - {*FIRST})
    begin = 'globalThis.dxReady = dxModules.load("page/first.js").then((page) => page.begin());\n'
    theme = f"globalThis.dxTheme = {own_text('theme.json').strip()};\n"
    return {
        "board.js": registry() + script() + theme + script_of(board, ()) + begin,
        "rest.js": script_of([name for name in rest if name.split("/")[0] in LATER], board),
        "all.css": tokens() + styles("page", "learn"),
    }


def _opening() -> list[str]:
    """The files of the views that the runs of the opening show at once."""
    runs, ideas = gallery().opening().values(), {info.slug: info.signature for info in engines.list_methods()}
    shown, drawn = {ideas.get(run.header.method) for run in runs}, views_of([run.to_json() for run in runs])
    early = [view.file for view in views() if isinstance(view.place, str) or view.place < DETAILS or view.file in shown]
    return [file for file in early if file in drawn]


@cache
def _modules() -> frozenset[str]:
    return frozenset(path.relative_to(CLIENT).as_posix() for path in CLIENT.rglob("*/*.js"))


@cache
def _version() -> str:
    """Changes with any of the files, and with any module that comes by itself."""
    texts = [*scripts().values(), *((CLIENT / name).read_text("utf-8") for name in sorted(_modules()))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def lead(document: str, prefix: str) -> str:
    """Gradio's document, which asks for our files first; these ask for `dxGradio`, Gradio's own, later."""
    here = f"{prefix}/client/{_version()}"
    ours = f'<link rel="stylesheet" href="{here}/all.css"><script defer src="{here}/board.js"></script>'
    held = _GRADIO.search(document)
    later = f"<script>globalThis.dxGradio = {json.dumps(held[1] if held else None)};</script>"
    place = _CONFIG if _CONFIG in document else "</head>"
    return _GRADIO.sub("", document).replace(place, ours + later + place, 1)


def install(prefix: str) -> None:
    """From now on the pages of this process are sent with that document."""
    templates = gradio.routes.templates.env
    loaders = templates.loader.loaders[1:] if isinstance(templates.loader, ChoiceLoader) else [templates.loader]
    source = loaders[0].get_source(templates, DOCUMENT)[0]
    templates.loader = ChoiceLoader([DictLoader({DOCUMENT: lead(source, prefix)}), *loaders])


def route(prefix: str) -> Route:
    """The route of these files and, by its name, of any module. Those that lie beside a person's own method files, of
    which a public host has none, are read anew each time."""
    return Route(f"{prefix}/client/{{version}}/{{name:path}}", _answer)


async def _answer(request: Request) -> Response:
    version, name = request.path_params["version"], request.path_params["name"]
    own = name.startswith("own/") and name.removeprefix("own/").removesuffix(".js") in own_files()
    if name not in scripts() and name not in _modules() and not own:
        raise HTTPException(404)
    text = scripts().get(name) or script_of([name])
    kept = "no-cache" if own or version != _version() else f"max-age={YEAR},immutable"
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text, media_type=kind, headers={"cache-control": kept})
