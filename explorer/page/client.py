"""The browser's part of the page as few files. The document names a script with all that the first boards need; it
draws these and lets Gradio's page come only then. A second script holds the other modules of the page, and the views
that few runs need come by themselves. All have an address with the hash of what they hold: a browser keeps them."""

import hashlib
import json
import re
from functools import cache

import gradio.routes
from jinja2 import ChoiceLoader, DictLoader
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import engines
from explorer.export.bundle import CLIENT, given, module_name, own_files, script_of, styles, views, views_of
from explorer.own_files import own_text
from explorer.page.theme import tokens
from explorer.runs.gallery import gallery

DOCUMENT = "frontend/index.html"  # among Gradio's templates
FIRST = ("page/first.js", "page/stage.js", "page/toolbar.js", "page/opening.js", "player/gradio.js")
LATER = ("page", "learn")  # folders of what the rest of the page is drawn by
YEAR = 365 * 24 * 60 * 60  # seconds
DETAILS = 100  # views from this place on stand under Details, which loads them when it is opened (loader.js)
_GRADIO = re.compile(r'<script type="module" crossorigin src="(\./assets/[\w.-]+\.js)"></script>')
_CONFIG = "<script>window.gradio_config"
LOST = (
    "This page needs a script that did not arrive (board.js). Reload it; if that does not help, something between this "
    "browser and the server holds the script back."
)


@cache
def files() -> dict[str, str]:
    """The text of each file that the document leads to, by its name."""
    board, rest = [*FIRST, *map(module_name, _opening())], sorted(_modules() - {*FIRST})
    begin = 'globalThis.dxReady = dxModules.load("page/first.js").then((page) => page.begin());\n'
    theme = f"globalThis.dxTheme = {own_text('theme.json').strip()};\n"
    return {
        "board.js": given() + theme + script_of(board, ()) + begin,
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
    texts = [*files().values(), *((CLIENT / name).read_text("utf-8") for name in sorted(_modules()))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def lead(document: str, prefix: str) -> str:
    """Gradio's document, which asks for our files first; these ask for `dxGradio`, Gradio's own, later."""
    here = f"{prefix}/client/{_version()}"
    lost = f"document.body.prepend('{LOST}')"
    ours = (
        f'<link rel="stylesheet" href="{here}/all.css"><script defer src="{here}/board.js" onerror="{lost}"></script>'
    )
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
    if name not in files() and name not in _modules() and not own:
        raise HTTPException(404)
    text = files().get(name) or script_of([name])
    kept = "no-cache" if own or version != _version() else f"max-age={YEAR},immutable"
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text, media_type=kind, headers={"cache-control": kept})
