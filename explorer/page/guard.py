"""One ASGI class in front of Gradio: known hosts only, writes from the own origin only, bounded bodies, no routes that
this app does not use, and a content security policy that keeps every request on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

CLOSED = (
    "/gradio_api/upload",
    "/gradio_api/proxy=",
    "/gradio_api/file=http",
    "/monitoring",
    "/gradio_api/deep_link",
    "/gradio_api/vibe",
)
CLOSED_TOO = tuple(path.removeprefix("/gradio_api") for path in CLOSED)
RUN_ROUTES = ("/gradio_api/queue/join", "/gradio_api/call/", "/gradio_api/run/")
SMALL_BODY, LARGE_BODY = 64 * 1024, 10_000_000  # bytes; only a run or an import may send the larger one

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # gr.HTML compiles its constant templates
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self' https://huggingface.co",
    )
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class Refusal(Exception):
    """A status and one sentence for the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    """Pure ASGI, so that event streams pass through untouched. `hosts`: allowed host names without port; empty allows
    any (behind a proxy)."""

    def __init__(self, app: Any, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuse, or pass on with bounded input and added headers."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        try:
            self.check(scope)
        except Refusal as refusal:
            return await _answer(send, refusal)
        limit = LARGE_BODY if scope["path"].startswith(RUN_ROUTES) else SMALL_BODY
        try:
            await self.app(scope, _bounded(receive, limit), _with_headers(send))
        except Refusal as refusal:  # nothing was answered yet: the body is read before the answer starts
            await _answer(send, refusal)

    def check(self, scope: dict[str, Any]) -> None:
        """Raises Refusal for a foreign host or origin, a closed route or an announced body that is too large."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self.hosts and _name(host) not in self.hosts:
            raise Refusal(400, "This server does not answer for that host name. Set EXPLORER_HOSTS to allow it.")
        if scope["path"].startswith((*CLOSED, *CLOSED_TOO)):
            raise Refusal(404, "Not found.")
        if scope.get("method", "GET") in ("GET", "HEAD", "OPTIONS"):
            return
        origin = headers.get("origin")
        if origin and urlsplit(origin).netloc not in {host, headers.get("x-forwarded-host", host)}:
            raise Refusal(403, "Requests from another site are refused.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not origin:
            raise Refusal(403, "Requests from another site are refused.")
        limit = LARGE_BODY if scope["path"].startswith(RUN_ROUTES) else SMALL_BODY
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > limit:
            raise Refusal(413, f"The request is larger than {limit:,} bytes.")


def _name(host: str) -> str:
    return (urlsplit("//" + host).hostname or "").lower()


def _bounded(receive: Any, limit: int) -> Any:
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise Refusal(413, f"The request is larger than {limit:,} bytes.")
        return message

    return bounded


def _with_headers(send: Any) -> Any:
    async def with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return with_headers


async def _answer(send: Any, refusal: Refusal) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *HEADERS]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": str(refusal).encode()})
