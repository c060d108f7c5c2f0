"""What pictures of drafting work out from a record is what the engine means by it; what a slider decides again is what
the engine's own rule decides."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

import engines
from engines.core.trace import SCHEMA_VERSION, Step
from engines.methods.heads.del_.exit_choice import choose
from engines.methods.speculative.rapid import listed
from engines.methods.speculative.rapid.opinions import Opinions
from engines.methods.speculative.rapid.transfer import Transfer
from engines.methods.speculative.reflective_verification.look import fuse, won
from engines.methods.speculative.specdec_pp import StopRule
from tests.engines.methods.speculative.test_fastdraft import ends_of
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
        return js("rounds.js", "M.copies(modules['store.js'].Run.from(trace), t)", trace=trace, t=len(steps))

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


def test_lines_end_a_unit_or_decide_until_the_first_refusal(js: Call) -> None:
    for line, count in ((0.5, 2), (0.7, 1), (0.0, 4), (1.0, 1)):
        assert js("views/units.js", "M.taken(sure, line)", sure=[0.9, 0.6, 0.3, 0.8], line=line) == count
    assert js("views/units.js", "M.taken([], 0.5)") == 0
    for line, said in (
        (0.5, ["both", "standard", "judge", "none", "behind"]),  # the line itself is not above the line
        (1.0, ["standard", "standard", "none", "behind", "behind"]),
        (0.0, ["both", "both", "judge", "judge", "both"]),
    ):
        assert js("views/judged.js", "M.decide(rows, line)", rows=ROWS, line=line) == said
    for accepted, told in (([True] * 3, (2, 0)), ([True, True, False], (1, 2)), ([True, False, False], (0, 1))):
        found = js("views/unrolled.js", "M.broke(tree)", tree={"tokens": [1, 2, 3], "accepted": accepted})
        assert found == {"kept": told[0], "at": told[1]}


ROWS = [{"value": v, "standard": s} for v, s in ((0.9, True), (0.2, True), (0.7, False), (0.5, False), (0.9, True))]


def test_first_guesses_are_counted_as_the_trace_has_them(js: Call) -> None:
    for name, module, call in (
        ("Fused", "views/guessable.js", "M.firstGuesses(steps)"),
        ("SharedState", "views/lentstate.js", "M.rightSoFar(steps)"),
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


FATE = {"both": "accepted", "view": "accepted", "lost": "mismatch", "refused": "mismatch", "behind": "unreached"}


def told(js: Call, step: Step, **rule: float) -> list[str]:
    """What the player says of each drafted token of a step."""
    given = msgspec.to_builtins(step) | step.records
    return js("leaning.js", "M.decide(M.opinionsOf(step), {...step.opinions.rule, ...rule})", step=given, rule=rule)


@pytest.mark.parametrize("eta", [0.0, 3.0, 10.0, 50.0])
def test_the_moved_distribution_is_the_engines(js: Call, eta: float) -> None:
    rng = torch.Generator().manual_seed(int(eta))
    for _ in range(4):
        z, y = (2 * torch.randn(40, generator=rng, dtype=torch.float64) for _ in range(2))
        q, alpha = y.softmax(-1), 0.3
        one = Transfer.of(z, q, eta, alpha)
        tokens = listed(one, int(q.argmax()))
        assert {t for t in range(40) if one.mask[t]} <= {*tokens}  # all that moves is recorded here
        p = z.softmax(-1)
        found = js(
            "leaning.js", "M.transfer(p, q, eta, alpha)", p=p[tokens].tolist(), q=q[tokens].tolist(), eta=eta, alpha=0.3
        )
        assert found["moved"] == pytest.approx(one.p_hat[tokens].tolist(), abs=1e-9)
        assert found["rest"] == pytest.approx(1 - float(one.p_hat[tokens].sum()), abs=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_recorded_strength_gives_the_recorded_fates(js: Call, temperature: float) -> None:
    for step in MAIN["Passages"].decode(temperature=temperature, eta=4.0).steps:
        assert step.tree and (opinions := step.record("opinions", Opinions)) and not any(opinions.unlisted)
        assert opinions.rule == {"eta": 4.0, "alpha": 0.1, "temperature": temperature}
        assert [FATE[fate] for fate in told(js, step)] == step.tree.why[1:]
        rows = js("leaning.js", "M.opinionsOf(step)", step=msgspec.to_builtins(step) | step.records)
        assert [row["token"] for row in rows] == step.tree.tokens[1:]
        assert [row["u"] for row in rows] == step.tree.uniforms[1:]


def test_another_strength_says_what_the_engine_does_with_it(js: Call) -> None:
    """The first step: the same drafts are tested there, whatever eta is. Where no number was drawn nothing is said."""
    recorded = decoded("Passages").steps[0]
    for eta in (0.0, 2.0, 40.0):
        other = MAIN["Passages"].decode(eta=eta).steps[0]
        assert other.tree.tokens == recorded.tree.tokens
        assert [FATE[fate] for fate in told(js, recorded, eta=eta)] == other.tree.why[1:]
    for u, said in ((0.6, ["refused", "behind"]), (0.1, ["both", "unknown"])):
        rows = [{"p": [0.1], "q": [0.5], "u": u}, {"p": [0.5], "q": [0.5], "u": None}]
        rule = {"eta": 0, "alpha": 0.1, "temperature": 1}
        assert js("leaning.js", "M.decide(rows, rule)", rows=rows, rule=rule) == said


@pytest.mark.parametrize("lag", [0, 1])
def test_the_staircase_stops_where_the_rule_does(js: Call, lag: int) -> None:
    rng = random.Random(7)
    for _ in range(30):
        chances = [rng.random() ** 0.3 for _ in range(12)]
        h, least = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0]), rng.randint(1, 4)
        rule, drawn = StopRule(h, least, 12), 0
        for row in range(12):  # draft_round: with a trained head a token is judged when the next one is drawn
            if lag and row:
                rule.judge(chances[row - 1])
            drawn = row + 1
            if not lag:
                rule.judge(chances[row])
            if rule.stop(drawn):
                break
        whole = StopRule(h, least, 12)
        for chance in chances[: 12 - lag]:
            whole.judge(chance)
        arguments = {"survival": whole.survival, "h": h, "least": least, "lag": lag, "drawn": 12}
        assert js("views/staircase.js", "M.stopped(survival, h, least, lag, drawn)", **arguments) == drawn


def test_the_weights_with_which_a_draft_wins_are_exact(js: Call) -> None:
    torch.manual_seed(3)
    for number in range(40):
        z0, zr = torch.randn(5, 9) * 2, torch.randn(5, 9) * 2
        drafted = [int(z.argmax()) for z in fuse(z0, zr, 0.3)] if number % 2 else torch.randint(9, (5,)).tolist()
        wins = [won(a, b, x) for a, b, x in zip(z0, zr, drafted, strict=True)]
        for alpha in (0.0, 0.17, 0.3, 0.55, 0.83, 1.0):
            stand = [int(z.argmax()) == x for z, x in zip(fuse(z0, zr, alpha), drafted, strict=True)]
            plain = [int(z.argmax()) == x for z, x in zip(z0, drafted, strict=True)]
            end = stand.index(False) if False in stand else 5
            said = ["both" if p else "rescued" for p in plain[:end]]
            said += [] if end == 5 else ["lost" if plain[end] else "refused", *["behind"] * (4 - end)]
            assert js("views/reflected.js", "M.decide(wins, alpha)", wins=wins, alpha=alpha) == said


def test_what_the_map_of_exits_promises_is_what_the_engine_compares(js: Call) -> None:
    rng = random.Random(5)
    for _ in range(40):
        alpha = [None if rng.random() < 0.2 else rng.random() for _ in range(4)]
        told = {"exits": [1, 2, 4, 5], "layers": 6, "alpha": alpha, "costs": [rng.random(), rng.random()], "most": 10}
        best = choose(alpha, told["exits"], 6, 10, 0, *told["costs"])
        promised = js("views/exitmap.js", "M.promised(told)", told=told)
        assert [row is not None and row[0] is None for row in promised] == [one is None for one in alpha]
        known = [value for row in promised for value in row if value is not None]
        if known:
            assert max(known) == pytest.approx(best.tpl)
            assert promised[told["exits"].index(best.exit_layer)][best.d] == pytest.approx(best.tpl)


def test_the_rounds_of_a_checkpoint_are_those_of_its_own_run(js: Call) -> None:
    """Here against a second definition; the engine's own runs are held against that in the tests of the method."""
    rng = random.Random(11)
    for _ in range(60):
        hits, gamma = [rng.random() < 0.7 for _ in range(rng.randint(1, 24))], rng.randint(0, 5)
        room = len(hits) + rng.choice([0, 0, 3])
        told = js("views/schooling.js", "M.roundsOf(hits, gamma, room)", hits=hits, gamma=gamma, room=room)
        assert [one["from"] + one["kept"] + one["own"] for one in told] == ends_of(hits, gamma, room)
        assert [one["from"] for one in told] == [0, *ends_of(hits, gamma, room)][:-1]
        for one in told:
            assert all(hits[one["from"] : one["from"] + one["kept"]]) and one["kept"] <= gamma
            assert one["full"] or not one["own"] or not hits[one["from"] + one["kept"]]


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


