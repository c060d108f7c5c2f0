// The form of a slot as a person fills it in, in a document in which nothing is drawn; and what a browser keeps of it.
// `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { Element, page } from "../player/page.mjs";
import { add, listening, storage } from "./fakes.mjs";

page();
listening();
globalThis.location = { search: "" };
const { catalogue: offer, Form, mountForm } = await asset("page/form.js");
const { changeForms, knownForms } = await asset("page/forms.js");
const { field } = await asset("page/fields.js");
const { fitting, KEY, keep, parse } = await asset("page/kept.js");
const slot = await asset("page/slot.js");

const number = (name, more) => ({ name, kind: "int", default: 4, low: 1, high: 9, help: "", ...more });
const method = (slug, title, kind, params, more) => ({ slug, title, family: slug, kind, summary: "", params, ...more });
const model = ([name, kind]) => ({ name, label: name, kind, tasks: [] });
const ON = { name: "on", kind: "bool", default: true, help: "" };
const CATALOGUE = {
  open: true,
  models: Object.entries({ small: "causal", seer: "layered-causal", board: "masked" }).map(model),
  methods: [
    method("greedy", "Greedy", "causal", [number("n")]),
    method("draft", "Draft", "causal", [number("n"), ON], { baseline: "greedy", drafts: ["head"] }),
    method("fill", "Fill", "masked", []),
  ],
};

/** A form and what it has told, each in the document. */
function form(value = {}, catalogue = CATALOGUE) {
  const told = [],
    made = new Form(catalogue, 0, (one) => told.push(one));
  document.body.replaceChildren(made.root);
  made.write(value);
  const find = (selector) => made.root.querySelector(selector);
  const type = (selector, to, event = "input") => {
    find(selector).value = to;
    find(selector).dispatchEvent(new Event(event));
  };
  return { made, told, find, type, last: () => told.at(-1) };
}
const COMPLETE = { method: "greedy", model: "small", params: { n: 4 } };

test("what is shown is complete, and told where it was not", () => {
  assert.deepEqual(form(COMPLETE).told, []);
  assert.deepEqual(form({}).told, [COMPLETE]);
  const { made, told, find } = form(COMPLETE);
  made.become({ method: "fill" });
  assert.deepEqual([told.length, find("#method-0").value, find("#model-0").value], [1, "fill", "board"]);
});

test("a parameter that is set is told and marked, and goes back to its default", () => {
  const { find, type, last } = form(COMPLETE),
    reset = find(".slot-reset");
  assert.deepEqual([reset.hidden, find(".slot-said").textContent], [true, "Greedy · small"]);
  type("#control-0-n", "7");
  assert.deepEqual(last(), { ...COMPLETE, params: { n: 7 } });
  assert.deepEqual([reset.hidden, find(".slot-changed").textContent], [false, "1 changed"]);
  assert.deepEqual([find('[data-param="n"]').hasAttribute("data-changed"), find(".param-reset").hidden], [true, false]);
  find(".param-reset").click();
  assert.deepEqual([last(), reset.hidden, find(".param-reset").hidden], [COMPLETE, true, true]);
  type("#control-0-n", "2");
  find(".slot-reset").click();
  assert.deepEqual([last(), find("#control-0-n").value], [COMPLETE, "4"]);
});

test("another method keeps what a person has set where it can", () => {
  const { find, type, last, told } = form(COMPLETE);
  type("#control-0-n", "7");
  type("#method-0", "draft", "change");
  assert.deepEqual(last(), { method: "draft", model: "small", params: { n: 7, on: true } });
  assert.equal(find("#control-0-on").checked, true);
  type("#method-0", "fill", "change");
  assert.deepEqual([last().model, last().params, told.length], ["board", {}, 3]);
});

test("a model that is not listed has a field of its own, and a drafter another where the method takes one", () => {
  const { find, type, last } = form(COMPLETE),
    drafts = find("#drafter-0").parentElement;
  assert.deepEqual([find("#model-0-other").hidden, drafts.hidden], [true, true]);
  type("#model-0", "\u2026", "change");
  assert.equal(find("#model-0-other").hidden, false);
  assert.equal(document.activeElement, find("#model-0-other"));
  type("#model-0-other", " me/mine ");
  assert.equal(last().model, "me/mine");
  type("#drafter-0", "you/drafter");
  assert.equal(last().model, "me/mine", "no drafter where none is taken");
  type("#method-0", "draft", "change");
  assert.deepEqual([drafts.hidden, find("#model-0").value, find("#model-0-other").value], [false, "\u2026", "me/mine"]);
  type("#drafter-0", " you/drafter ");
  assert.equal(last().model, "me/mine + you/drafter");
  const closed = form(COMPLETE, { ...CATALOGUE, open: false });
  closed.type("#method-0", "draft", "change");
  assert.equal(closed.find("#drafter-0").parentElement.hidden, true);
  const none = form({ method: "fill" }, { ...CATALOGUE, open: false, models: [] });
  assert.match(none.find("#model-0").textContent, /no masked model is installed here/);
});

