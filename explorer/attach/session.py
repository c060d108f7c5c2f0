"""An answer while it arrives, read like a run of our own: a step for each arrival, then the trace."""

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import msgspec

from engines import Step, Trace, TraceError, UserError
from explorer.attach.address import MAX_SECONDS, check, counters, interface, read_address, which
from explorer.attach.client import Client, HungUp, OutOfTime, ServerError, parsed
from explorer.importers import build
from explorer.importers.answers import Event, Format, Wish, step_of
from explorer.importers.build import short
from explorer.importers.choices import SEVERAL, Token, beside
from explorer.importers.endings import ending, finished
from explorer.importers.events import DONE

STATISTICS = {"return_spec_tokens_details": True}  # which SGLang is asked for; others may refuse what they do not know
SAID = (
    "An answer that a server sent, as it arrived. Seconds are those until it was here, from the sent request or the "
    "arrival before: the server's queue, its model, its own work and the network together, which cannot be told apart "
    "from outside. Connecting is not in them; it stands in the facts of the first step. What came in one piece has one "
    "time. Probabilities are those that the server reports."
)
PIECES = (
    "The server sent no log-probabilities, so what came is shown in the pieces in which it came, which need not be "
    "tokens, and nothing is known of what else it might have said."
)
PARTLY = (
    "A part of the answer came without log-probabilities and is shown in the pieces in which it came, which need not "
    "be tokens."
)
MOST = build.MAX_STEPS - 1  # arrivals of an answer; the last step is the one that is held back
UNKNOWN = ("forwards", "tokens_fed", "work", "method_seconds", "record_seconds", "warmup_seconds", "prompt_ids")


