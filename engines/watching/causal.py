"""Reading a loop that writes left to right: which text stood, what was drafted behind it, and what of that was kept.

A forward feeds the end of the text, whose last token is the root, and perhaps drafts behind it. What it wrote shows in
the next forward: its root is the last token written, and the rows that the cache kept are the drafts accepted.

Several sequences at once are read in `lockstep`. Shapes: B sequences, n rows fed, V vocabulary."""

import copy
from collections.abc import Mapping
from typing import Any

from engines.core.lazy import Tensor
from engines.watching.arguments import Unreadable
from engines.watching.hooks import Call
from engines.watching.iteration import Reading
from engines.watching.line import ANOTHER, Line
from engines.watching.lockstep import Lockstep
from engines.watching.open_forward import look
from engines.watching.packed import check_one_text
from engines.watching.rows import grown

DRAFT = "draft"  # the role of a module's own first layers, where they draft for the whole of it


class CausalReader:
    """The calls of the module that decides, and of those that draft for it, which may be its own first layers."""

    def __init__(
        self, main: str, full: bool, prompt: list[int] | None, columns: Mapping[str, int] | None = None
    ) -> None:
        self.main, self.full, self.prompt = main, full, prompt
        self._columns = dict(columns or {})  # by role: those whose logits have fewer are of other tokens, or not all
        self._pruned: dict[str, int] = {}  # by role, where that is so: the columns that there are
        self._line: Line | None = None
        self._lockstep: Lockstep | None = None
        self._drafts: list[Call] = []
        self._aside: list[Call] = []  # behind a cache of their own, until it is seen that the text goes on
        self._drafting = self._exits = False  # what calls of fewer layers were seen to be
        self._shallow: list[Call] = []  # those of which it is not known yet
        self._before: tuple[Line, list[Call]] | None = None  # the text and the drafts before the first of them

    def before(self, call: Call, cache: Any) -> None:
        """What the cache kept of the forward before."""
        if call.role != self.main:
            return
        if call.ids is None:
            raise Unreadable("the loop feeds embeddings instead of token ids, so its text cannot be seen.")
        check_one_text(call)
        if self._line is None and self._lockstep is None:
            if call.past:
                raise Unreadable(
                    f"the cache already held {call.past} positions when watching began; begin the `with` before the "
                    "prompt is fed."
                )
            if call.batch == 1:
                self._line = Line(self.full, self.prompt)
            else:
                self._lockstep = Lockstep(self.full, call.batch)
        if self._line is not None:
            if call.batch != 1:
                text = self._line.text[: self._line.prompt]
                alike = call.past != 0 or all(row[: len(text)] == text for row in call.ids.tolist())
                raise Unreadable(grown(1, call.batch, alike))
            call.aside = self._line.beside(call)
            if not call.aside:
                look(self._line, call, cache)
        elif self._lockstep is not None:
            self._lockstep.look(call, cache)

    def after(self, call: Call, logits: Tensor | None, cache: Any) -> None:
        """What the forward fed, and what it says; a module that drafts may say nothing."""
        if call.role == self.main and self._line is not None:
            if call.aside:
                self._aside.append(call)
                return
            if self._aside:  # the text goes on behind its own cache: what came between was the other half of guidance
                self._line.turns[-1].calls[-1:-1], self._line.guided = self._aside, True
                self._aside = []
            self._early(call)
        if call.role != self.main:
            if self.full and logits is not None:
                rows = range(max(0, call.n - 8), call.n)
                taken = [row for row in rows if row >= call.n - logits.shape[-2]]
                call.facts["said"] = (taken, logits[0][[row - call.n for row in taken]].float().log_softmax(-1))
            self._drafts.append(call)
            return
        assert logits is not None
        for draft in self._drafts:
            self._tokens_of(draft, call.columns)
        calls, self._drafts = [*self._drafts, call], []
        if self._line is not None:
            self._line.take(calls, logits[0], cache)
        elif self._lockstep is not None:
            self._lockstep.take(calls, logits, cache)

    def _tokens_of(self, draft: Call, columns: int) -> None:
        """Let go of what a drafting call said where its columns are no tokens: where they are fewer than its tokens,
        and not as many as those of the module that decides. A token fed beyond them shows it, too."""
        own, most = self._columns.get(draft.role, 0) or columns, 0 if draft.ids is None else int(draft.ids.max())
        if draft.columns and (most >= draft.columns or (draft.columns != columns and draft.columns < own)):
            self._pruned[draft.role] = draft.columns
        if draft.role in self._pruned:
            draft.facts.pop("said", None)

    def _early(self, call: Call) -> None:
        """Tell a call of fewer layers that drafts from one that left early: what the former fed behind a cache, a call
        of all layers feeds again. Until one has shown it, calls of fewer layers are taken for steps of their own."""
        if not call.depth or self._line is None or (self._exits and call.depth == call.layers):
            return
        if call.depth < call.layers:
            if self._drafting:
                call.role = DRAFT
            elif not self._exits:
                self._before = self._before or (copy.deepcopy(self._line), list(self._drafts))
                self._shallow.append(call)
        elif self._before is not None:
            self._drafting = call.cached and self._line.begins(call) < self._line.end
            self._exits = not self._drafting
            if self._drafting:  # the same once more, knowing it
                self._line, drafts = self._before
                for shallow_call in self._shallow:
                    shallow_call.role = DRAFT
                self._drafts = [*drafts, *self._shallow]
            self._before, self._shallow = None, []

    def readings(self, outputs: list[list[int]] | None) -> list[Reading]:
        """What is known of each answer. outputs: the loop's own."""
        if self._lockstep is not None:
            return self._lockstep.readings(outputs, self._drafts)
        if self._line is None:
            return []
        line = copy.deepcopy(self._line)  # trace() may be asked again
        reading = line.reading(outputs[0] if outputs else None, self._drafts)
        reading.remarks += [
            f"The logits of role '{role}' have {columns} columns, which are not the tokens of its vocabulary in their "
            "order, so its probabilities are missing."
            for role, columns in self._pruned.items()
        ]
        if self._aside and self._line.guided and len(self._aside) == 1:
            last = reading.turns[-1]
            last.calls = [*last.calls[:-1], *self._aside, last.calls[-1]]  # the other half of the last step
        elif self._aside:
            reading.fault = ANOTHER
        return [reading]
