"""What pictures of drafting work out from a record is what the engine means by it; what a slider decides again is what
the engine's own rule decides."""

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.core.trace import SCHEMA_VERSION
from tests.player.pictures import MAIN, decoded, plain

Call = Callable[..., Any]


def step(at: int, tokens: list[int], causes: list[str], *spans: tuple[int, int]) -> dict[str, Any]:
    positions = list(range(at, at + len(tokens)))
    found = [{"kind": "match", "start": start, "end": end} for start, end in spans]
    return {"commits": {"positions": positions, "tokens": tokens, "causes": causes}, "spans": found}


def test_a_ribbon_is_as_wide_as_what_was_kept_of_the_place_that_was_taken(js: Call) -> None:
    def copies(*steps: dict[str, Any]) -> Any:
        none = {"forwards": {}, "tokens_fed": 0, "model_seconds": 0, "method_seconds": 0}
        trace = {"header": {"schema": SCHEMA_VERSION, "prompt_ids": [3, 4, 5, 6, 7]}}
        trace["steps"] = [{"index": i, **none, **step} for i, step in enumerate(steps)]
        return js(
            "rounds.js", "M.copies(dxModules.use('player/store.js').Run.from(trace), t)", trace=trace, t=len(steps)
        )

    made = copies(step(5, [3, 4, 9], ["accepted", "accepted", "bonus"], (0, 5)), step(8, [6], ["bonus"]))
    assert [{k: one[k] for k in ("from", "pasted", "to", "kept", "wrote")} for one in made] == [
        {"from": 0, "pasted": 5, "to": 5, "kept": 2, "wrote": 3},
        {"from": -1, "pasted": 0, "to": 8, "kept": 0, "wrote": 1},
    ]
    assert made[0]["held"] is False
    (one,) = copies(step(5, [7, 3], ["accepted", "bonus"], (1, 3), (4, 5)))
    assert (one["from"], one["kept"]) == (4, 1)
    back = step(5, [-1, 8], ["withdrawn", "forced"])
    back["commits"]["positions"] = [5, 5]
    made = copies(step(5, [3, 4], ["accepted", "bonus"], (0, 5)), back, step(6, [6], ["bonus"]))
    assert not any(one["kept"] for one in made), "what was withdrawn is no copy any more"


def test_the_first_refusal_of_a_chain_is_found(js: Call) -> None:
    for accepted, told in (([True] * 3, (2, 0)), ([True, True, False], (1, 2)), ([True, False, False], (0, 1))):
        found = js("views/unrolled.js", "M.broke(tree)", tree={"tokens": [1, 2, 3], "accepted": accepted})
        assert found == {"kept": told[0], "at": told[1]}


def test_first_guesses_are_counted_as_the_trace_has_them(js: Call) -> None:
    for name, module, call in (
        ("Fused", "views/fused.js", "M.firstGuesses(steps)"),
        ("SharedState", "views/sharedstate.js", "M.rightSoFar(steps)"),
    ):
        steps, wanted = [], []
        for step in decoded(name).steps:
            tree, record = step.tree, name.lower()
            told = {key: getattr(tree, key) for key in ("parents", "tokens", "accepted", "emitted")}
            steps.append({record: step.records.get(record), "tree": told})
            row = 0
            for i, token in enumerate(tree.emitted if step.index else []):
                children = [child for child, parent in enumerate(tree.parents) if parent == row]
                if not children:
                    break
                best = max(children, key=lambda child: (tree.values or [0.0] * 99)[child] or 0.0)
                wanted += [[0, 0]] * (len(wanted) == i)
                right = tree.tokens[best] == token
                wanted[i] = [wanted[i][0] + right, wanted[i][1] + 1]
                row = next((child for child in children if tree.accepted[child]), best if name == "SharedState" else -1)
        assert js(module, call, steps=steps) == wanted
        assert sum(right for right, _ in wanted) > 5 and js(module, call, steps=[{}]) == []


def test_a_path_goes_over_what_was_accepted_else_over_the_best_ranked(js: Call) -> None:
    tree = {"parents": [-1, 0, 0, 0, 1, 2, 2, 6], "accepted": [True, False, True, False, False, False, True, False]}
    none = tree | {"accepted": [True] + [False] * 7}
    for given, rows, first, path in (
        (tree, [0, 1, 2, 6], None, [0, 2, 6]),
        (tree, [0, 1, 2, 6], 1, [0, 1]),
        (tree, [0], 1, [0]),
        (none, [0, 1, 2, 6], None, [0, 1]),
    ):
        assert js("rounds.js", "M.pathOf(tree, rows, first)", tree=given, rows=rows, first=first) == path
    for n, must, shown in ((10, [], [0, 1, 2]), (10, [7], [0, 1, 7]), (10, [9, 1, 9], [0, 1, 9]), (2, [1], [0, 1])):
        assert js("views/belts.js", "M.shownRanks(n, must)", n=n, must=must) == shown
    for count in (1, 2, 9, 11, 81):  # of many layers some are read, with both ends
        floors = js("views/transferred.js", "M.floors(count)", count=count)
        assert floors[0] == 0 and floors[-1] == count - 1
        assert floors == sorted(set(floors)) and len(floors) == min(count, 9)


