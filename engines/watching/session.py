"""The `with` block around a loop: which modules are watched, and the traces of what they did."""

from __future__ import annotations

import datetime
import html
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

from engines.core.errors import UserError
from engines.core.kinds import KINDS
from engines.core.lazy import torch
from engines.core.trace import Detail, Trace
from engines.watching.assembly import Session, assemble
from engines.watching.canvas import CanvasReader
from engines.watching.causal import CausalReader
from engines.watching.halves import CanvasHooks
from engines.watching.hooks import Hooks
from engines.watching.masked import MaskedReader
from engines.watching.subjects import end_ids, subjects_of, tokenizer_of

Kind = Literal["masked", "causal", "canvas"]


def watch(
    model: Any,
    *,
    kind: Kind | None = None,
    tokenizer: Any = None,
    mask_id: int | None = None,
    prompt: str | Sequence[int] | None = None,
    shift: bool | None = None,
    eos_ids: Sequence[int] | None = None,
    detail: Detail = "full",
    title: str = "",
    generator: Any = None,
) -> Watch:
    """Watch a decoding loop of your own: `with engines.watch(model, ...) as seen: out = generate(model, ...)`, then
    `seen.trace(out)`.

    model: the torch module that the loop calls, one of `load_model`, or several by role: {"target": ..., "draft": ...}.
    kind: masked, causal or canvas; by default canvas for a model with an encoder and a decoder of canvases, masked
    where a mask_id is given, or the model has one. tokenizer: that of transformers; without one tokens are shown as
    numbers. mask_id: by default what model or tokenizer say. prompt: ids or text of the prompt, where the first call
    holds more than it. shift: whether row i of a masked model predicts token i + 1; None: found out from what was
    written. detail: full, or light for what was written alone. generator: of a canvas loop, the torch.Generator that
    it draws from; None: the default one of the device. The loop's results stay what they are, bit for bit; what a hook
    cannot read never ends the loop, it ends the watching. Raises UserError, before the loop begins, for what cannot be
    watched."""
    subjects = subjects_of(model)
    main = next(iter(subjects.values()))
    if detail not in ("full", "light"):
        raise UserError(f"detail='{str(detail)[:40]}' is not known; watch at full or at light.")
    known = tokenizer_of(tokenizer, main)
    if kind not in (None, "masked", "causal", "canvas"):
        raise UserError(f"kind='{str(kind)[:40]}' is not known; a loop is watched as masked, causal or canvas.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise UserError(
            f"generator is a {type(generator).__name__}; give the torch.Generator that the loop draws from."
        )
    mask = mask_id if mask_id is not None else main.mask_id(None)
    kind = kind or main.kind or ("masked" if mask is not None else "causal")  # a causal model's tokenizer may have one
    mask_id = mask if mask is not None else main.mask_id(tokenizer)
    if not isinstance(model, Mapping):
        subjects = {KINDS[kind].role: main}
    if kind == "masked" and mask_id is None:
        raise UserError("a masked loop needs the id of its mask token: mask_id=126336 for LLaDA, 151666 for Dream.")
    if kind == "masked" and not 0 <= int(mask_id or 0) < main.vocab_size:
        raise UserError(f"mask_id={mask_id} is not in the model's vocabulary of {main.vocab_size} tokens.")
    given = known.encode_prompt(prompt) if isinstance(prompt, str) else None
    if prompt is not None and given is None:
        rows = outputs_of(prompt)
        if rows is None or len(rows) != 1:
            raise UserError("prompt takes the text or the token ids of one prompt.")
        given = rows[0]
    session = Session(
        subjects,
        kind=kind,
        title=title or f"Watched loop on {main.name}",
        tokenizer=known,
        eos_ids=sorted(set(eos_ids)) if eos_ids is not None else end_ids(main, tokenizer),
        mask_id=int(mask_id) if kind == "masked" and mask_id is not None else None,
        detail=detail,
        prompt=prompt if isinstance(prompt, str) else "",
    )
    return Watch(session, given, shift if shift is not None else main.shift, generator)


