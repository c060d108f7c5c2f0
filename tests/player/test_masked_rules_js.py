"""What pictures of masks, canvases, tokens and paths work out from a record is what the engine means by it; what a
slider decides again is what the engine's own rule decides."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

import engines
from explorer.runs.gallery import gallery
from tests.player.pictures import MAIN, decoded, plain

Call = Callable[..., Any]


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


def test_tokens_on_lines_keep_their_order_and_overlap_nowhere(js: Call) -> None:
    rng = random.Random(3)
    for _ in range(40):
        texts = ["".join(rng.choice("ab \n") for _ in range(rng.randint(1, 6))) for _ in range(30)]
        cells = js("views/pauses.js", "M.onLines(texts, 12)", texts=texts)
        for one, after in itertools.pairwise(cells):
            begins = (after["line"], after["from"])
            assert begins >= (one["line"], one["from"] + ("\n" not in texts[one["i"]]) * len(one["text"]))
        laid = js("views/baton.js", "M.inLines(texts, 200)", texts=texts)
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
        made = js("views/vote.js", "M.columns(vote, tally, [0])", vote=vote, tally=tally)
        assert sum(column["sum"] for column in made) == pytest.approx(sum(tally["shares"]))
        blocks = [block["i"] for column in made for block in column["blocks"]]
        shared = {i for i, share in enumerate(tally["shares"]) if share}
        assert sorted(blocks) == sorted(shared | (gone if tally["rule"] == "RPC" else set()))


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
    read = "v.run = dxModules.use('player/store.js').Run.from(text); return steps.map((t) => v.describe(t));"
    trace = gallery().get("12-recycling-chat")
    last = len(trace.steps)
    assert trace.steps[-1].commits.causes == ["accepted"] * 3
    given = {"text": trace.to_json(), "steps": [last, last - 2]}
    cut, before = js("views/tree.js", f"(() => {{ const v = new M.DraftTree(); {read} }})()", **given)
    assert cut.startswith("16 drafted, 3 accepted; the maximum length left no room after them.")
    assert "then the target's" in before
