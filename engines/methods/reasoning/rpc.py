"""RPC: perplexity consistency with reasoning pruning (Zhou et al., arXiv:2502.00511 and, as published, 2510.15444;
github.com/WNJXYK/RPC).

Sample n reasoning paths. Counting their answers ignores how sure the model was, and the single most probable path
ignores agreement. Perplexity consistency adds up the model's own probability P over the distinct paths to an answer;
reasoning pruning first drops the improbable mode of the paths, which a mixture of two Weibull distributions finds.

    P_i = exp(mean over the tokens of path i of log p(token));   score(a) = sum of P_i over kept, distinct paths to a

The theory means the probability of the whole path, the sum in place of the mean: `weight` chooses.

From the official code, the papers' text was not available: P is normalised by length (the abstracts speak of the
path's probability), the start and bounds of the fit, both conditions of pruning. All four rules judge the same samples;
`rule` chooses the one whose answer is written. Ours: the sampling loop itself (the code scores stored samples), the
end mark counts as a token, a path without an end or an answer takes no part, a token that a person forces has no say
in P.

Letters: n paths, V vocabulary."""

from collections.abc import Mapping

from engines.kit import (
    CausalLM,
    Choice,
    Float,
    Int,
    Params,
    Path,
    Paths,
    Recorder,
    Steps,
    distribution,
    draw,
    entropy,
    many,
    max_new_tokens,
    method,
)
from engines.methods.reasoning._votes import RULES, Ballot, Vote, Voter, answer_of

MOST = 128


@method(
    "rpc",
    title="RPC",
    paper="arXiv:2502.00511",
    summary="Samples several reasoning paths, drops the improbable ones, and adds up the model's own probability over "
    "those that reach the same answer.",
    needs="causal",
    params=[
        max_new_tokens(64),
        Int("n", 16, 1, MOST, source="128 in the code"),
        Float("temperature", 1.0, 0.0, 2.0, step=0.05, symbol="T", neutral=0.0, source="ours"),
        Choice("rule", RULES[0], RULES, source="paper; self-consistency and perplexity are its controls"),
        Choice(
            "weight", "per token", ["per token", "whole path"], source="per token in the code; whole path in the theory"
        ),
        Choice("answer", "auto", ["auto", "marked", "last number", "last line"], source="ours"),
    ],
    signature="vote",
    emits={"commits", "scores", "candidates", "branches", "facts", "note"},
    records={"vote": Vote},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
    code="https://github.com/WNJXYK/RPC",
    paths={},
)
def decode(model: CausalLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token of every living path per step; the last step holds the vote. The board shows the first path, then the
    likeliest one to the answer that won."""
    start, end = len(prompt), len(prompt) + p.max_new_tokens
    paths, logp = Paths(model, prompt, rows=p.n * (p.max_new_tokens + 1), rng=run.rng), dict[object, float]()
    first, ballot, whole = paths.add(), None, p.weight == "whole path" and p.temperature == 1
    for _ in range(p.n - 1):
        paths.add()
    while living := paths.living:
        paths.feed()
        shown, z = first, first.logits[None] if first in living else None  # [1, V]
        for path in living:
            log_p = path.logits.double().log_softmax(-1)  # [V]
            token = draw(distribution(path.logits, p.temperature), path.rng)
            if paths.write(path, [token]) == [token]:
                logp[path.tip] = float(log_p[token])
            if path.tip.token in model.eos_ids or path.length >= end:
                paths.drop(path, "finished")
        if not paths.living:
            ballot = Ballot([voter(paths, path, start, logp, model, p) for path in paths.paths])
            tally = ballot.tally(p.rule)
            best = [i for i, share in enumerate(tally.shares) if share and ballot.of[i] == tally.winner]
            shown = paths.paths[max(best, key=lambda i: ballot.P[i], default=0)]
            paths.drop(shown, "chosen")
        at, token = [first.length - 1], first.tip.token
        ended = sum(path.tip.token in model.eos_ids for path in paths.paths)
        edit = yield run.step(
            commits=paths.commits(run.board, shown),
            scores=(
                lambda: {"confidence": (at, z.double().softmax(-1)[:, token]), "entropy": (at, entropy(z.double()))}
            )
            if z is not None
            else None,
            candidates=(lambda: (at, z)) if z is not None else None,
            branches=paths.branches(),
            records={"vote": lambda: ballot.record(p.rule, run.full, whole)} if ballot else {},
            facts={"paths_living": len(paths.living), "paths_ended": ended, **(counted(ballot) if ballot else {})},
            note=describe(ballot, p.rule)
            if ballot
            else f"{many(len(living), 'path')} extended by one token in one forward.",
        )
        ballot = None
        paths.apply_edit(run, edit, shown)


def voter(paths: Paths, path: Path, start: int, logp: Mapping[object, float], model: CausalLM, p: Params) -> Voter:
    """A path that is over: l is the mean (or the sum) over the tokens that it drew, its end mark among them. It has an
    answer only if it came to its end."""
    values, node = list[float](), path.tip
    while node is not None:
        values += [logp[node]] if node in logp else []
        node = node.parent
    ids = paths.read(path)[start:]
    ended = bool(ids) and ids[-1] in model.eos_ids
    text = model.tokenizer.decode(ids[:-1] if ended else ids)
    return Voter(
        path.id,
        text,
        answer_of(text, p.answer) if ended else "",
        sum(values) / (max(1, len(values)) if p.weight == "per token" else 1),
    )


def counted(ballot: Ballot) -> dict[str, float]:
    """Numbers of the vote."""
    return {
        "answers": len(ballot.answers),
        "without_answer": ballot.of.count(-1),
        "pruned": sum(ballot.removed),
        "copies": sum(copy >= 0 for copy in ballot.copies),
        "mean_weight": ballot.mean,
    }


def describe(ballot: Ballot, rule: str) -> str:
    """The vote in a sentence or two."""
    if not ballot.answers:
        return "No path finished with an answer, so there is no vote; the first path is written."
    won = [(rule_name, ballot.tally(rule_name)) for rule_name in (rule, *(other for other in RULES if other != rule))]
    elected = ", ".join(f"{rule_name} {ballot.answers[t.winner]} ({t.confidence:.2f})" for rule_name, t in won)
    voters = len(ballot.of) - ballot.of.count(-1)
    return f"{voters} of {len(ballot.of)} paths have an answer, {sum(ballot.removed)} pruned. {elected}."
