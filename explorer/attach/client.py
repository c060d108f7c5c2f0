"""Asking a server over HTTP: what is sent, how long is waited, how much is taken, and where it may lead.

httpx with TLS verification; no proxies, no `.netrc`, no cookies. A redirect is followed only to the same host. Every
failure is one sentence.

One clock runs over all that a server may do: look its name up, connect, send headers, an answer, comments or single
bytes. What waits for the server is a thread of its own; whoever asks looks at the clock and at Stop ten times a second,
and hangs up by shutting the socket down, which ends the thread's wait."""

import contextlib
import json
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from engines import UserError
from explorer.attach.address import Address
from explorer.importers.build import short
from explorer.importers.endings import complaint
from explorer.importers.events import Lines

CONNECT_SECONDS = 10.0
MAX_ANSWER = 32 * 2**20  # bytes of a streamed answer
MAX_WHOLE = 16 * 2**20  # bytes of an answer that comes as one JSON text
MAX_EVENT = 2**20  # bytes of one event, or of an answer to a small question
MAX_VALUES = 2**20  # of one JSON text, which takes up to a hundred bytes of memory for each
MAX_REDIRECTS = 3
PATIENCE = 30.0  # seconds that a server may stay silent
SECONDS = 600.0  # of everything together
LAST = 2.0  # seconds for a small question when the clock has run out
POLL = 0.1  # seconds between two looks at the clock and at Stop
AHEAD = 8  # events that may wait to be read

T = TypeVar("T")
_LINE_END = re.compile(rb"\r\n|\r|\n")


