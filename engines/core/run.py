"""The driver: checks what is asked, runs a method's generator, keeps time and budgets, and seals the trace. Time is measured only here
and in the meter around model calls."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from engines.core.asked import Edits, check_detail, check_edit, check_edits, check_room, check_seed, parameters, successor
from engines.core.asked import prompt_ids as ids_of
from engines.core.counting import counted
from engines.core.errors import UserError
from engines.core.events import SCHEMA_VERSION, Detail, Edit, End, Header, Origin, Step, TimedEdit, Trace
from engines.core.machine import machine
from engines.core.method import Method, MethodInfo
from engines.core.models import Meter, Model, OverBudget, Roles
from engines.core.own import explained
from engines.core.params import LENGTH, Params
from engines.core.recorder import Recorder
from engines.core.registry import get_method
from engines.core.replay import Replay
from engines.core.roles import assign_roles, roles_for
from engines.core.version import versions

MAX_STEPS = 4096
Heir = tuple[Method, Mapping[str, Model], Params]


class Run(Iterator[Step]):
    """A run under way: iterate for its steps, `send` an edit for the next one, `close` to stop, `trace()` for what there is.

    Everything that can be refused is refused on construction, before the first model call. Raises UserError.
    """

    def __init__(
        self,
        method: Method,
        models: Mapping[str, Model],
        prompt: str | Sequence[int],
        *,
        params: Mapping[str, Any] | None = None,
        seed: int = 0,
        detail: Detail = "full",
        edits: Edits = (),
        max_steps: int = MAX_STEPS,
        max_seconds: float | None = None,
        replay: Replay | None = None,
    ) -> None:
        info, main = method.info, models[method.info.role]
        p = parameters(method, params)
        prompt_ids = ids_of(main, prompt)
        self._length = getattr(p, LENGTH, 0)
        check_seed(seed)
        check_detail(detail)
        self._models, self._main, self._seed = models, main, seed
        check_edits(edits)
        self._edits = dict(edits)
        self._heirs = {step: self._heir(edit) for step, edit in self._edits.items() if edit.method}
        everyone = {id(model): model for roles in (models, *(heir[1] for heir in self._heirs.values())) for model in roles.values()}
        check_room({str(key): model for key, model in everyone.items()}, prompt_ids, self._length)
        self._vocab_size = min(model.vocab_size for model in everyone.values())
        for edit in self._edits.values():
            check_edit(edit, self._vocab_size)
        mask_id = getattr(main, "mask_id", None) if info.kind in ("masked", "block") else None
        if mask_id in prompt_ids:
            raise UserError(f"the prompt holds the mask token {main.tokenizer.piece(prompt_ids[prompt_ids.index(mask_id)]).text}; take it out.")
        warmup = sum(model.warm_up() for model in everyone.values())
        self._meter = Meter()
        self._recorder = Recorder(info, p, prompt_ids, seed=seed, detail=detail, meter=self._meter, tokenizer=main.tokenizer, mask_id=mask_id)
        self._next_edit: Edit | None = None
        self._max_steps, self._max_seconds = max_steps, max_seconds
        self._began: float | None = None
        self._ended: float | None = None
        self._reason: Literal["complete", "stopped", "budget", "failed"] = "stopped"
        self._message = ""
        self._replay = replay
        self.steps: list[Step] = []
        text = prompt if isinstance(prompt, str) else main.tokenizer.decode(prompt_ids)
        self.header = _header(info, models, p, text, prompt_ids, seed, detail, warmup, replay.origin if replay else None)
        if replay and replay.origin.edit:
            self._recorder.know(_tokens(replay.origin.edit))
        for _, heir in sorted(self._heirs.items()):
            self._announce(heir)
        self._generator = self._begin(method, models, p, list(prompt_ids))
        if -1 in self._edits:
            self._recorder.open((self.header.canvas or len(prompt_ids)) - len(prompt_ids))
            self._note(-1, self._edits[-1])
            self._take_over(self._edits[-1], self._heirs.get(-1) or (method, models, parameters(method, {**vars(p), **self._edits[-1].params})))

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Step:
        if self._ended is not None:
            raise StopIteration
        now = time.perf_counter()
        self._began = self._began or now
        edit, self._next_edit = self._next_edit or (self._edits.get(len(self.steps) - 1) if self.steps else None), None
        self._meter.spent = len(self.steps) >= self._max_steps or (self._max_seconds is not None and now - self._began > self._max_seconds)
        try:
            if self._meter.spent and (edit is not None or not self.steps):
                raise OverBudget
            if edit is not None:
                edit = self._edit(edit)
            self._recorder.resume()
            with _inference():
                step = self._generator.send(edit)
        except StopIteration:
            if self._meter.forwards:
                self._message = f"method '{self.header.method}' called a model after its last step; yield run.step(...) after every forward"
                self._finish("failed")
                raise UserError(self._message) from None
            if not self._recorder.unrecorded:
                self._finish("complete")
                raise
            step = self._recorder.step(note="The edit completed the answer.")  # nothing is left to decode, but the edit has to show
            self._finish("complete")
        except OverBudget:  # asked only after its last permitted step: one that ends by itself there is complete
            self._message = f"stopped after {len(self.steps)} steps and {now - self._began:.1f} s: the budget of this run is used up"
            self._finish("budget")
            raise StopIteration from None
        except UserError as error:
            self._message = str(error)
            self._finish("failed")
            raise
        except BaseException as error:
            self._message = f"{type(error).__name__}: {error}"
            self._finish("failed")
            raise
        self.steps.append(step)
        if self._replay:
            self._replay.look(step, lambda token: self._main.tokenizer.piece(token).text if token >= 0 else "nothing")
        return step

    def _edit(self, edit: Edit) -> Edit | None:
        """Check the edit and write it down; where another method takes over, that one begins and nothing is sent to it."""
        self._check(edit)
        self._note(len(self.steps) - 1, edit)
        if not edit.method:
            return edit
        heir = self._heirs.get(len(self.steps) - 1)
        if heir is None:
            self._announce(heir := self._heir(edit))
        self._take_over(edit, heir)
        return None

    def _check(self, edit: Edit) -> None:
        check_edit(edit, self._vocab_size)
        self._recorder.check_edit(msgspec.structs.replace(edit, params={}) if edit.method else edit)

    def _note(self, after: int, edit: Edit) -> None:
        self.header.edits.append(TimedEdit(after, edit))
        self._recorder.know(_tokens(edit))

    def _heir(self, edit: Edit) -> Heir:
        """The method that an edit switches to, its models, and its parameters for the whole answer."""
        method, p = successor(edit.method, self._main.record.kind, edit.params, self._length)
        return method, assign_roles(method.info, roles_for(method.info, self._main, self._models)), p

    def _announce(self, heir: Heir) -> None:
        """The header of a run in which another method takes over."""
        info, h = heir[0].info, self.header
        h.title, h.baseline, h.lossless = f"{h.title}, then {info.title}", None, h.lossless and info.lossless
        h.emits = sorted({*h.emits, *info.emits})
        h.departures = " ".join(dict.fromkeys(d for d in (h.departures, info.departures) if d != "none")) or "none"
        known = {(m.role, m.name) for m in h.models}
        h.models += [msgspec.structs.replace(m.record, role=role) for role, m in heir[1].items() if (role, m.record.name) not in known]

    def _begin(self, method: Method, models: Mapping[str, Model], p: Params, text: list[int]) -> Any:
        seen = {role: counted(model, role, self._meter) for role, model in models.items()}
        generator = method.decode(Roles(seen) if len(seen) > 1 else seen[method.info.role], text, p, self._recorder)
        return explained(method.info, generator) if method.info.file else generator

    def _take_over(self, edit: Edit, heir: Heir) -> None:
        """A method begins from the board as it stands: a masked one fills its masks, a causal one reads the text so far as its prompt."""
        method, models, p = heir
        self._generator.close()
        board = self._recorder.take_over(method.info, p, edit, self._seed)
        start, masked = self._recorder.prompt_length, self.header.mask_id is not None
        room = len(board) - start if masked else self._length - (len(board) - start)
        if (self.header.mask_id not in board) if masked else (room < 1 or (len(board) > start and board[-1] in self._main.eos_ids)):
            if not self._recorder.unrecorded:
                raise UserError(f"nothing is left to decode after step {len(self.steps)}; fork at an earlier step.")
            self._generator = _nothing()
            return
        p = parameters(method, {**vars(p), LENGTH: room})
        self._recorder.params, self._models = p, models
        self._generator = self._begin(method, models, p, board[:start] if masked else board)

    def send(self, edit: Edit) -> Step:
        """The next step, continued from the edited state. Raises UserError if nothing has been decoded yet or the edit does not fit."""
        if not self.steps or self._ended is not None:
            raise UserError("an edit needs a run that has made a step and is not over; use `edits=` to replay one up to there.")
        self._check(edit)
        self._next_edit = edit
        return next(self)

    def close(self) -> None:
        """Stop now: the method's generator is closed, what was decoded so far stays."""
        if self._ended is None:
            self._finish("stopped")

    def _finish(self, reason: Literal["complete", "stopped", "budget", "failed"]) -> None:
        self._ended = time.perf_counter()
        self._reason = reason
        self._generator.close()
        if self._replay and reason in ("complete", "failed"):
            self._replay.over(len(self.steps))

    def pieces(self, since: int = 0) -> list[Any]:
        """The token table in the order of first use, from entry `since` on (for batches)."""
        return list(self._recorder.pieces.values())[since:]

    def end(self) -> End:
        """How it ended, or stands now (`stopped` while it is still going on)."""
        output = self._recorder.board[self._recorder.prompt_length :]
        self._recorder.know(output)
        cut = next((i for i, token in enumerate(output) if token in self._main.eos_ids), len(output))
        shown = [t for t in output[:cut] if t != self.header.mask_id]
        began = self._began or 0.0
        return End(
            reason=self._reason,
            output_ids=output,
            text=self._main.tokenizer.decode(shown).strip(),
            wall_seconds=(self._ended or time.perf_counter()) - began if self._began else 0.0,
            record_seconds=self._recorder.record_seconds,
            message=" ".join(sentence for sentence in (self._message, *self._remarks()) if sentence),
        )

    def _remarks(self) -> list[str]:
        """What a person has to know of an edited run: a replay that parted, a change that nothing came of."""
        unread = sorted(self._recorder.params.unread) if self._reason == "complete" else []
        idle = f"The method did not look at {', '.join(unread)} again after the change: it had no effect." if unread else ""
        return [self._replay.sentence if self._replay else "", idle]

    def trace(self) -> Trace:
        """Header, steps so far, token table and end."""
        end = self.end()
        return Trace(header=self.header, steps=list(self.steps), pieces=self.pieces(), end=end)


