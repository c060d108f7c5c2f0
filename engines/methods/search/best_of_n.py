"""Best of n by a reward model (Cobbe et al., arXiv:2110.14168; over all steps as in Lightman et al., 2305.20050): write
n whole solutions side by side, score each of their steps, and take the one that the reward model likes best.

The control of every search over steps with the same reward model: no solution is left before its end, so the price is
n solutions and a call for each of their steps.

Ours: a round writes one step of every solution, so that the clock is that of the searches; a solution that is cut at
max_new_tokens does not take part unless all are; the lower number wins a tie.

Letters: n solutions, r in [0, 1] the reward of a state, T the temperature of the policy."""

from math import prod

from engines.kit import Choice, Int, Params, Path, Recorder, Roles, Steps, many, max_new_tokens, method
from engines.methods.search._policy import DELIMITER, SEARCH, TEMPERATURE, Policy

RULES = {"last": lambda r: r[-1], "minimum": min, "product": prod}
"""How the rewards of a solution's steps make one score."""


@method(
    "best-of-n",
    title="Best of n",
    paper="arXiv:2110.14168",
    summary="Writes n whole solutions and takes the one that a reward model likes best.",
    params=[
        max_new_tokens(96),
        Int("n", 4, 1, 16, source="ours"),
        TEMPERATURE,
        Choice("score", "last", list(RULES), source="last: the reward model here judges all steps so far"),
        Choice("reward", "model", ["model", "exact"], source="ours"),
        DELIMITER,
    ],
    signature="paths",
    **SEARCH,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step of every solution per round. The board shows the one with the best score so far."""
    policy = Policy(models, prompt, p, run, rows=p.n * (p.max_new_tokens + 1))
    paths, rewards = policy.paths, dict[int, list[tuple[int, float]]]()
    for _ in range(p.n):
        paths.add()
    while writing := paths.living:
        policy.steps(writing)
        for path, r in zip(writing, policy.rate(writing), strict=True):
            rewards.setdefault(path.id, []).append((path.length - 1, r))
            path.scores = {"reward": r, "score": RULES[p.score]([r for _, r in rewards[path.id]])}
            policy.finish(path)
        best = policy.leader(paths.paths, "score")
        if not paths.living:
            paths.drop(best, "chosen")
        edit = yield run.step(
            commits=paths.commits(run.board, best),
            scores=lambda: {"reward": marks(rewards[best.id])},
            branches=paths.branches(),
            facts={"prm_calls": policy.calls, "tokens_of_all_paths": policy.written, "paths_living": len(paths.living)},
            note=describe(policy, best, len(writing)),
        )
        policy.edited(edit, run, best)
        cut_back(rewards, paths.living)


def marks(rewards: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Board positions of the ends of steps, and r there."""
    return [position for position, _ in rewards], [r for _, r in rewards]


def cut_back(rewards: dict[int, list[tuple[int, float]]], paths: list[Path]) -> None:
    """Forget what was scored behind the place to which an edit has cut a path."""
    for path in paths:
        rewards[path.id] = [scored for scored in rewards.get(path.id, []) if scored[0] < path.length]


def describe(policy: Policy, best: Path, extensions: int) -> str:
    """The round in a sentence or two."""
    score = best.scores["score"]
    if policy.paths.living:
        ended = sum(path.fate == "finished" for path in policy.paths.paths)
        extended = f"{many(extensions, 'solution')} extended by a step; {ended} finished"
        return f"{extended}. Path {best.id} is best (score {score:.2f})."
    if policy.cut(best):
        return f"No solution finished; path {best.id} has the best score ({score:.2f})."
    return f"All are finished. Path {best.id} has the best score ({score:.2f}): it is the solution."
