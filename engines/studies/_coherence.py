"""How likely the model itself finds, at temperature 1, what samplers wrote at other ones: the coherence proxy of the
Top-H paper (figure 3), on a fixed list of prompts with a given seed.

All samplers and temperatures of one prompt are paths of one cache, each with the run's seed, so that they differ by
their rule alone. It says nothing about how creative a text is: there is no judge here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as File
from statistics import mean

from engines.core.statistics import mean_interval
from engines.kit import (
    CausalLM,
    Path,
    Paths,
    Progress,
    draw,
    kept_by_mass,
    kept_by_rank,
    kept_by_ratio,
    ranked,
    torch,
)
from engines.methods.sampling.top_h import spend

PROMPTS = File(__file__).resolve().parents[2] / "assets" / "tasks" / "beginnings.json"
Rule = Callable[["torch.Tensor"], int]  # probabilities [n], falling -> how many are kept
SAMPLERS: dict[str, Rule] = {
    "plain": len,
    "top-k 50": lambda P: kept_by_rank(P, 50),
    "top-p 0.9": lambda P: kept_by_mass(P, 0.9),
    "min-p 0.1": lambda P: kept_by_ratio(P, 0.1),
    "top-H paper": lambda P: spend(P, 0.4, "paper").kept,
    "top-H official": lambda P: spend(P, 0.4, "official").kept,
    "top-H hf": lambda P: spend(P, 0.4, "hf").kept,
}
TEMPERATURES = (0.7, 1.2, 1.6, 2.0, 2.5)
Lane = tuple[str, float]  # sampler, temperature


@dataclass
class Written:
    """What one lane wrote to one prompt: token ids, their log-probabilities at temperature 1 in nats, how many tokens
    its rule let through at each, and the probability of those together at the lane's temperature."""

    ids: list[int]
    nats: list[float]
    kept: list[int]
    mass: list[float]


def prompts(n: int) -> list[str]:
    """The first n of the list."""
    return json.loads(PROMPTS.read_text("utf-8"))["prompts"][:n]


def write(model: CausalLM, text: list[int], tokens: int, seed: int, lanes: list[Lane]) -> dict[Lane, Written]:
    """Up to `tokens` tokens by each lane, until its end mark."""
    paths = Paths(model, text, rows=len(lanes) * tokens, rng=torch.Generator().manual_seed(seed))
    found = {lane: Written([], [], [], []) for lane in lanes}
    of = {paths.add().id: lane for lane in lanes}
    for path in paths.living:
        path.rng = torch.Generator().manual_seed(seed)
    for _ in range(tokens):
        if not paths.living:
            break
        paths.feed()
        for path in paths.living:
            token = _next(path, of[path.id], found[of[path.id]])
            paths.write(path, [token])
            if token in model.eos_ids:
                paths.drop(path, "finished")
    return found


def _next(path: Path, lane: Lane, written: Written) -> int:
    sampler, T = lane
    P, order = ranked(path.logits, T)  # [n], [n]
    kept = SAMPLERS[sampler](P)
    token = int(order[draw(P[:kept], path.rng)])
    written.ids.append(token)
    written.nats.append(float(path.logits.double().log_softmax(-1)[token]))
    written.kept.append(kept)
    written.mass.append(float(P[:kept].sum()))
    return token


@dataclass(frozen=True)
class Coherence:
    """One lane over all prompts. nats: mean log-probability per token, mean over the prompts, with low and high of its
    95 % interval; kept: median of the tokens let through; mass: mean of their probability; tokens: written in all."""

    lane: Lane
    nats: float
    low: float
    high: float
    kept: int
    mass: float
    tokens: int


def measure(model: CausalLM, n: int, tokens: int, seed: int, progress: Progress) -> list[Coherence]:
    """Every sampler at every temperature on the first n prompts."""
    lanes = [(name, T) for name in SAMPLERS for T in TEMPERATURES]
    texts, rows = prompts(n), dict[Lane, list[Written]]()
    for done, prompt in enumerate(texts):
        progress(done, len(texts))
        for lane, one in write(model, model.tokenizer.encode_prompt(prompt), tokens, seed, lanes).items():
            rows.setdefault(lane, []).append(one)
    found = list[Coherence]()
    for lane, written in rows.items():
        means = [mean(one.nats) for one in written]
        kept = sorted(n for one in written for n in one.kept)
        mass = mean(x for one in written for x in one.mass)
        found.append(Coherence(lane, *mean_interval(means), kept[len(kept) // 2], mass, len(kept)))
    return found