@pytest.mark.parametrize("params", [{}, {"pre_verify": False}, {"post_verify": False}, {"execution": "threads"}])
def test_blocks_of_both_models_at_once_end_as_the_run_says(js: Call, params: dict[str, Any]) -> None:
    """Accepted tokens of all blocks are those of the text that were drafted, and a discarded block has none."""
    trace = engines.run("pearl", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 24, **params})
    steps = plain(trace)
    made = [step["records"]["at_once"] for step in steps]
    accepted = 0
    for step, now, after in zip(trace.steps, made, [*made[1:], None], strict=True):
        fate = js("views/atonce.js", "M.fates(made, next)", made=now, next=after)
        assert len(fate) == len(now["block"]) == step.facts["drafted"]
        accepted += fate.count("accepted")
        if step.facts["discarded"]:
            assert not {"accepted", "drafted"} & set(fate)
    stands = sum(cause == "accepted" for step in trace.steps if step.commits for cause in step.commits.causes)
    assert accepted == sum(step.facts["accepted"] for step in trace.steps) == stands
    if params.get("execution") != "threads":
        laid = [js("views/atonce.js", "M.lasted(step)", step=step) for step in steps]
        ends = [call["end"] for step in steps for call in step["intervals"] if call.get("measured") is False]
        assert sum(one["long"] for one in laid) == pytest.approx(1e3 * max(ends))
        assert all(one["work"] >= one["long"] - 1e-9 for one in laid)


def test_the_shares_of_layers_count_what_a_call_could_check(js: Call) -> None:
    told = [
        step for step in MAIN["Transferred"].decode(max_new_tokens=64).steps if step.records["transfer"].get("tokens")
    ]
    steps = [{"transfer": step.records["transfer"], "tree": {"emitted": step.tree.emitted}} for step in told]
    for row in range(5):
        right = checked = 0
        for step in told:
            for guess, token in zip(step.records["transfer"]["tokens"][row], step.tree.emitted, strict=False):
                right, checked = right + (guess == token), checked + 1
        assert js("views/transferred.js", "M.tally(steps, row)", steps=steps, row=row) == [right, checked]


def test_bands_hold_what_their_samples_wrote(js: Call) -> None:
    """Also where a person wrote in between: those places are empty."""
    for slug in ("stand", "stand-side-by-side"):
        params = {"temperature": 1.0, "trajectories": 3, "max_new_tokens": 24}
        trace = engines.run(slug, "tiny-ar-l", "story: Mia, boat", params=params)
        steps = [{"suffixes": step.records["suffixes"]} for step in trace.steps]
        texts: dict[int, list[int]] = {}
        for step in trace.steps:
            for branch in step.branches:
                texts[branch.id] = [*texts.get(branch.id, [])[: branch.length - len(branch.tokens)], *branch.tokens]
        bands = js("views/samplebands.js", "M.bands(steps, steps.length)", steps=steps)
        assert [[cell["token"] for cell in band["cells"]] for band in bands] == [texts[i] for i in sorted(texts)]
        for sample, band in enumerate(bands):
            assert band["calls"] == sum(one["sample"] == sample for s in steps for one in s["suffixes"]["samples"])
    gap = [{"sample": 0, "length": n, "drafted": 0, "tokens": [7], "suffix": [0], "keys": []} for n in (1, 4)]
    (band,) = js("views/samplebands.js", "M.bands(steps, 2)", steps=[{"suffixes": {"samples": [one]}} for one in gap])
    assert [cell and cell["token"] for cell in band["cells"]] == [7, None, None, 7]


def _path(tree: Any, row: int) -> list[int]:
    return [*_path(tree, tree.parents[row]), tree.tokens[row]] if row > 0 else []


def test_the_words_of_each_class_that_a_draft_says_first(js: Call) -> None:
    steps = [{**step.records, "tree": {"emitted": step.tree.emitted}} for step in decoded("Entering").steps]
    for draft in range(4):
        wanted = {kind: [0, 0] for kind in ("attribute", "place", "function")}
        for step in steps:
            firsts = step["inputs"]["first"][draft]
            for kind, token, first in zip(step["vision"]["kinds"], step["tree"]["emitted"], firsts, strict=True):
                wanted[kind][0] += token == first
                wanted[kind][1] += 1
        assert js("firstguesses.js", "M.shares(steps, draft)", steps=steps, draft=draft) == wanted
    bare = [{}, {"inputs": {"first": [[7]]}}, {"inputs": {"first": [[7]]}, "vision": {"kinds": ["place", "place"]}}]
    assert js("firstguesses.js", "M.shares(steps, 0)", steps=bare)["place"] == [0, 1]
