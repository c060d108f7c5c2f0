"""Asking a server over HTTP: what is sent, how long is waited, how much is taken, and where it may lead.

httpx with TLS verification; no proxies, no `.netrc`, no cookies. A redirect is followed only to the same host. Every
failure is one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from engines import UserError
from explorer.attach.address import Address

CONNECT_SECONDS = 10.0
MAX_ANSWER = 64 * 2**20  # bytes of a whole answer
MAX_EVENT = 2**20  # bytes of one event, or of an answer to a small question
MAX_REDIRECTS = 3
SAID = 200  # characters of a server's own complaint
PATIENCE = 30.0  # seconds that a server may stay silent


class ServerError(UserError):
    """A server that cannot be reached, refuses, or breaks off. status: of its answer, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Client:
    """One connection to a server. patience: seconds that it may stay silent.

    times: what the connection took, in seconds: `connect` (one way there and back: a TCP handshake) and `tls`."""

    def __init__(self, address: Address, key: str = "", patience: float = PATIENCE) -> None:
        self.address, self.patience, self.times = address, patience, dict[str, float]()
        self._sent = self._headers = 0.0
        self._begun: dict[str, float] = {}
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        self._http = httpx.Client(
            verify=httpx.create_ssl_context(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(patience, connect=min(CONNECT_SECONDS, patience)),
            headers=headers | ({"authorization": f"Bearer {key}"} if key else {}),
        )

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def ask(self, path: str) -> Any:
        """The JSON behind a path, or its text; None where the server has no such thing, or breaks off. Raises
        ServerError where nobody is there, or the answer leads elsewhere."""
        try:
            with self._answer("GET", path) as answer:
                if answer.status_code != 200:
                    return None
                text = _whole(answer, MAX_EVENT).decode("utf-8", "replace")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._failure(error) from None
        except httpx.HTTPError:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def post(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
        """(seconds since the request was sent, data of an event), as they arrive. A server that does not stream gives
        one event. Raises ServerError; what was yielded before that stays true."""
        try:
            with self._answer("POST", path, body) as answer:
                if answer.status_code != 200:
                    raise ServerError(self._refusal(answer, path), answer.status_code)
                self.times["headers"] = self._headers - self._sent
                kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind.endswith("json"):
                    text = _whole(answer, MAX_ANSWER).decode("utf-8", "replace")
                    yield time.perf_counter() - self._sent, text
                    return
                for arrived, data in events(answer.iter_raw()):
                    yield arrived - self._sent, data
        except httpx.HTTPError as error:
            raise self._failure(error) from None

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The open answer, behind redirects to the same host."""
        url = self.address.base + path
        for _ in range(MAX_REDIRECTS + 1):
            request = self._http.build_request(method, url, json=body, extensions={"trace": self._clock})
            answer = self._http.send(request, stream=True)
            if answer.headers.get("content-encoding", "identity") != "identity":
                answer.close()
                raise ServerError(f"{self.address.host} sends its answer packed, although it was asked not to.")
            if not answer.is_redirect:
                return _closing(answer)
            answer.close()
            url = self._next(url, answer)
        raise ServerError(f"{self.address.host} redirects again and again; give the address where it ends.")

    def _next(self, url: str, answer: httpx.Response) -> str:
        there = urljoin(url, answer.headers.get("location", ""))
        old, new = urlsplit(url), urlsplit(there)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise ServerError(
                f"{self.address.host} redirects to {(new.hostname or 'nowhere')[:60]} ({new.scheme[:10]}), which is "
                "another server and was not followed; give that address if you trust it.",
                answer.status_code,
            )
        return there

    def _clock(self, name: str, info: Any) -> None:
        """What httpx tells of its own steps."""
        now, (what, _, state) = time.perf_counter(), name.rpartition(".")
        known = {"connection.connect_tcp": "connect", "connection.start_tls": "tls"}.get(what)
        if known and state == "started":
            self._begun[known] = now
        elif known and state == "complete":
            self.times[known] = now - self._begun[known]
        elif what.endswith("send_request_headers") and state == "started":
            self._sent = now
        elif what.endswith("receive_response_headers") and state == "complete":
            self._headers = now

    def _refusal(self, answer: httpx.Response, path: str) -> str:
        """What a status other than 200 says, with the server's own words."""
        said = complaint(_decoded(_whole(answer, MAX_EVENT).decode("utf-8", "replace")))
        status = answer.status_code
        where = self.address.base + path
        hint = {
            401: "; it wants a key, which is read from an environment variable",
            403: "; the key that was sent may not do that",
            404: "; this server has no such interface or no such model, choose another with --api or --model",
            503: "; it may still be loading its model",
        }.get(status, "")
        return f"{where} answered {status}{f' ({said})' if said else ''}{hint}."

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


class _closing:
    """An answer that is closed with the block."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer

    def __enter__(self) -> httpx.Response:
        return self.answer

    def __exit__(self, *_: object) -> None:
        self.answer.close()


def events(chunks: Iterator[bytes]) -> Iterator[tuple[float, str]]:
    """(time of arrival, data) of the events in a stream; comments and other fields are left out, an `error` field is
    taken for data. Raises ServerError for a stream without end."""
    rest, data, total = b"", list[str](), 0
    for chunk in chunks:
        now = time.perf_counter()
        total += len(chunk)
        if total > MAX_ANSWER:
            raise ServerError(f"the server sent more than {MAX_ANSWER // 2**20} MB, so it was given up.")
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_EVENT:
            raise ServerError(f"the server sent an event of more than {MAX_EVENT // 2**20} MB, so it was given up.")
        for line in lines:
            field, _, value = line.decode("utf-8", "replace").rstrip("\r").partition(":")
            if field in ("data", "error"):
                data.append(value.removeprefix(" "))
            elif not field and not value and data:
                yield now, "\n".join(data)
                data = []
    if data:  # a stream that ends without its last empty line
        yield time.perf_counter(), "\n".join(data)


def complaint(body: Any) -> str:
    """What an answer says went wrong; "" where it says nothing."""
    found = body.get("error", body.get("detail", body.get("message"))) if isinstance(body, dict) else None
    if isinstance(found, dict):
        found = found.get("message")
    return short(found) if isinstance(found, str) else ""


def short(text: str) -> str:
    """At most `SAID` characters of foreign words, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (line if len(line) <= SAID else line[:SAID] + "…").rstrip(".")


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _whole(answer: httpx.Response, limit: int) -> bytes:
    found = b""
    for chunk in answer.iter_raw():
        found += chunk
        if len(found) > limit:
            raise ServerError(f"the server answered with more than {limit // 2**20} MB, so it was given up.")
    return found
