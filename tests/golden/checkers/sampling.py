"""Golden cases of samplers and of rules that choose: which tokens a rule lets through, which model writes, who is voted
for, who finishes first, what is searched next."""

from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, checks, differ
from engines.core.truncated import ranked
from engines.methods.reasoning._votes import Ballot, Voter
from engines.methods.reasoning.ffs import Trace, chosen, cutoff, first, votes
from engines.methods.routing.ead import next_model
from engines.methods.sampling.adadec import Future, score
from engines.methods.sampling.mgd.names import Trie, begun, rests
from engines.methods.sampling.top_h import entropy_along, spend
from engines.methods.search.a_star_decoding.frontier import COSTS, Frontier, State
from engines.studies.threshold_from_code import learn

from .cases import Given, Values, float64

VARIANTS = {"paper": "paper", "official_code": "official", "transformers": "hf"}  # in the file -> here


@checks("top_h")
def top_h(case: Case, data: Given, folder: Path) -> str | None:
    """The three rules on given logits; where the cut falls among equal probabilities, their number and not the ids."""
    z = float64(data["distributions"][case["dist"]])
    P, order = ranked(z, case["temperature"])
    got: dict[str, Any] = {}
    for name, variant in VARIANTS.items():
        spent = spend(P, case["alpha"], variant, data["top_n"])
        kept, expected = order[: spent.kept].tolist(), case[name]["kept"]
        if case["ties_at_cut"][name] and len(kept) == len(expected):
            kept = expected
        used = float(spent.counted[spent.kept - 1])
        got[name] = {"kept": kept, "threshold": spent.line, "mass": float(P[: spent.kept].sum())}
        got[name] |= {"H_p": float(entropy_along(P)[-1]), "H_q": used, "partial_entropy": used}
    if "ecmm_optimum" in case and got["paper"]["mass"] > case["ecmm_optimum"]["mass"] + 1e-9:
        return f"the greedy mass {got['paper']['mass']} is above the best possible {case['ecmm_optimum']['mass']}"
    return differ("", got, {name: case[name] for name in VARIANTS}, 1e-6)


@checks("adadec", sections=("threshold_learning", "rerank"))
def adadec(case: Case, data: Given, folder: Path) -> str | None:
    """The threshold learned from given entropies, or the choice among given futures."""
    if case["section"] == "threshold_learning":
        parts = [case[part][name] for part in ("balanced_train", "test") for name in ("entropy", "rank1")]
        learned = learn(*parts)
        names = {"entropy_threshold": "threshold"}
        got, want = {name: getattr(learned, names.get(name, name)) for name in case["expected"]}, dict(case["expected"])
        for name in ("coef", "intercept"):  # recorded where an iterative fit stopped, its gradient still 0.02: 1e-3 of
            got[name], want[name] = got[name] / want[name], 1.0  # their size; ours has a gradient of 1e-14
        return differ("", got, want, 1e-3)
    for scoring in ("official", "clean"):
        ends = case["finish_step"]
        rounds = case["L"] if None in ends else min(case["L"], max(ends))
        futures = [
            Future(i, logp, lookahead=lookahead[:rounds], ended=end)
            for i, (logp, lookahead, end) in enumerate(
                zip(case["candidate_logprob"], case["lookahead_logprob"], ends, strict=True)
            )
        ]
        scores = [score(one, futures, scoring) for one in futures]
        lengths = [rounds if end is None else end for end in ends]
        got = {"scores": scores, "lengths": lengths, "chosen": scores.index(max(scores)), "steps_run": rounds}
        if fault := differ(scoring, got, case[scoring], 1e-6):
            return fault
    return None


@checks("ead")
def ead(case: Case, data: Given, folder: Path) -> str | None:
    """The switching rule on given entropies."""
    names = {"S": "small", "L": "large"}
    active, c, read, writers, rolling, switches = names[case["start"]], 0, [], [], [], []
    for t in range(len(case["H_small"])):
        H = case["H_small" if active == "small" else "H_large"][t]
        writers.append(active)
        read.append(H)
        c += 1
        window = read[-case["window"] :]
        mean = sum(window) / len(window)
        rolling.append(mean)
        before, (active, c) = active, next_model(active, mean, c, case["tau"], case["d_min"])
        if active != before and t + 1 < len(case["H_small"]):
            switches.append([t + 1, before[0].upper(), active[0].upper()])
    got = {
        "model": [w[0].upper() for w in writers],
        "rolling": rolling,
        "switches": switches,
        "large_fraction": writers.count("large") / len(writers),
    }
    return differ("", got, case["expected"], 1e-6)


