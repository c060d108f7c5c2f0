"""What the browser keeps: prompt, slots and parameters outlive a reload; an address wins; one button forgets all."""

from __future__ import annotations

import json

import pytest
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
    screen.slots(3)
    screen.method(1, slug)
    screen.model(1, first_model("causal"))
    screen.parameters(1).locator(f"#control-1-{param.name}").fill(str(param.low))
    screen.until(f"{STORED}?.includes('my own text') && {STORED}.includes('\"{param.name}\":{param.low}')")
    return param.name


def test_prompt_slots_and_parameters_outlive_a_reload_and_an_address_with_a_run_wins(visit, traces):
    screen = visit()
    name, prompt = own(screen), screen.page.locator("#prompt textarea")
    value = screen.page.locator(f"#control-1-{name}").input_value()
    screen.page.reload()
    screen.wait(0, "ready")
    expect(prompt).to_have_value("copy: my own text")
    expect(screen.page.locator("#count").get_by_role("radio", name="3", exact=True)).to_be_checked()
    screen.unfold()
    expect(screen.page.locator("#method-1")).to_have_value(methods_of("causal")[1])
    expect(screen.page.locator("#model-1")).to_have_value(first_model("causal"))
    expect(screen.page.locator(f"#control-1-{name}")).to_have_value(value)
    screen.run(2)  # the server has what is seen
    expect(screen.player(1).locator("h2 > span")).to_have_text(engines.get_method(methods_of("causal")[1]).info.title)
    screen.page.goto(f"{screen.address}?gallery=0-{traces[0].header.method}")
    expect(prompt).to_have_value(PROMPT)
    expect(screen.page.locator("#method-0")).to_have_value(traces[0].header.method)


@pytest.mark.pages
def test_an_older_version_is_dropped_with_a_sentence(visit):
    screen = visit(first=f"localStorage.setItem('{KEY}', '{{\"version\": 0}}')")
    expect(screen.page.locator("#status")).to_contain_text("of another version, so it was dropped")
    assert screen.page.evaluate(STORED) is None


def test_bad_values_that_were_kept_are_dropped_quietly(js):
    broken = ["", "{", "null", "[]", '{"version": 1}']
    broken.append(json.dumps({"version": 1, "prompt": "a", "count": 9, "values": [{}]}))
    assert js("/page/kept.js", "broken.map(M.parse)", broken=broken) == [None] * len(broken)
    param = {"name": "n", "kind": "int", "low": 1, "high": 8, "default": 4}
    catalogue = {
        "open": False,
        "models": [{"name": "m", "kind": "causal"}],
        "methods": [{"slug": "a", "kind": "causal", "params": [param]}],
    }
    fits = {2: {"n": 2}, 99: {"n": 4}, "2": {"n": 4}}
    params = [{"n": given} for given in fits] + [{"gone": 1}, [], None]
    values = [{"method": "a", "model": "m", "params": given} for given in params]
    values += [None, 3, {"method": "gone", "params": {"n": 2}}]
    found = js(
        "/page/kept.js", "values.map((value) => M.fitting(catalogue, value))", catalogue=catalogue, values=values
    )
    assert [one["params"] for one in found] == [*fits.values(), *[{"n": 4}] * 6]
    assert all((one["method"], one["model"]) == ("a", "m") for one in found)


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
    screen.until("Object.keys(localStorage).join() === 'of-another-page'")
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
