"""The decision of Context-STR (arXiv:2503.15639; scoring/context_score.py and pipeline/runner.py of the official code):
does a reading fit what is seen well enough to leave the heavy reader out?

C = alpha S + beta L: S, how well the meaning fits the caption, L, how well the spelling does. As released, L compares a
reading with the whole caption, so that a word of five letters reaches at most 0.05 against 200; by word, ours, with the
run of one to three words of it that is most alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

LONGEST_RUN = 3  # words of a caption that a reading is held against, by word


def lexical(a: str, b: str) -> float:
    """2 LCS / (|a| + |b|), the indel ratio of two texts: 1 for equal ones, 0 without a letter in common."""
    if not a and not b:
        return 1.0
    row = [0] * (len(b) + 1)  # longest common subsequences of a's beginning and every beginning of b
    for letter in a:
        before, row = row, [0]
        for j, other in enumerate(b):
            row.append(before[j] + 1 if letter == other else max(row[-1], before[j + 1]))
    return 2 * row[-1] / (len(a) + len(b))


def runs(caption: str) -> list[str]:
    """Every run of one to three words of a caption, in the order of its words."""
    words = caption.split()
    return [" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + LONGEST_RUN, len(words)) + 1)]


def spelling(reading: str, caption: str, by_word: bool) -> tuple[float, str]:
    """(L, what the reading was held against): by word the run that is most alike, the first of equals, both in small
    letters; else the whole caption as it stands."""
    if not by_word:
        return lexical(reading, caption), caption
    scored = [(lexical(reading.lower(), run.lower()), run) for run in runs(caption)]
    return max(scored, key=lambda pair: pair[0], default=(0.0, ""))


def meaning(gain: float, kappa: float) -> float:
    """S = sigmoid(kappa gain), gain the nats per token that the caption adds to the reading's log-probability."""
    return 1 / (1 + exp(-max(-60.0, min(60.0, kappa * gain))))


@dataclass(frozen=True)
class Scored:
    """A reading with its scores; run: what its spelling was held against."""

    text: str
    S: float
    L: float
    C: float
    run: str = ""


def score(text: str, S: float, caption: str, alpha: float, beta: float, by_word: bool = False) -> Scored:
    """C = alpha S + beta L."""
    L, run = spelling(text, caption, by_word)
    return Scored(text, S, L, alpha * S + beta * L, run)


@dataclass(frozen=True)
class Gate:
    """What is decided. full: the reading of the whole picture, T1; best: of the crops, T3, None where there is none.
    answer: the text that is taken where the heavy reader is left out, source "T1" or "T3"."""

    full: Scored
    best: Scored | None
    value: float
    bypass: bool
    answer: str
    source: str


def gate(full: Scored, crops: Sequence[Scored], tau: float) -> Gate:
    """Bypass where max(C1, C3) >= tau; then T3 if S3 > S1 and it is no empty text, else T1."""
    best = max(crops, key=lambda crop: crop.C, default=None)  # the first of equals
    value = full.C if best is None else max(full.C, best.C)
    third = best is not None and best.S > full.S and bool(best.text)
    answer = best.text if third and best is not None else full.text
    return Gate(full, best, value, value >= tau, answer, "T3" if third else "T1")
