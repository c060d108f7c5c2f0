"""What sampling adds to the error of a vote, and what the model adds (arXiv:2510.15444): the error of a confidence p^
in the right answer y splits into

    E[(p^ - 1)^2] = E[(p^ - p)^2] + 2 (p - 1) E[p^ - p] + (p - 1)^2

with p = p(y), the model's own probability of y: the estimation error, a cross term (0 where p^ is unbiased), and the
model error, which no number of samples makes smaller. Self-consistency estimates p by a share, perplexity consistency
by the sum of the probabilities of the distinct paths it has seen; both expectations are exact sums over the paths.

The papers' text was not available: the split and the laws below follow from the definitions in the abstracts."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engines.core.errors import UserError
from engines.core.kinds.causal import CausalLM
from engines.core.params import Choice, Int, Params, Text
from engines.core.statistics import mean_interval
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import ModelRecord
from engines.methods.reasoning._votes import RULES, Ballot, Vote, Voter, same

SIZES = (1, 2, 4, 8, 16, 32)
COUNTING = "self-consistency"  # what the other rules are held against
CHUNK = 64  # paths of one round
SUBSETS = 40  # of a problem's samples, for each size


@dataclass(frozen=True)
class Pool:
    """All samples of one problem. voters: with l as the mean over tokens; whole: log p of the whole path, each [m]."""

    prompt: str
    right: str
    voters: list[Voter]
    whole: list[float]

    def paths(self) -> list[float]:
        """Probabilities of the distinct paths to the right answer that were seen."""
        right = {voter.text for voter in self.voters if voter.answer and same(voter.answer) == same(self.right)}
        return [p for text, p in self.distinct().items() if text in right]

    def distinct(self) -> dict[str, float]:
        """Every path that was seen with its probability; the sum is the part that the samples cover."""
        return {voter.text: math.exp(log_p) for voter, log_p in zip(self.voters, self.whole, strict=True)}


@study(
    "rpc-errors",
    "What sampling adds to the error of a vote, and what the model adds",
    "arXiv:2510.15444",
    summary="Accuracy of four rules as the number of sampled paths grows, and the error of their confidence taken "
    "apart into estimation and model error.",
    inputs=[
        Text("model", "tiny-ar-s", help="A causal model that was trained on the task."),
        Choice(
            "task",
            "subtract",
            ["subtract", "add", "problem", "chain"],
            help="The task whose held-out problems are asked; chains are for the tiny reasoners.",
        ),
        Int("problems", 24, 2, 200, help="Held-out problems, in the order of their generator."),
        Int("samples", 192, 32, 4096, help="Paths sampled for each problem; the sizes are drawn from them."),
        Int("seed", 0, 0, 10_000, help="Problems and samples."),
    ],
    departures="p(y) is the sum over the paths that were seen, a lower bound; the covered part is told. Intervals are "
    "those of the mean over problems.",
    runs_models=True,
)
def rpc_errors(p: Params, progress: Progress) -> Study:
    """Sample, vote in subsets, take the errors apart."""
    from engines.models.loading.zoo import load_model
    from engines.tasks import CHAINS, TASKS

    model = load_model(p.model)
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; paths are sampled from a causal one: give that.")
    task = {CHAINS.slug: CHAINS, **TASKS}[p.task]
    asked, pools = task.generate("held-out", p.seed), list[Pool]()
    for done in range(p.problems):
        progress(done, p.problems)
        example = next(asked)
        prompt = example.prompt.removeprefix(f"{CHAINS.slug}: ")  # a chain is asked without its first word
        pools.append(sample(model, prompt, example.answer.split()[-1], p.samples, p.seed))
    return study_of(pools, random.Random(p.seed), model.record)


def sample(model: CausalLM, prompt: str, right: str, samples: int, seed: int) -> Pool:
    """Plain samples at temperature 1 through the method's own run, CHUNK at a time."""
    from engines import run
    from engines.methods.reasoning.rpc import decode

    voters, whole = list[Voter](), list[float]()
    for chunk in range(math.ceil(samples / CHUNK)):
        params = {"n": min(CHUNK, samples - len(voters)), "max_new_tokens": 64, "weight": "whole path"}
        trace = run(decode.info.slug, model, prompt, params=params, seed=seed + 7919 * chunk, detail="light")
        vote, texts = trace.steps[-1].record("vote", Vote), dict[int, tuple[int, ...]]()
        assert vote is not None
        for step in trace.steps:
            for branch in step.branches:
                texts[branch.id] = texts.get(branch.id, ()) + tuple(branch.tokens)
        for id, of, P in zip(vote.voters, vote.of, vote.weights, strict=True):
            answer, log_p = vote.answers[of] if of >= 0 else "", math.log(max(P, 1e-300))
            voters.append(Voter(len(voters), repr(texts[id]), answer, log_p / len(texts[id])))
            whole.append(log_p)
    return Pool(prompt, right, voters, whole)


