"""What a method would have decided with other values: its answer at the recorded one is what the step did, and that at
another is what it does there."""

import ast
import gzip
import importlib
import itertools
import json
import random
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest
import torch

import engines
from engines.core import alternatives
from engines.core.alternatives import Alternatives, Stops, slider
from engines.kit import Record
from engines.methods.heads.del_.exit_choice import choose, promised
from engines.methods.speculative.fastdraft import rounds_of
from engines.methods.speculative.rapid import listed
from engines.methods.speculative.rapid.opinions import fates as leaning_fates
from engines.methods.speculative.rapid.opinions import leaning
from engines.methods.speculative.rapid.transfer import Transfer
from engines.methods.speculative.reflective_verification.look import fates, fuse, won
from engines.methods.speculative.specdec_pp import Stopping, StopRule
from engines.methods.system.lean_attention.partition import SCHEDULES, plans, schedule
from explorer import ASSETS
from tests.engines.methods.speculative.test_fastdraft import ends_of

ROOT = Path(__file__).resolve().parents[3]


def asked(trace):
    run = Alternatives(trace.header)
    return [run.of(step) for step in trace.steps]


def at(told, value=0.0):
    return told.answers[max(0, bisect_right(told.stops, value) - 1)]


def played(slug, model, prompt, **params):
    trace = engines.run(slug, model, prompt, params=params)
    return zip(trace.steps, asked(trace), strict=True)


def written(step):
    causes = zip(step.commits.positions, step.commits.tokens, step.commits.causes, strict=True)
    return {at: token for at, token, cause in causes if cause != "fill" and token >= 0}


def test_answers_are_kept_where_they_change():
    told = Stops.over(slider(0, 1, 0.25, 0.3), lambda value: value > 0.26)
    assert (told.stops, told.answers) == ([0, 0.3], [False, True])
    assert slider(0, 1, 0.25, 0.3) == [0, 0.25, 0.3, 0.5, 0.75, 1]


def test_a_record_of_another_form_answers_nothing(monkeypatch):
    trace = engines.run("localleap", "tiny-dlm", "subtract: 9532 - 3432", params={"radius": 0})
    assert all(asked(trace)) and len(trace.steps) > 3
    trace.header.method = "watched"  # no method: the type is found by the record's name
    trace.steps[0].records["leaps"]["confidence"] = []  # lists that do not fit each other
    trace.steps[1].records["leaps"]["radius"] = "far"
    assert [bool(told) for told in asked(trace)[:3]] == [False, False, True]
    monkeypatch.setattr(alternatives, "SECONDS", 1e-9)
    assert not any(asked(trace)[3:]), "asking ends: a trace may come from anyone"


@pytest.mark.parametrize("radius", [0, 2, 4])
def test_neighbours_follow_as_they_were_written(radius):
    params = {"radius": radius, "block_length": 48}
    for step, told in played("localleap", "tiny-dlm", "subtract: 9532 - 3432", **params):
        record = step.records["leaps"]
        near, most = at(told["leaps"]["radius"], radius)
        yes = {q for q, line in zip(record["at"], most, strict=True) if record["relaxed"] <= line}
        assert all(n is None or abs(n - q) <= radius for n, q in zip(near, record["at"], strict=True))
        assert yes == set(step.commits.positions)


@pytest.mark.parametrize("params", [{}, {"slack": 0.0, "threshold": 0.99}, {"decay_beta": 0.5, "boost_gamma": 1.0}])
def test_credit_writes_what_was_written_and_none_what_a_threshold_does(params):
    prompt = "sort: Uma, Carl, Dan, Rosa, Ben, Finn, Alan"
    for step, told in played("creditdecoding", "tiny-dlm", prompt, **params):
        record = step.records["credits"]
        tokens, values, yes = (at(told["credits"][name], record["alpha"]) for name in ("token", "value", "written"))
        assert {record["rows"][i]["at"]: tokens[i] for i in yes} == written(step)
        chances = dict(zip(step.commits.positions, step.commits.probabilities, strict=True))
        assert all(values[i] == pytest.approx(chances[record["rows"][i]["at"]], abs=1e-4) for i in yes)
        for row, token, value in zip(
            record["rows"], *(at(told["credits"][n], 0) for n in ("token", "value")), strict=True
        ):
            assert token == row["top"] and value == pytest.approx(row["p"][row["tokens"].index(token)], abs=1e-4)


