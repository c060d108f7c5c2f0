"""What pictures of drafting work out from a record is what the engine means by it; what a slider decides again is what
the engine's own rule decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch

import engines
from engines.core.trace import Step
from engines.methods.heads.del_.exit_choice import choose
from engines.methods.speculative.rapid import listed
from engines.methods.speculative.rapid.opinions import Opinions
from engines.methods.speculative.rapid.transfer import Transfer
from engines.methods.speculative.reflective_verification.look import fuse, won
from engines.methods.speculative.specdec_pp import StopRule
from tests.engines.methods.speculative.test_fastdraft import ends_of
from tests.player.pictures import MAIN, decoded, plain

Call = Callable[..., Any]


# copying


SOURCE = [3, 4, 5, 6, 7]


def copies(js: Call, steps: list[dict[str, Any]], t: int) -> Any:
    """What the view makes of steps behind a prompt of five tokens."""
    run = {"prompt": SOURCE, "steps": [{"index": i, **step} for i, step in enumerate(steps)]}
    return js("rounds.js", "M.copies(run, t)", run=run, t=t)


def step(at: int, tokens: list[int], causes: list[str], *spans: tuple[int, int]) -> dict[str, Any]:
    positions = list(range(at, at + len(tokens)))
    found = [{"kind": "match", "start": start, "end": end} for start, end in spans]
    return {"commits": {"positions": positions, "tokens": tokens, "causes": causes}, "spans": found}


def test_a_ribbon_is_as_wide_as_what_was_kept(js: Call) -> None:
    made = copies(js, [step(5, [3, 4, 9], ["accepted", "accepted", "bonus"], (0, 5)), step(8, [6], ["bonus"])], 2)
    assert [{k: one[k] for k in ("from", "pasted", "to", "kept", "wrote")} for one in made] == [
        {"from": 0, "pasted": 5, "to": 5, "kept": 2, "wrote": 3},
        {"from": -1, "pasted": 0, "to": 8, "kept": 0, "wrote": 1},
    ]
    assert made[0]["held"] is False


def test_of_several_places_the_one_that_was_taken_is_shown(js: Call) -> None:
    made = copies(js, [step(5, [7, 3], ["accepted", "bonus"], (1, 3), (4, 5))], 1)
    assert (made[0]["from"], made[0]["kept"]) == (4, 1)


def test_what_was_withdrawn_is_no_copy_any_more(js: Call) -> None:
    back = step(5, [-1, 8], ["withdrawn", "forced"])
    back["commits"]["positions"] = [5, 5]
    made = copies(js, [step(5, [3, 4], ["accepted", "bonus"], (0, 5)), back, step(6, [6], ["bonus"])], 3)
    assert [(one["step"], one["kept"]) for one in made if one["kept"]] == []


# units


@pytest.mark.parametrize(
    ("line", "count"),
    [(0.5, 2), (0.7, 1), (0.0, 4), (1.0, 1), (0.1, 4), (0.71, 1)],
)
def test_a_line_ends_the_unit_before_the_first_below_it(js: Call, line: float, count: int) -> None:
    assert js("views/units.js", "M.taken(sure, line)", sure=[0.9, 0.6, 0.3, 0.8], line=line) == count
    assert js("views/units.js", "M.taken([], line)", line=line) == 0


# judged


ROWS = [
    {"value": 0.9, "standard": True},
    {"value": 0.2, "standard": True},
    {"value": 0.7, "standard": False},
    {"value": 0.5, "standard": False},
    {"value": 0.9, "standard": True},
]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (0.5, ["both", "standard", "judge", "none", "behind"]),  # the line itself is not above the line
        (0.4, ["both", "standard", "judge", "judge", "both"]),
        (1.0, ["standard", "standard", "none", "behind", "behind"]),
        (0.0, ["both", "both", "judge", "judge", "both"]),
    ],
)
def test_a_line_decides_until_the_first_refusal(js: Call, line: float, said: list[str]) -> None:
    assert js("views/judged.js", "M.decide(rows, line)", rows=ROWS, line=line) == said


def test_a_tree_whose_rows_were_not_all_judged_has_no_verdict(js: Call) -> None:
    tree = {"tokens": [7, 1, 2], "values": [None, 0.3, 0.8], "chances": [None, 1.0, 0.4], "uniforms": [None, None, 0.6]}
    rows = js("views/judged.js", "M.judged(tree)", tree=tree)
    assert [(row["token"], row["value"], row["standard"]) for row in rows] == [(1, 0.3, True), (2, 0.8, False)]
    for broken in ({"values": []}, {"chances": [None, 1.0, None]}, {"tokens": []}):
        assert js("views/judged.js", "M.judged(tree)", tree=tree | broken) == []
    assert js("views/judged.js", "M.judged(undefined)") == []


# fused


def test_first_guesses_are_counted_as_the_trace_has_them(js: Call) -> None:
    trace = decoded("Fused")
    steps = [
        {
            "fused": step.records.get("fused"),
            "tree": {key: getattr(step.tree, key) for key in ("parents", "tokens", "accepted", "emitted")},
        }
        for step in trace.steps
    ]
    wanted: list[list[int]] = []
    for step in trace.steps[1:]:
        row = 0
        for i, token in enumerate(step.tree.emitted):
            children = [child for child, parent in enumerate(step.tree.parents) if parent == row]
            if not children:
                break
            if len(wanted) == i:
                wanted.append([0, 0])
            best = max(children, key=lambda child: step.tree.values[child] or 0.0)
            wanted[i][0] += step.tree.tokens[best] == token
            wanted[i][1] += 1
            row = next((child for child in children if step.tree.accepted[child]), -1)
    assert js("views/guessable.js", "M.firstGuesses(steps)", steps=steps) == wanted
    assert sum(right for right, _ in wanted) > 5 and js("views/guessable.js", "M.firstGuesses([{}])") == []


# sharedstate


def test_guesses_are_counted_as_the_trace_has_them(js: Call) -> None:
    trace = decoded("SharedState")
    steps = [
        {"sharedstate": step.records.get("sharedstate"), "tree": {"emitted": step.tree.emitted}} for step in trace.steps
    ]
    wanted: list[list[int]] = []
    for step in trace.steps[1:]:
        drafted = step.tree.tokens[1:]
        for i, (guess, token) in enumerate(zip(drafted, step.tree.emitted, strict=False)):
            if len(wanted) == i:
                wanted.append([0, 0])
            wanted[i][0] += guess == token
            wanted[i][1] += 1
    assert js("views/lentstate.js", "M.rightSoFar(steps)", steps=steps) == wanted
    assert sum(right for right, _ in wanted) > 5 and js("views/lentstate.js", "M.rightSoFar([{}])") == []


# unrolled


def test_a_chain_breaks_at_the_first_draft_that_was_refused(js: Call) -> None:
    for accepted, said in (
        ([True, True, True], {"kept": 2, "at": 0}),
        ([True, True, False], {"kept": 1, "at": 2}),
        ([True, False, False], {"kept": 0, "at": 1}),
    ):
        tree = {"tokens": [1, 2, 3], "accepted": accepted}
        assert js("views/unrolled.js", "M.broke(tree)", tree=tree) == said


# conveyor


def test_a_path_goes_over_what_was_accepted_else_over_the_best_ranked(js: Call) -> None:
    tree = {"parents": [-1, 0, 0, 0, 1, 2, 2, 6], "accepted": [True, False, True, False, False, False, True, False]}
    rows = [0, 1, 2, 6]
    path = "M.pathOf(tree, rows, first)"
    assert js("rounds.js", path, tree=tree, rows=rows, first=None) == [0, 2, 6]
    assert js("rounds.js", path, tree=tree, rows=rows, first=1) == [0, 1]
    assert js("rounds.js", path, tree=tree, rows=[0], first=1) == [0]
    tree["accepted"] = [True] + [False] * 7
    assert js("rounds.js", path, tree=tree, rows=rows, first=None) == [0, 1]


@pytest.mark.parametrize(
    ("n", "must", "shown"), [(10, [], [0, 1, 2]), (10, [7], [0, 1, 7]), (10, [9, 1, 9], [0, 1, 9]), (2, [1], [0, 1])]
)
def test_a_list_shows_the_first_ranks_and_those_that_it_must(
    js: Call, n: int, must: list[int], shown: list[int]
) -> None:
    assert js("views/belts.js", "M.shownRanks(n, must)", n=n, must=must) == shown


# leaning


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
    trace = MAIN["Passages"].decode(temperature=temperature, eta=4.0)
    for step in trace.steps:
        assert step.tree and (opinions := step.record("opinions", Opinions)) and not any(opinions.unlisted)
        assert opinions.rule == {"eta": 4.0, "alpha": 0.1, "temperature": temperature}
        assert [FATE[fate] for fate in told(js, step)] == step.tree.why[1:]
        given = msgspec.to_builtins(step) | step.records
        rows = js("leaning.js", "M.opinionsOf(step)", step=given)
        assert [row["token"] for row in rows] == step.tree.tokens[1:]
        for row, chance, u in zip(rows, step.tree.chances[1:], step.tree.uniforms[1:], strict=True):
            moved = js("leaning.js", "M.transfer(p, q, 4, 0.1).moved", p=row["p"], q=row["q"])
            assert row["u"] == u
            if u is not None:
                assert min(1.0, moved[0] / row["q"][0]) == pytest.approx(chance, abs=1e-5)


@pytest.mark.parametrize("eta", [0.0, 2.0, 40.0])
def test_another_strength_says_what_the_engine_does_with_it(js: Call, eta: float) -> None:
    """The first step: the same drafts are tested there, whatever eta is."""
    put_right = decoded("Passages")
    other = MAIN["Passages"].decode(eta=eta).steps[0]
    assert other.tree and put_right.steps[0].tree and other.tree.tokens == put_right.steps[0].tree.tokens
    assert [FATE[fate] for fate in told(js, put_right.steps[0], eta=eta)] == other.tree.why[1:]


def test_where_no_number_was_drawn_nothing_is_claimed(js: Call) -> None:
    rows = [{"p": [0.1], "q": [0.5], "u": 0.6}, {"p": [0.5], "q": [0.5], "u": None}]
    rule = {"eta": 0, "alpha": 0.1, "temperature": 1}
    assert js("leaning.js", "M.decide(rows, rule)", rows=rows, rule=rule) == ["refused", "behind"]
    rows[0]["u"] = 0.1
    assert js("leaning.js", "M.decide(rows, rule)", rows=rows, rule=rule) == ["both", "unknown"]
    assert js("leaning.js", "M.opinionsOf(undefined)") == []


# drafting views


@pytest.mark.parametrize("lag", [0, 1])
def test_the_staircase_stops_where_the_rule_does(js: Call, lag: int) -> None:
    rng = random.Random(7)
    for _ in range(60):
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
    trace = MAIN["Transferred"].decode(max_new_tokens=64)
    told = [step for step in trace.steps if "tokens" in step.records["transfer"]]
    steps = [{"transfer": step.records["transfer"], "tree": {"emitted": step.tree.emitted}} for step in told]
    for row in range(5):
        pairs = [
            pair
            for step in told
            for pair in zip(step.records["transfer"]["tokens"][row], step.tree.emitted, strict=False)
        ]
        right = sum(guess == token for guess, token in pairs)
        assert js("views/transferred.js", "M.tally(steps, row)", steps=steps, row=row) == [right, len(pairs)]
    assert js("views/transferred.js", "M.tally(steps, 0)", steps=[{}, {"transfer": {"tokens": []}}]) == [0, 0]


@pytest.mark.parametrize("count", [1, 2, 9, 11, 31, 81])
def test_of_many_layers_some_are_read_with_both_ends(js: Call, count: int) -> None:
    rows = js("views/transferred.js", "M.floors(count)", count=count)
    assert rows[0] == 0 and rows[-1] == count - 1
    assert rows == sorted(set(rows)) and len(rows) == min(count, 9)


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
        came = js(
            "views/searched.js",
            "M.came(M.drafts(search, n), emitted, search.room)",
            search=search,
            n=n,
            emitted=tree.emitted,
        )
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
    scene = decoded("Entering")
    steps = [
        {"inputs": step.records["inputs"], "vision": step.records["vision"], "tree": {"emitted": step.tree.emitted}}
        for step in scene.steps
    ]
    for draft in range(4):
        wanted = {kind: [0, 0] for kind in ("attribute", "place", "function")}
        for step in steps:
            for kind, token, first in zip(
                step["vision"]["kinds"], step["tree"]["emitted"], step["inputs"]["first"][draft], strict=True
            ):
                wanted[kind][0] += token == first
                wanted[kind][1] += 1
        assert js("firstguesses.js", "M.shares(steps, draft)", steps=steps, draft=draft) == wanted
    bare = [{}, {"inputs": {"first": [[7]]}}, {"inputs": {"first": [[7]]}, "vision": {"kinds": ["place", "place"]}}]
    assert js("firstguesses.js", "M.shares(steps, 0)", steps=bare) == {
        "attribute": [0, 0], "place": [0, 1], "function": [0, 0],
    }  # fmt: skip
