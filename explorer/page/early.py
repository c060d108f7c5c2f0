"""What a browser gets of the page as early as it can: the document packed, and the modules of the first screen asked
for before the components that import them are there.

Gradio sends the document, a megabyte of configuration, as it is, since its own packing looks at the ending of a file's
name. And it mounts our components when all of its chunks have come; only then would the first of our modules be asked
for, and each would name the next ones, seven deep."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from gradio.brotli_middleware import BrotliResponder, Mode
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from engines import ASSETS
from explorer.export.bundle import views
from explorer.page import files

SCRIPT = Path(__file__).with_name("early.js")
PACKED = ("/", "/config")  # composed by Gradio, without an ending in the address
LEVEL = 5  # of zlib's nine, and of brotli's eleven: 975 kB become 163 and 111 in 30 ms each; nine and seven save 3 %
WINDOW, LEAST = 22, 500  # brotli's window, base 2 of bytes; answers of fewer bytes go as they are, as with gzip
DETAILS = 100  # views from this place on stand under Details, which loads them when it is opened (loader.js)
ENTRIES = (
    *("page/switch.js", "page/quiet.js", "page/opening.js", "page/stage.js", "page/form.js", "page/chips.js"),
    *("page/phone.js", "page/running.js", "page/lecture.js", "page/advice.js", "page/address.js", "learn/tour.js"),
    "player/gradio.js",
)
"""The modules that the components of the first screen are drawn by, below assets/."""
LANGUAGE = ("page/language.js", "page/sentences.js")  # imported before them
_NAMED = re.compile(r'^(?:import\s[^;"]*|\}\s)from\s"(\.{1,2}/[\w./-]+\.js)";$', re.MULTILINE)


class Packed:
    """Pure ASGI: the document and its configuration are packed, by brotli, whose window holds all of a document that
    says many things several times, or by gzip, as the browser takes it; all else, event streams among it, passes
    untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.packed = app, GZipMiddleware(app, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] not in PACKED:
            await self.app(scope, receive, send)
        elif takes_brotli(Headers(scope=scope).get("accept-encoding", "")):
            await BrotliResponder(self.app, LEVEL, Mode.text, WINDOW, 0, LEAST)(scope, receive, send)
        else:
            await self.packed(scope, receive, send)


def takes_brotli(accepted: str) -> bool:
    """Whether the header Accept-Encoding names it; browsers do so on https and for localhost."""
    offers = [offer.replace(" ", "").lower() for offer in accepted.split(",")]
    return any(offer == "br" or (offer.startswith("br;q=") and offer[5:].strip("0.") != "") for offer in offers)


def imported() -> list[str]:
    """All modules, below assets/, that the first screen imports by name: those of the language, what the components'
    modules and the views that every run shows import, and these views."""
    shown = [view for view in views() if not view.needs]
    early = [view for view in shown if isinstance(view.place, str) or view.place < DETAILS]
    first = [*LANGUAGE, *(f"player/views/{view.file}.js" for view in early)]
    return [*dict.fromkeys([*first, *imports([*first, *ENTRIES])])]


def imports(names: Iterable[str]) -> list[str]:
    """What these modules import by name, directly and through others; all below assets/, each once."""
    found, waiting = dict[str, None](), [*names]
    while waiting:
        name = waiting.pop()
        named = _NAMED.findall((ASSETS / name).read_text("utf-8"))
        paths = [posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in named]
        waiting += [path for path in paths if path not in found]
        found |= dict.fromkeys(paths)
    return [*found]


def preloading(entries: Iterable[str]) -> str:
    """A script that asks for these addresses, relative to the page, and for all that is imported."""
    asked = [*entries, *(files.address(ASSETS / name) for name in imported())]
    return f"globalThis.dxEarly = {json.dumps(asked)};\n{SCRIPT.read_text(encoding='utf-8')}"