@pytest.mark.parametrize("tau", [0.3, 0.0, 0.9, 1.01])
def test_a_block_ends_where_it_ended_and_one_of_fixed_length_writes_what_the_threshold_does(tau):
    params = {"delimiter_threshold": tau, "block_length": 8}
    found = list(played("adablock", "tiny-dlm", "subtract: 7596 - 6660", **params))
    for step, told in found:
        end, positions = at(told["boundary"]["tau"], tau)
        assert end == step.records["boundary"]["end"] and positions == step.commits.positions
    if tau > 1:
        assert all(at(told["boundary"]["fixed"]) == step.commits.positions for step, told in found)


@pytest.mark.parametrize(("slug", "params"), [("learn2pd", {}), ("learn2pd-oracle", {"decides": "filter"})])
def test_a_filter_writes_what_it_wrote(slug, params):
    for step, told in played(slug, "tiny-dlm", "sort: Pia, Ida, Paul, Leo, Oscar, Emma, Finn, Bob", **params):
        if record := step.records.get("filtering"):
            places = [record["start"] + i for i in at(told["filtering"]["tau"], record["threshold"])]
            assert [q for q in places if q < record["end"]] == sorted(written(step))
            c = [c if hidden else -1 for c, hidden in zip(record["confidence"], record["masked"], strict=True)]
            best, kept = c.index(max(c)), record["end"] - record["start"]  # what is cut off is not written
            assert at(told["filtering"]["theta"], 1.0)[:1] == [i for i in [best] if i < kept]


@pytest.mark.parametrize("prompt", ["subtract: 266 - 74", "add: 22 + 39"])
def test_a_watched_answer_stops_where_a_run_with_those_bars_does(prompt):
    params, bars = {"answer_start": 20, "answer_length": 3}, {"bar_early": 7.5, "bar_mid": 5.0, "bar_late": 2.5}
    never = engines.run("prophet", "tiny-dlm", prompt, params={**params, **dict.fromkeys(bars, 100.0)})
    for step in never.steps:
        step.records["watched"]["bars"] = [*bars.values()]
    told = asked(never)
    for step, answers in zip(never.steps, told, strict=True):
        assert at(answers["watched"]["bar"], step.index + 1) == bars[f"bar_{step.choice.detail.split()[0]}"]
    for factor in (0.0, 0.2, 0.6, 1.0, 1.4):
        trace = engines.run(
            "prophet", "tiny-dlm", prompt, params={**params, **{n: factor * b for n, b in bars.items()}}
        )
        stop = next((i for i, answers in enumerate(told, 1) if at(answers["watched"]["factor"], factor)), None)
        assert stop == (len(trace.steps) if trace.steps[-1].choice.chosen == "all-in" else None)


@pytest.mark.parametrize("lag", [0, 1])
def test_drafting_stops_where_the_rule_does(lag):
    rng = random.Random(7)
    for _ in range(30):
        chances = [rng.random() ** 0.3 for _ in range(12)]
        h, least = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0]), rng.randint(1, 4)
        rule, drawn = StopRule(h, least, 12), 0
        for row in range(12):  # with a trained head a token is judged when the next one is drawn
            if lag and row:
                rule.judge(chances[row - 1])
            drawn = row + 1
            if not lag:
                rule.judge(chances[row])
            if rule.stop(drawn):
                break
        survival = [*itertools.accumulate(chances[: 12 - lag], lambda a, b: a * b)]
        assert at(Stopping(survival, 0.4, least, 12, lag).alternatives(None)["h"], h) == drawn


@pytest.mark.parametrize(
    ("slug", "record", "moved", "did"),
    [
        ("kangaroo", "early_exit", "eta", lambda step, told: told[0] == step.facts["drafted"]),
        ("judge-decoding", "judged", "delta", lambda step, told: not {"none", "behind"} & {*told[: _kept(step)]}),
        ("lud", "unit", "beta", lambda step, told: told == step.facts["written"]),
        ("ead", "relay", "tau", lambda step, told: told == ("large" if step.choice.value > 0.1 else "small")),
        ("adadec", "pause", "threshold", lambda step, told: told == step.facts["paused"]),
        ("dimple", "form", "threshold", lambda step, told: not told or told == len(step.commits.tokens)),
    ],
)
def test_the_answer_at_the_recorded_value_is_what_the_step_did(slug, record, moved, did):
    info = engines.get_method(slug).info
    model = "tiny-dlm" if slug == "dimple" else "tiny-ar-l"
    found = 0
    for step, told in played(slug, model, "add: 457 + 86", max_new_tokens=24):
        if record in told:
            assert did(step, at(told[record][moved], step.records[record][moved])), info.title
            found += 1
    assert found