def states(case: Case) -> list[dict[str, Any]]:
    """The state before each generated token, and behind the last. The names are those of the first dot; at any later
    one the analyser has none."""
    trie, text = Trie(dict(enumerate(case["vocab"]))), case["prompt"]
    names, found = {case["prompt"]: case["legal_completions"]}, []
    for token in [*case["generated"], None]:
        before, written = begun(text) or ("", "")
        allowed = trie.allowed(rests(names.get(before, ()), written).values())
        found.append({"constrained": bool(allowed), "allowed": allowed or None})
        text += "" if token is None else case["vocab"][token]
    return [*found, {"text": text}]


@checks("mgd")
def mgd(case: Case, data: Given, folder: Path) -> str | None:
    return differ("steps", states(case), [*case["steps"], {"text": case["text"]}])


@checks("rpc")
def rpc(case: Case, data: Given, folder: Path) -> str | None:
    """Who is pruned, and the winners and confidences of the four rules. Of the fit only its likelihood: optimisers
    differ."""
    given = zip(case["completions"], case["answers"], case["mean_logprob"], strict=True)
    ballot = Ballot([Voter(i, text, answer, mean) for i, (text, answer, mean) in enumerate(given)])
    got: dict[str, Any] = {"rpc": {"removed": ballot.removed, "mean_prob": ballot.mean}}
    for name, rule in RULES.items():
        scores = dict(zip(ballot.answers, ballot.scores(rule), strict=True))
        best, total = max(scores.values()), sum(scores.values())
        got.setdefault(name, {})["winners"] = sorted(a for a, s in scores.items() if abs(s - best) <= 1e-12 * best)
        got[name] |= {"score": scores, "confidence": {a: s / total for a, s in scores.items()}}
    want = {name: {key: case[name][key] for key in got[name] if key in case[name]} for name in got}
    for expected in want.values():
        expected["winners"] = sorted(expected["winners"])
    fitted, expected = ballot.mixture, case["rpc"]["fit"]
    if (fitted is None) != (expected is None):
        return f"the fit is {fitted}, expected {expected}"
    if fitted and expected and (fault := differ("fit.nll", fitted.nll, expected["nll"], 1e-2)):
        return fault
    return differ("", got, want, 1e-6)


RULES = {
    "rpc": "RPC",
    "perplexity_consistency": "perplexity consistency",
    "self_consistency": "self-consistency",
    "perplexity": "perplexity",
}


@checks("ffs")
def ffs(case: Case, data: Given, folder: Path) -> str | None:
    """Winner, waiting and writing of FFS, and cutoff, votes, answer and writing of FFS-k for every k."""
    traces = [Trace(length, answer) for length, answer in case["traces"]]
    longest, number = case["max_len"], first(traces)
    waited = longest if number is None else traces[number].length
    got = {
        "winner": number,
        "answer": None if number is None else traces[number].answer,
        "sequential": waited,
        "total_sync": waited * len(traces) if number is not None else sum(one.length for one in traces),
        "total_if_all_run": sum(one.length for one in traces),
    }
    by_k = []
    for k in range(1, len(traces) + 1):
        line, found = cutoff(traces, k), votes(traces, k)
        total = sum(one.length for one in traces if one.length <= line)
        by_k.append({"k": k, "cutoff": line, "votes": dict(found), "answer": chosen(found), "total": total})
    return differ("", {"ffs": got, "ffs_k": by_k}, {name: case[name] for name in ("ffs", "ffs_k")}, 0)


@checks("a_star")
def a_star(case: Case, data: Given, folder: Path) -> str | None:
    """Order of the pops with g, h and f, calls of the reward model, result and path of every cost rule."""
    for rule in COSTS:
        if fault := differ(rule, searched(case, rule), case["expected"][rule], 1e-9):
            return fault
    return None


def searched(case: Case, rule: str) -> Values:
    nodes, frontier, expansions = case["nodes"], Frontier(rule), 0
    root = frontier.push(nodes[case["root"]]["r"], item=case["root"])
    pops, seen, result = list[list[Any]](), {root.item: root}, None
    while len(frontier):
        state = frontier.pop()
        pops.append([state.item, state.g, state.h, state.f])
        if state.terminal:
            result = state
            break
        if expansions == case["budget"]:
            pops.pop()
            waiting = [state, *frontier.states()]
            result = next((one for one in waiting if one.terminal), state)
            break
        expansions += 1
        below = sorted((id for id, node in nodes.items() if node["parent"] == state.item), key=int)
        for id in below[: case["k"]]:
            seen[id] = frontier.push(nodes[id]["r"], state, nodes[id]["terminal"], id)
    return {
        "pops": pops,
        "expansions": expansions,
        "prm_calls": frontier.pushed,
        "result": None if result is None else result.item,
        "path": way(result),
        "g": {id: state.g for id, state in seen.items()},
        "h": {id: state.h for id, state in seen.items()},
    }


def way(state: State | None) -> list[object]:
    """The items from the root to a state."""
    found = list[object]()
    while state is not None:
        found.append(state.item)
        state = state.parent
    return found[::-1]
