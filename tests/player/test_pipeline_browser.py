"""The views of attention and experts apart, and of four attentions: what they count, and what they draw at every
step."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from pytest import approx

import engines
from engines.core.trace import Trace
from engines.studies._decode_costs import DEVICES, PUBLISHED, Pipeline
from tests.player.handmade import intervals
from tests.player.pictures import INSIDE

Open = Callable[..., Any]
Call = Callable[..., Any]
SIZES: list[dict[str, Any]] = [{}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}]
PROMPT = "story: Mia, boat"


def part(lane: str, start: float, end: float, label: str) -> dict[str, Any]:
    return {"lane": lane, "start": start, "end": end, "label": label}


INTERVALS = intervals(
    [
        part("attention", 1.0, 3.0, "microbatch 1, layer 1"),
        part("attention", 3.0, 5.0, "microbatch 2, layer 1"),
        part("feed-forward", 4.0, 5.5, "microbatch 1, layer 1"),
        part("feed-forward", 6.0, 9.0, "microbatch 2, layer 1"),
        part("attention", 0.0, 20.0, "layer 1"),  # no part of a microbatch
        part("links", 0.0, 20.0, "microbatch 1, layer 1"),
    ]
)


def test_a_turn_is_as_long_as_its_parts_and_both_sides_work_where_they_overlap(js: Call) -> None:
    found = js("views/stages.js", "M.turn({intervals})", intervals=INTERVALS)
    assert (found["start"], found["long"], len(found["parts"])) == (1.0, 8.0, 4)
    assert found["busy"] == [4 / 8, 4.5 / 8] and (found["both"], found["waited"]) == (1 / 8, 1.0)
    assert js("views/stages.js", "M.turn({intervals})", intervals=INTERVALS[4:]) is None
    assert js("views/stages.js", "M.turn(undefined)") is None


def test_readers_stand_by_what_they_read_with_the_middle_of_their_times(js: Call) -> None:
    def step(n: int, long: float) -> dict[str, Any]:
        facts = {"kv_bytes_mfa": 10 * n, "operations_mfa": 40 * n, "kv_bytes_mha": 40 * n, "operations_mha": 20 * n}
        parts = [part("MFA", 0, long, "attention, layer 1"), part("MFA", long, 9, "feed-forward, layer 1")]
        return {
            "facts": facts | {"kv_bytes": 7},
            "intervals": intervals([*parts, part("MFA", 9, 9 + long, "attention, layer 2")]),
        }

    steps = [step(1, 1.0), step(2, 4.0), step(3, 2.0)]
    first, last = js("views/costs.js", "M.readers(steps, 2)", steps=steps)
    assert (first["name"], first["bytes"], first["most"], first["intensity"]) == ("MHA", 80, 120, 0.5)
    assert (last["name"], last["bytes"], last["most"], last["intensity"]) == ("MFA", 20, 30, 4)
    assert (last["took"], last["middle"]) == (8.0, 8.0)
    assert js("views/costs.js", "M.readers(steps, 3)", steps=steps)[1]["middle"] == 4.0


@pytest.fixture(scope="module")
def apart() -> Trace:
    return engines.run("afd", "tiny-mfa", PROMPT, params={"max_new_tokens": 5, "microbatches": 2, "texts": 2})


@pytest.fixture(scope="module")
def four() -> Trace:
    return engines.run("factorised-attention", "tiny-mfa", PROMPT, params={"max_new_tokens": 5, "copies": 2})


TIMES = st.floats(1, 500)


@given(st.integers(1, 6), st.integers(1, 5), TIMES, TIMES, TIMES, TIMES)
def test_the_modelled_bars_are_those_of_the_study(
    js: Call, layers: int, m: int, a: float, f: float, out: float, back: float
) -> None:
    sizes = {"layers": layers, "m": m, "a": a, "f": f, "out": out, "back": back}
    made, found = Pipeline(layers, m, a, f, out, back), js("views/stages.js", "M.flow(sizes)", sizes=sizes)
    assert found["long"] == approx(made.step) and found["busy"] == [approx(made.busy(a)), approx(made.busy(f))]
    begins = [start for stage in made.stages() for start in (stage.attention, stage.ffn)]
    assert [one["start"] for one in found["parts"]] == approx(begins)
    assert js("views/stages.js", "M.flow(sizes, true).long", sizes=sizes) == approx(layers * m * (a + f))


@pytest.mark.parametrize("name", DEVICES)
def test_stages_at_the_published_size_follow_from_its_shape(js: Call, name: str) -> None:
    shape, device, b, n, gpus = PUBLISHED["Step-3"], DEVICES[name], 2048, 8192, 16
    call = "M.step3(devices.find((one) => one.name === name), n, b)"
    devices = js("views/costs.js", "M.DEVICES")
    found = js("views/stages.js", call, devices=devices, name=name, n=n, b=b)
    reading = max(shape.attention_flops(n) / device.flops, shape.kv_bytes(n) / device.bytes_per_s)
    assert found["a"] == approx(b / gpus * (reading + shape.linear_flops / device.flops) / shape.layers)
    expert = 3 * shape.hidden * shape.expert_ffn
    work = b / gpus * 2 * (shape.top_k + shape.shared) * expert / device.flops
    assert found["f"] == approx(max(work, (shape.experts + shape.shared) * expert / (gpus * device.bytes_per_s)))
    assert found["back"] == 2 * found["out"] == approx(b * shape.hidden / device.network)
    assert found["layers"] == shape.layers


def test_a_model_is_fed_with_the_middle_of_what_was_measured(js: Call) -> None:
    found = js("views/stages.js", "M.durations([M.turn({intervals})])", intervals=INTERVALS)
    assert found == {"layers": 1, "m": 2, "a": 2.0, "f": 3.0, "out": 1.0, "back": 1.0}
    assert js("views/stages.js", "M.durations([])") == dict.fromkeys(("layers", "m", "a", "f", "out", "back"), 0)


@pytest.mark.parametrize("options", [*SIZES, {"viewport": {"width": 820, "height": 800}}])
def test_every_bar_says_its_microbatch_and_layer(opened: Open, apart: Trace, options: dict[str, Any]) -> None:
    page = opened([apart], folded=True, **options).page
    view = page.locator('[data-view="Pipeline"]')
    for t, step in enumerate(apart.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        titles = [re.sub(r", [^,]*$", "", title) for title in view.locator("svg title").all_text_contents()]
        own = sorted(f"{i.track}: {i.label}" for i in step.intervals)
        assert len(own) == 2 * 2 * 4 and sorted(titles) == sorted(own * 4)  # turns, measured, modelled, at full size
        said = view.inner_text()
        assert "A step of 4 texts" in said and "In two processes" in said and f"Median of steps 1 to {t}:" in said
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
    for most in ("1", "6"):
        view.locator("input").first.fill(most)
        for n in ("10", "20"):
            view.locator("input").nth(1).fill(n)
            assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
    page.evaluate("handles[0].seek(0)")
    assert "Before the first step." in view.inner_text()


def test_a_step_that_is_slower_than_modelled_says_so(opened: Open, apart: Trace) -> None:
    slow = copy.deepcopy(apart)
    for bar in slow.steps[1].intervals:
        bar.start, bar.end = 3 * bar.start, 3 * bar.end
    page = opened([slow], folded=True, viewport={"width": 1440, "height": 900}).page
    page.evaluate("handles[0].seek(2)")
    expect(page.locator('[data-view="Pipeline"]')).to_contain_text("this machine's load refutes the model here")


@pytest.mark.parametrize("options", SIZES)
def test_bars_of_the_cache_grow_with_the_text_and_keep_their_order(
    opened: Open, four: Trace, options: dict[str, Any]
) -> None:
    page = opened([four], folded=True, **options).page
    view = page.locator('[data-view="Attentions"]')
    before = [0.0] * 4
    for t, step in enumerate(four.steps, 1):
        page.evaluate("t => handles[0].seek(t)", t)
        bars = "all => all.map((g) => +g.childNodes[1].getAttribute('width'))"
        wide = view.locator("svg > g:nth-of-type(5) > g").evaluate_all(bars)
        assert all(a > b for a, b in zip(wide, before, strict=True)) and wide == sorted(wide, reverse=True)
        assert wide[0] / wide[-1] == pytest.approx(4.0)
        texts = view.locator("svg text:visible").all_text_contents()
        assert [text for text in texts if text in ("MHA", "GQA", "MLA", "MFA")] == ["MHA", "GQA", "MLA", "MFA"]
        assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0
        assert f"After {int(step.facts['context'])} tokens" in view.inner_text()
        before = wide


def test_the_modelled_plane_has_the_sizes_and_prices_of_the_study(js: Call) -> None:
    models = js("views/costs.js", "M.MODELS.map((one) => [one.name, one.kind, M.attention(one, 8192)])")
    for name, kind, cost in models:
        shape = PUBLISHED[name]
        assert kind == shape.kind.upper()
        assert cost == {"bytes": shape.kv_bytes(8192), "operations": shape.attention_flops(8192)}
    devices = js("views/costs.js", "M.DEVICES")
    assert {one["name"]: (one["usd"], one["F"], one["W"]) for one in devices} == {
        name: (one.usd_per_hour, one.flops, one.bytes_per_s) for name, one in DEVICES.items()
    }


@given(name=st.sampled_from(sorted(PUBLISHED)), n=st.integers(1, 2**20), usd=st.floats(0.01, 10))
def test_a_dot_in_a_box_costs_no_more_than_the_price(js: Call, name: str, n: int, usd: float) -> None:
    if name == "Qwen3-32B":
        return
    call = "M.DEVICES.map((d) => M.fits(M.attention(M.MODELS.find((m) => m.name === name), n), M.bought(d, usd)))"
    inside = js("views/costs.js", call, name=name, n=n, usd=usd)
    for fit, device in zip(inside, DEVICES.values(), strict=True):
        shape = PUBLISHED[name]
        took = max(shape.attention_flops(n) / device.flops, shape.kv_bytes(n) / device.bytes_per_s)
        cost = 1e6 * took * device.usd_per_hour / 3600
        assert fit == (cost <= usd) or cost == approx(usd)


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_plane_holds_from_a_thousand_to_a_million_tokens(opened: Open, four: Trace, width: int) -> None:
    page = opened([four], folded=True, viewport={"width": width, "height": 800}).page
    view = page.locator('[data-view="Attentions"]')
    page.evaluate("handles[0].seek(2)")
    expect(view).to_contain_text("Step-3 (MFA): in 4 of 4 boxes" if width > 800 else "Step-3: 4 of 4")
    for exponent in range(10, 21):
        view.locator("input").first.fill(str(exponent))
        for price_ in ("-2", "-0.5", "1"):
            view.locator("input").last.fill(price_)
            assert view.locator("svg.dx-tower").evaluate(INSIDE) == 0, (exponent, price_)
    expect(view.locator("summary")).to_have_text("modelled: the formula")


def test_runs_without_such_lanes_show_neither(opened: Open, apart: Trace, four: Trace) -> None:
    for trace, absent in ((apart, "Attentions"), (four, "Pipeline")):
        page = opened([trace], folded=True).page
        page.evaluate("handles[0].seek(2)")
        assert not page.locator(f'[data-view="{absent}"]').is_visible()