def accuracy(pool: Pool, n: int, rng: random.Random) -> dict[str, float]:
    """The share of SUBSETS of n samples in which each rule is right."""
    right = dict.fromkeys(RULES, 0)
    for _ in range(SUBSETS):
        ballot = Ballot(rng.sample(pool.voters, n))
        for rule in RULES:
            won = ballot.tally(rule).winner
            right[rule] += won >= 0 and same(ballot.answers[won]) == same(pool.right)
    return {rule: count / SUBSETS for rule, count in right.items()}


def counting_error(p: float, n: int) -> float:
    """E[(p^ - p)^2] of a share of n samples: p (1 - p) / n."""
    return p * (1 - p) / n


def summing_error(paths: Sequence[float], n: int) -> float:
    """E[(p^ - p)^2] where p^ sums the distinct paths seen in n samples: sum over pairs s, t of p_s p_t P(neither was
    seen), which falls like a power of n's exponential."""
    p = np.array(paths)
    neither = np.maximum(0.0, 1 - p[:, None] - p[None, :])
    neither[np.diag_indices(len(p))] = 1 - p
    return float((p[:, None] * p[None, :] * neither**n).sum())


def differences(accuracies: Mapping[int, Sequence[Mapping[str, float]]]) -> list[list[str | float | int | bool | None]]:
    """By the number of paths, how much more each rule has right than counting on the same problems, and the 95 %
    interval of that over the problems (Student's t)."""
    return [
        [n, rule, *mean_interval([shares[rule] - shares[COUNTING] for shares in per])]
        for n, per in accuracies.items()
        for rule in RULES
        if rule != COUNTING
    ]


def study_of(pools: Sequence[Pool], rng: random.Random, record: ModelRecord) -> Study:
    """Both figures and their table."""
    accuracies = {n: [accuracy(pool, n, rng) for pool in pools] for n in SIZES}
    curves = {rule: [mean_interval([shares[rule] for shares in accuracies[n]]) for n in SIZES] for rule in RULES}
    paths = [pool.paths() for pool in pools]
    p = [sum(chances) for chances in paths]
    counting = [mean_interval([counting_error(chance, n) for chance in p])[0] for n in SIZES]
    summing = [mean_interval([summing_error(chances, n) if chances else 0.0 for chances in paths])[0] for n in SIZES]
    model_error, *_ = mean_interval([(1 - chance) ** 2 for chance in p])
    x = [float(n) for n in SIZES]
    rows: list[list[str | float | int | bool | None]] = [
        [n, *(curves[rule][i][0] for rule in RULES), counting[i], summing[i], model_error] for i, n in enumerate(SIZES)
    ]
    columns = [
        Column("paths", "", "given"),
        *(Column(f"right, {rule}", "", "measured", 3) for rule in RULES),
        Column("estimation error, counting", "", "derived", 5),
        Column("estimation error, summing", "", "derived", 5),
        Column("model error", "", "measured", 5),
    ]
    apart = [
        Column("paths", "", "given"),
        Column("rule", "", "given"),
        Column("more right than self-consistency", "", "measured", 3),
        Column("from", "", "derived", 3),
        Column("to", "", "derived", 3),
    ]
    right = []
    for rule, curve in curves.items():
        shares, low, high = zip(*((share, max(0.0, a), min(1.0, b)) for share, a, b in curve), strict=True)
        right.append(Series(rule, x, [*shares], "measured", low=[*low], high=[*high]))
    errors = [
        Series("estimation, self-consistency: p(1-p)/n", x, [*counting], "derived"),
        Series("estimation, sum over distinct paths", x, [*summing], "derived"),
        Series("model error (p-1)^2", x, [model_error] * len(x), "measured"),
    ]
    covered = float(np.mean([sum(pool.distinct().values()) for pool in pools]))
    given: dict[str, float | str] = {"problems": float(len(pools)), "samples": float(len(pools[0].voters))}
    paired, across = "The same problems by two rules, with the 95 % interval over them", Axis("paths", log=True)
    return Study(
        tables=[
            Table("rules", "Four rules and two errors by the number of paths", columns, rows),
            Table("apart", paired, apart, differences(accuracies)),
        ],
        figures=[
            Figure("accuracy", "Right answers by rule", across, Axis("share right"), right),
            Figure("errors", "Error of the confidence", across, Axis("squared error"), errors),
        ],
        receipts=[Receipt("covered", "mean over problems of the sum of p over distinct paths seen", given, covered)],
        notes=[
            "p(y) is a lower bound: paths that were never sampled are missing from it; see covered.",
            f"Rules are told apart where the interval of their difference leaves out 0: {len(pools)} problems are few.",
        ],
        models=[record],
    )