def _kept(step):
    return int(step.facts["accepted"])


def test_the_weights_with_which_a_draft_wins_are_exact():
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
            assert fates(wins, alpha) == said


def test_the_table_of_exits_has_the_best_that_is_chosen():
    rng = random.Random(5)
    for _ in range(40):
        alpha, costs = [None if rng.random() < 0.2 else rng.random() for _ in range(4)], (rng.random(), rng.random())
        best, table = choose(alpha, [1, 2, 4, 5], 6, 10, 0, *costs), promised(alpha, [1, 2, 4, 5], 6, 10, *costs)
        assert [row is None for row in table] == [one is None for one in alpha]
        if known := [value for row in table for value in row or ()]:
            assert max(known) == best.tpl == table[[1, 2, 4, 5].index(best.exit_layer)][best.d]


@pytest.mark.parametrize("eta", [0.0, 3.0, 10.0, 50.0])
def test_the_moved_distribution_is_that_of_the_transfer(eta):
    rng = torch.Generator().manual_seed(int(eta))
    for _ in range(4):
        z, y = (2 * torch.randn(40, generator=rng, dtype=torch.float64) for _ in range(2))
        one = Transfer.of(z, y.softmax(-1), eta, 0.3)
        tokens = listed(one, int(one.q.argmax()))
        assert {t for t in range(40) if one.mask[t]} <= {*tokens}  # all that moves is recorded here
        moved = leaning(one.p[tokens].numpy(), one.q[tokens].numpy(), eta, 0.3)
        assert moved == pytest.approx(one.p_hat[tokens].numpy(), abs=1e-9)
    for u, said in ((0.6, ["refused", "behind"]), (0.1, ["both", "unknown"])):
        rows = [(np.array([p]), np.array([0.5]), np.array([p]), u_) for p, u_ in ((0.1, u), (0.5, None))]
        assert leaning_fates(rows, greedy=False) == said


FATE = {"both": "accepted", "view": "accepted", "lost": "mismatch", "refused": "mismatch", "behind": "unreached"}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_another_strength_does_with_the_first_drafts_what_it_says(temperature):
    """The same drafts are tested at the first step, whatever eta is."""
    recorded = json.loads(gzip.decompress((ASSETS / "traces" / "160-rapid-passage.json.gz").read_bytes()))
    given = {**recorded["header"]["params"], "temperature": temperature, "max_new_tokens": 8}
    prompt = recorded["header"]["prompt"]

    def decoded(eta):
        return engines.run("rapid", "tiny-ar-l", prompt, params={**given, "eta": eta}, seed=1)

    told = asked(trace := decoded(4.0))
    for step, answers in zip(trace.steps, told, strict=True):
        assert [FATE[fate] for fate in at(answers["opinions"]["eta"], 4.0)[0]] == step.tree.why[1:]
    for eta in (0.0, 2.0, 40.0) if temperature == 0 else ():
        said = at(told[0]["opinions"]["eta"], eta)[0]
        assert [FATE[fate] for fate in said] == decoded(eta).steps[0].tree.why[1:]


def test_the_rounds_of_a_checkpoint_are_those_of_its_own_run():
    """Here against a second definition; the engine's own runs are held against that in the tests of the method."""
    rng = random.Random(11)
    for _ in range(60):
        hits, gamma = [rng.random() < 0.7 for _ in range(rng.randint(1, 24))], rng.randint(0, 5)
        room = len(hits) + rng.choice([0, 0, 3])
        ends = [*itertools.accumulate(kept + 1 for kept, _ in rounds_of(hits, gamma, room))]
        assert [min(end, len(hits)) for end in ends] == ends_of(hits, gamma, room)
    for step, told in played("fastdraft", "tiny-ar-l", "add: 457 + 86"):
        rounds = at(told["schooling"]["gamma"], 3)[step.records["schooling"]["drafting"]]
        assert len(rounds) == step.index + 1


