"""The driver: checks what is asked, runs a method's generator, keeps time and budgets, and finishes the trace. Time is
measured only here and in the meter around model calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from engines.core.costs import row_costs_of
from engines.core.errors import UserError, described
from engines.core.kinds import KINDS, Model, counted
from engines.core.lazy import torch
from engines.core.meter import Meter, OverBudget
from engines.core.method import Method
from engines.core.params import LENGTH, Params
from engines.core.recorder import Recorder
from engines.core.registry import get_method
from engines.core.trace import Detail, Edit, End, Step, TimedEdit, Trace
from engines.core.user_methods import explained
from engines.core.validation import Edits, check_detail, check_edit, check_edits, check_room, check_seed, parameters
from engines.core.validation import prompt_ids as ids_of
from engines.driver.replay import Replay
from engines.driver.roles import Roles, assign_roles, parts_of
from engines.driver.takeover import BoundMethod, announce, bind, header_of, room_left

MAX_STEPS = 4096
OVERRUN = 0.1  # of its seconds, at least one, that the step under way may take beyond them; the call under way ends


class Run(Iterator[Step]):
    """A run under way: iterate for its steps, `send` an edit for the next one, `close` to stop, `trace()` for what
    there is.

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
        p = parameters(method, params, main)
        prompt_ids = ids_of(main, prompt)
        self._length = getattr(p, LENGTH, 0)
        check_seed(seed)
        check_detail(detail)
        self._models, self._main, self._seed, self._info = models, main, seed, info
        check_edits(edits)
        self._edits = dict(edits)
        self._bound = {
            step: bind(edit, main, models, self._length) for step, edit in self._edits.items() if edit.method
        }
        later = [after.models for after in self._bound.values()]
        everyone = {id(model): model for roles in (models, *later) for model in roles.values()}
        check_room({str(key): model for key, model in everyone.items()}, prompt_ids, self._length)
        self._vocab_size = min(model.vocab_size for model in everyone.values())
        for edit in self._edits.values():
            check_edit(edit, self._vocab_size)
        mask_id = getattr(main, "mask_id", None) if KINDS[info.kind].masked else None
        if mask_id in prompt_ids:
            raise UserError(
                f"the prompt holds the mask token {main.tokenizer.piece(prompt_ids[prompt_ids.index(mask_id)]).text}; "
                "take it out."
            )
        warmup = sum(model.warm_up() for model in everyone.values())
        self._meter = Meter()
        self._recorder = Recorder(
            info, p, prompt_ids, seed=seed, detail=detail, meter=self._meter, tokenizer=main.tokenizer, mask_id=mask_id
        )
        self._next_edit: Edit | None = None
        self._max_steps, self._max_seconds = max_steps, max_seconds
        self._began: float | None = None
        self._ended: float | None = None
        self._reason: Literal["complete", "stopped", "budget", "failed"] = "stopped"
        self._message = ""
        self._replay = replay
        self.steps: list[Step] = []
        text = prompt if isinstance(prompt, str) else main.tokenizer.decode(prompt_ids)
        self.header = header_of(
            info, models, p, text, prompt_ids, seed, detail, warmup, replay.origin if replay else None
        )
        if (first := self._edits.get(-1)) and not first.method:  # nothing is written with the values before it
            self.header.lossless = info.keeps({**vars(p), **first.params})
        if replay and replay.origin.edit:
            self._recorder.register_tokens(_tokens(replay.origin.edit))
        for _, after in sorted(self._bound.items()):
            announce(self.header, after)
        self._generator = self._begin(method, models, p, list(prompt_ids))
        if first:
            self._recorder.open((self.header.canvas or len(prompt_ids)) - len(prompt_ids))
            self._note(-1, first)
            changed = parameters(method, {**vars(p), **first.params}) if not first.method else p
            self._take_over(first, self._bound.get(-1) or BoundMethod(method, models, changed))

    def _begin(self, method: Method, models: Mapping[str, Model], p: Params, text: list[int]) -> Generator[Step, Any]:
        """The loop of a method that reads `text` as its prompt, its models seen through the meter."""
        info = method.info
        metered = {
            role: counted(model, role, self._meter.aside() if role in info.beside else self._meter, info.needs[role])
            for role, model in models.items()
        }
        for role in info.needs.keys() & models.keys() if info.costs else ():  # before the clock of the method
            row_costs_of(models[role])
        given: dict[str, Any] = {**metered, **parts_of(info, models[info.role])}
        for role in info.parts:  # a published drafter calls the model and counts, as a second model would
            if hasattr(part := given[role], "counted"):
                given[role] = part.counted(metered[info.role], self._meter)
        several = len(info.needs) + len(info.parts) > 1
        loop = method.decode(Roles(given) if several else given[info.role], text, p, self._recorder)
        return explained(info, loop) if info.file else loop

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Step:
        if self._ended is not None:
            raise StopIteration
        now = time.perf_counter()
        if self._began is None:
            self._began = now
            if self._max_seconds is not None:  # where one step makes many calls
                self._meter.deadline = now + self._max_seconds + max(1.0, OVERRUN * self._max_seconds)
        edit, self._next_edit = self._next_edit or (self._edits.get(len(self.steps) - 1) if self.steps else None), None
        self._meter.step = len(self.steps) + 1
        self._meter.spent = len(self.steps) >= self._max_steps or (
            self._max_seconds is not None and now - self._began > self._max_seconds
        )
        try:
            if self._meter.spent and (edit is not None or not self.steps):
                raise OverBudget
            if edit is not None:
                edit = self._edit(edit)
            self._recorder.resume()
            with torch.inference_mode():
                step = self._generator.send(edit)
        except StopIteration:
            if self._meter.forwards:
                self._message = (
                    f"method '{self.header.method}' called a model after its last step; yield "
                    "run.step(...) after every forward"
                )
                self._finish("failed")
                raise UserError(self._message) from None
            if not self._recorder.unrecorded:
                self._finish("complete")
                raise
            # Nothing is left to decode, but the edit has to show.
            step = self._recorder.step(note="The edit completed the answer.")
            self._finish("complete")
        except OverBudget:  # asked only after its last permitted step: one that ends by itself there is complete
            self._message = (
                f"stopped after {len(self.steps)} steps and {now - self._began:.1f} s: the budget of this "
                "run is used up"
            )
            self._finish("budget")
            raise StopIteration from None
        except UserError as error:
            self._message = str(error)
            self._finish("failed")
            raise
        except BaseException as error:
            self._message = described(error)
            self._finish("failed")
            raise
        self.steps.append(step)
        if self._replay:
            self._replay.compare(step, self._text_of)
        return step

    def _text_of(self, token: int) -> str:
        return self._main.tokenizer.piece(token).text if token >= 0 else "nothing"

    def _edit(self, edit: Edit) -> Edit | None:
        """Check the edit and write it down; where another method takes over, that one begins and nothing is sent to
        it."""
        self._check(edit)
        self._note(len(self.steps) - 1, edit)
        if not edit.method:
            now = {**vars(self._recorder.params), **edit.params}
            self.header.lossless = self.header.lossless and self._info.keeps(now)
            return edit
        after = self._bound.get(len(self.steps) - 1)
        if after is None:
            after = bind(edit, self._main, self._models, self._length)
            announce(self.header, after)
        self._take_over(edit, after)
        return None

    def _check(self, edit: Edit) -> None:
        check_edit(edit, self._vocab_size)
        self._recorder.check_edit(msgspec.structs.replace(edit, params={}) if edit.method else edit)

    def _note(self, after: int, edit: Edit) -> None:
        self.header.edits.append(TimedEdit(after, edit))
        self._recorder.register_tokens(_tokens(edit))

    def _take_over(self, edit: Edit, after: BoundMethod) -> None:
        """A method begins from the board as it is, with the edit made to it: a masked one fills the board's masks, a
        causal one reads the text so far as its prompt. Raises UserError where nothing is left to decode."""
        self._generator.close()
        recorder, self._info = self._recorder, after.method.info
        board = recorder.restart(self._info, after.params, edit, self._seed)
        room = room_left(board, self.header, self._length)
        if not room:
            if not recorder.unrecorded:
                raise UserError(f"nothing is left to decode after step {recorder.steps}; fork at an earlier step.")
            self._generator = (step for step in list[Step]())  # the edit that called the method completed the answer
            return
        recorder.params = parameters(after.method, {**vars(after.params), LENGTH: room})
        self._models = after.models
        text = board[: recorder.prompt_length] if self.header.mask_id is not None else board
        self._generator = self._begin(after.method, after.models, recorder.params, text)

    def send(self, edit: Edit) -> Step:
        """The next step, continued from the edited state. Raises UserError if nothing has been decoded yet or the edit
        does not fit."""
        if not self.steps or self._ended is not None:
            raise UserError(
                "an edit needs a run that has made a step and is not over; use `edits=` to replay one up to there."
            )
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
            self._replay.finish(len(self.steps))

    @property
    def answer_length(self) -> int:
        """Positions behind the prompt by now, masks included: what `end` would cost a decoded text to say."""
        return len(self._recorder.board) - self._recorder.prompt_length

    def pieces(self, since: int = 0) -> list[Any]:
        """The token table in the order of first use, from entry `since` on (for batches)."""
        return list(self._recorder.pieces.values())[since:]

    def end(self) -> End:
        """How it ended, or stands now (`stopped` while it is still going on)."""
        output = self._recorder.board[self._recorder.prompt_length :]
        self._recorder.register_tokens(output)
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
            called_seconds=self._meter.called,
            processor_seconds=self._meter.processor,
        )

    def _remarks(self) -> list[str]:
        """What a person has to know of an edited run: a replay that diverged, a change that nothing came of."""
        unread = ", ".join(sorted(self._recorder.params.unread)) if self._reason == "complete" else ""
        idle = f"The method did not look at {unread} again after the change: it had no effect." if unread else ""
        return [self._replay.sentence if self._replay else "", idle]

    def trace(self) -> Trace:
        """Header, steps so far, token table and end."""
        end = self.end()
        return Trace(header=self.header, steps=list(self.steps), pieces=self.pieces(), end=end)


def stream(
    slug: str,
    model: Any,
    prompt: str | Sequence[int],
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    detail: Detail = "full",
    **options: Any,
) -> Run:
    """A run as an iterator of steps; closing it stops the run. Arguments as in `run`. Raises UserError before the
    first step."""
    method, edits = get_method(slug), options.pop("edits", ())
    check_edits(edits)
    roles = assign_roles(method.info, model)
    return Run(method, roles, prompt, params=params, seed=seed, detail=detail, edits=edits, **options)


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

    model: a loaded model, its name, or a dict role -> model for methods with several. prompt: text or token ids.
    params: declared names.
    options: `edits` [(after_step, Edit)], `max_steps`, `max_seconds`. Raises UserError for bad input.
    """
    running = stream(slug, model, prompt, params=params, seed=seed, detail=detail, **options)
    try:
        for step in running:
            if on_step:
                on_step(step)
    finally:
        running.close()
    return running.trace()


def _tokens(edit: Edit) -> list[int]:
    """The ids that an edit names."""
    return [*edit.force.values(), *(t for tokens in edit.forbid.values() for t in tokens)]
