"""What the browser keeps: prompt, slots and parameters outlive a reload; an address wins; one button forgets all."""

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
    screen.page.goto(f"{screen.address}?gallery=0-{traces[0].header.method}")
    expect(prompt).to_have_value(PROMPT)
    expect(screen.page.locator("#method-0")).to_have_value(traces[0].header.method)


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
