// The player's pure functions whose expectations need no Python. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";

const codec = await asset("player/codec.js");
const words = await asset("player/words.js");
const store = await asset("player/run.js");
const layout = await asset("player/layout.js");

test("defaults that JSON leaves out are known", () => {
  assert.deepEqual([...codec.unpack({ dtype: "u1", shape: [2], data: "AP4=" }).values], [0, 1]);
});

test("what is no array and what is no trace say what is wrong", () => {
  const saying =
    (said) =>
    ({ message }) =>
      message.includes(said);
  for (const [packed, said] of [
    [{ dtype: "u2", shape: [3], data: "AAA=" }, "needs 6 bytes, got 2"],
    [{ dtype: "u1", shape: [1], data: "%%" }, "not base64"],
    [{ dtype: "i8", shape: [1], data: "" }, '"i8"'],
  ])
    assert.throws(() => codec.unpack(packed), saying(said));
  for (const [text, said] of [
    ['{"header": {"schema": 4}}', "schema version 4; this player reads version 3"],
    ["{}", "no header"],
    ['{"header"', "not JSON"],
    ["null", "no header"],
  ])
    assert.throws(() => store.Run.from(text), saying(said));
});

test("glyphs", () => {
  const shown = [" a\n\t", "\x00", "\u202ex", "", "\u00e9", "a".repeat(50)].map((text) => words.glyphs(text));
  assert.deepEqual(shown, ["␣a↵→", "‹0›", "‹202E›x", "∅", "é", `${"a".repeat(40)}…`]);
  assert.equal(words.glyphs("\ud800x"), "\ufffdx");
  assert.equal(words.prose("a b\nc\u202e"), "a b\nc‹202E›");
});

test("a tidy tree has no two nodes in one place", () => {
  const parents = [-1, 0, 0, 1, 1, 2, 3];
  const { places, rows, columns } = layout.tidy(parents);
  assert.equal(new Set(places.map(({ column, row }) => `${column} ${row}`)).size, parents.length);
  assert.deepEqual([rows, columns], [3, 4]);
  assert.ok(Math.abs(places[0].row - (places[1].row + places[2].row) / 2) < 1e-9);
});
