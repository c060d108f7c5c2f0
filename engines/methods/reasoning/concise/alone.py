"""The same model left alone, for the record: both switches off, the same random numbers, on no clock of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.kit import Params, Probability, Record, TokenId, draw, ranked, torch
from engines.methods.reasoning.concise.thought import Marked, Prose


class Thoughts(Record):
    """The steps of a text so far: where each begins, counted from the prompt's end, and what it is."""

    starts: list[int]
    kinds: list[str]  # thought, doubt, again (a second look), answer


class LeftAlone(Record):
    """What the same model writes meanwhile where it is left alone, and what became of doubt at this step."""

    tokens: list[TokenId]  # that it wrote since the last record; in the last one, to its end
    alone: Thoughts
    own: Thoughts
    drawn: TokenId | None = None  # the mark of doubt in whose place another stands
    doubt_without: Probability | None = None  # chance that the step that begins is one of doubt, left alone
    doubt_with: Probability | None = None  # and with the phrase

    def beside(self) -> tuple[list[TokenId], list[str]]:
        """As `engines.texts_beside` asks: the text that is left alone goes on."""
        return self.tokens, []


class Alone:
    """Plain sampling in step with the run. Nothing of the run is decided by it."""

    def __init__(self, model: Any, form: Marked | Prose, prompt: list[int], p: Params, rng: torch.Generator) -> None:
        self.model, self.form, self.p, self.start, self.ids = model.unbooked(), form, p, len(prompt), prompt
        self.rng, self.end, self.told = torch.Generator(), len(prompt) + p.max_new_tokens, len(prompt)
        self.rng.set_state(rng.get_state())
        self.cache = self.model.new_cache(self.end)
        self.kinds: dict[tuple[int, ...], str] = {}  # of steps that were read before

    def over(self) -> bool:
        """Whether its text has come to its end."""
        ended = len(self.ids) > self.start and self.ids[-1] in self.model.eos_ids
        return ended or len(self.ids) >= self.end

    def read(self, ids: Sequence[int], last: bool, drawn: int | None, doubt: tuple[float, float] | None) -> LeftAlone:
        """Write on, one token or all that are left, and give the record of the step after which the run has `ids`."""
        while not self.over():
            z = self.model.extend(self.ids[self.cache.length :], self.cache, last_only=True).logits  # [1, V]
            chances, order = ranked(z[0], self.p.temperature)
            self.ids = [*self.ids, int(order[draw(chances, self.rng)])]
            if not last:
                break
        tokens, self.told = self.ids[self.told :], len(self.ids)
        without, within = doubt or (None, None)
        return LeftAlone(tokens, self.thoughts(self.ids), self.thoughts(ids), drawn, without, within)

    def thoughts(self, ids: Sequence[int]) -> Thoughts:
        """The steps of a text with its prompt."""
        tokens = list(ids[self.start :])
        starts = [at for at in range(len(tokens)) if self.form.starts(tokens[max(0, at - 1) : at])]
        ends = [*starts[1:], len(tokens)]
        return Thoughts(starts, [self._kind(tuple(tokens[a:b])) for a, b in zip(starts, ends, strict=True)])

    def _kind(self, step: tuple[int, ...]) -> str:
        """What a step is; each is read once, not again with every token behind it."""
        if step not in self.kinds:
            self.kinds[step] = self.form.kind(step)
        return self.kinds[step]
