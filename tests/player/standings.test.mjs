// The table of a race that is frozen. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made } from "./made.mjs";
import { page } from "./page.mjs";

page();
const NUMBERS = ["tokens", "revised", "missing", "target_calls", "busy_seconds"];
const DEFINITIONS = Object.fromEntries(NUMBERS.map((name) => [name, {}]));
globalThis.dxDefinitions = { DEFINITIONS, COUNTED: {}, KINDS: {}, LOST: {} }; // a page is given them
const { standings } = await asset("views/standings.js");
const { racing } = await asset("player/receipt.js");

const STEP = { commits: { positions: [1], tokens: [5], causes: ["top1"] } };
const COUNTS = { tokens: [0, 1], masks: [2, 1] };

/** A run after its one step: cells of its row, and how many of its tokens are known to stay. */
function standing(handed) {
  const run = made({ prompt: [3], mask: 0, canvas: 3, steps: [STEP] });
  run.hand(handed);
  const [, body] = standings({ unit: "steps", x: 1, runners: [{ run, slot: 0, t: 1 }] });
  return [body.querySelectorAll("td").map((cell) => cell.textContent), racing(run, 1).kept];
}

test("what becomes of tokens is not told before it is known", () => {
  const [cells, kept] = standing({ from: -1, counts: COUNTS });
  assert.deepEqual([cells.slice(0, 3), kept], [["1", "–", "–"], null]);
});

test("what becomes of tokens is told once it was handed", () => {
  const later = { remasked: [0, 1], missing: [1, 1] },
    [cells, kept] = standing({ key: "k", from: -1, counts: COUNTS, later });
  assert.deepEqual([cells.slice(0, 3), kept], [["1", "1 (1 re-masked)", "1"], 0]);
});