test("row-invariant forwards are offered at home to causal methods, and count as a change", () => {
  const { find, last, made } = form(COMPLETE);
  find("#control-0-row_invariant").checked = true;
  find("#control-0-row_invariant").dispatchEvent(new Event("change"));
  assert.deepEqual(last(), { ...COMPLETE, row_invariant: true });
  assert.equal(find(".slot-changed").textContent, "1 changed");
  made.become({ method: "fill", row_invariant: true });
  assert.deepEqual([find("#control-0-row_invariant"), "row_invariant" in last()], [null, false]);
  // biome-ignore format: a table
  for (const [open, kind, needs, offered] of [
    [true, "causal", undefined, true], [true, "causal", "layered", true], [true, "causal", "heads", false],
    [true, "masked", undefined, false], [false, "causal", undefined, false],
  ])
    assert.equal(slot.rows({ open }, { kind, needs }) !== null, offered);
});

test("the settings of opened runs are not written over what was chosen since these were shown", () => {
  const now = ["mine", 1, "2", "a", "b", "c", "d"],
    found = ["theirs", 0, null, "x", "y", null, null];
  document.dispatchEvent(new Event("dx-runs"));
  assert.deepEqual(dxFill(found, now), ["theirs", 0, "2", "x", "y", "c", "d"]);
  const prompt = add(add(document.body, "div", "prompt"), "textarea");
  prompt.dispatchEvent(new Event("input", { bubbles: true }));
  const { type, find } = form(COMPLETE); // of slot 0
  assert.deepEqual(dxFill(found, now), ["mine", 0, "2", "x", "y", "c", "d"], "what the server writes is no choice");
  type("#control-0-n", "7");
  assert.deepEqual(dxFill(found, now), ["mine", 0, "2", "a", "y", "c", "d"]);
  document.dispatchEvent(new Event("dx-runs"));
  find(".slot-reset").click();
  assert.deepEqual(dxFill(found, now), ["theirs", 0, "2", "a", "y", "c", "d"]);
});

const IDS = { id: "c" };
const control = (param) => {
  let changes = 0;
  const made = field({ name: "x", ...param }, IDS, () => changes++);
  return { ...made, changes: () => changes, all: made.node.tagName === "div" ? made.node.childNodes : [made.node] };
};
const typed = (node, value) => {
  node.value = value;
  node.dispatchEvent(new Event("input"));
};

test("a number has a slider where it is bounded on both sides, and says what it may not be", () => {
  for (const limits of [{}, { low: 0 }, { high: 3 }]) assert.equal(control({ kind: "float", ...limits }).all.length, 1);
  const { all, read, write, changes } = control({ kind: "float", low: -1, high: 3 }),
    [slider, box] = all;
  write(2);
  assert.deepEqual([slider.value, box.value, read(), changes()], ["2", "2", 2, 0]);
  typed(box, "1.5");
  assert.deepEqual([slider.value, read(), changes()], ["1.5", 1.5, 1]);
  typed(slider, "0.5");
  assert.deepEqual([box.value, read(), changes()], ["0.5", 0.5, 2]);
  typed(box, "9");
  slider.value = "9";
  typed(slider, "9");
  assert.equal(box.getAttribute("aria-invalid"), "true");
  typed(slider, "1");
  assert.equal(box.getAttribute("aria-invalid"), null);
  typed(box, "");
  assert.deepEqual([slider.value, read()], ["-1", null]);
  write(null);
  assert.deepEqual([slider.value, box.value, box.getAttribute("aria-invalid")], ["-1", "", "true"]);
  const free = control({ kind: "int", step: 5 });
  free.write(null);
  typed(free.all[0], "0");
  assert.deepEqual([free.read(), free.all[0].getAttribute("step"), free.all[0].getAttribute("min")], [0, "1", null]);
});

test("a code is one that ships, or a person's own", () => {
  const { all, read, write, changes } = control({ kind: "code", presets: { one: "a = 1", two: "a = 2" } }),
    [pick, box] = all,
    own = pick.querySelectorAll("option").at(-1);
  write("two");
  assert.deepEqual([box.value, pick.value, read(), own.disabled], ["a = 2", "two", "two", true]);
  typed(box, "a = 3");
  assert.deepEqual([pick.value, read(), own.disabled, changes()], ["", "a = 3", false, 1]);
  pick.value = "one";
  pick.dispatchEvent(new Event("change"));
  assert.deepEqual([box.value, read(), changes()], ["a = 1", "one", 2]);
  write(null);
  assert.deepEqual([box.value, read()], ["", ""]);
});

test("a switch, a choice and a text are read as they are written", () => {
  // biome-ignore format: a table
  for (const [param, ...values] of [
    [{ kind: "bool" }, true, false], [{ kind: "choice", choices: ["a", "b"] }, "b", "a"], [{ kind: "text" }, "words", ""],
  ]) {
    const { read, write } = control(param);
    for (const one of values) {
      write(one);
      assert.equal(read(), one);
    }
  }
});