@pytest.mark.parametrize("params", [{}, {"reward": "released"}, {"paths": 32, "iterations": 10}], ids=str)
def test_a_search_drafts_what_it_drafted(params):
    prompt = "python: class Boat(name: str, speed: int, crew: int)"
    searched = 0
    for step, told in played("aded", "tiny-ar-l", prompt, corpus="store", max_new_tokens=32, **params):
        record, tree = step.records["table_search"], step.tree
        if record["ends"] and len(tree.tokens) > 1:
            nodes, (signs, own, n, kept), terms = told["table_search"]["iterations"].answers[-1]
            drafts = [_draft(record, node) for node in nodes]
            each = zip(drafts, signs, strict=True)
            made = {tuple(draft[:i]): sign for draft, marks in each for i, sign in enumerate(marks, 1)}
            assert made == {tuple(_path(tree, row)): SIGNS[tree.why[row]] for row in range(1, len(tree.tokens))}
            assert terms is None or len(terms) == 2
            assert (n, kept) == (len(tree.tokens) - 1, sum(tree.accepted) - 1)
            assert own == "" or own == step.commits.causes[-1]
            searched += 1
    assert searched > 3


SIGNS = {"accepted": "a", "mismatch": "r", "unreached": "-"}


def _draft(record, node):
    ending = [record["heaviest"][node]] if record["heaviest"][node] is not None else []
    path = []
    while node > 0:
        path, node = [record["tokens"][node], *path], record["parents"][node]
    return [*path, *ending]


def _path(tree, row):
    return [*_path(tree, tree.parents[row]), tree.tokens[row]] if row > 0 else []


@pytest.mark.parametrize("params", [{"slots": 1}, {"slots": 3}, {"window": 3}, {"window": 0}], ids=str)
def test_other_slots_serve_the_requests_as_a_run_with_them_does(params):
    given = {"max_new_tokens": 6, "slots": 2, **params}
    for step, told in played("read-me", "tiny-ar-m", "python: class Boat(name: str, speed: int, crew: int)", **given):
        record, names = step.records["requests"], step.choice.options
        for rule in ("lru", "look-ahead"):
            outs = at(told["requests"][rule], given["slots"])
            evicted = [names[out] for out in outs if out >= 0]
            own = [i for i in step.intervals if i.kind == "slot" and i.about["rule"] == rule]
            assert sorted(evicted) == sorted(i.about["out"] for i in own if "out" in i.about)
            assert sum(out != -1 for out in outs) == sum("miss" in i.about for i in own)
        assert len(record["experts"]) == len(outs)


def test_tiles_are_shared_out_as_the_schedules_do():
    for h, t, W in ((3, 32, 10), (1, 1, 2), (8, 7, 3)):
        for kind, plan in zip(SCHEDULES, plans(h, t, W), strict=True):
            pieces = schedule(kind, [t] * h, W)
            assert sorted(pieces, key=lambda piece: (piece.problem, piece.first)) == pieces, "the order that is drawn"
            assert [(p.worker, p.tiles) for p in pieces] == [*zip(*plan, strict=True)]
    found = [told for _, told in played("lean-attention", "tiny-ar-l", "add: 457 + 86", max_new_tokens=24)]
    assert found[0]["tiling"].keys() == {"context", "heads", "slots"}
    assert 1 < sum("tiling" in told for told in found) < len(found), "said once for steps of the same sizes"


DRAWN = {"test_model_rules_js.py": {"SCHEDULES", "makespan", "plans", "schedule"}}  # a plan comes from the method


def test_no_rule_of_a_method_is_written_in_javascript_again():
    """The tests that hold the player's functions against Python take records of methods, and no rule of theirs."""
    found = {}
    for path in (ROOT / "tests" / "player").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("engines.methods"):
                module = importlib.import_module(str(node.module))
                rules = {name.name for name in node.names if not _is_record(getattr(module, name.name))}
                found[path.name] = found.get(path.name, set()) | rules
    assert {name: rules for name, rules in found.items() if rules} == DRAWN
    player = ROOT / "assets" / "client"
    said = [path.name for path in player.rglob("*.js") if "engines/methods" in path.read_text("utf-8")]
    assert not said, "a picture that names a method's file has its rule"


def _is_record(kind):
    return isinstance(kind, type) and issubclass(kind, Record)
