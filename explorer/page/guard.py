"""One ASGI class in front of Gradio: known hosts only, writes from the own origin only, bounded bodies that are looked
at before anybody parses them, only the routes that this app uses, and a content security policy that keeps every
request on this machine."""

import asyncio
import json
import math
import re
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from explorer.page import error_log
from explorer.page.memory import REMEMBERED, Owners
from explorer.page.visitor_address import BEAT, Readers, client_of, has_call
from explorer.page.visitor_limits import SENDING, Budget

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
STREAM = f"{API}/queue/data"
RUN_ROUTES = (f"{API}/queue/join", f"{API}/call/", f"{API}/run/")
PIECE = 64 * 1024  # bytes of an answer that are given away at once
SMALL_BODY, LARGE_BODY = 64 * 1024, 10_000_000  # bytes; only a run or an import may send the larger one
PATIENCE = 60.0  # seconds in which a body has to be here
VALUES, DEPTH = 2000, 20  # of a call's JSON: commas and brackets, brackets within each other; texts not looked into
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)  # an open one ends with the body: linear time
NO_SIGNS = bytes(set(range(256)) - set(b"[]{},"))
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape of half a character, which may be whole with the next one
NAME = re.compile(r"[\w-]{1,64}")

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
    any (behind a proxy). trace_characters: of the longest trace that may be opened. queue: Gradio's, whose messages a
    stream may ask for; without one no stream is refused. readers, owners: are told who reads, and whose a session is.
    budget: of each visitor, None at home."""

    def __init__(
        self,
        app: Any,
        hosts: Iterable[str] = (),
        trace_characters: int = LARGE_BODY,
        queue: Any = None,
        readers: Readers | None = None,
        owners: Owners | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.app, self.hosts, self.queue, self.budget = app, frozenset(hosts), queue, budget
        self.readers, self.owners = readers or Readers(), owners if owners is not None else Owners(REMEMBERED)
        self.large = min(LARGE_BODY, SMALL_BODY + 2 * trace_characters)  # JSON in JSON, where every quote is two

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuse, or pass on with bounded input and added headers."""
        if scope["type"] == "websocket":  # this app has none
            return await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        send, begun = _in_pieces(scope, send), False
        scope = {**scope, "headers": [header for header in scope["headers"] if self._believed(*header)]}

        async def answered(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def refuse(status: int, text: str) -> None:
            await PlainTextResponse(text, status, {"connection": "close"})(scope, receive, send)

        try:
            self.check(scope)
            self._spend(scope)
            with self.readers.reading(stream_of(scope)):
                ended = await self._pass_on(scope, receive, answered)
            if ended and begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except HTTPException as refusal:  # nothing was answered yet: the body is read before the answer starts
            await refuse(refusal.status_code, refusal.detail)
        except UnicodeEncodeError:  # an answer that quotes what was sent; it is encoded before it starts
            await refuse(400, "The request holds half of a character (a lone surrogate).")
        except ClientDisconnect:
            pass
        except Exception:  # Gradio fails for a handler that there is not, and in a stream whose session has gone
            error_log.report()
            if not begun:
                await refuse(500, "The server could not answer that request.")

    async def _pass_on(self, scope: dict[str, Any], receive: Any, send: Any) -> bool:
        """Let Gradio answer; whether that was a stream which made room for another one."""
        path = _path(scope)
        if self.budget and LASTING.fullmatch(path):
            with self.budget.stream(client_of(Request(scope))) as stream:
                await self.app(scope, receive, send)
            return stream.cancelled_caught
        if self.budget and (PAGE.fullmatch(path) or path.startswith(RUN_ROUTES)):
            await self._in_turn(self.budget, scope, receive, send)
        elif scope["method"] == "POST":
            await self.app(scope, await self._whole(scope, receive), send)
        else:
            await self.app(scope, receive, send)
        return False

    async def _in_turn(self, budget: Budget, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass a call on when it is its turn, which ends when its answer begins and is charged for its length: how
        slowly a visitor sends or reads costs nobody else."""
        async with budget.place(client_of(Request(scope))) as stack:
            given = await self._whole(scope, receive)
            await stack.enter_async_context(budget.turns)
            began, counted = time.monotonic(), _counted(scope)
            stack.callback(lambda: budget.charge(counted, time.monotonic() - began))

            async def answered(message: Any) -> None:
                await stack.aclose()
                await send(message)

            await self.app(scope, given, answered)

    async def _whole(self, scope: dict[str, Any], receive: Any) -> Any:
        """A receive that gives the whole body at once, checked. Raises HTTPException."""
        request, body = Request(scope, receive), bytearray()
        limit = self.large if _path(scope).startswith(RUN_ROUTES) else SMALL_BODY
        try:
            async with asyncio.timeout(PATIENCE):
                async for piece in request.stream():
                    body += piece
                    if len(body) > limit:
                        raise HTTPException(413, f"The request is larger than {limit:,} bytes.")
        except TimeoutError:
            raise HTTPException(408, f"The request was not here after {PATIENCE:g} seconds.") from None
        if session := check_body(bytes(body)):
            self.owners.setdefault(session, client_of(request))
        waiting = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        return again

    def _spend(self, scope: dict[str, Any]) -> None:
        """Count a request under its visitor. Raises HTTPException where there were too many."""
        path = _path(scope)
        cost = PAGE_COST if PAGE.fullmatch(path) else int(scope["method"] == "POST" or bool(LASTING.fullmatch(path)))
        if self.budget and cost and (wait := self.budget.call(_counted(scope), cost)):
            raise HTTPException(429, f"Too many requests; retry in {math.ceil(wait)} s.")

    def check(self, scope: dict[str, Any]) -> None:
        """Raises HTTPException for a foreign host or origin, a closed route, or a stream that there is not."""
        headers, path = Headers(scope=scope), _path(scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.hosts and _name(host) not in self.hosts:
            raise HTTPException(400, "This server does not answer for that host name. Set EXPLORER_HOSTS to allow it.")
        reading = scope["method"] in ("GET", "HEAD", "OPTIONS")
        if not (READ if reading else WRITE).fullmatch(path):
            raise HTTPException(404, "Not found.")
        if reading:
            return self._check_stream(path, stream_of(scope))
        if origin:
            foreign = urlsplit(origin).netloc not in {host, headers.get("x-forwarded-host", host)}
        else:
            foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if foreign:
            raise HTTPException(403, "Requests from another site are refused.")

    def _check_stream(self, path: str, stream: str) -> None:
        """Gradio fails in the middle of its answer for a session or a call that it does not know; it need not begin.
        Raises HTTPException."""
        if self.queue is None:
            return
        if path == STREAM and stream not in self.queue.pending_messages_per_session:
            raise HTTPException(404, "There is no run of that session.")
        if CALL.fullmatch(path) and not has_call(self.queue, stream):
            raise HTTPException(404, "There is no call of that name.")

    def _believed(self, name: bytes, value: bytes) -> bool:
        """Whether Gradio may see a header: what names the server, and so would stand in the page, has to name this
        one."""
        if name.lower() == b"x-forwarded-host":
            host = value.decode("latin-1")
            return PLAIN_HOST.fullmatch(host) is not None and (not self.hosts or _name(host) in self.hosts)
        return not name.lower().startswith(b"x-gradio-")


def check_body(body: bytes) -> str:
    """The session that it names; "" for none.

    Raises HTTPException for a call that no page makes: more or deeper values than it sends (Gradio walks through them
    on the event loop), a file by its path or address (Gradio would fetch it), a session or event whose name is none
    (Gradio keeps it), half of a character (Gradio repeats a wrong value in an answer, which then has no end)."""
    if b"\0" in body:  # JSON in another encoding, where a quote is no quote
        raise HTTPException(400, "The request is not JSON in UTF-8.")
    signs = TEXT.sub(b"", body).translate(None, delete=NO_SIGNS)
    if len(signs) > 2 * VALUES:
        raise HTTPException(400, f"The request holds more than {VALUES:,} values.")
    depth = 0
    for sign in signs:
        depth += (sign in b"[{") - (sign in b"]}")
        if depth > DEPTH:
            raise HTTPException(400, f"The request is nested more than {DEPTH} deep.")
    try:
        payload = json.loads(body) if body else {}
        if HALF.search(body):
            json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise HTTPException(400, "The request holds half of a character (a lone surrogate); take it out.") from None
    except (ValueError, RecursionError):
        return ""  # Gradio says what is wrong with it
    for key in ("session_hash", "event_id"):
        name = payload.get(key) if isinstance(payload, dict) else None
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise HTTPException(400, f"{key} is not a name of at most 64 letters, digits and hyphens.")
    waiting = [payload]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and "meta" in value:  # what Gradio takes for a file; nothing of this page has it
            raise HTTPException(400, "The request names a file, and no file is taken here.")
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return str(payload.get("session_hash") or "") if isinstance(payload, dict) else ""


def stream_of(scope: dict[str, Any]) -> str:
    """Whose events a request reads: a session's, those of one call or a heartbeat; "" for another request."""
    path = _path(scope)
    if path == STREAM:
        return QueryParams(scope.get("query_string", b"")).get("session_hash", "")
    if scope["method"] == "GET" and path.startswith(f"{API}/{BEAT}"):
        return path.removeprefix(f"{API}/")
    return path.rsplit("/", 1)[1] if CALL.fullmatch(path) and scope["method"] == "GET" else ""


def _path(scope: dict[str, Any]) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _counted(scope: dict[str, Any]) -> str:
    """Under which name a request is counted."""
    return client_of(Request(scope)) + ("/pages" if PAGE.fullmatch(_path(scope)) else "")


def _name(host: str) -> str:
    return (urlsplit("//" + host).hostname or "").lower()


def _in_pieces(scope: dict[str, Any], send: Any) -> Any:
    """A send that adds our headers, gives an answer away in pieces, and notes in the request's scope since when one
    waits to be read."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        body, more = message.get("body", b""), message.get("more_body", False)
        for start in range(0, max(1, len(body)), PIECE):
            scope[SENDING] = time.monotonic()
            if len(body) <= PIECE:
                await send(message)
            else:
                last = start + PIECE >= len(body)
                await send({**message, "body": body[start : start + PIECE], "more_body": more or not last})
            del scope[SENDING]

    return sent
