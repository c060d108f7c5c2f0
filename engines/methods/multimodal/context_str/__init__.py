"""Context-STR, a context-driven, training-free reader of words in scenes (arXiv:2503.15639; official code
Ritabrata04/icdar2025-context-driven-str).

A cheap chain comes first: a mask of the words, boxes around its pieces, a caption T2 of what is seen, and a light
reader on the whole picture (T1) and on every box (T3). A reading is scored against the caption, C = alpha S + beta L,
by meaning and by spelling. Where the best C reaches tau it is taken; only otherwise the heavy reader is run. Nothing is
trained to put the parts together.

Departures: small parts of our own, trained on drawn scenes of one word in small letters. S is no cosine of sentence
embeddings, but what the caption adds to the probability of the reading under a language model, S = sigmoid(kappa [log
p(reading | caption) - log p(reading)] / tokens). By word, the default, L takes the run of one to three words of the
caption that is most alike: as released it compares with all of it, and then no reading of a word reaches 0.8. The heavy
reader, a stub in the released code, is an autoregressive one with beams over many views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from engines.kit import (
    CausalLM,
    Choice,
    Decision,
    Float,
    Params,
    Recorder,
    Roles,
    Steps,
    WordReaderLM,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.multimodal._scene import SCENES, Answer, Reading, Scene, blocks, crop, picture, shown, write_answer
from engines.methods.multimodal._word import until_end
from engines.methods.multimodal.context_str.context import Gate, Scored, gate, meaning, score
from engines.methods.multimodal.scene_heavy import WINDOWS, Heavy, heavily

MATCHINGS = ("by word", "as released")
GIVEN, ALONE = "A picture of {caption}. The word on it is", "A picture of something. The word on it is"
WHOLE = (0, 0, 128, 256)


@method(
    "context-str",
    title="Context-STR: the scene decides who reads",
    paper="arXiv:2503.15639",
    code="https://github.com/Ritabrata04/icdar2025-context-driven-str",
    summary="A light reader reads a word in a scene; where its reading fits a caption of the scene well enough, the "
    "heavy reader is skipped. Not lossless: a wrong reading that fits passes too.",
    needs={"reader": "reader", "scene": "scene", "language": "causal"},
    params=[
        max_new_tokens(11, 11),
        Float("tau", 0.8, 0.0, 1.01, step=0.01, symbol="τ", neutral=1.01, source="official code"),
        Float("alpha", 0.6, 0.0, 1.0, step=0.05, symbol="α"),
        Choice("matching", "by word", MATCHINGS),
        Float("kappa", 1.0, 0.1, 4.0, step=0.1, symbol="κ"),
        *SCENES,
    ],
    signature="scene",
    emits={"commits", "choice", "intervals", "facts", "note"},
    records={"scene": Scene},
    baseline="scene-heavy",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Look, caption word by word, read, score; then the answer, or the heavy reader turn by turn."""
    start, ids, reader = run.prompt_length, prompt, models.reader
    pixels = picture(reader, prompt[:start], p, run)
    # 1, 2: mask and blocks
    seen = models.scene.look(pixels)
    boxes = blocks(seen.mask, p.mask)
    edit = yield run.step(
        records={"scene": lambda: shown(pixels, seen.mask, boxes)},
        intervals=run.calls(),
        note=f"Boxes with text: {len(boxes)}.",
    )
    ids = run.apply_edit(edit, ids)
    # 3: the caption T2, the likeliest word each time
    cache, words, caption = models.scene.new_cache(seen), [models.scene.start_id], ""
    while words[-1] not in models.scene.eos_ids and len(words) <= models.scene.longest:
        words.append(int(models.scene.extend(words[-1:], cache).logits[-1].argmax()))
        caption = models.scene.tokenizer.decode(words[1:])
        edit = yield run.step(records={"scene": Scene("caption", caption=caption)}, intervals=run.calls())
        ids = run.apply_edit(edit, ids)
    # 4: readings T1 of the picture and T3 of every box
    crops = torch.stack([crop(pixels, box) for box in (WHOLE, *boxes)])  # [n, 32, 128]
    read = readings(reader, crops, start)
    listed = [Reading(reading.source, reading.text, reading.sure) for reading in read]
    edit = yield run.step(records={"scene": Scene("read", readings=listed)}, intervals=run.calls())
    ids = run.apply_edit(edit, ids)
    # 5, 6: scores and the gate
    S = meanings(models.language, caption, [reading.text for reading in read], p.kappa)
    T1, *T3 = (
        score(reading.text, s, caption, p.alpha, 1 - p.alpha, p.matching == "by word")
        for reading, s in zip(read, S, strict=True)
    )
    decision = gate(T1, T3, p.tau)
    scene = record(read, (T1, *T3), decision, caption, p.tau)
    groups: dict[str, Any] = {
        "choice": Decision(["light", "heavy"], "light" if decision.bypass else "heavy", "C", decision.value, p.tau),
        "facts": {"C": decision.value, "tau": p.tau, "bypass": decision.bypass},
        "intervals": run.calls(),
        "records": {"scene": scene},
    }
    if decision.bypass:
        reading = read[0 if decision.source == "T1" else 1 + T3.index(decision.best)]
        groups["note"] = f"‘{reading.text}’ fits the caption; the heavy reader is skipped."
        yield from write_answer(
            reader, run, p, ids, Answer(reading.tokens, "place", reading.seen, reading.chances), groups
        )
    else:
        edit = yield run.step(note="No reading fits the caption; the heavy reader runs.", **groups)
        heavy = Heavy(pixels, [*boxes, *WINDOWS], len(boxes), start)
        yield from heavily(reader, run, p, run.apply_edit(edit, ids), heavy)