class ServerError(UserError):
    """A server that cannot be reached, refuses, or breaks off. status: of its answer, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class OutOfTime(ServerError):
    """The clock ran out."""


class HungUp(ServerError):
    """Whoever asked stopped or closed it."""


class Client:
    """One connection to a server. patience: seconds that it may stay silent; seconds: of everything from now on; stop:
    whether whoever asks has had enough.

    times: what the connection took, in seconds: `connect` (one way there and back: a TCP handshake) and `tls`."""

    def __init__(
        self,
        address: Address,
        key: str = "",
        patience: float = PATIENCE,
        seconds: float = SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.address, self.patience, self.times = address, patience, dict[str, float]()
        self._until, self._stop, self._gone = time.perf_counter() + seconds, stop, threading.Event()
        self._sockets: list[socket.socket] = []  # handles of ours on open connections
        self._sent = self._headers = 0.0
        self._begun: dict[str, float] = {}
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        self._http = httpx.Client(
            verify=httpx.create_ssl_context(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(patience, connect=min(CONNECT_SECONDS, patience)),
            headers=headers | ({"authorization": f"Bearer {key}"} if key else {}),
            event_hooks={"response": [_unread]},
        )

    def close(self) -> None:
        """Hang up."""
        self._gone.set()
        self._shut()
        self._http.close()

    def ask(self, path: str) -> Any:
        """The JSON behind a path, or its text; None where the server has no such thing, breaks off, or is not done
        within its patience. Raises ServerError where nobody is there, or the answer leads elsewhere."""
        now = time.perf_counter()
        until = now + min(self.patience, max(LAST, self._until - now))

        def work() -> Iterator[str | None]:
            with self._answer("GET", path) as answer:
                exists = answer.status_code == 200
                yield _whole(answer, until, MAX_EVENT).decode("utf-8-sig", "replace") if exists else None

        try:
            text = next(self._watched(work, until))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._failure(error) from None
        except (httpx.HTTPError, OutOfTime):
            return None
        try:
            return None if text is None else parsed(text)
        except ServerError:
            return None
        except (ValueError, RecursionError):
            return text

    def post(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
        """(seconds since the request was sent, data of an event), as they arrive. A server that does not stream gives
        one event. Raises ServerError; what was yielded before that stays true."""

        def work() -> Iterator[tuple[float, str]]:
            with self._answer("POST", path, body) as answer:
                if answer.status_code != 200:
                    raise ServerError(self._refusal(answer, path), answer.status_code)
                self.times["headers"] = self._headers - self._sent
                kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind.endswith("json"):
                    text = _whole(answer, self._until, MAX_WHOLE).decode("utf-8-sig", "replace")
                    yield time.perf_counter() - self._sent, text
                    return
                for arrived, data in events(_in_time(answer.iter_raw(), self._until)):
                    yield arrived - self._sent, data

        try:
            yield from self._watched(work, self._until)
        except httpx.HTTPError as error:
            raise self._failure(error) from None

    def _watched(self, work: Callable[[], Iterator[T]], until: float) -> Iterator[T]:
        """What `work` yields in a thread of its own, as it comes. Raises what it raises, HungUp within a moment of a
        Stop, and OutOfTime where nothing more came by then."""
        made: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(AHEAD)
        left = threading.Event()

        def hand(item: T | None, error: BaseException | None) -> None:
            while not (left.is_set() or self._gone.is_set()):
                with contextlib.suppress(queue.Full):
                    return made.put((item, error), timeout=POLL)
            raise HungUp("nobody waits for the answer any more.")

        def read() -> None:
            ended: BaseException = StopIteration()
            try:
                for item in work():
                    hand(item, None)
            except BaseException as error:
                ended = error
            with contextlib.suppress(HungUp):
                hand(None, ended)

        threading.Thread(target=read, name="attach", daemon=True).start()
        try:
            while True:
                if self._gone.is_set() or self._stop():
                    raise HungUp("the question was stopped.")
                try:
                    item, error = made.get(timeout=POLL)
                except queue.Empty:
                    if time.perf_counter() > until + POLL:
                        reason = f"{self.address.host} was not done in time, so it was given up."
                        raise OutOfTime(reason) from None
                    continue
                if isinstance(error, StopIteration):
                    return
                if error is not None:
                    raise error
                yield item  # type: ignore[misc]
        finally:
            left.set()
            self._shut()

    def _shut(self) -> None:
        """End every connection, whoever reads from it."""
        while self._sockets:
            with contextlib.suppress(OSError), self._sockets.pop() as handle:
                handle.shutdown(socket.SHUT_RDWR)

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The open answer, behind redirects to the same host."""
        url = self.address.base + path
        for _ in range(MAX_REDIRECTS + 1):
            try:
                request = self._http.build_request(method, url, json=body, extensions={"trace": self._clock})
                answer = self._http.send(request, stream=True)
            except (httpx.InvalidURL, ValueError):
                raise self._astray(url) from None
            self._http.cookies.clear()
            if answer.headers.get("content-encoding", "identity") != "identity":
                answer.close()
                raise ServerError(f"{self.address.host} sends its answer packed, although it was asked not to.")
            if not answer.is_redirect:
                return contextlib.closing(answer)
            answer.close()
            url = self._next(url, answer)
        raise ServerError(f"{self.address.host} redirects again and again; give the address where it ends.")

    def _next(self, url: str, answer: httpx.Response) -> str:
        given = answer.extensions["location"]
        try:
            there = urljoin(url, given)
            old, new = urlsplit(url), urlsplit(there)
            host = short(new.hostname or "nowhere")[:60]
        except ValueError:
            raise self._astray(given) from None
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise ServerError(
                f"{self.address.host} redirects to {host} ({short(new.scheme)[:10]}), which is another server and was "
                "not followed; give that address if you trust it.",
                answer.status_code,
            )
        return there

    def _astray(self, url: str) -> ServerError:
        return ServerError(
            f"{self.address.host} redirects to '{short(url)[:60]}', which is not an address; give the one "
            "where it answers."
        )

    def _clock(self, name: str, info: Any) -> None:
        """What httpx tells of its own steps."""
        now, (what, _, state) = time.perf_counter(), name.rpartition(".")
        known = {"connection.connect_tcp": "connect", "connection.start_tls": "tls"}.get(what)
        if known and state == "started":
            self._begun[known] = now
        elif known and state == "complete":
            self.times[known] = now - self._begun[known]
            if known == "connect":
                self._hold(info["return_value"].get_extra_info("socket"))
        elif what.endswith("send_request_headers") and state == "started":
            self._sent = now
        elif what.endswith("receive_response_headers") and state == "complete":
            self._headers = now

    def _hold(self, connection: socket.socket) -> None:
        """Keep a handle of our own on a connection, which outlives what TLS makes of it."""
        self._sockets.append(connection.dup())
        if self._gone.is_set():
            self._shut()

    def _refusal(self, answer: httpx.Response, path: str) -> str:
        """What a status other than 200 says, with the server's own words."""
        reason = complaint(_decoded(_whole(answer, self._until, MAX_EVENT).decode("utf-8", "replace")))
        status = answer.status_code
        where = self.address.base + path
        hint = {
            401: "; it wants a key, which is read from an environment variable",
            403: "; the key that was sent may not do that",
            404: "; this server has no such interface or no such model, choose another with --api or --model",
            503: "; it may still be loading its model",
        }.get(status, "")
        return f"{where} answered {status}{f' ({reason})' if reason else ''}{hint}."

    def _failure(self, error: httpx.HTTPError) -> ServerError:
        """A failure of the network as a sentence."""
        host = self.address.base.partition("://")[2].partition("/")[0]
        if isinstance(error, httpx.ConnectTimeout):
            return ServerError(f"{host} did not answer within {CONNECT_SECONDS:g} s; is the address right?")
        if isinstance(error, httpx.TimeoutException):
            return ServerError(f"{host} sent nothing for {self.patience:g} s, so it was given up.")
        if isinstance(error, httpx.ConnectError):
            return ServerError(f"{host} cannot be reached: {short(str(error)) or 'no connection'}.")
        if isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)):
            return ServerError(f"{host} closed the connection in the middle of its answer.")
        return ServerError(f"asking {host} failed: {short(str(error)) or type(error).__name__}.")