const STORED = { version: 1, prompt: "hello", count: 3, values: [{}] };
// biome-ignore format: a table
for (const [why, more, good] of [
  ["as it is written", {}, true], ["of another version", { version: 2 }, false],
  ["without a prompt", { prompt: 3 }, false], ["of half a slot", { count: 1.5 }, false],
  ["of no slot", { count: 0 }, false], ["of one slot", { count: 1 }, true], ["of four", { count: 4 }, true],
  ["of five", { count: 5 }, false], ["without values", { values: [] }, false],
  ["of something else", { values: "abc" }, false],
])
  test(`what a browser has kept is read if it is of this version: ${why}`, () => {
    const { version, ...read } = { ...STORED, ...more };
    assert.deepEqual(parse(JSON.stringify({ version, ...read })), good ? read : null);
  });

test("values that are not offered any more make room for the defaults", () => {
  assert.equal(parse("{"), null);
  assert.equal(parse("null"), null);
  // biome-ignore format: a table
  for (const [value, shown] of [
    [null, COMPLETE], ["greedy", COMPLETE], [{ method: "gone", params: { n: 7 } }, COMPLETE],
    [{ method: "greedy", model: 3, params: { n: 99, old: 1 } }, COMPLETE],
    [{ method: "greedy", model: "small", params: { n: 7 } }, { ...COMPLETE, params: { n: 7 } }],
    [{ method: "greedy", model: "me/mine", params: null }, { ...COMPLETE, model: "me/mine" }],
  ])
    assert.deepEqual(fitting(CATALOGUE, value), shown, JSON.stringify(value));
  const code = { ...CATALOGUE.methods[0], params: [{ name: "c", kind: "code", default: "one" }] };
  const given = (c) => fitting({ ...CATALOGUE, methods: [code] }, { method: "greedy", params: { c } }).params.c;
  assert.deepEqual([given("mine"), given(4)], ["mine", "one"]);
});

/** A page with four slots that opens with what the browser has kept. */
function opened({ text = null, search = "", broken = false } = {}) {
  const root = page();
  globalThis.location = { search };
  const store = storage(text === null ? [] : [[KEY, text]], broken);
  const field = add(add(root.body, "div", "prompt"), "textarea");
  field.value = "first";
  const count = add(root.body, "div", "count"),
    status = add(root.body, "div", "status");
  const radios = ["1", "2", "3", "4"].map((value) => {
    const radio = add(count, "input");
    Object.assign(radio, { value, checked: value === "2" });
    radio.addEventListener("click", () => radios.forEach((one) => (one.checked = one === radio)));
    return radio;
  });
  const forms = new Map([0, 1, 2, 3].map((n) => [n, { catalogue: CATALOGUE, value: { ...COMPLETE } }]));
  const changed = [];
  keep(forms, (values) => changed.push(...values));
  const chosen = () => radios.find((one) => one.checked)?.value;
  return { field, status, changed, store, chosen };
}

test("a page opens with what the browser has kept, unless its address names runs", () => {
  const text = JSON.stringify({ ...STORED, values: Array(5).fill(COMPLETE) });
  const kept = opened({ text });
  assert.deepEqual([kept.field.value, kept.chosen(), kept.changed.length], ["hello", "3", 4]);
  for (const search of ["?run=a", "?scene=a", "?gallery=a"]) {
    const named = opened({ text, search });
    assert.deepEqual([named.field.value, named.changed, named.store.has(KEY)], ["first", [], true], search);
  }
  const old = opened({ text: '{"version": 0}' });
  assert.deepEqual([old.field.value, old.store.has(KEY)], ["first", false]);
  assert.match(old.status.textContent, /another version/);
  assert.equal(opened({ broken: true }).field.value, "first", "a browser that keeps nothing");
});

test("slots in sight are known in their order, and what the server fills in is shown", async () => {
  const root = page(),
    controls = add(root.body, "div", "controls");
  assert.deepEqual(knownForms(), { catalogue: { models: [], methods: [] }, values: [] });
  offer({ value: JSON.stringify(CATALOGUE) });
  const watched = [],
    props = [1, 0, 2].map((number) => ({ number, value: JSON.stringify({ ...COMPLETE, params: { n: number + 1 } }) }));
  const made = [];
  for (const one of props) made.push(await mountForm(new Element("div"), one, (_, act) => watched.push(act)));
  const shown = () => knownForms().values.map(({ params }) => params.n);
  assert.deepEqual(shown(), [1, 2], "two, if nothing else is said");
  controls.dataset.slots = 3;
  assert.deepEqual(shown(), [1, 2, 3]);
  changeForms([{ ...COMPLETE, params: { n: 8 } }]);
  assert.deepEqual([shown(), JSON.parse(props[1].value).params.n], [[8, 2, 3], 8]);
  let filled = 0;
  root.addEventListener("dx-filled", () => filled++);
  watched[1]();
  assert.equal(filled, 0, "what it has told itself");
  props[1].value = JSON.stringify({ ...COMPLETE, params: { n: 5 } });
  watched[1]();
  assert.deepEqual([shown(), filled], [[5, 2, 3], 1]);
});