@dataclass(frozen=True)
class Read:
    """A light reading: its tokens with the end mark and their probabilities, and the crop that it was read from."""

    source: str
    text: str
    tokens: list[int]
    chances: list[float]
    seen: torch.Tensor

    @property
    def sure(self) -> float:
        """The probability of the text as a whole."""
        return prod(self.chances)


def readings(reader: WordReaderLM, crops: torch.Tensor, start: int) -> list[Read]:
    """The readings of the picture and of its boxes [n, 32, 128], in one pass of all."""
    reads = list[Read]()
    for i, glance in enumerate(reader.glances(reader.see(crops, start))):
        best = glance.logits.argmax(-1)
        tokens = until_end(best.tolist(), reader.eos_ids)
        chances = token_probability(glance.logits, best).tolist()[: len(tokens)]
        reads.append(Read(f"box {i}" if i else "picture", reader.tokenizer.decode(tokens), tokens, chances, crops[i]))
    return reads


def meanings(language: CausalLM, caption: str, texts: Sequence[str], kappa: float) -> list[float]:
    """S of every text: what the caption adds to its log-probability, in nats per token; 0 for an empty text."""
    some = sorted({text for text in texts if text})
    if not some:
        return [0.0] * len(texts)
    given, alone = (log_probabilities(language, context, some) for context in (GIVEN.format(caption=caption), ALONE))
    gains = {text: meaning((g - a) / n, kappa) for text, (g, n), (a, _) in zip(some, given, alone, strict=True)}
    return [gains.get(text, 0.0) for text in texts]


def log_probabilities(language: CausalLM, context: str, texts: Sequence[str]) -> list[tuple[float, int]]:
    """(log-probability behind what is said, tokens) of every text: all of them branch off it in one forward."""
    before = language.tokenizer.encode(context)
    branches = [language.tokenizer.encode(f" {text}") for text in texts]
    rows, parents = list(before), list(range(-1, len(before) - 1))
    for branch in branches:
        parents += [len(before) - 1, *range(len(rows), len(rows) + len(branch) - 1)]
        rows += branch
    logs = language.extend(rows, language.new_cache(len(rows)), parents=parents).logits.log_softmax(-1)  # [n, V]
    sums, at = list[tuple[float, int]](), len(before)
    for branch in branches:
        above = [len(before) - 1, *range(at, at + len(branch) - 1)]
        sums.append((float(logs[above, branch].sum()), len(branch)))
        at += len(branch)
    return sums


def record(read: Sequence[Read], scores: Sequence[Scored], decision: Gate, caption: str, tau: float) -> Scene:
    """The gate's stage for the record."""
    full = decision.source == "T1" if decision.bypass else decision.best is None or decision.full.C >= decision.best.C
    listed = [
        Reading(
            reading.source,
            reading.text,
            reading.sure,
            s.S,
            s.L,
            s.C,
            s.run,
            s is (decision.full if full else decision.best),
        )
        for reading, s in zip(read, scores, strict=True)
    ]
    answer, source = (decision.answer, decision.source) if decision.bypass else ("", "")
    return Scene(
        "score", caption=caption, readings=listed, tau=tau, bypass=decision.bypass, answer=answer, source=source
    )
