"""AdaDec: towards better code generation, adaptive decoding with uncertainty guidance (He et al., arXiv:2506.08980;
github.com/SYSUSELab/AdaDec).

Most programs fail at a few unsure steps where the right token is among the best but not the first. Below a threshold of
the entropy the token is the greedy one. At or above it decoding pauses: each of the best B tokens is followed greedily
for L tokens, all of them in one forward a round, and the one whose short future is likeliest per token is written; the
futures are thrown away. The threshold is learned for each model from reference code
(`engines/studies/threshold_from_code.py`).

From the official code, the paper's text was not available: entropy in nats at temperature 1; the score with lambda = 1;
ties to the likelier token; the end of a function. Ours: a cache; a future that ends is frozen (`official` goes on
adding to its sum without counting the tokens, which punishes short futures); a token that ends the text has no future;
none goes beyond max_new_tokens; no outer beam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from engines.core.trace import Detail
from engines.kit import (
    Alternatives,
    Branch,
    CausalLM,
    Choice,
    Decision,
    Float,
    Int,
    Params,
    Path,
    Paths,
    Probability,
    Record,
    Recorder,
    Steps,
    Stops,
    TokenId,
    entropy,
    max_new_tokens,
    method,
    slider,
    top_ids,
    torch,
)

B_MOST, L_MOST = 8, 10


@dataclass
class Future:
    """A candidate and what the model would write behind it: log-probabilities in nats. ended: the round after which it
    was over, 0 if the candidate itself ends the text."""

    token: int
    logp: float
    path: Path | None = None
    lookahead: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    ended: int | None = None


class Pause(Record):
    """The entropy of a token, and where it reaches the threshold the futures that were tried for it."""

    KEPT_FROM: ClassVar[Detail] = "light"
    entropy: float
    threshold: float
    chosen: int  # of the futures, from 0
    futures: list[list[TokenId]]  # each a candidate with what was continued behind it
    p: list[Probability]  # of each candidate
    mean: list[Probability]  # of a future's tokens together, for each of them

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Whether decoding would pause with another threshold."""
        return {"threshold": Stops.over(slider(0, 6, 0.05, self.threshold), partial(unsure, self.entropy))}


