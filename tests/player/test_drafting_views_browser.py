"""The pictures of drafting: what a slider decides again is what the engine's own rule decides, and each picture holds
on every step, in narrow and dark panels, and where nothing was drafted."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from engines.methods.heads.del_.exit_choice import choose
from engines.methods.speculative.reflective_verification.look import fuse, won
from engines.methods.speculative.specdec_pp import StopRule

Open = Callable[..., Any]
Call = Callable[..., Any]
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Staircase": ("specdec-pp", "story: Mia, boat", {}),
    "Reflected": ("reflective-verification", "story: Mia, boat", {"alpha": 0.6}),
    "ExitMap": ("del", "story: Mia, boat", {}),
    "Siblings": ("rsd", "story: Mia, boat", {"temperature": 1.0}),
    "SampleBands": ("stand", "story: Mia, boat", {"temperature": 1.0, "trajectories": 3}),
    "SearchTree": ("aded", "python: class Boat(name: str, speed: int, crew: int)", {"corpus": "store"}),
}


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


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    slug, prompt, params = RUNS[request.param]
    return request.param, engines.run(slug, "tiny-ar-l", prompt, params={"max_new_tokens": 20, **params})


@pytest.mark.parametrize(
    "options", [{}, *({"viewport": {"width": width, "height": 800}} for width in (390, 820)), {"color_scheme": "dark"}]
)
def test_each_picture_holds_on_every_step(opened: Open, drawn: tuple[str, Trace], options: dict[str, Any]) -> None:
    name, trace = drawn
    page = opened([trace], folded=True, **options).page
    view = page.locator(f'[data-view="{name}"]')
    page.evaluate("handles[0].seek(0)")
    expect(view.locator(".dx-readout").first).to_have_text("Before the first step.")
    for t in range(1, len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        inside = """(svg) => { const box = svg.getBoundingClientRect();
          const shown = [...svg.querySelectorAll("text")].filter((one) => one.textContent)
            .flatMap((one) => [...one.getClientRects()]);
          return shown.filter(({ left, right }) => left < box.left - 2 || right > box.right + 2).length; }"""
        assert view.locator("svg.dx-tower").evaluate(inside) == 0, t
    if view.locator("input[type=range]").count():
        t = 2
        page.evaluate("handles[0].seek(2)")
        while view.locator("input[type=range]").is_disabled():
            page.evaluate("t => handles[0].seek(t)", t := t + 1)
        view.locator("input[type=range]").fill("1")
        expect(view.locator("[aria-live]")).to_contain_text("derived: ")
        view.get_by_role("button", name="as recorded").click()
        expect(view.locator("[aria-live]")).to_have_text("")
