// The player's pure functions whose expectations need no Python. `node --test tests/player/`
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { asset } from "./assets.mjs";

const codec = await asset("player/codec.js");
const store = await asset("player/store.js");
const layout = await asset("player/layout.js");
const { reading } = await asset("player/reading.js");

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

test("what a module imports, another one exports in the form that a page from disk can carry", () => {
  const folder = new URL("../../assets/player/", import.meta.url);
  for (const name of readdirSync(folder, { recursive: true }).filter((one) => one.endsWith(".js"))) {
    const text = readFileSync(new URL(name, folder), "utf8");
    for (const [, names, from] of text.matchAll(/^import \{\s+([\w,\s]+?),?\s+\} from "(.*)";$/gm)) {
      const source = readFileSync(new URL(from, new URL(name, folder)), "utf8");
      for (const one of names.split(/,\s*/).map((each) => each.split(" as ")[0]))
        assert.match(source, new RegExp(`^export (const|class|function) ${one}\\b`, "m"), `${one} for ${name}`);
    }
  }
});

test("glyphs", () => {
  const shown = [" a\n\t", "\x00", "\u202ex", "", "\u00e9", "a".repeat(50)].map((text) => codec.glyphs(text));
  assert.deepEqual(shown, ["␣a↵→", "‹0›", "‹202E›x", "∅", "é", `${"a".repeat(40)}…`]);
  assert.equal(codec.glyphs("\ud800x"), "\ufffdx");
  assert.equal(codec.prose("a b\nc\u202e"), "a b\nc‹202E›");
});

test("a tidy tree has no two nodes in one place", () => {
  const parents = [-1, 0, 0, 1, 1, 2, 3];
  const { places, rows, columns } = layout.tidy(parents);
  assert.equal(new Set(places.map(({ column, row }) => `${column} ${row}`)).size, parents.length);
  assert.deepEqual([rows, columns], [3, 4]);
  assert.ok(Math.abs(places[0].row - (places[1].row + places[2].row) / 2) < 1e-9);
});

test("a large tree is folded but keeps the accepted path", () => {
  const parents = [-1, ...Array(10).fill(0), ...Array.from({ length: 390 }, (_, i) => 1 + (i % 10))];
  const why = ["root", "accepted", ...Array(9).fill("mismatch"), "accepted", ...Array(389).fill("unreached")];
  const shown = layout.fold(parents, why);
  assert.ok(shown.filter(Boolean).length <= 200);
  assert.ok(shown[0] && shown[1] && shown[11]);
  for (const [i, parent] of parents.entries()) assert.ok(!shown[i] || parent < 0 || shown[parent], `the way to ${i}`);
});

/** A run of pieces, each written in the step of its number; 0xE2 0x98 0x83 is a snowman. */
function written(pieces, marks = []) {
  const table = pieces.map(([text], id) => ({ id, text, kind: text.startsWith("0x") ? "byte" : "text" }));
  return {
    prompt: [],
    eos: new Set(),
    piece: (token) => table[token],
    wrong: (position) => marks.includes(position),
    board: (t) =>
      pieces
        .map(([, step], position) => ({ position, token: position, entry: { step } }))
        .filter(({ entry }) => entry.step < t),
  };
}

test("bytes are joined into the characters that they make, once all are there", () => {
  // biome-ignore format: a table
  const run = written([["a", 0], ["0xE2", 1], ["0x98 0x83", 2], ["b", 3]]),
    texts = [2, 3, 4].map((t) => reading(run, t).flatMap(({ text, kind }) => [text, kind]).join(" "));
  assert.deepEqual(texts, ["a old ⟨0xE2⟩ new", "a old ☃ new", "a☃ old b new"]);
});

test("bytes that make no character stay bytes, and a text that looks like one stays text", () => {
  const all = written(["0x83", "0xE2 0x98", "0xE2", "0x98", "0x83", "⟨0xE2⟩"].map((text) => [text, 0])),
    texts = reading(all, 2).map(({ text }) => text);
  assert.equal(texts.join(""), "⟨0x83⟩⟨0xE2⟩⟨0x98⟩☃⟨0xE2⟩");
  const two = ["0xE2", "0x98 0x83"].map((text) => [text, 0]);
  assert.deepEqual(reading(written(two, [1]), 2)[0], { text: "☃", kind: "old", wrong: true });
});
