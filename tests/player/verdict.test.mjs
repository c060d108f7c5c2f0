// The verdict on a run held against another, from what both were handed. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made } from "./made.mjs";
import { page } from "./page.mjs";

page();
const NUMBERS = ["speed", "too_busy", "tokens_per_second", "acceptance_rate_of_drafted", "target_calls", "draft_calls"];
const DEFINITIONS = Object.fromEntries(
  [...NUMBERS, "same_tokens"].map((name) => [name, { label: name, formula: name, terms: "" }]),
);
globalThis.dxDefinitions = { DEFINITIONS, COUNTED: {}, KINDS: {}, LOST: {} }; // a page is given them
const { verdict } = await asset("views/verdict.js");

const READ = { prompt: [3], method: "plain", title: "Plain", end: { output_ids: [5] } };
const SAME = { unit: "token", at: null, count: 1 };
const step = (calls) => ({ forwards: { target: calls }, commits: { positions: [1], tokens: [5], causes: ["greedy"] } });

/** The parts of the verdict, by name, on a run of two calls against one of five. */
function parts({ drafts, ...pair }) {
  const [run, basis] = [2, 5].map((calls) => made({ ...READ, steps: [step(calls)] }));
  run.hand({ key: "run", from: -1, counts: {}, drafts, pairs: { "run basis": { difference: SAME, ...pair } } });
  basis.hand({ key: "basis", from: -1, counts: {} });
  return Object.fromEntries(verdict(run, basis).map(({ name, text, value }) => [name, [text, value]]));
}

test("drafts are those that were handed, and none are told of where none were", () => {
  assert.deepEqual(parts({ drafts: [3, 8] }).drafts, ["38 % of drafts accepted", 3 / 8]);
  assert.ok(!("drafts" in parts({})));
});

test("the speed is the ratio that was handed, and none is told of where none was", () => {
  assert.deepEqual(parts({ speed: 1.42, model: true }).speed, ["1.4× tokens/s in one run", 1.42]);
  assert.deepEqual(parts({ speed: 0.5 }).speed, ["0.50× tokens/s in one run on another model", 0.5]);
  assert.ok(!("speed" in parts({})) && !("busy" in parts({ busy: true })));
});

test("a machine that was too busy has no ratio", () => {
  const found = parts({ speed: 1.42, busy: true });
  assert.deepEqual([found.busy, found.speed], [["too_busy", null], undefined]);
});

test("calls are compared only where both runs wrote all that they would: fewer tokens need fewer calls", () => {
  const limited = { ...SAME, limited: true };
  assert.deepEqual(parts({}).calls, ["2 model calls instead of 5", 2]);
  assert.deepEqual(parts({ difference: limited }).calls, ["2 model calls", 2]);
});

test("what a rule for the end saved is a part of its own, beside the calls", () => {
  assert.deepEqual(parts({ end: [2, 5] }).end, ["its rule for the end, not the method, saves 2 of these", 2]);
  assert.ok(!("end" in parts({})));
});
