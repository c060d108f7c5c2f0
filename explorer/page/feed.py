"""From an engine run to numbered batches for the page: the header, then steps eight times a second, on a stream while
that is read, then the finished end."""

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import msgspec

import engines
from engines import Step, Trace, UserError, gigabytes
from explorer.attach import Attached
from explorer.figures.bits import caution
from explorer.figures.handed import Counting, of_run, shown
from explorer.page.catalogue import Form
from explorer.page.event_stream import STREAMS, EventStream
from explorer.page.parts import capital
from explorer.page.run_limits import Limits
from explorer.page.sessions import Job
from explorer.page.starting import Remote, needs, start
from explorer.runs.journal import Journal
from explorer.runs.store import RunStore

Live = engines.Run | Remote | Attached
FLUSH_SECONDS = 0.125
MODEL_LOCK = threading.Lock()  # held per step: a cancelled run may still finish its last step while the next one begins
log = logging.getLogger("decoding-explorer")


def message(*batches: dict[str, Any], clear: bool = False, play: bool = False, **more: Any) -> str:
    """One value of the bus. `<` is escaped, so that the text is inert wherever it ends up. more: `view` (where to go),
    `ids` (slot -> run), `expect` (whether a run that was asked for may still take the place of what is shown), `tokens`
    (slot -> length of its prompt)."""
    body: dict[str, Any] = (
        {"batches": batches} | ({"clear": True} if clear else {}) | ({"play": True} if play else {}) | more
    )
    return msgspec.json.encode(body).decode("utf-8").replace("<", "\\u003c")


def whole(slot: int, trace: Trace, at: int | None = None, name: str = "") -> dict[str, Any]:
    """A finished trace with its figures as one batch; at: the number of finished steps to show first; `name`: the id
    under which a link finds it again."""
    return (
        {"slot": slot, "trace": msgspec.Raw(shown(trace).encode())}
        | ({} if at is None else {"at": at})
        | ({"id": name} if name else {})
    )


