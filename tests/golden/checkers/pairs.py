"""Golden cases of the methods with a drafter beside the target: merged trees, adaptive draft lengths, two models at
work at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from engines.core.kinds import Extended
from engines.core.lazy import torch
from engines.core.sampling import accept_probability
from engines.core.trace import Interval, ModelRecord, Step
from engines.driver.run import run
from engines.methods.speculative import pearl as pearl_
from engines.methods.speculative import rasd as rasd_
from engines.methods.speculative._retrieval import fuse, trie
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.specdec_pp import StopRule
from engines.models.parts.accept_head import AcceptHead

from .cases import Given, Values, float64, kinds
from .speculative import context_of, key, row


def prune_and_fuse(given: Given) -> Values:
    draft, rows = Draft(-1), {(): 0}
    for path in map(tuple, given["draft_tree_paths"]):
        rows[path] = draft.add(rows[path[:-1]], path[-1])
    counts = trie(map(tuple, given["continuations"]))
    distributions = {context_of(path): row(q) for path, q in given["draft_q"].items()}
    pruned = rasd_.prune(
        [rasd_.Found(counts)], distributions, given["top_k"], given["budget"], set(rows) - {()}, room=len(counts)
    )
    fuse(draft, pruned.kept)
    return {
        "trie_counts": {key(node): count for node, count in counts.items()},
        "scores": {key(node): score for node, score in pruned.scores.items()},
        "kept": [list(node) for node in pruned.kept],
        "fused_tokens": [None, *draft.tokens[1:]],
        "fused_parents": draft.parents,
        "fused_source": draft.sources,
    }


kinds("rasd", prune_and_fuse=prune_and_fuse)


class Script:
    """A causal model that writes its line whatever the text says: line[i] at the i-th place behind a prompt of one
    token, 1 behind the line's end."""

    num_layers, vocab_size, max_positions, eos_ids = 1, 3, 4096, frozenset()

    def __init__(self, line: Sequence[int]) -> None:
        from engines.models.tokenizers.tokens import IdTokenizer

        self.line, self.tokenizer = line, IdTokenizer(self.vocab_size, {})
        self.record = ModelRecord(role="", name="script", kind="causal")

    def warm_up(self) -> float:
        return 0.0

    def new_cache(self, capacity: int) -> ScriptCache:
        return ScriptCache()

    def extend(self, tokens: Sequence[int], cache: ScriptCache, *, last_only: bool = False, **options: Any) -> Extended:
        places = range(cache.length, cache.length + len(tokens))
        cache.length += len(tokens)
        z = torch.zeros(len(tokens), self.vocab_size)
        for i, place in enumerate(places):
            z[i, self.line[place] if place < len(self.line) else 1] = 9.0
        return Extended(z[-1:] if last_only else z)


class ScriptCache:
    """A cache that only counts."""

    length = 0

    def crop(self, length: int) -> None:
        self.length = length

    def keep(self, base: int, rows: Sequence[int]) -> None:
        self.length = base + len(rows)


def written(steps: Sequence[Step]) -> list[int]:
    """How many tokens stand after each step."""
    counts = [0]
    for step in steps:
        counts.append(counts[-1] + (len(step.commits.tokens) if step.commits else 0))
    return counts[1:]


