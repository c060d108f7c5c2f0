"""The driver: checks what is asked, runs a method's generator, keeps time and budgets, and seals the trace. Time is measured only here
and in the meter around model calls."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any, Literal

import msgspec

from engines.core.counting import counted
from engines.core.errors import UserError
from engines.core.events import SCHEMA_VERSION, Detail, Edit, End, Header, Step, TimedEdit, Trace
from engines.core.method import Method, MethodInfo
from engines.core.models import Meter, Model, Roles
from engines.core.own import explained
from engines.core.params import resolve
from engines.core.recorder import Recorder
from engines.core.registry import get_method

MAX_PROMPT_CHARACTERS = 20_000
MAX_STEPS = 4096

Edits = Sequence[tuple[int, Edit]]


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
    ) -> None:
        info, main = method.info, models[method.info.role]
        p = resolve(info.params, params)
        if method.check:
            method.check(p)
        self.params_given = dict(vars(p))
        prompt_ids = _prompt_ids(main, prompt)
        _check_room(models, prompt_ids, getattr(p, "max_new_tokens", 0))
        self._vocab_size = min(model.vocab_size for model in models.values())
        _check_edits(edits, self._vocab_size)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise UserError(f"seed={str(seed)[:40]} is not allowed; give a whole number from 0 to 9223372036854775807.")
        if detail not in ("none", "light", "full"):
            raise UserError(f"detail={str(detail)[:40]} is not known; choose one of none, light, full.")
        mask_id = getattr(main, "mask_id", None) if info.kind in ("masked", "block") else None
        if mask_id in prompt_ids:
            raise UserError(f"the prompt holds the mask token {main.tokenizer.piece(prompt_ids[prompt_ids.index(mask_id)]).text}; take it out.")
        warmup = sum(model.warm_up() for model in models.values())
        self._meter = Meter()
        self._recorder = Recorder(info, p, prompt_ids, seed=seed, detail=detail, meter=self._meter, tokenizer=main.tokenizer, mask_id=mask_id)
        seen = {role: counted(model, role, self._meter) for role, model in models.items()}
        generator = method.decode(Roles(seen) if len(seen) > 1 else seen[info.role], list(prompt_ids), p, self._recorder)
        self._generator = explained(info, generator) if info.file else generator
        self._edits = dict(edits)
        self._next_edit: Edit | None = None
        self._max_steps, self._max_seconds = max_steps, max_seconds
        self._main = main
        self._began: float | None = None
        self._ended: float | None = None
        self._reason: Literal["complete", "stopped", "budget", "failed"] = "stopped"
        self._message = ""
        self.steps: list[Step] = []
        size = getattr(main, "block_size", 1)  # a block-diffusion board is made of whole blocks
        self.header = Header(
            schema=SCHEMA_VERSION,
            method=info.slug,
            title=info.title,
            family=info.family,
            paper=info.paper,
            params=self.params_given,
            models=[msgspec.structs.replace(model.record, role=role) for role, model in models.items()],
            prompt=prompt if isinstance(prompt, str) else main.tokenizer.decode(prompt_ids),
            prompt_ids=prompt_ids,
            seed=seed,
            detail=detail,
            baseline=info.baseline,
            lossless=info.lossless,
            emits=sorted(info.emits),
            departures=info.departures,
            versions=dict(_versions()) | ({"method file": f"sha256 {info.version[:16]}"} if info.file else {}),
            machine=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            eos_ids=sorted(main.eos_ids),
            mask_id=mask_id,
            canvas=-(-(len(prompt_ids) + p.max_new_tokens) // size) * size if mask_id is not None else None,
            warmup_seconds=warmup,
        )

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> Step:
        if self._ended is not None:
            raise StopIteration
        now = time.perf_counter()
        self._began = self._began or now
        if len(self.steps) >= self._max_steps or (self._max_seconds is not None and now - self._began > self._max_seconds):
            self._message = f"stopped after {len(self.steps)} steps and {now - self._began:.1f} s: the budget of this run is used up"
            self._finish("budget")
            raise StopIteration
        edit, self._next_edit = self._next_edit or self._edits.get(len(self.steps) - 1), None
        try:
            if edit is not None:
                self._recorder.check_edit(edit)
                self.header.edits.append(TimedEdit(len(self.steps) - 1, edit))
                self._recorder.know([*edit.force.values(), *(t for ts in edit.forbid.values() for t in ts)])
            self._recorder.resume()
            with _inference():
                step = self._generator.send(edit if self.steps else None)
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
        except UserError as error:
            self._message = str(error)
            self._finish("failed")
            raise
        except BaseException as error:
            self._message = f"{type(error).__name__}: {error}"
            self._finish("failed")
            raise
        self.steps.append(step)
        return step

    def send(self, edit: Edit) -> Step:
        """The next step, continued from the edited state. Raises UserError if nothing has been decoded yet or the edit does not fit."""
        if not self.steps or self._ended is not None:
            raise UserError("an edit needs a run that has made a step and is not over; use `edits=` to replay one up to there.")
        _check_edit(edit, self._vocab_size)
        self._recorder.check_edit(edit)
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
            message=self._message,
        )

    def trace(self) -> Trace:
        """Header, steps so far, token table and end."""
        end = self.end()
        return Trace(header=self.header, steps=list(self.steps), pieces=self.pieces(), end=end)


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


def assign_roles(info: MethodInfo, model: Any) -> dict[str, Model]:
    """A loaded model of the right kind for every role; missing roles come from the model's companions. Raises UserError."""
    from engines.models import zoo

    given = dict(model) if isinstance(model, Mapping) else {info.role: model}
    if unknown := set(given) - set(info.needs):
        raise UserError(f"unknown role '{sorted(unknown)[0]}'; '{info.slug}' has the roles {', '.join(info.needs)}.")
    if given.get(info.role) is None:
        raise UserError(f"'{info.slug}' needs a model for the role '{info.role}'.")
    loaded: dict[str, Model] = {}
    for role, kind in info.needs.items():
        one = given.get(role) or zoo.companion(loaded[info.role].record.name, role)
        if one is None:
            raise UserError(
                f"'{info.slug}' needs a second model for the role '{role}' with the tokenizer of {loaded[info.role].record.name}, and none is known; "
                f"choose {_with_companion(zoo, role)}, or give both as {{'{info.role}': ..., '{role}': ...}}."
            )
        beside = {"device": loaded[info.role].record.device, "dtype": loaded[info.role].record.dtype} if role not in given else {}
        loaded[role] = zoo.load_model(one, **beside) if isinstance(one, (str, os.PathLike)) else one
        if loaded[role].record.kind != kind:
            fitting = ", ".join(m.name for m in zoo.list_models() if m.kind == kind)
            what_to_do = f"choose one of {fitting}" if fitting else "none is built in, give a folder or a hub id"
            raise UserError(f"'{info.slug}' needs a {kind} model, {loaded[role].record.name} is {loaded[role].record.kind}; {what_to_do}.")
    _check_shared_tokenizer(info, loaded)
    return loaded