class Watch:
    """What `watch` returns: a context manager, and afterwards `trace(out)` or `traces(out)`. `faults`: the sentences of
    what could not be read, after which nothing was recorded any more."""

    def __init__(self, session: Session, prompt: list[int] | None, shift: bool | None, generator: Any) -> None:
        self._session = session
        full, subjects, role = session.detail == "full", session.subjects, session.main
        self._reader: MaskedReader | CausalReader | CanvasReader
        if session.kind == "canvas":
            canvases = CanvasReader(full, session.eos_ids, subjects[role].vocab_size, generator)
            self._reader = canvases
            self._hooks: list[Hooks] = [CanvasHooks(role, subjects[role].module, canvases)]
        else:
            masked = session.kind == "masked"
            self._reader = reader = (
                MaskedReader(session.mask_id or 0, shift, full, prompt, subjects[role].blocks)
                if masked
                else CausalReader(role, full, prompt, {name: known.own_columns for name, known in subjects.items()})
            )
            self._hooks = [
                Hooks(name, known.module, reader.before, reader.after, masked or name == role)
                for name, known in subjects.items()
            ]
        self._output: Any = None
        self._broke = ""  # how the loop itself failed

    def __enter__(self) -> Watch:
        if self._session.began:
            raise UserError("this watch was used already; call engines.watch(...) again for another answer.")
        try:
            for hooks in self._hooks:
                hooks.install()
        except BaseException:
            self._remove()
            raise
        self._session.started_at, self._session.began = datetime.datetime.now(datetime.UTC), time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._session.ended = time.perf_counter()
        for hooks in self._hooks:
            hooks.close()
        self._remove()
        if kind is not None:
            message = " ".join(str(error).split())[:200]
            self._broke = (
                f"The loop itself ended with {kind.__name__}{f': {message}' if message else ''}; this "
                "is what it did before."
            )

    def _remove(self) -> None:
        for hooks in self._hooks:
            hooks.remove()

    @property
    def faults(self) -> list[str]:
        """What ended the watching early, in a sentence each."""
        return [hooks.fault for hooks in self._hooks if hooks.fault]

    def trace(self, out: Any = None) -> Trace:
        """The trace of the one answer that was decoded. out: what the loop returned (ids, a tensor [L] or [1, L], or
        what has `.sequences`), with the prompt or without it; without it the last step's tokens are missing. Raises
        UserError where nothing was seen, or several answers."""
        traces = self.traces(out)
        if len(traces) > 1:
            alike = all(trace.header.prompt_ids == traces[0].header.prompt_ids for trace in traces)
            raise UserError(
                f"{len(traces)} {'answers' if alike else 'prompts'} were decoded at once; seen.traces(out) gives their "
                f"{len(traces)} traces."
            )
        return traces[0]

    def traces(self, out: Any = None) -> list[Trace]:
        """One trace for each answer of a batch, in the order of its rows. Raises UserError where nothing was seen."""
        self._output = out if out is not None else self._output
        readings = [
            reading for reading in self._reader.readings(outputs_of(self._output)) if reading.turns or reading.fault
        ]
        seen = [reading for reading in readings if reading.turns]
        if not seen:
            reasons = [*self.faults, *(reading.fault for reading in readings)]
            raise UserError(
                reasons[0]
                if reasons
                else "the loop never called the watched module; watch the one whose call (not .forward) it makes, "
                "outside torch.compile."
            )
        prompt = self._session.prompt if len(seen) == 1 else ""
        session = replace(self._session, ended=self._session.ended or time.perf_counter(), prompt=prompt)
        for reading in seen:  # what a module that drafts left unread ends no text
            reading.remarks += [hooks.fault for hooks in self._hooks if hooks.fault and not hooks.decides]
        faults = [hooks.fault for hooks in self._hooks if hooks.fault and hooks.decides]
        return [assemble(reading, session, [*faults, self._broke]) for reading in seen]

    def _repr_html_(self) -> str:
        shown = [getattr(trace, "_repr_html_", None) for trace in self.traces()]
        return "".join(
            show() if show else html.escape("import explorer, and this run plays itself here.") for show in shown
        )


def outputs_of(out: Any) -> list[list[int]] | None:
    """The token ids of each answer that a loop returned, or None where it gave none. Raises UserError for anything
    else."""
    output = getattr(out, "sequences", out)
    if isinstance(output, tuple) and output:  # loops that return (ids, number of forwards)
        output = next((part for part in output if torch.is_tensor(part)), output)
    if output is None:
        return None
    if torch.is_tensor(output):
        output = output.detach().cpu().tolist()
    elif hasattr(output, "tolist"):
        output = output.tolist()
    if isinstance(output, (list, tuple)) and output:
        rows = list(output) if isinstance(output[0], (list, tuple)) else [output]
        if all(isinstance(token, int) and token >= 0 for row in rows for token in row):
            return [list(row) for row in rows]
    raise UserError(f"the output is a {type(out).__name__}; give the token ids that the loop made, not their text.")