def greedy_timeline(given: Given) -> Values:
    """Both methods run for real on two scripts that agree where `match` says so; their steps, forwards and clock up to
    the official end."""
    gamma, end = given["gamma"], given["max_new"]
    models = {
        "target": Script([1] * len(given["match"])),
        "draft": Script([1 if same else 2 for same in given["match"]]),
    }
    params = {"gamma": gamma, "max_new_tokens": end + 2 * gamma + 2}
    ours = [step for step in run("pearl", models, [0], params=params).steps if step.choice]
    stop = next(
        i for i, (step, n) in enumerate(zip(ours, written(ours), strict=True), 1) if n + step.facts["pending"] >= end
    )
    plain = run("speculative-sampling", models, [0], params=params).steps
    last = next(i for i, n in enumerate(written(plain), 1) if n >= end)
    verified, costs = written(ours)[stop - 1], {"draft": given["t_draft"], "target": given["t_target"]}
    ours, plain = ours[:stop], plain[:last]
    return {
        "pearl_steps": [pearl_step(step, n) for step, n in zip(ours, [0, *written(ours)], strict=False)],
        "pearl_verified": verified,
        "pearl_unverified_tail": int(ours[-1].facts["pending"]),
        "pearl_target_forwards": sum(step.forwards["target"] for step in ours),
        "pearl_draft_forwards": sum(step.forwards["draft"] for step in ours),
        "pearl_time": two_device_clock(ours, costs),
        "sd_steps": [
            {
                "start": n,
                "accepted": int(step.facts["accepted"]),
                "emitted": len(step.commits.tokens) if step.commits else 0,
            }
            for step, n in zip(plain, [0, *written(plain)], strict=False)
        ],
        "sd_verified": written(plain)[-1],
        "sd_target_forwards": sum(step.forwards["target"] for step in plain),
        "sd_draft_forwards": sum(step.forwards["draft"] for step in plain),
        "sd_time": sum(n * costs[role] for step in plain for role, n in step.forwards.items()),
        "ar_time_for_pearl_len": verified * costs["target"],
    }


def pearl_step(step: Step, start: int) -> Values:
    """One iteration in the words of the golden file."""
    assert step.choice and step.commits and step.tree
    accepted, passed = int(step.facts["accepted"]), step.tree.emitted_source == "draft"
    return {
        "mode": step.choice.chosen,
        "start": start,
        "checked": accepted + (not passed),
        "accepted": accepted,
        "emitted": len(step.commits.tokens),
        "rejected_at": None if passed else start + accepted,
    }


def two_device_clock(steps: Sequence[Step], costs: Mapping[str, float]) -> float:
    """The clock of the method's scheduled lanes, with given seconds per forward instead of the measured ones."""
    now = 0.0
    for step in steps:
        calls = [Interval(role, 0.0, costs[role]) for role, n in step.forwards.items() for _ in range(n)]
        _, now = pearl_.on_two_devices(calls, now)
    return now


def shared_uniform_bias(given: Given) -> Values:
    """Chance of a second acceptance after a first one: with a uniform of its own, as here, and with the first one's, as
    released."""

    def chance(ratio: float) -> float:
        q = row(["2/5", "3/5"])
        p = torch.stack([ratio * q[0], 1 - ratio * q[0]])
        return accept_probability(p, q, 0)

    first, second = (chance(float(Fraction(given[name]))) for name in ("ratio_first", "ratio_second"))
    return {"second_given_first_fresh": second, "second_given_first_reused": min(first, second) / first}


kinds("pearl", greedy_timeline=greedy_timeline, shared_uniform_bias=shared_uniform_bias)


def stop(given: Given) -> Values:
    """A round with the head's outputs given."""
    rule, seen = StopRule(given["threshold"], *given["bound"]), []
    for drawn in itertools.count(1):
        if drawn > 1:
            rule.judge(given["accept_prob"][drawn - 2])
        seen.append(rule.p_reject)
        if rule.stop(drawn):
            return {"drafted": drawn, "p_reject": seen}
    raise AssertionError("a round ends at its upper bound")


def head_shared_block(given: Given) -> Values:
    """One block applied several times, as in the released head."""
    x, W, b, U, c = (float64(given[name]) for name in ("x", "W", "b", "W_out", "b_out"))
    head = AcceptHead("", "", (W,), (b,), U, c, given["layers"])
    return {"logits": head.logits(x).tolist(), "p_accept": float(head(x))}


def weighted_loss(given: Given) -> Values:
    """Labels of all tokens, the loss over those that are used."""
    from engines.training.heads import accept_head as training

    logits, p, q = (float64(given[name]) for name in ("logits", "logp_target", "logp_draft"))
    y, use = training.labels(p, q), torch.tensor(given["use"])
    return {"labels": y.tolist(), "loss": float(training.loss_of(logits[use], y[use], given["weight_reject"]))}


kinds("specdecpp", stop=stop, head_shared_block=head_shared_block, loss=weighted_loss)