def _with_companion(zoo: Any, role: str) -> str:
    return " or ".join(m.name for m in zoo.list_models() if role in m.roles) or "a model with one beside it"


def _check_shared_tokenizer(info: MethodInfo, loaded: Mapping[str, Model]) -> None:
    from engines.models.tokens import same_vocabulary

    first, *others = loaded.values()
    for other in others:
        if not same_vocabulary(first.tokenizer, other.tokenizer):
            raise UserError(f"'{info.slug}' needs models with one tokenizer; {first.record.name} and {other.record.name} number their tokens differently.")


def _prompt_ids(model: Model, prompt: str | Sequence[int]) -> list[int]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UserError("the prompt is empty; type a question or pick a task.")
        if len(prompt) > MAX_PROMPT_CHARACTERS:
            raise UserError(f"the prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are taken.")
        if any("\ud800" <= c <= "\udfff" for c in prompt):
            raise UserError("the prompt holds half of a character (a lone surrogate); take it out.")
        ids = list(model.tokenizer.encode_prompt(prompt))
    else:
        try:
            ids = [int(t) for t in prompt]
        except (TypeError, ValueError, OverflowError):
            raise UserError("the prompt is neither a text nor a list of token ids.") from None
    if not ids:
        raise UserError("the prompt has no tokens; give at least one id.")
    if bad := [t for t in ids if not 0 <= t < model.vocab_size]:
        raise UserError(f"prompt id {bad[0]} is not in the vocabulary; ids go from 0 to {model.vocab_size - 1}.")
    return ids


def _check_room(models: Mapping[str, Model], prompt_ids: list[int], new_tokens: int) -> None:
    for model in models.values():
        if len(prompt_ids) + new_tokens > model.max_positions:
            raise UserError(
                f"the prompt has {len(prompt_ids):,} tokens and {new_tokens:,} more are asked for; {model.record.name} has room for "
                f"{model.max_positions:,} in all. Shorten the prompt or ask for fewer new tokens."
            )


def _check_edits(edits: Edits, vocab_size: int) -> None:
    for step, edit in edits:
        if not isinstance(step, int) or step < 0 or not isinstance(edit, Edit):
            raise UserError("edits are pairs (after_step, Edit) with after_step >= 0.")
        _check_edit(edit, vocab_size)


def _check_edit(edit: Edit, vocab_size: int) -> None:
    """What can be refused without knowing the board; `Recorder.check_edit` looks at the positions."""
    tokens = [*edit.force.values(), *(t for forbidden in edit.forbid.values() for t in forbidden)]
    if bad := [t for t in tokens if not 0 <= t < vocab_size]:
        raise UserError(f"token {bad[0]} of the edit is not in the vocabulary; ids go from 0 to {vocab_size - 1}.")
    if bad := [p for p in edit.forbid if p < 0]:
        raise UserError(f"position {bad[0]} cannot be edited; positions start at 0.")


def _inference() -> Any:
    from engines.core.lazy import torch

    return torch.inference_mode()


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {}
    for name in ("decoding-explorer", "torch", "transformers", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "python": platform.python_version()}
