// Which model the server is asked to load first, which needs no document. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { latest } = await asset("page/ahead.js");

const A = { method: "one", model: "a" };
const B = { method: "two", model: "b" };
const C = { method: "two", model: "c" };

test("all slots are new to a page that was just opened, in their order", () => {
  assert.deepEqual(latest([A, B]), [A, B]);
});

test("the slot that changed last comes first", () => {
  assert.deepEqual(latest([A, C], [A, B]), [C, A]);
});

test("parameters load nothing, so they are not sent", () => {
  assert.deepEqual(latest([{ ...A, params: { x: 1 } }], [{ ...A, params: { x: 2 } }]), [A]);
});
