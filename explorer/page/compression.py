"""The document packed: Gradio sends it, a megabyte of configuration, as it is, since its own packing looks at the
ending of a file's name."""

from gradio.brotli_middleware import BrotliResponder, Mode
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

PACKED = ("/", "/config")  # composed by Gradio, without an ending in the address
LEVEL = 5  # of zlib's nine, and of brotli's eleven: 975 kB become 163 and 111 in 30 ms each; nine and seven save 3 %
WINDOW, LEAST = 22, 500  # brotli's window, base 2 of bytes; answers of fewer bytes go as they are, as with gzip


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
