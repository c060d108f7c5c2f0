"""Several texts of one request that grow together, a token each step, in microbatches with caches of their own; and the
attention of a whole step, part by part.

Letters: m microbatches of b texts each, B = m b, L layers, d hidden size, V vocabulary."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from engines.kit import Branch, CountedSplit, Edit, KVCache, Recorder, Tensor, distribution, draw, top_ids, torch
from engines.methods.system.afd.feeding import Feeding

SPREAD = 0x9E3779B97F4A7C15  # between the seeds of the texts


class Part(NamedTuple):
    """A microbatch of a layer on one side, by `time.perf_counter`; numbers from 0."""

    side: str
    layer: int
    microbatch: int
    began: float
    ended: float


class Batch:
    """The texts. The first is the one on the board: decoded plainly. At temperature 0 text i begins with the i-th
    likeliest token and goes on greedily; above it each is drawn with randomness of its own. One that has ended keeps
    its place in the batch, as nothing else waits for it here."""

    def __init__(self, prompt: Sequence[int], B: int, temperature: float, run: Recorder) -> None:
        self.start, self.temperature, seed = len(prompt), temperature, run.rng.initial_seed()
        self.texts, self.fates = [list(prompt) for _ in range(B)], ["alive"] * B
        seeds = ((seed + i * SPREAD) % 2**63 for i in range(1, B))
        self.rngs = [run.rng, *(torch.Generator().manual_seed(seed) for seed in seeds)]
        self._told: list[tuple[list[int], str]] = [([], "")] * B

    @property
    def length(self) -> int:
        """Tokens of the text on the board, which is as long as any other that goes on."""
        return len(self.texts[0])

    def tokens(self, position: int) -> list[int]:
        """The token of each text there; of one that ended before, its last."""
        return [text[min(position, len(text) - 1)] for text in self.texts]

    def write(self, z: Tensor, end: int, eos_ids: frozenset[int]) -> None:
        """One token behind each text that goes on, from logits z [B, V]. end: where all of them end at the latest."""
        first = self.length == self.start and not self.temperature
        for i, text in enumerate(self.texts):
            if self.fates[i] != "alive":
                continue
            if self.temperature:
                token = draw(distribution(z[i].double(), self.temperature), self.rngs[i])
            else:
                token = int(top_ids(z[i : i + 1], i + 1)[0, i] if first else z[i].argmax())
            text.append(token)
            if i and (token in eos_ids or len(text) >= end):
                self.fates[i] = "finished"
        if self.texts[0][-1] in eos_ids or self.length >= end:
            self.fates[0] = "chosen"

    @property
    def living(self) -> int:
        """Texts that go on."""
        return self.fates.count("alive")

    def branches(self) -> list[Branch]:
        """What each text gained since the last record, those left out of which nothing changed."""
        branches = list[Branch]()
        for i, (text, fate) in enumerate(zip(self.texts, self.fates, strict=True)):
            behind, (known, shown) = text[self.start :], self._told[i]
            same = next((n for n, (a, b) in enumerate(zip(behind, known, strict=False)) if a != b), len(known))
            if behind != known or fate != shown:
                branches.append(Branch(i, -1, behind[min(same, len(behind)) :], len(behind), {}, fate))
            self._told[i] = behind, fate
        return branches

    def apply_edit(self, run: Recorder, edit: Edit | None, caches: Sequence[KVCache]) -> None:
        """An edit to the board. A token that is forced stands in every text that is as long; all of them go on."""
        self.texts[0] = run.apply_edit(edit, self.texts[0], *caches)
        if edit is None or not edit.force:
            return
        first = min(edit.force)
        self.start = min(self.start, first)
        for i, text in enumerate(self.texts):
            if i and len(text) >= first:
                self.texts[i] = [*text[:first], *(edit.force[at] for at in sorted(edit.force))]
            if len(text) >= first:
                self.fates[i] = "alive"


def prefilled(model: CountedSplit, prompt: Sequence[int], m: int, b: int, capacity: int) -> list[KVCache]:
    """m caches of b texts: the prompt but its last token is read once, and copied for every text."""
    cache = model.new_cache(max(1, len(prompt) - 1))
    if len(prompt) > 1:
        model.layers(model.embed(list(prompt[:-1])), cache, 0, model.num_layers)
    return [model.spread(cache, b, capacity) for _ in range(m)]


def catch_up(model: CountedSplit, batch: Batch, caches: Sequence[KVCache], b: int) -> None:
    """Feed what the caches lack of the texts but for their last tokens, behind an edit of several."""
    while caches[0].length < batch.length - 1:
        tokens = batch.tokens(caches[0].length)
        for j, cache in enumerate(caches):
            x = model.embed(tokens[j * b : (j + 1) * b])
            for layer in range(model.num_layers):
                x, u = model.attend(x, cache, layer)
                x = x + model.feed(u, layer)


def decode_rows(
    model: CountedSplit, tokens: Sequence[int], caches: Sequence[KVCache], feeding: Feeding
) -> tuple[Tensor, list[Part]]:
    """One row of every text through all layers: logits [B, V] and what ran when. Attention takes the microbatches in
    turn, layer by layer; it waits only for the one that it needs."""
    m, at = len(caches), caches[0].length
    b, parts = len(tokens) // m, list[Part]()
    x: list[Any] = [model.embed(tokens[j * b : (j + 1) * b]) for j in range(m)]  # [b, d] each

    def back(j: int, layer: int) -> None:
        y, began, ended = model.wait(lambda: feeding.take(j))
        x[j] = x[j] + y
        parts.append(Part("feed-forward", layer, j, began, ended))

    for layer in range(model.num_layers):
        for j in range(m):
            if layer:
                back(j, layer - 1)
            began = time.perf_counter()
            x[j], u = model.attend(x[j], caches[j], layer)
            parts.append(Part("attention", layer, j, began, time.perf_counter()))
            feeding.give(j, layer, u)
    for j in range(m):
        back(j, model.num_layers - 1)
    return model.unembed(torch.cat(x), predicts=[at + 1] * len(tokens)), parts
