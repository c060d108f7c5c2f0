// The rules of a slot's form, which need no document. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const slot = await asset("page/slot.js");
const { latest } = await asset("page/prefetch.js");
const { able, carry, equallyLong, fair, hint, instead, lost, modelFor, modelsFor, parted, together } = slot;

const FLOAT = { name: "x", kind: "float", default: 0.5, low: 0, high: 1, sees: "" };
const WIDER = { ...FLOAT, default: 2, high: 4 };
const ON = { name: "on", kind: "bool", default: true, sees: "" };

// biome-ignore format: a table
for (const [why, to, values, kept] of [
  ["a value that a person has set", [WIDER], { x: 0.7, on: true }, { x: 0.7 }],
  ["at its default: the next paper's default", [WIDER], { x: 0.5, on: true }, { x: 2 }],
  ["out of the next range", [{ ...FLOAT, high: 0.6 }], { x: 0.7, on: true }, { x: 0.5 }],
  ["of another kind", [{ ...FLOAT, kind: "int", default: 0 }], { x: 0.7, on: true }, { x: 0 }],
  ["both", [ON, FLOAT], { x: 0.7, on: false }, { on: false, x: 0.7 }],
  ["none of the choices", [{ name: "on", kind: "choice", default: "a", choices: ["a"] }], { on: false }, { on: "a" }],
  ["no parameters", [], { x: 0.7, on: false }, {}],
])
  test(`what a person has set stays where both methods have it: ${why}`, () => {
    assert.deepEqual(carry({ params: [FLOAT, ON] }, { params: to }, values), kept);
  });

test("a model stays if it fits or is the person's own", () => {
  const models = Object.entries({ a: "masked", b: "masked", c: "causal" }).map(([name, kind]) => ({ name, kind })),
    catalogue = { open: true, models, methods: [] },
    masked = { kind: "masked" };
  assert.equal(modelFor(catalogue, masked, "b"), "b");
  assert.equal(modelFor(catalogue, masked, "c"), "a");
  assert.equal(modelFor(catalogue, masked, "me/mine"), "me/mine");
  assert.equal(modelFor({ ...catalogue, open: false }, masked, "me/mine"), "a");
  assert.equal(modelFor(catalogue, { kind: "block" }, ""), "");
});

test("a model is asked what it knows", () => {
  const models = Object.entries({ lists: ["copy", "sort"], any: [], chains: ["chain"] }),
    catalogue = {
      open: true,
      models: models.map(([name, tasks]) => ({ name, kind: name === "lists" ? "masked" : "causal", tasks })),
      methods: [],
    },
    slots = ["lists", "chains", "any", "lists", "me/mine"].map((model) => ({ model }));
  // biome-ignore format: a table
  for (const [task, foreign, offered] of [
    ["sort", ["chains"], "any"], ["chain", ["lists"], "chains"], ["", ["lists", "chains"], "any"],
  ]) {
    assert.deepEqual(lost(catalogue, slots, task), foreign);
    assert.equal(able(catalogue, task), offered);
  }
});

const SAME = { baseline: "plain", lossless: true };
const METHODS = [
  { slug: "many", kind: "masked" },
  { slug: "beam" },
  { slug: "draft", ...SAME, wants: ["draft"] },
  { slug: "loose", baseline: "plain" },
  { slug: "plain", params: [FLOAT] },
  { slug: "copy", ...SAME, rank: 0, params: [FLOAT] },
  { slug: "table", ...SAME, rank: 1 },
  { slug: "part", ...SAME, wants: ["part"] },
].map((one) => ({ family: "a", kind: "causal", params: [], ...one }));
const LISTS = { name: "lists", kind: "masked", tasks: ["sort"] };
const FAIR = {
  open: false,
  models: [LISTS, { name: "any", kind: "causal", tasks: [], has: ["draft"] }],
  methods: METHODS,
};
const asked = (...methods) => methods.map((method) => ({ method, model: "lists", params: {} }));
const slugs = (values) => values.map(({ method }) => method);

