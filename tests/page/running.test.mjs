// What is said of a run before its first step, and while it waits. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { made } from "../player/made.mjs";

const { before, progress } = await asset("page/running.js");

test("before the first step the tokens of the prompt are counted", () => {
  assert.equal(progress(made({ prompt: [1, 2, 3] })), "reading 3 tokens");
});

test("Gradio's words about its queue become a number", () => {
  assert.deepEqual(["queue: 2/3 | 0.4s", "0.4s", null].map(before), [2, 0, 0]);
});
