"""The pictures of masked decoding: what a slider decides again is what the engine's own rule decides, and each picture
holds on every step, in narrow and dark panels, and where nothing is open any more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from msgspec import structs
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from engines.methods.diffusion.localleap import distances, select, thresholds
from tests.player.pictures import INSIDE, PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
FORM = "0:size :|3:colour :|6:shape :|9:place :|13:;"
RUNS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "Filtering": ("learn2pd", "tiny-dlm", "sort: Pia, Ida, Paul, Leo, Oscar, Emma, Finn, Bob", {}),
    "Form": ("dimple", "tiny-vlm-dimple", "answer: scene 12", {"structure_prior": FORM, "cache": "prefix"}),
    "Watched": ("prophet", "tiny-dlm", "subtract: 266 - 74", {"constraints": "26:answer", "answer_length": 3}),
    "Credits": ("creditdecoding", "tiny-dlm", "sort: Uma, Carl, Dan, Rosa, Ben, Finn, Alan", {"stop_at_end": False}),
    "Leaps": ("localleap", "tiny-dlm", "subtract: 9532 - 3432", {"block_length": 48}),
    "Boundary": ("adablock", "tiny-dlm", "subtract: 7596 - 6660", {}),
}
FEW: dict[str, tuple[str, dict[str, Any]]] = {  # by view: a run of one step or of little to see
    "Filtering": ("learn2pd", {"max_new_tokens": 1, "accept_thres": 1.0}),
    "Form": ("dimple", {"max_new_tokens": 1, "alg": "entropy"}),
    "Watched": ("prophet", {"max_new_tokens": 2, "block_length": 2, "answer_length": 1}),
    "Credits": ("creditdecoding", {"max_new_tokens": 1, "credit_alpha": 0.0, "slack": 0.0}),
    "Leaps": ("localleap", {"max_new_tokens": 1, "threshold": 1.01}),
    "Boundary": ("adablock", {"max_new_tokens": 1}),
}

ODD = ["\u202eright to left", "\u05e9\u05dc\u05d5\u05dd", "w" * 80, "\U0001f468\u200d\U0001f469", "\n"]


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    slug, model, prompt, params = RUNS[request.param]
    return request.param, engines.run(slug, model, prompt, params={"max_new_tokens": 48, **params})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_each_picture_holds_on_every_step(opened: Open, drawn: tuple[str, Trace], options: dict[str, Any]) -> None:
    name, trace = drawn
    page = opened([trace], folded=True, **options).page
    view = held_on_every_step(page, name, len(trace.steps))
    page.evaluate("handles[0].seek(1)")
    for slider in view.locator("input[type=range]").all():
        slider.fill("0.5")
    for says in view.locator("[aria-live]").all():
        expect(says).to_contain_text("derived: ")
    for back in view.get_by_role("button", name="as recorded").all():
        back.click()
    for says in view.locator("[aria-live]").all():
        expect(says).to_have_text("")


def test_odd_words_stay_in_the_drawing(opened: Open, drawn: tuple[str, Trace]) -> None:
    name, trace = drawn
    pieces = [structs.replace(piece, text=ODD[i % len(ODD)]) for i, piece in enumerate(trace.pieces)]
    page = opened([structs.replace(trace, pieces=pieces)], folded=True, viewport={"width": 640, "height": 800}).page
    for t in range(1, len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        assert page.locator(f"[data-view={name}] svg.dx-tower").evaluate(INSIDE) == 0, t


@pytest.mark.parametrize("name", FEW)
def test_a_run_with_little_to_see_is_drawn(opened: Open, name: str) -> None:
    slug, params = FEW[name]
    trace = engines.run(slug, "tiny-dlm", "copy: Mia", params=params)
    page = opened([trace], folded=True).page
    for t in range(len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        expect(page.locator(f"[data-view={name}] .dx-readout").first).not_to_have_text("")


def test_what_the_filter_writes_is_what_the_picture_decides(js: Call) -> None:
    """At the recorded threshold: the commits; at any other: the rule of the method on the recorded numbers."""
    for prompt in ("sort: Pia, Ida, Paul, Leo, Oscar, Emma, Finn, Bob", "add: 457 + 286"):
        trace = engines.run("learn2pd", "tiny-dlm", prompt)
        for step in trace.steps:
            told = step.records["filtering"]
            again = js("views/filtering.js", "M.decided(told, at)", told=told, at=told["threshold"])
            wrote = [told["start"] + i for i, yes in enumerate(again) if yes]
            kept = [at for at, token in zip(step.commits.positions, step.commits.tokens, strict=True) if token >= 0]
            assert [at for at in wrote if at < told["end"]] == kept
            for tau in (0.0, 0.5, 0.9, 1.0):
                open_ = [c if hidden else -1.0 for c, hidden in zip(told["confidence"], told["masked"], strict=True)]
                rule = [
                    hidden and (q > tau or i == open_.index(max(open_)))
                    for i, (q, hidden) in enumerate(zip(told["filter"], told["masked"], strict=True))
                ]
                assert js("views/filtering.js", "M.decided(told, at)", told=told, at=tau) == rule


@pytest.mark.parametrize("decides", ["oracle", "filter"])
def test_an_oracle_writes_what_the_reference_has(js: Call, opened: Open, decides: str) -> None:
    trace = engines.run("learn2pd-oracle", "tiny-dlm", "add: 457 + 286", params={"decides": decides})
    for step in trace.steps:
        if "filtering" not in step.records:
            continue
        told = step.records["filtering"]
        again = js("views/filtering.js", "M.decided(told, told.threshold)", told=told)
        kept = [at for at, token in zip(step.commits.positions, step.commits.tokens, strict=True) if token >= 0]
        wrote = [told["start"] + i for i, yes in enumerate(again) if yes]
        assert [at for at in wrote if at < told["end"]] == kept
        if decides == "oracle":
            assert not told["filter"] and all(told["oracle"][i] or not yes for i, yes in enumerate(again))
    page = opened([trace], folded=True).page
    page.evaluate("t => handles[0].seek(t)", len(trace.steps) - 1)
    marks = page.locator("[data-view=Filtering] .dx-over:visible", has_text="✓")
    assert marks.count() > 0
    page.evaluate("handles[0].seek(1)")
    expect(page.locator("[data-view=Filtering] .dx-readout").first).to_have_text("No filter was asked in this step.")


def test_a_plain_threshold_is_decided_as_the_method_threshold_does(js: Call) -> None:
    rng = random.Random(3)
    for _ in range(40):
        scores, masked = [rng.random() for _ in range(8)], [rng.random() < 0.7 for _ in range(8)]
        theta, strict = rng.random(), rng.random() < 0.5
        best = max((i for i in range(8) if masked[i]), key=lambda i: scores[i], default=None)
        rule = [
            m and (i == best or (s > theta if strict else s >= theta))
            for i, (s, m) in enumerate(zip(scores, masked, strict=True))
        ]
        given = {"scores": scores, "open": masked, "theta": theta, "strict": strict}
        assert js("strips.js", "M.passing(scores, open, theta, strict)", **given) == rule


def test_a_form_keeps_its_gaps_in_place_and_names_the_call_of_each_word(js: Call, opened: Open) -> None:
    slug, model, prompt, params = RUNS["Form"]
    trace = engines.run(slug, model, prompt, params={"max_new_tokens": 48, **params})
    first, printed = len(trace.header.prompt_ids), trace.steps[0].records["form"]["printed"]
    board = [{"position": at, "token": None, "state": "masked", "entry": None} for at in range(first + 48)]
    for number, step in enumerate(trace.steps):
        for at, token in zip(step.commits.positions, step.commits.tokens, strict=True):
            board[at] |= {"token": token, "entry": {"step": number}}
        told = js(
            "views/form.js",
            "M.items(board, first, new Set(printed), new Set(eos))",
            board=board,
            first=first,
            printed=printed,
            eos=trace.header.eos_ids,
        )
        assert sum(item["n"] for item in told) == 48
        places = [item["position"] for item in told]
        assert places == sorted(places)
        for item in told:
            assert item["step"] == (board[item["position"]]["entry"] or {"step": None})["step"]
            assert item["printed"] == (item["position"] in printed)
    page = opened([trace], folded=True).page
    page.evaluate("handles[0].seek(1)")
    gaps = 48 - len(trace.steps[0].commits.positions)
    shown = "[...document.querySelectorAll('.dx-blank')].filter((gap) => gap.style.display !== 'none').length"
    assert page.evaluate(shown) == gaps


def test_the_scene_of_a_form_is_drawn_once(opened: Open) -> None:
    slug, model, prompt, params = RUNS["Form"]
    trace = engines.run(slug, model, prompt, params={"max_new_tokens": 48, **params})
    page = opened([trace], folded=True).page
    page.evaluate("handles[0].seek(1)")
    expect(page.locator("[data-view=Form] image:visible")).to_have_count(1)
    expect(page.locator("[data-view=Seen]")).to_have_count(0)


@pytest.mark.parametrize("prompt", ["subtract: 266 - 74", "add: 457 + 286", "add: 22 + 39"])
def test_a_watched_answer_stops_where_the_engine_does(js: Call, prompt: str) -> None:
    """At the recorded thresholds, and at those times a factor where the method ran with them."""
    params = {"answer_start": 20, "answer_length": 3}
    bars = {"bar_early": 7.5, "bar_mid": 5.0, "bar_late": 2.5}
    never = engines.run("prophet", "tiny-dlm", prompt, params={**params, **dict.fromkeys(bars, 100.0)})
    whole = [{**step.records["watched"], "bars": list(bars.values())} for step in never.steps]
    for told, step in zip(whole, never.steps, strict=True):
        phase = step.choice.detail.split()[0]
        bar = js("views/watched.js", "M.barOf(told, told.forward)", told=told)
        assert bar == bars[f"bar_{phase}"]
        assert js("views/watched.js", "M.mean(told.leads)", told=told) == pytest.approx(step.choice.value)
    for factor in (0.0, 0.2, 0.6, 1.0, 1.4):
        given = {name: factor * bar for name, bar in bars.items()}
        trace = engines.run("prophet", "tiny-dlm", prompt, params={**params, **given})
        stops = js("views/watched.js", "M.stopsAt(all, factor)?.forward ?? null", all=whole, factor=factor)
        if trace.steps[-1].choice.chosen == "all-in":
            assert stops == len(trace.steps)
        else:
            assert stops is None


def test_without_an_answer_to_watch_there_is_no_picture(opened: Open) -> None:
    trace = engines.run("prophet", "tiny-dlm", "add: 22 + 39", params={"answer_length": 0})
    assert all("watched" not in step.records for step in trace.steps)
    page = opened([trace], folded=True).page
    expect(page.locator("[data-view=Watched]")).to_have_count(0)


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
