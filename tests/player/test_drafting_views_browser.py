"""The pictures of drafting: what a slider decides again is what the engine's own rule decides, and each picture holds
on every step, in narrow and dark panels, and where nothing was drafted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from msgspec import structs
from playwright.sync_api import expect

import engines
from engines.core.trace import Trace
from engines.methods.heads.del_.exit_choice import choose
from engines.methods.speculative.reflective_verification.look import fuse, won
from engines.methods.speculative.specdec_pp import StopRule
from tests.engines.methods.speculative.test_fastdraft import ends_of
from tests.player.pictures import INSIDE, PANELS, held_on_every_step

Open = Callable[..., Any]
Call = Callable[..., Any]
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Staircase": ("specdec-pp", "story: Mia, boat", {}),
    "Reflected": ("reflective-verification", "story: Mia, boat", {"alpha": 0.6}),
    "ExitMap": ("del", "story: Mia, boat", {}),
    "Conveyor": ("clover", "story: Dan, coin", {"nodes": 20}),
    "Fusion": ("chimera", "story: Carl, door, map", {}),
    "Transferred": ("hidden-transfer", "story: Sara, horse", {"transfer_layer": 2}),
    "Siblings": ("rsd", "story: Mia, boat", {"temperature": 1.0}),
    "Schooling": ("fastdraft", "story: Mia, boat", {}),
    "AtOnce": ("pearl", "story: Mia, boat", {}),
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
    steps = json.loads(trace.to_json())["steps"]
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
    trace = engines.run("hidden-transfer", "tiny-ar-l", "story: Sara, horse", params={"transfer_layer": 2})
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


@pytest.fixture(scope="module", params=RUNS)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Trace]:
    slug, prompt, params = RUNS[request.param]
    return request.param, engines.run(slug, "tiny-ar-l", prompt, params={"max_new_tokens": 20, **params})


@pytest.mark.parametrize("options", PANELS, ids=str)
def test_each_picture_holds_on_every_step(opened: Open, drawn: tuple[str, Trace], options: dict[str, Any]) -> None:
    name, trace = drawn
    page = opened([trace], folded=True, **options).page
    view = held_on_every_step(page, name, len(trace.steps))
    if view.locator("input[type=range]").count():
        t = 2
        page.evaluate("handles[0].seek(2)")
        while view.locator("input[type=range]").is_disabled():
            page.evaluate("t => handles[0].seek(t)", t := t + 1)
        view.locator("input[type=range]").fill("1")
        expect(view.locator("[aria-live]")).to_contain_text("derived: ")
        view.get_by_role("button", name="as recorded").click()
        expect(view.locator("[aria-live]")).to_have_text("")


def test_a_tree_names_the_passes_that_grew_it_and_the_chances_it_was_grown_by(opened: Open) -> None:
    page = opened([engines.run("falcon", "tiny-ar-m", "add: 45 + 86", params={"max_new_tokens": 12})], folded=True).page
    page.evaluate("handles[0].seek(2)")
    names = page.locator('[data-view="DraftTree"] .dx-slab + text:visible').all_text_contents()
    assert names[0] == "pass 1 drafts levels 1–2 at once" and all(
        name.startswith(f"pass {i} ") for i, name in enumerate(names, 1)
    )
    trace = engines.run("dyspec", "tiny-ar-l", "story: Mia, boat", params={"max_new_tokens": 12})
    tree = trace.steps[0].tree
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="DraftTree"]')
    page.evaluate("handles[0].seek(1)")
    expect(view.locator(".dx-legend")).to_contain_text("%: estimated chance that the check gets here")
    told = view.locator("g[data-row]:visible").all_text_contents()
    known = [f"{float(f'{100 * value:.2g}'):g} % " for value in tree.values if value is not None]
    assert known and all(any(share in text for text in told) for share in known)


@pytest.fixture(scope="module")
def scene() -> Trace:
    return engines.run("msd", "tiny-vlm", "scene 12", params={"max_new_tokens": 48})


def test_the_words_of_each_class_that_a_draft_says_first(js: Call, scene: Trace) -> None:
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


@pytest.mark.parametrize(
    "options", [{}, {"viewport": {"width": 390, "height": 800}}, {"viewport": {"width": 900, "height": 800}}]
)
def test_the_switch_takes_patches_the_other_way(opened: Open, scene: Trace, options: dict[str, Any]) -> None:
    page = opened([scene], folded=True, **options).page
    view = page.locator('[data-view="Entering"]')
    page.evaluate("handles[0].seek(0)")
    expect(view.locator(".dx-readout")).to_have_text("Before the first step.")
    for t in range(1, len(scene.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0, t
    expect(view.locator("button")).to_have_count(4)
    for i, way in enumerate(scene.steps[0].records["inputs"]["ways"]):
        view.locator("button").nth(i).click()
        expect(view.locator("button[aria-pressed=true]")).to_have_count(1)
        path = view.locator(".dx-exit").get_attribute("d") or ""
        assert ("Q" in path) == (way == "fused")
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0, way
        expect(view.locator(".dx-readout")).to_contain_text(
            " of 36 words." + " Another draft wrote this text." * bool(i)
        )


def test_without_a_picture_there_are_no_patches(opened: Open) -> None:
    trace = engines.run("msd", "tiny-vlm", "words: red small circle top left", params={"max_new_tokens": 12})
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="Entering"]')
    page.evaluate("handles[0].seek(2)")
    expect(view.locator(".dx-readout").first).to_contain_text("There is no picture")
    expect(view.locator("image")).to_be_hidden()
    assert view.locator("text", has_text="patches").count() == 0


@pytest.mark.parametrize("params", [{"m": 1}, {"transfer_layer": 6}, {"nodes": 0}, {"max_new_tokens": 1}])
def test_half_columns_of_any_height_and_number(opened: Open, params: dict[str, Any]) -> None:
    trace = engines.run("hidden-transfer", "tiny-ar-l", "story: Sara, horse", params={"max_new_tokens": 12, **params})
    page = opened([trace], folded=True).page
    view = page.locator('[data-view="Transferred"]')
    for t, step in enumerate(trace.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        told = step.records["transfer"]
        if "tokens" not in told:
            expect(view.locator(".dx-readout").first).to_have_text("Nothing was guessed for this call.")
            expect(view.locator("svg.dx-tower")).to_be_hidden()
            continue
        expect(view.locator(".dx-eta:visible")).to_have_count(len(told["tokens"][0]))
        accepted = sum(step.tree.accepted) - 1
        expect(view.locator(".dx-readout").first).to_contain_text(f"Call {t} accepts {accepted} and writes")


@pytest.mark.parametrize("width", [1024, 800, 640, 390])
def test_words_of_any_direction_and_length_stay_in_the_drawing(opened: Open, width: int) -> None:
    trace = engines.run("hidden-transfer", "tiny-ar-l", "story: Sara, horse", params={"transfer_layer": 2})
    odd = [
        "\u202eright to left",
        "\u05e9\u05dc\u05d5\u05dd",
        "w" * 80,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\n",
    ]
    trace.pieces = [structs.replace(piece, text=odd[i % 5]) for i, piece in enumerate(trace.pieces)]
    page = opened([trace], folded=True, viewport={"width": width, "height": 800}).page
    for t in range(1, len(trace.steps) + 1):
        page.evaluate("t => handles[0].seek(t)", t)
        assert page.locator("[data-view=Transferred] svg.dx-tower").evaluate(INSIDE) == 0, t
