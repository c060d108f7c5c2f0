"""A slot's form: what the server makes of its value (slot.test.mjs has the rules), and the form as a visitor fills
it in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

import engines
from engines import MethodInfo, UserError
from explorer.page.ahead import Ahead
from explorer.page.blocks import build
from explorer.page.catalogue import Catalogue, Plan
from explorer.page.form import LARGEST, Form, read
from explorer.page.handlers import Handlers
from explorer.page.limits import SLOTS, Limits
from explorer.runs.gallery import Gallery
from tests.page.conftest import HOSTILE, first_model, methods_of
from tests.page.stops import Visitor

TOLD = 16  # components whose status one event may change
VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Handlers:
    return Handlers(
        Gallery(Path(tmp_path_factory.mktemp("traces"))), Catalogue.read(False), Limits(1000, 100, 60, False)
    )


def with_shared() -> tuple[MethodInfo, MethodInfo, str]:
    """Two masked methods and a float parameter that both declare with the same range."""
    infos = [engines.get_method(slug).info for slug in methods_of("masked")]
    for one in infos:
        for other in infos:
            if one.slug == other.slug:
                continue
            for p in one.params:
                if p.kind == "float" and any((p.name, p.low, p.high) == (q.name, q.low, q.high) for q in other.params):
                    return one, other, p.name
    raise AssertionError("two masked methods with a common parameter are needed")


# --- the server


def test_no_event_of_the_server_touches_many_components(handlers):
    """Gradio tells each of them the status of every later event of the page."""
    wide = {
        fn.name: len(fn.inputs) + len(fn.outputs)
        for fn in build(handlers).fns.values()
        if fn.fn and len(fn.inputs) + len(fn.outputs) > TOLD
    }
    assert not wide, "a form is one component, however many controls it has"


def test_no_event_asks_two_functions_of_which_each_waits_for_its_turn(handlers):
    """Gradio 6.31 lets the whole event happen again where one of them was asked for meanwhile, so that two of them ask
    for each other without end."""
    asked: dict[Any, list[str]] = {}
    for fn in build(handlers, loads=Ahead(handlers)).fns.values():
        for target, event in fn.targets:
            if fn.fn and fn.trigger_mode == "always_last" and target is not None:
                asked.setdefault((target, event), []).append(fn.name)
    assert asked and not [names for names in asked.values() if len(names) > 1]


def test_a_slot_is_one_component_and_the_catalogue_is_sent_once(handlers):
    demo = build(handlers)
    run = next(fn for fn in demo.fns.values() if fn.name == "run" and len(fn.inputs) == 3 + SLOTS)
    assert [one.elem_id for one in run.inputs] == ["prompt", "seed", "count", *(f"slot-{i}" for i in range(SLOTS))]
    page = json.dumps(demo.get_config_file(), default=str)
    rarest = max((p.help for info in handlers.catalogue.methods.values() for p in info.params), key=len)
    forker = 1  # the panel of a player offers the methods too
    assert page.count(json.dumps(json.dumps(rarest, ensure_ascii=False)[1:-1])[1:-1]) == 1 + forker


@given(st.dictionaries(st.text(max_size=8), VALUES))
def test_a_form_is_read_back(params):
    form = Form("some-method", "some-model", params)
    assert read(form.text()) == form == read({"method": "some-method", "model": "some-model", "params": params})


@pytest.mark.parametrize(
    "sent",
    [
        None,
        3,
        "",
        "{}",
        "nan",
        "[",
        ["a"],
        "[" * 100_000,
        '{"method": "' + "x" * LARGEST + '", "model": ""}',
        '{"method": 1, "model": "x"}',
        '{"method": "x", "model": "y", "params": [1]}',
        '{"method": "x", "model": "y", "params": {"n": ' + "9" * 5000 + "}}",
        '{"method": "x", "model": "y", "\ud800": 1}',
    ],
)
def test_anything_else_is_refused_in_a_sentence(handlers, sent):
    with pytest.raises(UserError, match=r"could not be read: .*; reload the page, or give an object") as caught:
        read(sent)
    str(caught.value).encode()
    (answer,) = handlers.running.run(Visitor("one"), "sort: Mia", 0, "2", sent, sent)
    said = json.loads(answer[1])
    assert said["kind"] == "error" and said["text"].startswith("Slot 1: the form could not be read")


def test_a_run_without_forms_is_refused(handlers):
    (answer,) = handlers.running.run(Visitor("one"), "sort: Mia", 0, "2")
    assert "2 slots cannot be run" in json.loads(answer[1])["text"]


def test_a_public_page_offers_what_may_run_there():
    info = next(info for info in engines.list_methods() if any(p.file for p in info.params))
    offered = json.loads(Catalogue.read(True, ("tiny-dlm",), 20).offered())
    params = {p["name"]: p for p in next(m for m in offered["methods"] if m["slug"] == info.slug)["params"]}
    assert not {p.name for p in info.params if p.file} & set(params)
    assert params["max_new_tokens"]["high"] == 20 >= params["max_new_tokens"]["default"]
    assert [model["name"] for model in offered["models"]] == ["tiny-dlm"] and offered["open"] is False


# --- the rules


def test_a_value_is_made_complete(js, handlers):
    catalogue = json.loads(handlers.catalogue.offered())
    infos = list(handlers.catalogue.methods.values())
    forms = [
        json.loads(handlers.catalogue.form(Plan(info.slug, handlers.catalogue.first_model(info), {})).text())
        for info in infos
    ]
    whole, partly, other = js(
        "/page/slot.js",
        """[forms.map((form) => M.complete(catalogue, form)),
          forms.map(({ method }) => M.complete(catalogue, { method, params: { "no such": 1 } }).params),
          M.complete(catalogue, { method: "no-such" }).method]""",
        catalogue=catalogue,
        forms=forms,
    )
    assert whole == forms, "what the server sends needs no change"
    assert partly == [form["params"] for form in forms]
    first = catalogue["methods"][0]
    assert other == first["slug"]
    usual = {param["name"]: param["default"] for param in first["params"]}
    assert js("/page/slot.js", "[M.changed(first, usual), M.changed(first, {})]", first=first, usual=usual) == [
        [],
        [*usual],
    ]


# --- the visitor


def sent_with(page: Page, act: Any) -> dict[str, Any]:
    """The body of the event that presses Run."""
    with page.expect_request(lambda r: "/queue/join" in r.url and "slot" not in r.url and r.method == "POST") as found:
        act()
    return json.loads(found.value.post_data or "{}")


def test_a_changed_form_is_what_the_run_uses_and_no_change_asks_the_server(visit):
    one, other, name = with_shared()
    screen = visit()
    page = screen.page
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if r.method == "POST" else None)
    screen.method(0, one.slug)
    screen.parameters(0).get_by_role("button", name="Reset all to the defaults").click()
    screen.parameters(0).get_by_role("spinbutton", name=name).fill("0.25")
    screen.method(0, other.slug)
    shown = screen.parameters(0)
    expect(shown.get_by_role("spinbutton", name=name)).to_have_value("0.25")
    expect(shown.get_by_role("slider", name=f"{name}, slider")).to_have_value("0.25")
    expect(shown.locator("> summary")).to_contain_text("1 changed")
    shown.get_by_role("spinbutton", name="max_new_tokens").fill("24")
    assert asked == [], "a form is filled in without the server"
    data = sent_with(page, lambda: screen.press("Run"))["data"]
    first = json.loads(data[3])
    assert first["method"] == other.slug and len(data) == 3 + SLOTS
    assert first["params"] == {p.name: p.default for p in other.params} | {name: 0.25, "max_new_tokens": 24}
    screen.wait(0, "done")
    expect(screen.player(0).locator("h2 > span")).to_have_text(other.title)


def test_a_form_is_filled_in_by_keyboard_and_its_parameters_go_back_to_their_defaults(visit):
    info = next(i for i in (engines.get_method(slug).info for slug in methods_of("masked")) if len(i.params) > 3)
    numbers = [p for p in info.params if p.kind in ("int", "float")][:2]
    screen = visit()
    page = screen.page
    screen.method(0, info.slug)
    shown = screen.parameters(0)
    everything = shown.get_by_role("button", name="Reset all to the defaults")
    everything.click()  # the recorded run was shorter than the default
    expect(everything).to_be_hidden()
    page.locator("#method-0").focus()
    for found in ("#model-0", "#slot-0 .slot-params summary", "#slot-0 input[type=range] >> nth=0"):
        page.keyboard.press("Tab")
        expect(page.locator(found)).to_be_focused()
    before = int(page.locator("#slot-0 input[type=range]").first.input_value())
    page.keyboard.press("ArrowRight")
    box = page.locator("#slot-0 input[type=number]").first
    expect(box).to_have_value(str(before + 1))
    page.keyboard.press("Tab")
    expect(box).to_be_focused()
    for described in box.get_attribute("aria-describedby").split():
        expect(page.locator(f"[id='{described}']")).not_to_be_empty()
    expect(page.get_by_role("group", name="Slot 1", exact=True)).to_be_visible()
    expect(page.get_by_role("group", name="Parameters of slot 1")).to_be_visible()
    boxes = [shown.get_by_role("spinbutton", name=p.name, exact=False).first for p in numbers]
    for p, box in zip(numbers, boxes, strict=True):
        box.fill(str(p.high))
    expect(shown.locator("[data-changed]")).to_have_count(2)
    shown.get_by_role("button", name=f"Reset {numbers[0].name} to").press("Enter")
    expect(boxes[0]).to_have_value(f"{numbers[0].default:g}")
    expect(boxes[0]).to_be_focused()
    expect(shown.locator("[data-changed]")).to_have_count(1)
    everything.press("Enter")
    expect(boxes[1]).to_have_value(f"{numbers[1].default:g}")
    expect(shown.locator("[data-changed]")).to_have_count(0)
    expect(shown.locator("summary")).to_be_focused()


def test_a_model_of_ones_own_can_be_named_and_the_list_is_found_again(visit, handlers):
    screen = visit()
    page = screen.page
    screen.model(0, "me/mine")
    data = sent_with(page, lambda: screen.press("Run"))["data"]
    assert json.loads(data[3])["model"] == "me/mine"
    screen.says("me/mine")
    screen.method(0, methods_of("causal")[0])
    expect(page.locator("#model-0-other")).to_have_value("me/mine")
    screen.model(0, first_model("causal"))
    expect(page.locator("#model-0-other")).to_be_hidden()
    infos = handlers.catalogue.methods.values()
    info = min((one for one in infos if one.parts), key=lambda one: len(handlers.catalogue.fitting(one)))
    screen.method(0, info.slug)  # it has a trained part, so that few models are offered
    expect(page.locator("#model-0")).to_have_value(handlers.catalogue.first_model(info))
    options = page.locator("#model-0 option").evaluate_all("(all) => all.map(({ value }) => value)")
    assert options[:-1] == handlers.catalogue.fitting(info)  # the last one opens a field for another


@pytest.mark.pages
def test_a_longer_text_is_picked_by_name_and_sent_whole_once_it_is_changed(visit, handlers):
    infos = handlers.catalogue.methods.values()
    info, param = next((info, p) for info in infos for p in info.params if p.kind == "code")
    screen, (first, other) = visit(), list(param.presets)[:2]
    screen.method(0, info.slug)
    field = screen.parameters(0).locator(f'[data-param="{param.name}"]')
    pick, box = field.locator("select"), field.locator("textarea")
    expect(box).to_have_value(param.presets[param.default])
    pick.select_option(other if param.default == first else first)
    chosen = pick.input_value()
    expect(box).to_have_value(param.presets[chosen])
    expect(field).to_have_attribute("data-changed", "")
    box.fill(param.presets[chosen] + "# mine\n")
    expect(pick).to_have_value("")
    field.locator(".param-reset").click()
    expect(pick).to_have_value(param.default)
    expect(box).to_have_value(param.presets[param.default])
    assert screen.complaints == []


@pytest.mark.pages
def test_as_many_slots_are_shown_as_are_run_and_a_closed_one_says_what_it_holds(visit, traces):
    screen = visit()
    for count in (4, 1, 3, 2):
        screen.page.locator("#count").get_by_label(str(count), exact=True).check()
        for slot in range(SLOTS):
            expect(screen.page.locator(f"#method-{slot}")).to_be_visible(visible=slot < count)
    slot = screen.page.locator("#slot-0 .slot-form")
    slot.locator("> summary").press("Enter")
    expect(screen.page.locator("#method-0")).to_be_hidden()
    expect(slot.locator("> summary")).to_contain_text(traces[0].header.title)
    expect(slot.locator("> summary")).to_contain_text(traces[0].header.models[0].name)


def test_whatever_the_catalogue_says_stays_text(visit):
    """A method's own words may come from a file of a person: they are text in every place."""
    page = visit(folded=True).page
    page.locator("#method-0").wait_for(state="attached")
    param = {
        "name": HOSTILE,
        "kind": "choice",
        "default": HOSTILE,
        "choices": [HOSTILE],
        "help": HOSTILE,
        "symbol": HOSTILE,
    }
    method = {
        "slug": HOSTILE,
        "title": HOSTILE,
        "family": HOSTILE,
        "kind": HOSTILE,
        "summary": HOSTILE,
        "params": [param],
    }
    told = page.evaluate(
        """async (catalogue) => {
          const { name } = performance.getEntriesByType("resource").find(({ name }) => /page\\/form\\.js/.test(name));
          const { Form } = await import(name), told = [], form = new Form(catalogue, 7, (value) => told.push(value));
          document.body.append(form.root);
          form.write({});
          return told; }""",
        {"open": True, "models": [{"name": HOSTILE, "kind": HOSTILE, "label": HOSTILE}], "methods": [method]},
    )
    assert told == [{"method": HOSTILE, "model": HOSTILE, "params": {HOSTILE: HOSTILE}}]
    expect(page.locator("#about-7")).to_have_text(HOSTILE)