class Attached(Iterator[Step]):
    """A request to a server: connected when it is made, sent with the first step. `header`, `pieces`, `close` and
    `trace` are those of a run. Raises UserError where the server cannot be asked at all; once something has arrived, a
    failure ends the answer and is said in it.

    patience: seconds that the server may stay silent; max_seconds: of everything, from now on; stop: asked ten times a
    second, also while the server is silent."""

    def __init__(
        self,
        url: str,
        model: str = "",
        prompt: str = "",
        *,
        api: str = "",
        key: str = "",
        max_tokens: int = 128,
        temperature: float = 0.0,
        top: int = 5,
        seed: int | None = None,
        patience: float = 30.0,
        max_seconds: float = MAX_SECONDS,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.address = read_address(url)
        self._format: Format = interface(api or self.address.api or "chat")
        check(prompt, max_tokens, top, temperature, patience, max_seconds)
        self._client = Client(self.address, key, patience, max_seconds, stop)
        self._max_seconds, self._table = max_seconds, build.Table(build.OWN_NUMBERS)
        try:
            listed = self._client.ask("/v1/models")
            self._owner, name = which(listed, model, self.address.host)
            self._counted = self._counters()
        except BaseException:
            self._client.close()
            raise
        self.wish = Wish(name, prompt, max_tokens, temperature, top, seed)
        self.steps: list[Step] = []
        self._held: dict[str, Any] | None = None
        self._output: list[int] = []
        self._texts: list[str] = []
        self._finish, self._named = "", ""
        self._last = 0.0  # seconds of the newest arrival
        self._bare = self._ids = 0  # pieces that are no tokens; tokens with an id
        self._beside: list[str] = []
        self._reason, self._message = "stopped", ""
        self._arriving = self._arrivals()
        self._began = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        self.header = self._trace([]).header

    def __next__(self) -> Step:
        return next(self._arriving)

    def close(self) -> None:
        """Hang up; what has arrived stays."""
        self._arriving.close()
        if self._held is not None:
            self._give()
        self._client.close()

    def pieces(self, since: int = 0) -> list[Any]:
        """The token table, from entry `since` on."""
        return list(self._table.pieces.values())[since:]

    def trace(self) -> Trace:
        """What has arrived so far."""
        return self._trace(self.steps)

    def _give(self) -> Step:
        self.steps.append(msgspec.convert(self._held, Step))
        self._held = None
        return self.steps[-1]

    def _arrivals(self) -> Generator[Step, None, None]:
        """A step for each arrival, the newest of which is held back for what is known at the end only. Raises
        ServerError where nothing has arrived."""
        hung_up = False
        try:
            body = self._format.body(self.wish) | (STATISTICS if self._owner == "sglang" else {})
            for arrived, data in self._client.post(self._format.path, body):
                if data.strip() == DONE:
                    self._finish = self._finish or "done"
                    break
                if len(self.steps) >= MOST:
                    self._ended(f"Stopped after {MOST:,} arrivals; the server goes on, and what had arrived is here.")
                    break
                event = self._read(data)
                if (step := self._step(arrived, event)) is not None:
                    if self._held is not None:
                        yield self._give()
                    self._held = step
                if event.error:
                    raise ServerError(f"the server broke off: {event.error}.")
        except HungUp:
            hung_up = True
        except ServerError as error:
            if self._held is None:
                self._client.close()
                raise
            if isinstance(error, OutOfTime):
                self._ended(f"Stopped after {self._max_seconds:g} s; what had arrived by then is here.")
            else:
                self._failed(error)
        if not hung_up:
            self._finished()
        if self._held is not None:
            yield self._give()

    def _failed(self, error: ServerError) -> None:
        message = str(error)
        self._reason, self._message = "failed", f"{message[:1].upper()}{message[1:]} What had arrived by then is here."

    def _read(self, data: str) -> Event:
        try:
            body = parsed(data)
        except ServerError:
            raise
        except (ValueError, RecursionError):
            raise ServerError(f"the server sent an event that is not JSON ({short(data)[:60]!a}).") from None
        if not isinstance(body, dict):
            raise ServerError(f"the server sent an event that is not an object ({short(data)[:60]!a}).")
        event = self._format.read(body)
        if event.error and not (event.text or event.tokens):
            raise ServerError(f"the server broke off: {event.error}.")
        return event

    def _step(self, arrived: float, event: Event) -> dict[str, Any] | None:
        """The step of an arrival; None for an event that adds nothing to the answer."""
        self._finish, self._named = event.finish or self._finish, self._named or event.model
        tokens = event.tokens or ([Token(event.text)] if event.text else [])
        self._bare += bool(event.text and not event.tokens)
        self._beside += event.beside
        if not tokens:
            if self._held is not None:
                self._held["facts"] |= event.facts
            return None
        number = len(self.steps) + (self._held is not None)
        try:
            if len(self._output) + len(tokens) > build.MAX_TOKENS:
                raise TraceError(f"the answer has more than {build.MAX_TOKENS:,} tokens.")
            step = step_of(number, tokens, len(self._output), self._table) | {"facts": dict(event.facts)}
        except TraceError as error:  # more than a trace can hold
            raise ServerError(str(error)) from None
        self._output += step["commits"]["tokens"]
        self._ids += sum(token.id is not None for token in tokens)
        self._texts.append(event.text)
        step["model_seconds"] = max(0.0, arrived - self._last)
        self._last = max(arrived, self._last)
        if not number:
            times = self._client.times
            names = {"connect": "connect seconds", "tls": "TLS seconds", "headers": "seconds to the first byte"}
            step["facts"] |= {label: times[name] for name, label in names.items() if name in times}
        return step

    def _ended(self, message: str) -> None:
        self._reason, self._message, self._finish = "budget", message, self._finish or "budget"

    def _finished(self) -> None:
        """The last facts, and how it ended."""
        if self._reason == "stopped":
            self._reason, sentence = ending(self._finish, "")
            self._message = f"{sentence} What had arrived by then is here." if sentence else ""
        how = [finished(self._finish)] if self._finish not in ("", "done", "budget") else []
        how += [SEVERAL] * self._format.several + ([sentence] if (sentence := beside(self._beside)) else [])
        if self._held is None:
            if self._reason == "complete":
                how = how[self._finish == "stop" :]  # which is said of every answer that came to its end
                self._message = " ".join([*([] if self._beside else ["The server's answer is empty."]), *how])
            elif not self.steps:
                self._client.close()
                raise ServerError(ending(self._finish, "")[1] or self._message)
            return
        self._held["facts"] |= self._since()
        if notes := [*how, *self._pieces_note()]:
            self._held["note"] = " ".join(notes)

    def _pieces_note(self) -> list[str]:
        """That the answer, or a part of it, is not told in tokens."""
        return [PIECES if self._bare == len(self._output) else PARTLY] if self._bare else []

    def _counters(self) -> dict[str, float]:
        """vLLM's counters of speculation over all its requests; nothing where there are none."""
        if self._owner != "vllm":
            return {}
        text = self._client.ask("/metrics")
        return counters(text) if isinstance(text, str) else {}

    def _since(self) -> dict[str, float]:
        """What those counters have grown by."""
        if not self._counted:
            return {}
        try:
            now = self._counters()
        except UserError:
            return {}
        grown = {name: now[name] - old for name, old in self._counted.items() if name in now}
        return {f"{name.removeprefix('vllm:')} (whole server, meanwhile)": by for name, by in grown.items() if by >= 0}

    def _trace(self, steps: list[Step]) -> Trace:
        w, where = self.wish, self.address.base.partition("://")[2]
        owner = f" ({self._owner})" if self._owner else ""
        asked = {"api": self._format.name, "max_tokens": w.max_tokens, "temperature": w.temperature}
        missing = ["end_marks"] + (["tokens"] if self._bare else [])
        missing += [] if self._output and self._ids == len(self._output) else ["token_ids"]
        name = w.model or self._named
        return build.trace(
            source=f"the server at {where}{owner}",
            title=f"{name.rpartition('/')[2] or 'Server'} at {where}",
            model=name,
            prompt=w.prompt,
            steps=[msgspec.to_builtins(step) for step in steps],
            table=self._table,
            output_ids=self._table.ids(self._output) if steps else [],
            text="".join(self._texts).strip().encode("utf-8", "replace").decode() if steps else "",
            missing=missing,
            unknown=(*UNKNOWN, *(["seed"] if w.seed is None else [])),
            about=" ".join([SAID, *self._pieces_note()]),
            end={"reason": self._reason, "message": self._message, "wall_seconds": self._last},
            params=asked | ({"top_logprobs": w.top} if w.top else {}),
            seed=w.seed or 0,
            arrivals=True,
            started_at=self._began,
        )