for (const [why, before, after] of [
  ["as the page opens", ["many", "many"], ["plain", "copy"]],
  ["after a chip of four drafts", ["draft", "table", "copy", "loose"], ["plain", "draft", "table", "copy"]],
  ["with the control third", ["draft", "many", "plain", "many"], ["plain", "draft", "copy", "table"]],
  ["with beam search", ["beam", "many"], ["plain", "copy"]],
])
  test(`a comparison is fair, its control first: ${why}`, () => {
    const found = fair(FAIR, asked(...before), "any");
    assert.deepEqual(slugs(found), after);
    assert.ok(found.every(({ model }) => model === "any"));
  });

test("what a person has set stays in a fair comparison", () => {
  const [, copy] = fair(FAIR, [...asked("many"), { method: "copy", model: "any", params: { x: 0.7 } }], "any");
  assert.deepEqual(copy, { method: "copy", model: "any", params: { x: 0.7 } });
});

test("slots that are compared may write equally much", () => {
  const long = (usual, high = 1024) => ({ name: "max_new_tokens", kind: "int", default: usual, low: 1, high }),
    method = (slug, ...params) => ({ slug, family: "a", kind: "causal", params }),
    catalogue = { methods: [method("plain", long(48)), method("copy", long(64)), method("short", long(32, 50))] },
    lengths = (given) => {
      const slots = Object.entries(given).map(([name, most]) => ({ method: name, params: { max_new_tokens: most } }));
      return equallyLong(catalogue, slots).map(({ params }) => params.max_new_tokens);
    };
  assert.deepEqual(lengths({ plain: 48, copy: 64 }), [64, 64]);
  assert.deepEqual(lengths({ plain: 48, copy: 16 }), [16, 16], "what a person has set counts");
  assert.deepEqual(lengths({ plain: 48, short: 32, copy: 64 }), [64, 32, 64], "as far as it is allowed");
  assert.deepEqual(equallyLong({ methods: METHODS }, asked("plain")), asked("plain"));
});

test("another model keeps the methods that run there behind a control, else the comparison is fair", () => {
  assert.deepEqual(slugs(instead(FAIR, asked("plain", "loose"), "any")), ["plain", "loose"]);
  assert.deepEqual(slugs(instead(FAIR, asked("many", "many"), "any")), ["plain", "copy"]);
  assert.deepEqual(slugs(instead(FAIR, asked("draft", "loose"), "any")), ["plain", "draft"]);
});

test("the hint says default, source, range and where it is the baseline", () => {
  const told = hint({ ...FLOAT, source: "official", neutral: 1 }, "Greedy");
  assert.equal(told, "default 0.5 (official) · 0 to 1 · at 1 the same output as Greedy");
  assert.equal(hint({ ...ON, neutral: false }, null), "default on");
});

test("of the models in sight the server loads the one that was chosen last first, and none for a parameter", () => {
  const [a, b, c] = ["a", "b", "c"].map((model) => ({ method: "one", model }));
  assert.deepEqual(latest([a, b]), [a, b]);
  assert.deepEqual(latest([a, c], [a, b]), [c, a]);
  assert.deepEqual(latest([{ ...a, params: { x: 1 } }], [{ ...a, params: { x: 2 } }]), [a]);
});

test("a published drafter stands in the place of a part, in the name of the model", () => {
  const heads = { slug: "heads", kind: "causal", wants: ["my-heads"], drafts: ["my-heads"], params: [] },
    plain = { slug: "plain", kind: "causal", params: [] },
    models = [
      { name: "small", kind: "causal" },
      { name: "trained", kind: "causal", has: ["my-heads"] },
    ],
    home = { open: true, models, methods: [heads, plain] };
  assert.deepEqual(parted("me/target + you/drafter"), ["me/target", "you/drafter"]);
  assert.deepEqual(parted("small"), ["small", ""]);
  assert.equal(together("small", ""), "small");
  const offered = (...drafted) => modelsFor(home, heads, ...drafted).map(({ name }) => name);
  assert.deepEqual([offered(), offered(true)], [["trained"], ["small", "trained"]]);
  assert.equal(modelFor(home, heads, "small + you/drafter"), "small + you/drafter");
  assert.equal(modelFor(home, heads, "me/target + you/drafter"), "me/target + you/drafter");
  assert.equal(modelFor(home, plain, "small + you/drafter"), "small", "a method without drafts leaves it behind");
  assert.equal(modelFor({ ...home, open: false }, heads, "small + you/drafter"), "trained", "nor is it for visitors");
});
