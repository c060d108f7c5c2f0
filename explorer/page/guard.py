"""One ASGI class in front of Gradio: known hosts only, writes from the own origin only, bounded bodies, only the routes
that this app uses, and a content security policy that keeps every request on this machine."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Container, Coroutine, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from explorer.page import quiet
from explorer.page.bodies import Refusal, bounded, whole
from explorer.page.budget import Budget, Stream
from explorer.page.clients import BEAT, Readers, client_of
from explorer.page.connections import SENDING
from explorer.page.memory import Owners

# What the page and Gradio's own client ask for, and nothing else: a route that a newer Gradio adds stays closed.
API = "/gradio_api"
READ = re.compile(
    r"/|/config/?|/theme\.css|/favicon\.ico|/robots\.txt|/manifest\.json|/(static|assets|svelte|files)/.+|/live/\w{1,64}"
    + rf"|{API}/(info/?|app_id/?|startup-events|theme\.css|heartbeat/[\w-]{{1,64}}|queue/data|call/\w+/\w{{1,64}})"
)
WRITE = re.compile(rf"{API}/(queue/join|run/\w+/?|call/\w+/?|cancel|reset/?)")
PLAIN_HOST = re.compile(r"[\w.-]{1,253}(:\d{1,5})?")
LASTING = re.compile(rf"{API}/(heartbeat/[\w-]+|queue/data|call/\w+/\w+)|/live/[^/]+")  # answers that stay open
CALL = re.compile(rf"{API}/call/\w+/\w+")
PAGE = re.compile(rf"/|/config/?|{API}/info/?")  # composed for each request
PAGE_COST = 4  # calls
STREAM = "/gradio_api/queue/data"
RUN_ROUTES = ("/gradio_api/queue/join", "/gradio_api/call/", "/gradio_api/run/")
PIECE = 64 * 1024  # bytes of an answer that are given away at once
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


class Guard:
    """Pure ASGI, so that event streams pass through untouched. `hosts`: allowed host names without port; empty allows
    any (behind a proxy). trace_characters: of the longest trace that may be opened. sessions: those that Gradio has
    messages for; calls: events that it has messages for. None knows of none, so that no stream is refused for it.
    readers, owners: are told who reads, and whose a session is. budget: of each visitor, None at home."""

    def __init__(
        self,
        app: Any,
        hosts: Iterable[str] = (),
        trace_characters: int = LARGE_BODY,
        sessions: Container[str] | None = None,
        calls: Container[str] | None = None,
        readers: Readers | None = None,
        owners: Owners | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.budget = budget
        self.sessions, self.calls, self.readers = sessions, calls, readers or Readers()
        self.app, self.owners = app, owners or Owners()
        self.hosts = frozenset(hosts)
        self.large = min(LARGE_BODY, SMALL_BODY + 2 * trace_characters)  # JSON in JSON, where every quote is two

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuse, or pass on with bounded input and added headers."""
        if scope["type"] == "websocket":  # this app has none
            return await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        send = _in_pieces(scope, send)
        scope = {**scope, "headers": [one for one in scope["headers"] if self._believed(*one)]}
        ended = asyncio.Event()
        try:
            self.check(scope)
            lasting = self._spend(scope, ended.set)
        except Refusal as refusal:
            return await _answer(send, refusal)
        limit, stream = self._limit(scope), stream_of(scope)
        self.readers.begin(stream)
        begun = False

        async def answered(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            if self.budget and PAGE.fullmatch(scope["path"].removeprefix(scope.get("root_path", ""))):
                await self._in_turn(self.budget, scope, receive, limit, _with_headers(answered))
            elif lasting is not None:
                await _until(ended, self.app(scope, bounded(receive, limit), _with_headers(answered)))
                if ended.is_set() and begun:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif scope["method"] != "POST":
                await self.app(scope, bounded(receive, limit), _with_headers(answered))
            elif self.budget and scope["path"].startswith(RUN_ROUTES):
                await self._in_turn(self.budget, scope, receive, limit, _with_headers(answered))
            else:
                await self.app(scope, await self._whole(scope, receive, limit), _with_headers(answered))
        except Refusal as refusal:  # nothing was answered yet: the body is read before the answer starts
            await _answer(send, refusal)
        except UnicodeEncodeError:  # an answer that quotes what was sent; it is encoded before it starts
            await _answer(send, Refusal(400, "The request holds half of a character (a lone surrogate)."))
        except Exception:  # Gradio fails for a handler that there is not, and in a stream whose session has gone
            quiet.report()
            if not begun:
                await _answer(send, Refusal(500, "The server could not answer that request."))
        finally:
            self.readers.end(stream)
            if self.budget and lasting is not None:
                self.budget.close(lasting)

    async def _whole(self, scope: dict[str, Any], receive: Any, limit: int) -> Any:
        given, session = await whole(receive, limit)
        if session:
            self.owners.note(session, client_of(Request(scope)))
        return given

    async def _in_turn(self, budget: Budget, scope: dict[str, Any], receive: Any, limit: int, send: Any) -> None:
        """Pass a call on when it is its turn, which ends when its answer begins and is charged for its length: how
        slowly a visitor sends or reads costs nobody else."""
        address = client_of(Request(scope))
        async with budget.place(address) as (own, turns):
            ends = [own.release]

            async def answered(message: Any) -> None:
                while ends:
                    ends.pop()()
                await send(message)

            try:
                given = await self._whole(scope, receive, limit)
                await turns.acquire()
                began, counted = time.monotonic(), self._counted(scope, address)
                ends += [turns.release, lambda: budget.charge(counted, time.monotonic() - began)]
                await self.app(scope, given, answered)
            finally:
                while ends:
                    ends.pop()()

    @staticmethod
    def _counted(scope: dict[str, Any], address: str) -> str:
        """Under which name a call or a page of an address is counted."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return address + "/pages" if PAGE.fullmatch(path) else address

    def _spend(self, scope: dict[str, Any], end: Callable[[], object]) -> Stream | None:
        """Count a request under its visitor; the stream where it stays open until `close` or is ended. Raises
        Refusal."""
        if self.budget is None:
            return None
        address, path = client_of(Request(scope)), scope["path"].removeprefix(scope.get("root_path", ""))
        wait, counted = 0.0, self._counted(scope, address)
        if scope["method"] == "POST" or LASTING.fullmatch(path):
            wait = self.budget.call(address)
        elif PAGE.fullmatch(path):
            wait = self.budget.call(counted, PAGE_COST)
        if wait:
            raise Refusal(429, f"Too many requests; retry in {math.ceil(wait)} s.")
        if scope["method"] == "POST":
            return None
        if not LASTING.fullmatch(path):
            return None
        stream = self.budget.open(address, end)
        if stream is None:
            raise Refusal(429, "Too many pages of this address are open here; close one and load this one again.")
        return stream

    def check(self, scope: dict[str, Any]) -> None:
        """Raises Refusal for a foreign host or origin, a closed route or an announced body that is too large."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self.hosts and _name(host) not in self.hosts:
            raise Refusal(400, "This server does not answer for that host name. Set EXPLORER_HOSTS to allow it.")
        reading = scope["method"] in ("GET", "HEAD", "OPTIONS")
        if not (READ if reading else WRITE).fullmatch(scope["path"].removeprefix(scope.get("root_path", ""))):
            raise Refusal(404, "Not found.")
        if reading:
            return self._check_stream(scope)
        origin = headers.get("origin")
        if origin and urlsplit(origin).netloc not in {host, headers.get("x-forwarded-host", host)}:
            raise Refusal(403, "Requests from another site are refused.")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not origin:
            raise Refusal(403, "Requests from another site are refused.")
        limit = self._limit(scope)
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced) > limit:
            raise Refusal(413, f"The request is larger than {limit:,} bytes.")

    def _check_stream(self, scope: dict[str, Any]) -> None:
        """Gradio fails in the middle of its answer for a session or a call that it does not know; it need not begin.
        Raises Refusal."""
        path, stream = scope["path"].removeprefix(scope.get("root_path", "")), stream_of(scope)
        if path.endswith(STREAM) and self.sessions is not None and stream not in self.sessions:
            raise Refusal(404, "There is no run of that session.")
        if CALL.fullmatch(path) and self.calls is not None and stream not in self.calls:
            raise Refusal(404, "There is no call of that name.")

    def _believed(self, name: bytes, value: bytes) -> bool:
        """Whether Gradio may see a header: what names the server, and so would stand in the page, has to name this
        one."""
        if name.lower() == b"x-forwarded-host":
            told = value.decode("latin-1")
            return PLAIN_HOST.fullmatch(told) is not None and (not self.hosts or _name(told) in self.hosts)
        return not name.lower().startswith(b"x-gradio-")

    def _limit(self, scope: dict[str, Any]) -> int:
        return self.large if scope["path"].startswith(RUN_ROUTES) else SMALL_BODY


