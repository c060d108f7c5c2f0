"""The pictures of choosing tokens and paths: what they work out from a record is what the engine means by it, and each
holds on every step, in narrow and dark panels."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from tests.player.pictures import PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
WHOLE = {"n": 8, "weight": "whole path", "max_new_tokens": 40}
RUNS: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "adadec": ("Pauses", "adadec", "tiny-ar-l", "story: Mia, boat", {"threshold": 0.3, "max_new_tokens": 24}),
    "concise": ("LeftAlone", "concise", "tiny-reasoner", "1*2*8*3", {}),
    "rpc": ("Vote", "rpc", "tiny-ar-s", "subtract: 717 - 610", {"n": 8, "max_new_tokens": 40}),
    "rpc-theory": ("Vote", "rpc", "tiny-ar-s", "subtract: 717 - 610", WHOLE),
    "ffs": ("Lines", "ffs", "tiny-reasoner", "8+9*3+0-8", {"n": 8, "let_finish": True}),
    "ffs-many": ("Lines", "ffs", "tiny-reasoner", "8+9*3+0-8", {"n": 16, "let_finish": True}),
    "a-star-decoding": ("Frontier", "a-star-decoding", "tiny-reasoner", "8+9*3+0-8", {}),
    "ead": ("Baton", "ead", "tiny-ar-l", "subtract: 9906 - 999", {"tau": 0.2, "window": 3, "d_min": 3}),
}


def run(slug: str, model: str, prompt: str, params: dict[str, Any], **options: Any) -> Trace:
    return engines.run(slug, model, prompt, params=params, **options)


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    name, *given = RUNS[request.param]
    return name, run(*given)


@pytest.mark.parametrize(
    "options",
    PANELS,
    ids=str,
)
def test_each_picture_holds_on_every_step(opened: Open, drawn: tuple[str, Trace], options: dict[str, Any]) -> None:
    name, trace = drawn
    page = opened([trace], folded=True, **options).page
    view = held_on_every_step(page, name, len(trace.steps))
    expect(page.locator("[data-idea]")).to_have_attribute("data-view", name)
    if view.locator("input[type=range]").count():
        view.locator("input[type=range]").fill("1")
        expect(view.locator("[aria-live]")).to_contain_text("derived: ")
        view.get_by_role("button", name="as recorded").click()
        expect(view.locator("[aria-live]")).to_have_text("")


def test_a_future_counts_what_its_score_says(js: Call) -> None:
    trace = run(*RUNS["adadec"][1:])
    paused = [step for step in trace.steps if step.facts["paused"]]
    assert paused
    for step in paused:
        told = js("views/pauses.js", "M.futures(step)", step=json.loads(trace.to_json())["steps"][step.index])
        scores = [branch.scores["score"] for branch in step.branches[1:]]
        assert [one["won"] for one in told].index(True) == scores.index(max(scores)) == step.facts["rank_chosen"] - 1
        means = [one["mean"] for one in told]
        assert means.index(max(means)) == scores.index(max(scores))


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
    trace = run("rpc", "tiny-ar-s", "add: 908 + 222", {"n": 24, "max_new_tokens": 56, "weight": "whole path"})
    vote = json.loads(trace.to_json())["steps"][-1]["records"]["vote"]
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
    plain = run(*RUNS["rpc"][1:])
    assert "whole" not in json.loads(plain.to_json())["steps"][-1]["records"]["vote"]


def test_columns_hold_each_path_once(js: Call) -> None:
    trace = run("rpc", "tiny-ar-s", "subtract: 717 - 610", {"n": 24, "max_new_tokens": 56})
    vote = json.loads(trace.to_json())["steps"][-1]["records"]["vote"]
    for tally in vote["tallies"]:
        made = js("views/votelayout.js", "M.columns(vote, tally, [0])", vote=vote, tally=tally)
        assert sum(column["sum"] for column in made) == pytest.approx(sum(tally["shares"]))
        blocks = [block["i"] for column in made for block in column["blocks"]]
        assert len(blocks) == len(set(blocks))
        gone = {
            i for i, (out, copy) in enumerate(zip(vote["removed"], vote["copies"], strict=True)) if out and copy < 0
        }
        assert set(blocks) == {i for i, share in enumerate(tally["shares"]) if share} | (
            gone if tally["rule"] == "RPC" else set()
        )


def test_a_rule_is_marked_right_or_wrong(opened: Open) -> None:
    trace = run("rpc", "tiny-ar-s", "subtract: 717 - 610", {"n": 24, "max_new_tokens": 56})
    page = opened([trace], folded=True).page
    page.evaluate("t => handles[0].seek(t)", len(trace.steps))
    told = page.locator('[data-view="Vote"] [data-s] > text:visible').all_text_contents()
    assert [text for text in told if "→" in text] == ["→ 77 ✕ wrong", "→ 107 ✓ right", "→ 77 ✕ wrong", "→ 107 ✓ right"]


def test_each_flag_says_whether_its_answer_is_right(opened: Open) -> None:
    trace = run("ffs", "tiny-reasoner-s", "8+9*3+0-8", {"n": 8, "let_finish": True})
    vote = trace.steps[-1].records["vote"]
    page = opened([trace], folded=True).page
    page.evaluate("t => handles[0].seek(t)", len(trace.steps))
    view = page.locator('[data-view="Lines"]')
    flags = [text for text in view.locator("text:visible").all_text_contents() if "⚑" in text]
    said = [vote["answers"][of] for of in vote["of"]]
    assert flags == [f"⚑ {answer} {'✓ right' if answer == '3' else '✕ wrong'}" for answer in said]
    words = " ".join(view.locator("text:visible").all_text_contents())
    won = min(len(branch) for branch in _lengths(trace))
    assert f"first flag, after {won - 1} tokens" in words and "a vote would wait up to here" in words


def _lengths(trace: Trace) -> list[list[int]]:
    texts: dict[int, list[int]] = {}
    for step in trace.steps:
        for branch in step.branches:
            texts[branch.id] = [*texts.get(branch.id, []), *branch.tokens]
    return list(texts.values())


def test_the_model_left_alone_stands_below_with_what_was_saved(opened: Open) -> None:
    trace = run(*RUNS["concise"][1:])
    page = opened([trace], folded=True, viewport={"width": 1440, "height": 900}).page
    page.evaluate("t => handles[0].seek(t)", len(trace.steps))
    words = page.locator('[data-view="LeftAlone"] text:visible').all_text_contents()
    assert "17 characters saved" in words
    assert sum("(unsure) → sure" in text for text in words) == trace.steps[-1].facts["injected"] == 2
    assert "With confidence put in ✓ right" in words


def test_a_search_names_the_older_state_that_it_goes_back_to(js: Call, opened: Open) -> None:
    trace = run(*RUNS["a-star-decoding"][1:])
    code = "(() => { const run = modules['store.js'].Run.from(text); return M.returns(run, t).length; })()"
    gone = [js("views/openstates.js", code, text=trace.to_json(), t=t) for t in range(len(trace.steps) + 1)]
    told = ["the search returns to" in step.note for step in trace.steps]
    assert [b > a for a, b in itertools.pairwise(gone)] == told and any(told)
    page = opened([trace], folded=True).page
    t = told.index(True) + 1
    page.evaluate("t => handles[0].seek(t)", t)
    assert "back to" in page.locator('[data-view="Frontier"] text:visible').all_text_contents()


def test_what_two_models_cost_is_what_their_calls_were(js: Call) -> None:
    trace = run(*RUNS["ead"][1:])
    sizes = {model.role: model.parameters for model in trace.header.models}
    steps, prompt = json.loads(trace.to_json())["steps"], len(trace.header.prompt_ids)
    told = js("views/baton.js", "M.costs(steps, models, 'large', n)", steps=steps, models=sizes, n=prompt)
    calls = {role: sum(step.forwards.get(role, 0) for step in trace.steps) for role in sizes}
    whole = sum(n * sizes[role] for role, n in calls.items())
    assert told["weights"] == pytest.approx(whole / (len(trace.steps) * sizes["large"]))
    assert 0 < told["weights"] < told["work"] <= 1.2


def test_a_choice_that_is_none_of_models_has_no_baton(opened: Open) -> None:
    page = opened([run(*RUNS["adadec"][1:])], folded=True).page
    page.evaluate("handles[0].seek(3)")
    expect(page.locator('[data-view="Baton"]')).to_be_hidden()