@pytest.mark.parametrize(
    "params", [{}, {"temperature": 1.0, "reward": "released"}, {"paths": 32, "iterations": 10}], ids=str
)
def test_a_search_is_decided_again_as_the_engine_did(js: Call, params: dict[str, Any]) -> None:
    """Each iteration goes to the child of the root that leads by the rule, the drafts are those of the tree, and so is
    what became of them."""
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    trace = engines.run("aded", "tiny-ar-l", prompt, params={"corpus": "store", "max_new_tokens": 32, **params})
    searched = [step for step in trace.steps if step.records["table_search"]["ends"] and len(step.tree.tokens) > 1]
    assert len(searched) > 3
    for step in searched:
        search, tree = step.records["table_search"], step.tree
        n, drawn = len(search["ends"]), tree.emitted_source == "target"
        goes = "Array.from({length: n - 1}, (_, i) => M.trail(search, search.ends[i + 1])[0])"
        leads = """Array.from({length: n - 1}, (_, i) => {
          const all = M.compared(search, i + 2),
            sum = ({value, exploration}) => value === null ? 1e9 : value + exploration;
          return all.reduce((best, one) => sum(one) > sum(best) + 1e-4 ? one : best).node; })"""
        assert js("views/searched.js", goes, search=search, n=n) == js("views/searched.js", leads, search=search, n=n)
        paths = {tuple(_path(tree, row)): tree.why[row] for row in range(1, len(tree.tokens))}
        fates = "[...M.fates(M.drafts(search, n), emitted, search.room, drawn)]"
        again = dict(js("views/searched.js", fates, search=search, n=n, emitted=tree.emitted, drawn=drawn))
        states = {"accepted": "accepted", "mismatch": "rejected", "unreached": "unreached"}
        own = {key: again.pop(key) for key in list(again) if again[key] in ("correction", "bonus")}
        assert again == {",".join(map(str, path)): states[why] for path, why in paths.items()}
        assert len(own) == (sum(tree.accepted) - 1 < len(tree.emitted))
        code = "M.came(M.drafts(search, n), emitted, search.room)"
        came = js("views/searched.js", code, search=search, n=n, emitted=tree.emitted)
        assert came == {"rows": len(tree.tokens) - 1, "kept": sum(tree.accepted) - 1}


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