def stream_of(scope: dict[str, Any]) -> str:
    """Whose events a request reads: a session's, those of one call or a heartbeat; "" for another request."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if path.endswith(STREAM):
        return parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_hash", [""])[0]
    if scope["method"] == "GET" and path.startswith(f"{API}/{BEAT}"):
        return path.removeprefix(f"{API}/")
    return path.rsplit("/", 1)[1] if CALL.fullmatch(path) and scope["method"] == "GET" else ""


def _name(host: str) -> str:
    return (urlsplit("//" + host).hostname or "").lower()


def _with_headers(send: Any) -> Any:
    async def with_headers(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return with_headers


def _in_pieces(scope: dict[str, Any], send: Any) -> Any:
    """A send that gives an answer away in pieces, and notes in the request's scope since when one waits to be read."""

    async def sent(message: Any) -> None:
        body = message.get("body", b"")
        more = message.get("more_body", False)
        for start in range(0, max(1, len(body)), PIECE):
            scope[SENDING] = time.monotonic()
            if len(body) <= PIECE:
                await send(message)
            else:
                last = start + PIECE >= len(body)
                await send({**message, "body": body[start : start + PIECE], "more_body": more or not last})
            del scope[SENDING]

    return sent


async def _until(ended: asyncio.Event, answer: Coroutine[Any, Any, None]) -> None:
    """An answer to its end, or until it is ended."""
    answering, ending = asyncio.ensure_future(answer), asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        answering.cancel()  # nothing where it is done
        with suppress(asyncio.CancelledError):
            await answering


async def _answer(send: Any, refusal: Refusal) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *HEADERS]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": str(refusal).encode()})
