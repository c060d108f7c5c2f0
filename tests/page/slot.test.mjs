// The rules of a slot's form, which need no document. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { able, carry, hint, lost, modelFor } = await asset("page/slot.js");

const FLOAT = { name: "x", kind: "float", default: 0.5, low: 0, high: 1, sees: "" };
const WIDER = { ...FLOAT, default: 2, high: 4 };
const ON = { name: "on", kind: "bool", default: true, sees: "" };

for (const [why, to, values, kept] of [
  ["a value that a person has set", [WIDER], { x: 0.7, on: true }, { x: 0.7 }],
  ["at its default: the next paper's default", [WIDER], { x: 0.5, on: true }, { x: 2 }],
  ["out of the next range", [{ ...FLOAT, high: 0.6 }], { x: 0.7, on: true }, { x: 0.5 }],
  ["of another kind", [{ ...FLOAT, kind: "int", default: 0 }], { x: 0.7, on: true }, { x: 0 }],
  ["both", [ON, FLOAT], { x: 0.7, on: false }, { on: false, x: 0.7 }],
  [
    "none of the choices",
    [{ name: "on", kind: "choice", default: "a", choices: ["a"] }],
    { x: 1, on: false },
    { on: "a" },
  ],
  ["no parameters", [], { x: 0.7, on: false }, {}],
])
  test(`what a person has set stays where both methods have it: ${why}`, () => {
    assert.deepEqual(carry({ params: [FLOAT, ON] }, { params: to }, values), kept);
  });

test("a model stays if it fits or is the person's own", () => {
  const models = [
    { name: "a", kind: "masked" },
    { name: "b", kind: "masked" },
    { name: "c", kind: "causal" },
  ];
  const catalogue = { open: true, models, methods: [] };
  const masked = { kind: "masked" };
  assert.equal(modelFor(catalogue, masked, "b"), "b");
  assert.equal(modelFor(catalogue, masked, "c"), "a");
  assert.equal(modelFor(catalogue, masked, "me/mine"), "me/mine");
  assert.equal(modelFor({ ...catalogue, open: false }, masked, "me/mine"), "a");
  assert.equal(modelFor(catalogue, { kind: "block" }, ""), "");
});

test("a model is asked what it knows", () => {
  const models = [
    { name: "lists", kind: "masked", tasks: ["copy", "sort"] },
    { name: "any", kind: "causal", tasks: [] },
    { name: "chains", kind: "causal", tasks: ["chain"] },
  ];
  const catalogue = { open: true, models, methods: [] };
  const slots = ["lists", "chains", "any", "lists", "me/mine"].map((model) => ({ model }));
  for (const [task, foreign, offered] of [
    ["sort", ["chains"], "any"],
    ["chain", ["lists"], "chains"],
    ["", ["lists", "chains"], "any"],
  ]) {
    assert.deepEqual(lost(catalogue, slots, task), foreign);
    assert.equal(able(catalogue, task), offered);
  }
});

test("the hint says default, source, range and where it is the baseline", () => {
  const told = hint({ ...FLOAT, source: "official", neutral: 1 }, "Greedy");
  assert.equal(told, "default 0.5 (official) · 0 to 1 · at 1 the same output as Greedy");
  assert.equal(hint({ ...ON, neutral: false }, null), "default on");
  assert.equal(hint({ kind: "text", default: "" }, null), 'default ""');
});
