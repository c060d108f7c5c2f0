"""How a model's reasoning is read while it is written: where a step begins, what is doubt, where an answer stands, and
how sure the model is of it. Two forms: the marked steps of the tiny reasoners, and prose in lines. And the same model
left alone, for the record: both switches off, the same random numbers, on no clock of the run.

Letters: V vocabulary, z [V] the logits behind the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engines.kit import CausalLM, KVCache, Params, Probability, Record, Tensor, TokenId, draw, ranked, torch

# Ours: the paper's own pool was not found; public digests name the first.
PHRASES = ("It is clear that", "Clearly,", "We can be sure that", "It follows that", "Without doubt,")
DOUBT = ("Wait", "But", "However", "Hmm", "Alternatively", "Actually", "Maybe")
PROBE = "\nAm I sure of this answer? I am"
SURE = ("sure", "confident", "certain", "absolutely", "very")
UNSURE = ("not", "unsure", "uncertain", "still", "doubtful")
STATED = re.compile(r"\\boxed\{|####|answer is", re.IGNORECASE)
SMALL = 100  # tokens of a vocabulary of single characters


@dataclass(frozen=True)
class Probe:
    """What a probe read: p(C) and p(D), and the model calls that it took. conf = p(C) / (p(C) + p(D))."""

    sure: float
    unsure: float
    calls: int

    @property
    def confidence(self) -> float:
        """conf; 0.5 where the model says neither."""
        return self.sure / (self.sure + self.unsure) if self.sure + self.unsure > 0 else 0.5


class Marked:
    """The tiny reasoners' traces (`engines/training/tiny/overthinker.py`): "c4+8=2;u2*7=4;w2*7=4;#4$". A step begins
    with its mood, c sure, u unsure, w a second look; # states the answer, $ ends."""

    def __init__(self, model: CausalLM) -> None:
        token_of = lambda sign: model.tokenizer.encode(sign)[0]  # noqa: E731
        self.mood, self.doubt, self.again = token_of("c"), token_of("u"), token_of("w")
        self.next, self.answer, self.ends = token_of(";"), token_of("#"), sorted(model.eos_ids)

    def starts(self, tokens: Sequence[int]) -> bool:
        """Whether the next token begins a step."""
        return not tokens or tokens[-1] == self.next

    def phrase(self, number: int) -> list[int]:
        """Nothing is put before a step; its mood is the phrase."""
        return []

    def instead(self, token: int) -> int:
        """The confident mood where the model drew the doubtful one."""
        return self.mood if token == self.doubt else token

    def reflection(self, z: Tensor) -> float:
        """Probability that the step that begins now is a second look."""
        return float(z.softmax(-1)[self.again])

    def doubts(self, z: Tensor, phrased: Tensor | None) -> tuple[float, float]:
        """Chances that the step that begins now is one of doubt, left alone and with the phrase: unsure or a second
        look, and where the confident mood stands for an unsure one, a second look alone. phrased: whether it does."""
        p = z.softmax(-1)
        again = float(p[self.again])
        return float(p[self.doubt]) + again, again if phrased is not None else float(p[self.doubt]) + again

    def reflects(self, step: Sequence[int]) -> bool:
        """Whether a step is one."""
        return bool(step) and step[0] == self.again

    def kind(self, step: Sequence[int]) -> str:
        """What a step is, by its mark."""
        return {self.doubt: "doubt", self.again: "again", self.answer: "answer"}.get(step[0], "thought")

    def answered(self, tokens: Sequence[int]) -> bool:
        """Whether an answer has just been stated: # and a digit."""
        return len(tokens) > 1 and tokens[-2] == self.answer

    def probe(self, model: CausalLM, z: Tensor, cache: KVCache) -> Probe:
        """What follows the answer: the end, or a further step. The forward that was made anyway tells it."""
        p = z.softmax(-1)
        return Probe(float(p[self.ends].sum()), float(p[self.next]), 0)


class Prose:
    """Text in lines, such as a chat model's: each line is a step, an answer is \\boxed{}, behind #### or "answer is",
    and the probe is a question put behind the line in a fork of the cache."""

    def __init__(self, model: CausalLM) -> None:
        self.model, self._breaks = model, dict[int, bool]()  # token -> whether it ends a line
        self.phrases = [model.tokenizer.encode(phrase) for phrase in PHRASES]
        self.asked = model.tokenizer.encode(PROBE)
        self.sure, self.unsure = (
            self._first([form for word in words for form in (f" {word}", f" {word.capitalize()}")])
            for words in (SURE, UNSURE)
        )
        self.doubtful = self._first([form for word in DOUBT for form in (word, f" {word}")])

    def _first(self, words: Sequence[str]) -> list[int]:
        """First tokens of words, each once."""
        return sorted({self.model.tokenizer.encode(word)[0] for word in words})

    def _lines(self, tokens: Sequence[int]) -> str:
        return self.model.tokenizer.decode(list(tokens))

    def starts(self, tokens: Sequence[int]) -> bool:
        """Whether a line begins."""
        if not tokens:
            return True
        if (last := tokens[-1]) not in self._breaks:
            self._breaks[last] = self._lines([last]).endswith("\n")
        return self._breaks[last]

    def phrase(self, number: int) -> list[int]:
        """The phrase of the step with this number; the pool is gone through in turn, so no random number is used."""
        return self.phrases[number % len(self.phrases)]

    def instead(self, token: int) -> int:
        """What is drawn stays."""
        return token

    def reflection(self, z: Tensor) -> float:
        """Probability that the step that begins now starts with a word of doubt."""
        return float(z.softmax(-1)[self.doubtful].sum())

    def doubts(self, z: Tensor, phrased: Tensor | None) -> tuple[float, float]:
        """Chances that the line that begins now starts with a word of doubt, without the phrase and behind it.
        z, phrased [V]."""
        without = self.reflection(z)
        return without, without if phrased is None else self.reflection(phrased)

    def kind(self, step: Sequence[int]) -> str:
        """What a line is."""
        return "again" if self.reflects(step) else "answer" if STATED.search(self._lines(step)) else "thought"

    def reflects(self, step: Sequence[int]) -> bool:
        """Whether a step starts with a word of doubt."""
        return self._lines(step).lstrip().startswith(DOUBT)

    def answered(self, tokens: Sequence[int]) -> bool:
        """Whether a line that states an answer has just ended."""
        if not tokens or not self.starts(tokens):
            return False
        lines = self._lines(tokens).rstrip("\n").splitlines()
        return bool(lines) and STATED.search(lines[-1]) is not None

    def probe(self, model: CausalLM, z: Tensor, cache: KVCache) -> Probe:
        """Ask behind the text and forget the question: one more forward, and the cache is as it was."""
        before = cache.length
        p = model.extend(self.asked, cache, last_only=True).logits[-1].softmax(-1)
        cache.crop(before)
        return Probe(float(p[self.sure].sum()), float(p[self.unsure].sum()), 1)


def reading(model: CausalLM) -> Marked | Prose:
    """The form that a model writes: marked steps where its vocabulary is single characters with their marks."""
    marked = model.vocab_size < SMALL and len(model.tokenizer.encode("c0+0=0;#")) == 8
    return Marked(model) if marked else Prose(model)


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
