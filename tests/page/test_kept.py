"""What the browser keeps: prompt, slots and parameters outlive a reload; an address wins; one button forgets all."""

from __future__ import annotations

import json

from playwright.sync_api import expect

import engines
from explorer.page.my_runs import MyRuns
from explorer.runs.store import RunStore
from tests.page.conftest import PROMPT, first_model, methods_of

KEY = "decoding-explorer-form"
STORED = f"localStorage.getItem('{KEY}')"


def own(screen) -> str:
    """Sets everything to something of a person's own; returns the name of the parameter that was changed."""
    slug = methods_of("causal")[1]
    param = next(p for p in engines.get_method(slug).info.params if p.kind == "int")
    screen.prompt("copy: my own text")
    screen.page.locator("#count").get_by_role("radio", name="3", exact=True).check()
    screen.method(1, slug)
    screen.model(1, first_model("causal"))
    screen.parameters(1).locator(f"#control-1-{param.name}").fill(str(param.low))
    screen.page.wait_for_function(
        f"{STORED}?.includes('my own text') && {STORED}.includes('\"{param.name}\":{param.low}')"
    )
    return param.name


def test_prompt_slots_and_parameters_outlive_a_reload(visit):
    screen = visit()
    name = own(screen)
    value = screen.page.locator(f"#control-1-{name}").input_value()
    screen.page.reload()
    screen.wait(0, "ready")
    expect(screen.page.locator("#prompt textarea")).to_have_value("copy: my own text")
    expect(screen.page.locator("#count").get_by_role("radio", name="3", exact=True)).to_be_checked()
    screen.unfold()
    expect(screen.page.locator("#method-1")).to_have_value(methods_of("causal")[1])
    expect(screen.page.locator("#model-1")).to_have_value(first_model("causal"))
    expect(screen.page.locator(f"#control-1-{name}")).to_have_value(value)
    screen.press("Run")  # the server has what is seen
    expect(screen.player(1).locator("h2 > span")).to_have_text(engines.get_method(methods_of("causal")[1]).info.title)
    screen.wait(2, "done")


def test_an_address_with_a_run_and_a_card_of_the_gallery_win(visit, traces):
    screen = visit()
    own(screen)
    screen.page.goto(f"{screen.address}?gallery=0-{traces[0].header.method}")
    expect(screen.page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(screen.page.locator("#method-0")).to_have_value(traces[0].header.method)
    screen.page.goto(f"{screen.address}?still")
    screen.wait(0, "ready")
    screen.tab("Gallery")
    screen.page.locator(f"#play-{2}-{traces[2].header.method}").click()
    expect(screen.page.locator("#prompt textarea")).to_have_value(PROMPT)


def test_an_older_version_is_dropped_with_a_sentence_and_single_bad_values_quietly(visit, js):
    screen = visit(first=f"localStorage.setItem('{KEY}', '{{\"version\": 0}}')")
    expect(screen.page.locator("#status")).to_contain_text("of another version, so it was dropped")
    assert screen.page.evaluate(STORED) is None
    broken = [
        "",
        "{",
        "null",
        "[]",
        '{"version": 1}',
        json.dumps({"version": 1, "prompt": "a", "count": 9, "values": [{}]}),
    ]
    assert js("/page/kept.js", "broken.map(M.parse)", broken=broken) == [None] * len(broken)
    param = {"name": "n", "kind": "int", "low": 1, "high": 8, "default": 4}
    catalogue = {
        "open": False,
        "models": [{"name": "m", "kind": "causal"}],
        "methods": [{"slug": "a", "kind": "causal", "params": [param]}],
    }
    for given, n in [({"n": 2}, 2), ({"n": 99}, 4), ({"n": "2"}, 4), ({"gone": 1}, 4), ([], 4), (None, 4)]:
        value = {"method": "a", "model": "m", "params": given}
        assert js("/page/kept.js", "M.fitting(catalogue, value)", catalogue=catalogue, value=value)["params"] == {
            "n": n
        }
    for value in (None, 3, {"method": "gone", "params": {"n": 2}}):
        fit = js("/page/kept.js", "M.fitting(catalogue, value)", catalogue=catalogue, value=value)
        assert fit == {"method": "a", "model": "m", "params": {"n": 4}}


def test_one_button_forgets_what_the_browser_keeps_and_asks_once(visit):
    screen = visit()
    own(screen)
    screen.page.evaluate("localStorage.setItem('of-another-page', 'stays')")
    screen.tab("My runs")
    button = screen.page.get_by_role("button", name="Forget what this browser keeps", exact=True)
    button.click()
    screen.press("Cancel")
    assert "my own text" in screen.page.evaluate(STORED)
    button.click()
    expect(screen.page.locator(".run-forget")).to_contain_text("deletes all kept runs for good")
    screen.press("Forget all")
    expect(screen.page.locator("#my-runs .run-said")).to_contain_text("Forgotten")
    kept = screen.page.evaluate("Object.keys(localStorage)")
    assert kept == ["of-another-page"]
    screen.page.reload()
    screen.wait(0, "ready")
    expect(screen.page.locator("#prompt textarea")).not_to_have_value("copy: my own text")


def test_forgetting_deletes_pinned_and_deleted_runs_and_none_of_a_public_host(tmp_path, traces, monkeypatch):
    store = RunStore(tmp_path / "runs")
    names = [store.save(trace) for trace in traces]
    store.pin(names[0], True)
    store.delete(names[1])
    for listed, left in ((False, len(names) - 1), (True, 0)):
        runs = MyRuns(store, None, "shared", listed)  # type: ignore[arg-type]
        runs.act({"act": "forget"})
        assert len(store.cards()) == left
    assert not list(store.trash.iterdir())
