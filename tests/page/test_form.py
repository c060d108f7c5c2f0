"""A slot's form: what the server makes of its value (slot.test.mjs has the rules), and the form as a visitor fills
it in."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

import engines
from engines import UserError
from explorer.links import SLOTS
from explorer.page.blocks import build
from explorer.page.catalogue import Form
from explorer.page.form import LARGEST, read
from explorer.page.handlers import Handlers
from explorer.page.prefetch import Ahead
from tests.page.conftest import HOSTILE, desk, visitor

TOLD = 16  # components whose status one event may change
VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)


@pytest.fixture(scope="module")
def handlers() -> Handlers:
    return desk()


def test_a_slot_is_one_component_and_no_event_touches_many_or_asks_two_functions_that_wait(handlers):
    """Gradio tells each component of an event the status of every later one; and 6.31 lets an event happen again where
    one of two functions that wait for their turn was asked for meanwhile, so that they ask for each other without end.
    """
    demo, waiting = build(handlers, loads=Ahead(handlers)), Counter()
    for fn in (fn for fn in demo.fns.values() if fn.fn):
        assert len(fn.inputs) + len(fn.outputs) <= TOLD, fn.name
        waiting.update(fn.targets if fn.trigger_mode == "always_last" else [])
    assert waiting and {many for (target, _), many in waiting.items() if target is not None} == {1}
    run = next(fn for fn in demo.fns.values() if fn.name == "run" and len(fn.inputs) == 3 + SLOTS)
    assert [one.elem_id for one in run.inputs] == ["prompt", "seed", "count", *(f"slot-{i}" for i in range(SLOTS))]
    page = json.dumps(demo.get_config_file(), default=str)
    rarest = max((p.help for info in handlers.catalogue.methods.values() for p in info.params), key=len)
    forker = 1  # the panel of a player offers the methods too
    assert page.count(json.dumps(json.dumps(rarest, ensure_ascii=False)[1:-1])[1:-1]) == 1 + forker, "sent once"


@given(st.dictionaries(st.text(max_size=8), VALUES))
def test_a_form_is_read_back(params):
    form = Form("some-method", "some-model", params)
    assert read(form.text()) == form == read({"method": "some-method", "model": "some-model", "params": params})


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "{}",
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
    (answer,) = handlers.run(visitor(), "sort: Mia", 0, "2", sent, sent)
    said = json.loads(answer[1])
    assert said["kind"] == "error" and said["text"].startswith("Slot 1: the form could not be read")
    (answer,) = handlers.run(visitor(), "sort: Mia", 0, "2")
    assert "2 slots cannot be run" in json.loads(answer[1])["text"]


def test_a_value_is_made_complete(js, handlers):
    catalogue = json.loads(handlers.catalogue.offered())
    infos, known = handlers.catalogue.methods.values(), handlers.catalogue
    forms = [json.loads(known.form(Form(info.slug, known.first_model(info), {})).text()) for info in infos]
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
    assert other == catalogue["methods"][0]["slug"]


def test_a_changed_form_is_what_the_run_uses_and_no_change_asks_the_server(visit):
    other, name = engines.get_method("creditdecoding").info, "threshold"
    screen = visit()
    page = screen.page
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if r.method == "POST" else None)
    screen.method(0, "threshold")
    everything = screen.parameters(0).get_by_role("button", name="Reset all to the defaults")
    everything.click()  # the recorded run was shorter than the default
    expect(everything).to_be_hidden()
    page.locator("#method-0").focus()
    for found in ("#model-0", "#slot-0 .slot-params summary", "#slot-0 input[type=range] >> nth=0"):
        page.keyboard.press("Tab")
        expect(page.locator(found)).to_be_focused()
    page.keyboard.press("Tab")
    for described in page.locator(":focus").get_attribute("aria-describedby").split():
        expect(page.locator(f"[id='{described}']")).not_to_be_empty()
    screen.parameters(0).get_by_role("spinbutton", name=name).fill("0.25")
    screen.method(0, other.slug)
    shown = screen.parameters(0)
    expect(shown.get_by_role("spinbutton", name=name)).to_have_value("0.25")
    expect(shown.get_by_role("slider", name=f"{name}, slider")).to_have_value("0.25")
    expect(shown.locator("> summary")).to_contain_text("1 changed")
    shown.get_by_role("spinbutton", name="max_new_tokens").fill("24")
    assert asked == [], "a form is filled in without the server"
    with page.expect_request(lambda r: "/queue/join" in r.url and r.method == "POST") as sent:
        screen.press("Run")
    data = json.loads(sent.value.post_data)["data"]
    first = json.loads(data[3])
    assert first["method"] == other.slug and len(data) == 3 + SLOTS
    assert first["params"] == {p.name: p.default for p in other.params} | {name: 0.25, "max_new_tokens": 24}
    screen.wait(0, "done")
    expect(screen.player(0).locator("h2 > span")).to_have_text(other.title)


def test_whatever_the_catalogue_says_stays_text(visit):
    """A method's own words may come from a file of a person: they are text in every place."""
    page = visit(folded=True).page
    page.locator("#method-0").wait_for(state="attached")
    param = dict.fromkeys(("name", "default", "help", "symbol"), HOSTILE) | {"kind": "choice", "choices": [HOSTILE]}
    method = dict.fromkeys(("slug", "title", "family", "kind", "summary"), HOSTILE) | {"params": [param]}
    told = page.evaluate(
        """(catalogue) => {
          const { Form } = dxModules.use("page/form.js"), told = [];
          const form = new Form(catalogue, 7, (value) => told.push(value));
          document.body.append(form.root);
          form.write({});
          return told; }""",
        {"open": True, "models": [{"name": HOSTILE, "kind": HOSTILE, "label": HOSTILE}], "methods": [method]},
    )
    assert told == [{"method": HOSTILE, "model": HOSTILE, "params": {HOSTILE: HOSTILE}}]
    expect(page.locator("#about-7")).to_have_text(HOSTILE)