class Feed:
    """One slot of a job. Iterate `messages()`; afterwards `trace` holds what was decoded, `failure` the sentence if it
    failed.

    With a store the run is journalled while it lives and kept when it ends; `unkept` is the sentence if that did not
    work. invariant: its model is to have row-invariant forwards where it can."""

    def __init__(self, job: Job, slot: int, title: str, keep: RunStore | None = None, invariant: bool = False) -> None:
        self.job, self.slot, self.title, self.keep, self.invariant = job, slot, title, keep, invariant
        self.unkept = ""
        self._journal: Journal | None = None
        self._stream: EventStream | None = None
        self.trace: Trace | None = None
        self.failure = ""
        self.begun = False
        self._seq = 0
        self._run: Live | None = None
        self._unsent: list[Step] = []
        self._counting: Counting | None = None
        self._pieces: list[Any] = []  # entries of the token table that were not sent yet
        self._pieces_known = 0
        self.waiting = ""  # what is loaded for it, in words, while it is
        self._waits: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[tuple[Step, list[Any]] | BaseException | None] = queue.SimpleQueue()
        self._left = threading.Event()
        self._lock: AbstractContextManager[Any] = MODEL_LOCK

    def over(self) -> bool:
        """Whether it was stopped, or the page has left: a run that waits for something else than a model asks."""
        return self.job.stop.is_set() or self._left.is_set()

    @property
    def caution(self) -> str:
        """What to expect of the text of a run that has begun, where its weights cannot keep what its method promises;
        else ""."""
        header = self._run.header if self._run else None
        return caution(header.models[0]) if header and header.lossless and header.models else ""

    @property
    def without(self) -> str:
        """Of a run that promises its control's text, that its model cannot keep a row's bits though that was wished;
        else ""."""
        header = self.trace.header if self.trace else None
        if not (self.invariant and header and header.lossless and header.models):
            return ""
        target = header.models[0]
        if target.options.get("row_invariant"):
            return ""
        return f"{target.name} cannot have row-invariant forwards and ran without them."

    def queued(self) -> dict[str, Any]:
        """The first batch: this slot waits for its turn."""
        return {"slot": self.slot, "run": self.job.id, "seq": 0, "state": "queued", "title": self.title}

    def loading(self, model: str) -> str:
        """This slot waits until a model that is used for the first time is in memory."""
        return self._message(state="queued", loading=model)

    def messages(self, plan: Form, prompt: str, seed: int, limits: Limits) -> Iterator[str]:
        """Decode as planned; see `play`. What a large model takes is told while it is loaded."""

        def begin() -> Live:
            if needed := needs(plan, limits):
                self._waits.put(needed)
            return start(plan, prompt, seed, limits)

        return self.play(begin, f"{plan.method} on {plan.model}")

    def play(
        self,
        begin: Callable[[], Live],
        what: str,
        lock: AbstractContextManager[Any] = MODEL_LOCK,
        **more: Any,
    ) -> Iterator[str]:
        """Decode and yield bus messages; `more` goes with the header. Every failure ends in a batch with one sentence;
        details go to the server's log. lock: held while it begins and during each step; a server that decodes elsewhere
        holds up no model here."""
        self.begun, self._lock = True, lock
        try:
            try:
                run = yield from self._begun(begin)
                if (
                    self.job.stop.is_set()
                ):  # while the model was loaded: nothing that is shown goes for a run without a step
                    run.close()
                else:
                    self._run, self._counting, self.job.begun = run, Counting(run.header), True
                    self._journal = Journal(self.keep, run) if self.keep else None
                    self._stream = STREAMS.open()
                    self._pieces = self._new_pieces()
                    yield self._message(
                        header=run.header, state="running", stream=self._stream.name, **self._news(), **more
                    )
                    yield from self._steps()
            except UserError as error:
                self.failure = "" if self.job.stop.is_set() else str(error)
            except Exception:
                log.exception("slot %s: %s failed", self.slot, what)
                self.failure = (
                    "this method failed with an error of ours; the server's log has the details. The other "
                    "slots are not affected."
                )
        finally:
            if self._stream:
                STREAMS.drop(self._stream)
            unread = self._stream.close() if self._stream else []  # messages that nobody has taken from it
            last = self._message(**self._seal())
        yield from unread
        yield last

    def _begun(self, begin: Callable[[], Live]) -> Generator[str, None, Live]:
        """What `begin` gives; meanwhile a message whenever `waiting` changes, empty as long as the page is not this
        job's. A download ends when this slot is stopped or the page has left. Raises what `begin` raises."""
        outcomes: list[Live | BaseException] = []

        def work() -> None:
            try:
                with self._lock, engines.watching_downloads(self._downloading):
                    outcomes.append(begin())
            except BaseException as error:
                outcomes.append(error)
            self._waits.put(None)

        worker = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="begin", daemon=True)
        worker.start()
        try:
            while words := self._waits.get():
                self.waiting = words
                yield self.loading(words) if self.job.cleared else ""
        except GeneratorExit:
            self._left.set()
            worker.join()
            if outcomes and not isinstance(outcomes[0], BaseException):
                outcomes[0].close()
            raise
        self.waiting = ""
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]
        return outcomes[0]

    def _downloading(self, now: Any) -> None:
        if self.over():
            raise UserError("stopped while a model was downloaded; the next run goes on with it.")
        self._waits.put(f"{now.repo} · {gigabytes(now.done)} / {gigabytes(now.bytes)}")

    def _steps(self) -> Iterator[str]:
        """Messages of what is decoded meanwhile, as far as the page does not read them on the stream. Gradio takes each
        one in its own time, in which the run goes on. A page that is gone reads nothing, so that its run is closed at
        the next step."""
        assert self._stream
        worker = threading.Thread(
            target=contextvars.copy_context().run, args=(self._decode,), name="decode", daemon=True
        )
        worker.start()
        flushed = 0.0  # the first step goes out at once
        try:
            while self._take(self._made.get()):
                if time.monotonic() - flushed > FLUSH_SECONDS:
                    text = self._message(**self._news())
                    yield from self._stream.put(self._seq, text)
                    flushed = time.monotonic()
        finally:
            self._left.set()
            worker.join()
            while not self._made.empty():
                made = self._made.get()
                if isinstance(made, tuple):  # how it ended no longer matters to anyone who has left
                    self._take(made)

    def _decode(self) -> None:
        """Decode in a thread of its own and hand over each step with the new entries of the token table, at last None
        or what went wrong."""
        assert self._run
        ended: BaseException | None = None
        try:
            while not self.over():
                with self._lock:
                    step = next(self._run, None)
                if step is None:
                    break
                if self._journal:
                    self._journal.step(step)
                self._made.put((step, self._new_pieces()))
        except BaseException as error:
            ended = error
        self._made.put(ended)

    def _take(self, made: tuple[Step, list[Any]] | BaseException | None) -> bool:
        """Put a step to what is to be sent; False where the run is over. Raises what the run raised."""
        if isinstance(made, BaseException):
            raise made
        if made is None:
            return False
        self._unsent.append(made[0])
        self._pieces += made[1]
        return True

    def _seal(self) -> dict[str, Any]:
        """Close the engine and compose the last batch: what was not sent yet, and how it ended."""
        if self._run is None:
            reason = self.failure or "stopped before it began."
            return {"state": "failed" if self.failure else "stopped", "message": capital(reason)}
        self._run.close()
        self._pieces += self._new_pieces()
        self.trace = self._run.trace()
        end = self.trace.end
        state = "failed" if self.failure else {"complete": "done", "budget": "done"}.get(end.reason, end.reason)
        words = self.failure or end.message
        name = self._kept(self.trace)
        return (
            {**self._news(), "end": end, "state": state, **self._figures(self.trace)}
            | ({"message": capital(words)} if words else {})
            | ({"id": name} if name else {})
        )

    def _figures(self, trace: Trace) -> dict[str, Any]:
        """What the player draws of the whole run. Figures that fail never keep a run from its end."""
        try:
            return {"figures": of_run(trace)}
        except Exception:
            log.exception("slot %s: the figures of a run failed", self.slot)
            return {}

    def _kept(self, trace: Trace) -> str:
        """Keep the run if there is a store and something to keep; returns its id. A store that fails never fails a
        run."""
        name = ""
        try:
            name = self.keep.save(trace) if self.keep and trace.steps else ""
        except (UserError, OSError) as error:
            self.unkept = f"The run of slot {self.slot + 1} was not kept: {error}"
            if self._journal and self._journal.leave():
                self.unkept += " Its journal stays, and the next start, or `runs recover`, makes a run of it."
        else:
            if self._journal:
                self._journal.close()
        return name

    def _news(self) -> dict[str, Any]:
        steps, self._unsent = self._unsent, []
        pieces, self._pieces = self._pieces, []
        assert self._counting
        return {"steps": steps, "pieces": pieces, "figures": self._counting.over(steps)}

    def _new_pieces(self) -> list[Any]:
        assert self._run
        new = self._run.pieces(self._pieces_known)
        self._pieces_known += len(new)
        return new

    def _message(self, **parts: Any) -> str:
        """The next numbered batch of this slot as a bus message."""
        self._seq += 1
        text = message({"slot": self.slot, "run": self.job.id, "seq": self._seq, **parts})
        self.job.last.append(text)
        return text