def _header(
    info: MethodInfo, models: Mapping[str, Model], p: Params, prompt: str, ids: list[int], seed: int, detail: Detail, warmup: float, origin: Origin | None
) -> Header:
    main, masked = models[info.role], info.kind in ("masked", "block")
    size = getattr(main, "block_size", 1)  # a block-diffusion board is made of whole blocks
    return Header(
        schema=SCHEMA_VERSION,
        method=info.slug,
        title=info.title,
        family=info.family,
        paper=info.paper,
        params=dict(vars(p)),
        models=[msgspec.structs.replace(model.record, role=role) for role, model in models.items()],
        prompt=prompt,
        prompt_ids=ids,
        seed=seed,
        detail=detail,
        baseline=info.baseline,
        lossless=info.lossless,
        emits=sorted(info.emits),
        departures=info.departures,
        versions=dict(versions()) | ({"method file": f"sha256 {info.version[:16]}"} if info.file else {}),
        machine=machine(model.record.device for model in models.values()),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        eos_ids=sorted(main.eos_ids),
        mask_id=getattr(main, "mask_id", None) if masked else None,
        canvas=-(-(len(ids) + getattr(p, LENGTH, 0)) // size) * size if masked else None,
        warmup_seconds=warmup,
        origin=origin,
    )


def _nothing() -> Iterator[Step]:
    """The loop of a method that has nothing left to do."""
    yield from ()


def stream(
    slug: str, model: Any, prompt: str | Sequence[int], *, params: Mapping[str, Any] | None = None, seed: int = 0, detail: Detail = "full", **options: Any
) -> Run:
    """A run as an iterator of steps; closing it stops the run. Arguments as in `run`. Raises UserError before the first step."""
    method = get_method(slug)
    return Run(method, assign_roles(method.info, model), prompt, params=params, seed=seed, detail=detail, **options)


def run(
    slug: str,
    model: Any,
    prompt: str | Sequence[int],
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    detail: Detail = "full",
    on_step: Callable[[Step], None] | None = None,
    **options: Any,
) -> Trace:
    """Decode `prompt` with a method and return the trace.

    model: a loaded model, its name, or a dict role -> model for methods with several. prompt: text or token ids. params: declared names.
    options: `edits` [(after_step, Edit)], `max_steps`, `max_seconds`. Raises UserError for bad input.
    """
    one = stream(slug, model, prompt, params=params, seed=seed, detail=detail, **options)
    try:
        for step in one:
            if on_step:
                on_step(step)
    finally:
        one.close()
    return one.trace()


def _tokens(edit: Edit) -> list[int]:
    """The ids that an edit names."""
    return [*edit.force.values(), *(t for tokens in edit.forbid.values() for t in tokens)]


def _inference() -> Any:
    from engines.core.lazy import torch

    return torch.inference_mode()