@method(
    "adadec",
    title="AdaDec",
    paper="arXiv:2506.08980",
    summary="Greedy while the model is confident; where the entropy is high, the best few tokens are continued a "
    "little before one is written.",
    needs="causal",
    params=[
        max_new_tokens(),
        Float(
            "threshold",
            1.83,
            0.0,
            20.0,
            step=0.05,
            neutral=20.0,
            source="learned for SmolLM2 by the study threshold-from-code; 0.6 to 1.3 for the paper's models",
        ),
        Choice("pause", "above the threshold", ["above the threshold", "at every token"], source="paper"),
        Int("candidates", 3, 1, B_MOST, symbol="B", neutral=1, source="code"),
        Int("lookahead", 5, 0, L_MOST, symbol="L", neutral=0, source="code"),
        Choice("scoring", "clean", ["clean", "official"], source="clean is ours"),
        Choice("ends", "end mark", ["end mark", "function"], source="function in the code"),
    ],
    records={"pause": Pause},
    signature="pauses",
    emits={"commits", "scores", "candidates", "branches", "choice", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    code="https://github.com/SYSUSELab/AdaDec",
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Between the steps there is one path, the text."""
    start, end = len(prompt), len(prompt) + p.max_new_tokens
    paths = Paths(model, prompt, rows=p.max_new_tokens + B_MOST * (L_MOST + 1), rng=run.rng)
    main = paths.add()

    def over(path: Path) -> bool:
        """Whether the text of a path has come to its end."""
        text = paths.read(path)[start:]
        left = bool(text) and p.ends == "function" and left_function(model.tokenizer.decode(text))
        return left or (bool(text) and text[-1] in model.eos_ids)

    while main.length < end and not over(main):
        paths.feed()
        z = main.logits[None]  # [1, V]
        logp, H = z[0].double().log_softmax(-1), float(entropy(z.double()))
        paused = p.pause == "at every token" or unsure(H, p.threshold)
        futures = look_ahead(paths, main, logp, p, min(p.lookahead, end - main.length - 1), over) if paused else []
        scores = [score(future, futures, p.scoring) for future in futures]
        rank = scores.index(max(scores)) if paused else 0
        token, at = futures[rank].token if paused else int(z.argmax()), [main.length]
        paths.write(main, [token])
        edit = yield run.step(
            commits=(at, [token], "greedy" if not rank else "overruled", [float(logp[token].exp())]),
            scores=lambda: {"confidence": (at, logp[token : token + 1].exp()), "entropy": (at, [H])},
            thresholds={"entropy": p.threshold},
            candidates=lambda: (at, z),
            branches=[
                Branch(0, -1, [token], main.length - start, {"log p": round(float(logp[token]), 4)}),
                *(branch(future, futures, p, i == rank, main.length - start) for i, future in enumerate(futures)),
            ],
            choice=Decision(
                ["greedy", "lookahead"], "lookahead" if paused else "greedy", "entropy", H, p.threshold, unit="nats"
            ),
            records={"pause": lambda: pause(H, p.threshold, rank, futures, scores)},
            facts={
                "paused": paused,
                "overruled": rank > 0,
                "rank_chosen": rank + 1,
                "lookahead_forwards": max((len(future.lookahead) for future in futures), default=0),
            },
            note=describe(H, p.threshold, paused, rank, scores),
        )
        paths.apply_edit(run, edit, main)


def unsure(H: float, threshold: float) -> bool:
    """Whether decoding pauses at a token of this entropy."""
    return threshold <= H


def look_ahead(
    paths: Paths, main: Path, logp: torch.Tensor, p: Params, length: int, over: Callable[[Path], bool]
) -> list[Future]:
    """The futures of the best tokens, followed greedily for at most `length` tokens, until all have ended. logp [V]."""
    futures = list[Future]()
    for token in top_ids(logp[None], p.candidates)[0].tolist():
        if logp[token] > -torch.inf:
            path = paths.fork(main)
            paths.write(path, [token])
            frozen = p.scoring == "clean" and over(path)
            futures.append(Future(token, float(logp[token]), path, ended=0 if frozen else None))
    for round_ in range(1, length + 1):
        for future in futures:
            if future.ended is not None and p.scoring == "clean" and future.path and future.path.fate == "alive":
                paths.drop(future.path)
        if all(future.ended is not None for future in futures):
            break
        paths.feed()
        for future in futures:
            if future.path and future.path.fate == "alive":
                z = future.path.logits.double().log_softmax(-1)
                best = int(z.argmax())
                future.lookahead.append(float(z[best]))
                future.tokens.append(best)
                paths.write(future.path, [best])
                if future.ended is None and over(future.path):
                    future.ended = round_
    for future in futures:
        if future.path:
            paths.drop(future.path)
    return futures


def counted(future: Future, futures: Sequence[Future], scoring: str) -> tuple[float, int]:
    """(log-probabilities of the lookahead, its tokens). Clean stops both at the future's end; official adds what the
    rounds of the others wrote behind it, and does not count it."""
    rounds = max(len(other.lookahead) for other in futures)
    length = rounds if future.ended is None else future.ended
    return sum(future.lookahead[: rounds if scoring == "official" else length]), length


def score(future: Future, futures: Sequence[Future], scoring: str) -> float:
    """[log p(c) + log-probabilities of the lookahead] / (1 + its tokens)."""
    ahead, length = counted(future, futures, scoring)
    return (future.logp + ahead) / (length + 1)


def left_function(text: str) -> bool:
    """Whether a completion that began inside a function has left it: a line with text begins without a blank, or the
    last four lines are empty (official code)."""
    lines = text.split("\n")
    inside = all(line[0] in " \t" for line in lines if line.strip())
    return not inside or (len(lines) >= 4 and not any(line.strip() for line in lines[-4:]))


def branch(future: Future, futures: Sequence[Future], p: Params, won: bool, length: int) -> Branch:
    """A future as the record tells it, with what its score is made of; it is thrown away behind its first token, won or
    not. length: of the text with its candidate."""
    (ahead, tokens), value = counted(future, futures, p.scoring), score(future, futures, p.scoring)
    scores = {"score": value, "log p": future.logp, "ahead": ahead, "tokens ahead": float(tokens)}
    id, added = future.path.id if future.path else 0, [future.token, *future.tokens]
    rounded = {name: round(score, 4) for name, score in scores.items()}
    return Branch(id, 0, added, length + len(added) - 1, rounded, "chosen" if won else "pruned")


def pause(H: float, threshold: float, rank: int, futures: Sequence[Future], scores: Sequence[float]) -> Pause:
    """The record of a token."""
    texts = [[future.token, *future.tokens] for future in futures]
    p, mean = ([round(math.exp(log), 5) for log in logs] for logs in ([f.logp for f in futures], scores))
    return Pause(H, threshold, rank, texts, p, mean)


def describe(H: float, threshold: float, paused: bool, rank: int, scores: Sequence[float]) -> str:
    """The step in a sentence."""
    if not paused:
        return f"Entropy {H:.2f} nats is below the threshold of {threshold:.2f}: the greedy token."
    listed = ", ".join(f"{value:.2f}" for value in scores)
    return f"Paused at {H:.2f} nats. Scores per token {listed}: " + (
        "the greedy token stays." if rank == 0 else f"the token of rank {rank + 1} overrules the greedy one."
    )