def _unread(answer: httpx.Response) -> None:
    """Take away where an answer leads, before httpx reads it: it may be anything, and is judged here."""
    answer.extensions["location"] = answer.headers.pop("location", "")


def events(chunks: Iterable[bytes]) -> Iterator[tuple[float, str]]:
    """(time of arrival, data) of the events in a stream. Raises ServerError for a stream or an event without end."""
    begun, lines, total, size, cr = list[bytes](), Lines(), 0, 0, False  # begun: pieces of a line; size: of an event
    for chunk in chunks:
        now = time.perf_counter()
        total += len(chunk)
        taken = chunk[: len(chunk) - max(0, total - MAX_ANSWER)].removeprefix(b"\n" if cr else b"")
        cr = chunk.endswith(b"\r")  # of a line end whose LF may come with the next chunk
        for number, part in enumerate(_LINE_END.split(taken)):
            if number:  # a line end stands before this part
                line, begun = b"".join(begun).decode("utf-8", "replace"), []
                yield from ((now, data) for data in lines.take(line))
                size = size if line else 0
            begun.append(part)
            size += len(part) + 1
            if size > MAX_EVENT:
                raise ServerError(f"the server sent an event of more than {MAX_EVENT // 2**20} MB, so it was given up.")
        if total > MAX_ANSWER:
            raise ServerError(f"the server sent more than {MAX_ANSWER // 2**20} MB, so it was given up.")
    for line in (b"".join(begun).decode("utf-8", "replace"), ""):  # a stream that ends without its last empty line
        yield from ((time.perf_counter(), data) for data in lines.take(line))


def parsed(text: str) -> Any:
    """A JSON text of a server. Raises ValueError or RecursionError for what is none, ServerError for more values than
    are held in memory."""
    if sum(text.count(c) for c in ",[{") > MAX_VALUES:
        raise ServerError(f"the server sent more than {MAX_VALUES:,} values at once, so it was given up.")
    return json.loads(text)


def _decoded(text: str) -> Any:
    try:
        return parsed(text)
    except (ValueError, RecursionError):
        return None


def _in_time(chunks: Iterable[bytes], until: float) -> Iterator[bytes]:
    """The chunks that come before the clock runs out. Raises OutOfTime."""
    for chunk in chunks:
        if time.perf_counter() > until:
            raise OutOfTime("the server was not done in time, so it was given up.")
        yield chunk


def _whole(answer: httpx.Response, until: float, limit: int) -> bytes:
    chunks, size = list[bytes](), 0
    for chunk in _in_time(answer.iter_raw(), until):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise ServerError(f"the server answered with more than {limit // 2**20} MB, so it was given up.")
    return b"".join(chunks)
