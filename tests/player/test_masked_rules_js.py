"""What pictures of masks, canvases, tokens and paths work out from a record is what the engine means by it; what a
slider decides again is what the engine's own rule decides."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import engines
from engines.methods.diffusion.entropy_bound import within_bound
from engines.methods.diffusion.localleap import distances, select, thresholds
from explorer.runs.gallery import gallery
from tests.player.pictures import MAIN, decoded, plain

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("slug", "prompt", "params"),
    [
        ("learn2pd", "sort: Pia, Ida, Paul, Leo, Oscar, Emma, Finn, Bob", {}),
        ("learn2pd-oracle", "add: 457 + 286", {"decides": "oracle"}),
        ("learn2pd-oracle", "add: 457 + 286", {"decides": "filter"}),
    ],
)
def test_what_the_filter_writes_is_what_the_picture_decides(
    js: Call, slug: str, prompt: str, params: dict[str, Any]
) -> None:
    """At the recorded threshold: the commits; at any other: the rule of the method on the recorded numbers. An oracle
    writes what the reference has."""
    for step in engines.run(slug, "tiny-dlm", prompt, params=params).steps:
        if not (told := step.records.get("filtering")):
            continue
        again = js("views/filtering.js", "M.decided(told, told.threshold)", told=told)
        wrote = [told["start"] + i for i, yes in enumerate(again) if yes]
        kept = [at for at, token in zip(step.commits.positions, step.commits.tokens, strict=True) if token >= 0]
        assert [at for at in wrote if at < told["end"]] == kept
        if params.get("decides") == "oracle":
            assert not told["filter"] and all(told["oracle"][i] or not yes for i, yes in enumerate(again))
        for tau in (0.0, 0.5, 1.0) if not params else ():
            open_ = [c if hidden else -1.0 for c, hidden in zip(told["confidence"], told["masked"], strict=True)]
            best, pairs = open_.index(max(open_)), zip(told["filter"], told["masked"], strict=True)
            rule = [hidden and (q > tau or i == best) for i, (q, hidden) in enumerate(pairs)]
            assert js("views/filtering.js", "M.decided(told, at)", told=told, at=tau) == rule


def test_a_plain_threshold_is_decided_as_the_method_threshold_does(js: Call) -> None:
    rng = random.Random(3)
    for _ in range(40):
        scores, masked = [rng.random() for _ in range(8)], [rng.random() < 0.7 for _ in range(8)]
        theta, strict = rng.random(), rng.random() < 0.5
        best = max((i for i in range(8) if masked[i]), key=lambda i: scores[i], default=None)
        sure = [s > theta if strict else s >= theta for s in scores]
        rule = [masked[i] and (i == best or sure[i]) for i in range(8)]
        given = {"scores": scores, "open": masked, "theta": theta, "strict": strict}
        assert js("strips.js", "M.passing(scores, open, theta, strict)", **given) == rule


def test_a_form_keeps_its_gaps_in_place_and_names_the_call_of_each_word(js: Call) -> None:
    trace = decoded("Form")
    first, printed = len(trace.header.prompt_ids), trace.steps[0].records["form"]["printed"]
    given = {"first": first, "printed": printed, "eos": trace.header.eos_ids}
    board = [{"position": at, "token": None, "state": "masked", "entry": None} for at in range(first + 48)]
    for number, step in enumerate(trace.steps):
        for at, token in zip(step.commits.positions, step.commits.tokens, strict=True):
            board[at] |= {"token": token, "entry": {"step": number}}
        told = js("views/form.js", "M.items(board, first, new Set(printed), new Set(eos))", board=board, **given)
        places = [item["position"] for item in told]
        assert sum(item["n"] for item in told) == 48 and places == sorted(places)
        for item in told:
            assert item["step"] == (board[item["position"]]["entry"] or {"step": None})["step"]
            assert item["printed"] == (item["position"] in printed)


@pytest.mark.parametrize("prompt", ["subtract: 266 - 74", "add: 22 + 39"])
def test_a_watched_answer_stops_where_the_engine_does(js: Call, prompt: str) -> None:
    """At the recorded thresholds, and at those times a factor where the method ran with them."""
    params = {"answer_start": 20, "answer_length": 3}
    bars = {"bar_early": 7.5, "bar_mid": 5.0, "bar_late": 2.5}
    never = engines.run("prophet", "tiny-dlm", prompt, params={**params, **dict.fromkeys(bars, 100.0)})
    whole = [{**step.records["watched"], "bars": list(bars.values())} for step in never.steps]
    for told, step in zip(whole, never.steps, strict=True):
        phase = step.choice.detail.split()[0]
        assert js("views/watched.js", "M.barOf(told, told.forward)", told=told) == bars[f"bar_{phase}"]
        assert js("views/watched.js", "M.mean(told.leads)", told=told) == pytest.approx(step.choice.value)
    for factor in (0.0, 0.2, 0.6, 1.0, 1.4):
        given = {name: factor * bar for name, bar in bars.items()}
        trace = engines.run("prophet", "tiny-dlm", prompt, params={**params, **given})
        stops = js("views/watched.js", "M.stopsAt(all, factor)?.forward ?? null", all=whole, factor=factor)
        assert stops == (len(trace.steps) if trace.steps[-1].choice.chosen == "all-in" else None)


@pytest.mark.parametrize("params", [{}, {"slack": 0.0, "threshold": 0.99}, {"decay_beta": 0.5, "boost_gamma": 1.0}])
def test_credit_is_decided_as_the_method_does(js: Call, params: dict[str, Any]) -> None:
    """At the recorded strength: the commits; without credit: those of the same board where nothing was earned."""
    trace = engines.run("creditdecoding", "tiny-dlm", "sort: Uma, Carl, Dan, Rosa, Ben, Finn, Alan", params=params)
    for step in trace.steps:
        told = step.records["credits"]
        given = {key: told[key] for key in ("rows", "alpha", "threshold", "slack")}
        own = js("views/credits.js", "rows.map((row) => M.fused(row, alpha))", **given)
        write = "M.above(rows.map((row) => M.fused(row, alpha).value), threshold, slack)"
        yes = js("views/credits.js", write, **given)
        again = {row["at"]: o["token"] for row, o, y in zip(told["rows"], own, yes, strict=True) if y}
        causes = zip(step.commits.positions, step.commits.tokens, step.commits.causes, strict=True)
        assert again == {at: token for at, token, cause in causes if cause != "fill"}
        chances = dict(zip(step.commits.positions, step.commits.probabilities, strict=True))
        for row, o in zip(told["rows"], own, strict=True):
            if row["at"] in again:
                assert o["value"] == pytest.approx(chances[row["at"]], abs=1e-5)
        bare = js("views/credits.js", "rows.map((row) => M.fused(row, 0))", rows=told["rows"])
        for row, o in zip(told["rows"], bare, strict=True):
            assert o["token"] == row["top"]
            assert o["value"] == pytest.approx(row["p"][row["tokens"].index(row["top"])])


@pytest.mark.parametrize("radius", [0, 2, 4])
def test_neighbours_follow_as_the_method_lets_them(js: Call, radius: int) -> None:
    trace = engines.run("localleap", "tiny-dlm", "subtract: 9532 - 3432", params={"radius": radius, "block_length": 48})
    rng = random.Random(radius)
    for step in trace.steps:
        told = step.records["leaps"]
        own = js("views/leaps.js", "M.decide(told)", told=told)
        assert {at for at, one in zip(told["at"], own, strict=True) if one["yes"]} == set(step.commits.positions)
        moved = {**told, "radius": rng.randint(0, 9), "relaxed": rng.random(), "strict": rng.choice([0.9, 0.7])}
        confidence, at = torch.tensor(moved["confidence"], dtype=torch.float64), torch.tensor(moved["at"])
        distance = distances(at, at[confidence >= moved["strict"]])
        theta = thresholds(distance, moved["strict"], moved["relaxed"], moved["radius"])
        best, _ = select(confidence, theta, moved["strict"])
        again = js("views/leaps.js", "M.decide(told)", told=moved)
        assert [one["theta"] for one in again] == theta.tolist()
        assert {i for i, one in enumerate(again) if one["yes"]} == set(best.tolist())


@pytest.mark.parametrize("tau", [0.3, 0.0, 0.9, 1.01])
def test_a_block_ends_as_the_method_ends_it(js: Call, tau: float) -> None:
    """Also at another threshold than the recorded one, and in blocks of fixed length."""
    params = {"delimiter_threshold": tau, "block_length": 8}
    trace = engines.run("adablock", "tiny-dlm", "subtract: 7596 - 6660", params=params)
    first, last = len(trace.header.prompt_ids), trace.header.canvas
    for step in trace.steps:
        told = step.records["boundary"]
        assert js("views/boundary.js", "M.endOf(told, tau, last)", told=told, tau=tau, last=last) == told["end"]
        wrote = js("views/boundary.js", "[...M.written(told, told.end)]", told=told)
        assert wrote == step.commits.positions
        assert told["why"] == next(span.label for span in step.spans if span.kind == "block")
        fixed = js("views/boundary.js", "M.endOf(told, 2, last)", told=told, last=last)
        assert fixed == min(told["start"] + 8, last)
    if tau > 1:
        plain = engines.run("threshold", "tiny-dlm", "subtract: 7596 - 6660", params={"block_length": 8})
        assert [sorted(step.commits.positions) for step in plain.steps] == [s.commits.positions for s in trace.steps]
    assert first < last


def test_what_each_position_held_is_found_in_the_commits_and_moves_with_it(js: Call) -> None:
    def held(*steps: tuple[list[int], list[int], str, dict[str, list[int]]]) -> Any:
        told = [{"positions": at, "tokens": new, "causes": [why] * len(at), **moved} for at, new, why, moved in steps]
        given = [{"commits": one if one["positions"] else None} for one in told]
        return js("views/edits.js", "[...M.replaced(steps)]", steps=given)

    changed, none = ([3], [9], "changed", {}), ([], [], "", {})
    assert held(([3, 4], [7, 8], "top1", {}), changed, none, ([3, 5], [7, 1], "changed", {})) == [[3, [7, 9]]]
    assert held(
        ([3, 4, 5], [7, 8, 6], "quota", {}),
        ([4, 5], [9, 5], "changed", {}),
        ([5], [1], "appended", {"removed": [3], "inserted": [5]}),
        ([3], [1], "inserted", {"removed": [5], "inserted": [3]}),
    ) == [[4, [8]], [5, [6]]]


@pytest.mark.parametrize("seed", range(5))
def test_the_sums_are_those_of_the_sampler(js: Call, seed: int) -> None:
    entropies = torch.rand(24, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 3
    joint, accepted = within_bound(entropies, 0.5)
    told = js("views/canvas.js", "M.sums(entropies)", entropies=entropies.tolist())
    assert told["before"] == pytest.approx(joint.tolist(), abs=1e-9)
    assert [rank < int(accepted.sum()) for rank in told["rank"]] == accepted.tolist()
    assert told["sum"] == pytest.approx(float(entropies.sum()))


def test_tokens_on_lines_keep_their_order_and_overlap_nowhere(js: Call) -> None:
    rng = random.Random(3)
    for _ in range(40):
        texts = ["".join(rng.choice("ab \n") for _ in range(rng.randint(1, 6))) for _ in range(30)]
        cells = js("views/onlines.js", "M.onLines(texts, 12)", texts=texts)
        for one, after in itertools.pairwise(cells):
            begins = (after["line"], after["from"])
            assert begins >= (one["line"], one["from"] + ("\n" not in texts[one["i"]]) * len(one["text"]))
        laid = js("views/onlines.js", "M.inLines(texts, 200)", texts=texts)
        assert all(cell["x"] + cell["w"] <= 200 for cell in laid)
        assert all(b["line"] > a["line"] or b["x"] >= a["x"] + a["w"] for a, b in itertools.pairwise(laid))


def test_the_chance_of_an_answer_lies_in_the_band(js: Call) -> None:
    """Whole-path weights are probabilities of disjoint events: sums never pass 1, and a band only narrows."""
    trace = engines.run(
        "rpc", "tiny-ar-s", "add: 908 + 222", params={"n": 24, "max_new_tokens": 56, "weight": "whole path"}
    )
    vote = plain(trace)[-1]["records"]["vote"]
    assert vote["whole"]
    for answer in range(len(vote["answers"])):
        told = js("views/converging.js", "M.estimates(vote, answer)", vote=vote, answer=answer)
        assert len(told) == 24
        assert told[-1]["count"] == pytest.approx(vote["of"].count(answer) / 24)
        for one, after in itertools.pairwise(told):
            assert one["low"] <= after["low"] <= after["high"] <= one["high"] + 1e-12
        copies, of = vote["copies"], vote["of"]
        low = sum(P for P, place, copy in zip(vote["weights"], of, copies, strict=True) if place == answer and copy < 0)
        assert told[-1]["low"] == pytest.approx(low)
    assert "whole" not in plain(decoded("Vote"))[-1]["records"]["vote"]


def test_columns_hold_each_path_once(js: Call) -> None:
    vote = plain(MAIN["Vote"].decode(n=24, max_new_tokens=56))[-1]["records"]["vote"]
    gone = {i for i, (out, copy) in enumerate(zip(vote["removed"], vote["copies"], strict=True)) if out and copy < 0}
    assert gone
    for tally in vote["tallies"]:
        made = js("views/votelayout.js", "M.columns(vote, tally, [0])", vote=vote, tally=tally)
        assert sum(column["sum"] for column in made) == pytest.approx(sum(tally["shares"]))
        blocks = [block["i"] for column in made for block in column["blocks"]]
        shared = {i for i, share in enumerate(tally["shares"]) if share}
        assert sorted(blocks) == sorted(shared | (gone if tally["rule"] == "RPC" else set()))


def test_a_search_names_the_older_state_that_it_goes_back_to(js: Call) -> None:
    trace = decoded("Frontier")
    code = "(() => { const run = modules['store.js'].Run.from(text); return M.returns(run, t).length; })()"
    gone = [js("views/openstates.js", code, text=trace.to_json(), t=t) for t in range(len(trace.steps) + 1)]
    told = ["the search returns to" in step.note for step in trace.steps]
    assert [b > a for a, b in itertools.pairwise(gone)] == told and any(told)


def test_what_two_models_cost_is_what_their_calls_were(js: Call) -> None:
    trace = decoded("Baton")
    sizes = {model.role: model.parameters for model in trace.header.models}
    steps, prompt = [step | step["records"] for step in plain(trace)], len(trace.header.prompt_ids)
    told = js("views/baton.js", "M.costs(steps, models, 'large', n)", steps=steps, models=sizes, n=prompt)
    calls = {role: sum(step.forwards.get(role, 0) for step in trace.steps) for role in sizes}
    whole = sum(n * sizes[role] for role, n in calls.items())
    assert told["weights"] == pytest.approx(whole / (len(trace.steps) * sizes["large"]))
    assert 0 < told["weights"] < told["work"] <= 1.2


def test_a_caption_stands_in_its_rounds_or_where_it_is_filled_with_gaps(js: Call) -> None:
    """A board with masks: later rounds write before earlier ones, and between them."""

    def rounds(*written: dict[int, int]) -> list[dict[str, Any]]:
        words = [[{"at": at, "token": token} for at, token in sorted(one.items())] for one in written]
        return [{"index": i, "words": one, "refused": []} for i, one in enumerate(words)]

    made = rounds({4: 1, 5: 2}, {6: 3})
    assert js("rounds.js", "M.inOrder(rounds)", rounds=made) == made
    found = js("rounds.js", "M.inOrder(rounds)", rounds=rounds({9: 5}, {4: 1, 5: 2}, {6: 3, 8: 4}))
    told = [(one["index"], [(word["at"], word["token"]) for word in one["words"]]) for one in found]
    assert told == [(1, [(4, 1), (5, 2)]), (2, [(6, 3)]), (-1, [(7, None)]), (2, [(8, 4)]), (0, [(9, 5)])]
    choices = [{"threshold": 3}, {"threshold": 3}, {"threshold": 2}, None, {"threshold": 1}]
    path = js("views/ribbon.js", "M.stairs(choices, (v) => 10 * v)", choices=choices)
    assert path == "M0,30H1V30H2V20H3M4,10H5", "a slope would show thresholds that were never held"


def test_the_last_round_tells_no_token_too_many(js: Call) -> None:
    """Drafts that fill the answer leave no room for the target's own token, and an end mark is none."""
    read = "v.run = modules['store.js'].Run.from(text); return steps.map((t) => v.describe(t));"
    trace = gallery().get("12-recycling-chat")
    last = len(trace.steps)
    assert trace.steps[-1].commits.causes == ["accepted"] * 3
    given = {"text": trace.to_json(), "steps": [last, last - 2]}
    cut, before = js("views/tree.js", f"(() => {{ const v = new M.DraftTree(); {read} }})()", **given)
    assert cut.startswith("16 drafted, 3 accepted; the maximum length left no room after them.")
    assert "then the target's" in before
