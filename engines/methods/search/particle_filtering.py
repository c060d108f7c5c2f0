"""Particle filtering over partial solutions (Puri et al., arXiv:2502.01618; as in the released code,
Red-Hat-AI-Innovation-Team/its_hub): a search that draws where to go on instead of choosing it.

n particles write one step each; a reward model says r of every state, its weight is w = log(r / (1 - r)), and the next
n particles are drawn from the present ones with probability softmax(w / tau). A good state goes on several times, a bad
one may still go on. Particles that have ended take part in every drawing. The best weight of the end is the answer.

Ours: all particles write in the same forwards; one that is drawn goes on as it is, further copies of it are forks with
randomness of their own; r is held 1e-6 away from 0 and 1; a particle that is cut at max_new_tokens is not drawn again.

Letters: n particles, r, w, tau as above, T the temperature of the policy."""

from __future__ import annotations

import math
from collections import Counter

from engines.kit import (
    Choice,
    Float,
    Int,
    Params,
    Path,
    Recorder,
    Roles,
    Steps,
    max_new_tokens,
    method,
    torch,
)
from engines.methods.search._policy import DELIMITER, SEARCH, TEMPERATURE, Policy

NEAREST = 1e-6  # of r to 0 and 1, which an exact judge says


@method(
    "particle-filtering",
    title="Particle filtering",
    paper="arXiv:2502.01618",
    summary="Writes n partial solutions step by step and draws after each step, by a reward model, which ones "
    "continue.",
    params=[
        max_new_tokens(96),
        Int("n", 4, 1, 16, source="ours"),
        TEMPERATURE,
        Float("tau", 1.0, 0.05, 10.0, step=0.05, source="1 in the released code"),
        Choice("reward", "model", ["model", "exact"], source="ours"),
        DELIMITER,
    ],
    signature="paths",
    code="https://github.com/Red-Hat-AI-Innovation-Team/its_hub",
    **SEARCH,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A step of every particle and a drawing per round. The board shows the particle with the best weight."""
    policy = Policy(models, prompt, p, run, rows=p.n * (p.max_new_tokens + 1))
    paths = policy.paths
    particles = [paths.add() for _ in range(p.n)]
    while writing := paths.living:
        policy.steps(writing)
        for path, r in zip(writing, policy.rate(writing), strict=True):
            path.scores = {"reward": r, "weight": weight(r)}
            policy.finish(path)
        chance, before = chances(particles, p.tau), {*particles}
        if paths.living:
            particles = drawn(policy, particles, chance, run)
        best = policy.leader(particles, "weight")
        if not paths.living:  # all have ended, or only ended ones were drawn
            paths.drop(best, "chosen")
        edit = yield run.step(
            commits=paths.commits(run.board, best),
            scores=lambda: {"reward": ([best.length - 1], [best.scores["reward"]])},
            branches=paths.branches(),
            facts={
                "prm_calls": policy.calls,
                "tokens_of_all_paths": policy.written,
                "paths_living": len(paths.living),
                "effective_particles": float(1 / chance.square().sum()),
            },
            note=describe(
                policy, best, particles, kept=len(before - {path for path in before if path.fate == "pruned"})
            ),
        )
        policy.edited(edit, run, best)


def weight(r: float) -> float:
    """w = log(r / (1 - r))."""
    r = min(max(r, NEAREST), 1 - NEAREST)
    return math.log(r / (1 - r))


def chances(particles: list[Path], tau: float) -> torch.Tensor:
    """softmax(w / tau) over the particles [n], 0 for those that were cut; even where all were."""
    w = torch.tensor([-math.inf if path.fate == "pruned" else path.scores["weight"] / tau for path in particles])
    return w.double().softmax(0) if w.isfinite().any() else torch.full((len(w),), 1 / len(w), dtype=torch.double)


def drawn(policy: Policy, particles: list[Path], chance: torch.Tensor, run: Recorder) -> list[Path]:
    """The next n particles. One that has ended is not copied: it stands in the list as often as it was drawn."""
    n = policy.p.n
    if n == 1:  # nothing to draw: plain sampling
        return particles
    drawn_paths = list[Path]()
    counts = Counter(torch.multinomial(chance, n, replacement=True, generator=run.rng).tolist())
    times = Counter[int]()
    for i, count in counts.items():
        times[particles[i].id] += count
    for path in dict.fromkeys(particles):
        if not (count := times[path.id]):
            policy.paths.drop(path)
        elif policy.over(path):
            drawn_paths += [path] * count
        else:
            drawn_paths += [path, *(policy.paths.fork(path) for _ in range(count - 1))]
    return drawn_paths


def describe(policy: Policy, best: Path, particles: list[Path], kept: int) -> str:
    """The round in a sentence or two. kept: how many of the particles before the drawing go on."""
    w = best.scores["weight"]
    if policy.paths.living:
        ended = sum(policy.over(path) for path in particles)
        return (
            f"Resampled: {kept} of the old particles continue as {len(particles)}, {ended} of them finished. Path "
            f"{best.id} is best (w {w:.2f})."
        )
    if policy.cut(best):
        return f"No particle finished; path {best.id} has the best weight ({w:.2f})."
    return f"All remaining particles are finished. Path {best.id} has the best weight ({w:.2f}): it is the solution."
