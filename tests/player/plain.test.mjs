// Numbers, characters, grids and running text at the edges of their rules. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made } from "./made.mjs";

const codec = await asset("player/codec.js");
const words = await asset("player/words.js");
const layout = await asset("player/layout.js");
const { reading } = await asset("views/asked.js");

test("a packed array is decoded once, from its lowest to its highest value", () => {
  const packed = { dtype: "u1", shape: [2, 2], data: "AH/+/w==", lo: 2, hi: 6 },
    { values, shape } = codec.unpack(packed);
  assert.deepEqual([...values, ...shape], [2, 4, 6, NaN, 2, 2]);
  assert.equal(codec.unpack(packed).values, values);
  assert.deepEqual([...codec.unpack({ dtype: "u2", shape: [1], data: "AQI=" }).values], [513]);
  assert.equal(codec.unpacked([1], [1]) && codec.unpack(codec.unpacked([7], [1])).values[0], 7);
  assert.equal(codec.fromBase64("AQI=").length, 2);
});

test("characters that hide or turn text are shown by their number, and no others", () => {
  const shown = (code) => words.glyphs(String.fromCodePoint(code));
  // biome-ignore format: a table
  for (const [from, to] of [
    [0x7f, 0xa0], [0xad, 0xad], [0x61c, 0x61c], [0x200b, 0x200f], [0x202a, 0x202e], [0x2060, 0x206f],
    [0xfeff, 0xfeff], [0xe0000, 0xe0fff],
  ]) {
    for (const code of [from, to]) assert.equal(shown(code), `‹${code.toString(16).toUpperCase()}›`);
    for (const code of [from - 1, to + 1]) assert.match(shown(code), /^[^‹]+$/u);
  }
  assert.deepEqual([0, 31, 32, 33, 0x2028].map(shown), ["‹0›", "‹1F›", "␣", "!", "↵"]);
  const halves = ["\ud800", "\udfff", "\ud7ff", "\ue000"].map((one) => words.glyphs(one));
  assert.deepEqual(halves, ["\ufffd", "\ufffd", "\ud7ff", "\ue000"]);
  const cut = [words.prose("a \n\tb\u2028"), words.glyphs("abc", 3), words.glyphs("abcd", 3)];
  assert.deepEqual(cut, ["a \n\tb↵", "abc", "abc…"]);
  assert.deepEqual([words.cut("abc", 3), words.cut("abcd", 3)], ["abc", "ab…"]);
});

test("numbers, seconds and bytes are as short as they are exact", () => {
  // biome-ignore format: a table
  for (const [value, unit, text] of [
    [null, "", "–"], [undefined, "", "–"], [NaN, "s", "–"], [0, "", "0"], [-3, "", "-3"], [9999, "", "9999"],
    [10000, "", "10,000"], [-20000, "", "-20,000"], [1000.4, "", "1,000"], [999.4, "", "999"], [100.4, "", "100"],
    [100.5, "x", "101 x"], [99.999, "", "100.00"], [1.5, "", "1.50"], [-1.25, "", "-1.25"],
    [0.5, "probability", "0.500"], [0.5, "nats", "0.500 nats"], [0.0015, "", "0.002"], [0.0009, "", "9.0e-4"],
    [0.001, "score", "0.001"], [2, "count", "2"], [1.001, "", "1.00"],
  ])
    assert.equal(words.number(value, unit), text);
  const seconds = [0, 0.0005, 0.001, 0.05, 0.1, 0.5, 1, 2.345].map(words.seconds).join(", ");
  assert.equal(seconds, "0 s, 500 µs, 1.0 ms, 50.0 ms, 100 ms, 500 ms, 1.00 s, 2.35 s");
  const bytes = [0, 999, 1000, 1500, 1e6, 2.5e9, 4e12].map(words.bytes).join(", ");
  assert.equal(bytes, "0 B, 999 B, 1.0 kB, 1.5 kB, 1.0 MB, 2.5 GB, 4000.0 GB");
});

test("columns of a grid are a number that is easy to count, and fill the width", () => {
  // biome-ignore format: a table
  for (const [room, columns] of [
    [10, 1], [27, 1], [50, 1], [51, 2], [5 * 27, 5], [7 * 27, 6], [9 * 27, 8], [15 * 27, 12], [30 * 27, 24],
    [40 * 27, 40],
  ])
    assert.equal(layout.grid(room + 10, 50, { w: 22 + 2, h: 20, under: 4 }, 10).columns, columns, `${room}`);
  for (let width = 60; width < 900; width += 37) {
    const { columns, rows, w, gutter, gap, height, rowHeight } = layout.grid(width, 50, { w: 24, h: 20, under: 4 }, 10);
    assert.ok(w >= 24 && w <= 36 && gutter + columns * (w + gap) - gap <= Math.max(width, 34), `${width}`);
    assert.ok(rows * columns >= 50 && (rows - 1) * columns < 50);
    assert.deepEqual([height, rowHeight], [rows * 24, 24]);
  }
  assert.equal(layout.grid(100, 5, { w: 24, h: 20, under: 4 }).gutter, 34);
});

test("each cell is hit where it stands, also where the first ones have no place", () => {
  for (const first of [undefined, 0, 3]) {
    const g = { columns: 4, w: 20, gap: 3, gutter: 10, rowHeight: 30, first },
      start = first ?? 0;
    for (let position = start; position < start + 10; position++) {
      const { x, y } = layout.cornerOf(g, position);
      assert.deepEqual([x, y], [10 + ((position - start) % 4) * 23, Math.floor((position - start) / 4) * 30]);
      for (const [dx, dy] of [
        [0, 0],
        [22, 29],
      ])
        assert.equal(layout.cellAt(g, x + dx, y + dy, start + 10), position);
    }
    // biome-ignore format: a table
    for (const [x, y] of [
      [9, 0], [102, 0], [10, -1], [56, 60],
    ])
      assert.equal(layout.cellAt(g, x, y, start + 10), -1, `${x} ${y}`);
  }
});

test("a stretch has a piece in each row that it touches, and its ends are known", () => {
  for (const first of [0, 2])
    for (let start = 0; start < 12; start++)
      for (let end = start + 1; end <= 14; end++) {
        const pieces = layout.segments({ columns: 4, first }, start, end),
          seen = pieces.flatMap(({ row, column, cells }) =>
            Array.from({ length: cells }, (_, i) => first + 4 * row + column + i),
          ),
          from = Math.max(start, first);
        assert.deepEqual(seen, [...Array(end).keys()].slice(from));
        for (const [i, piece] of pieces.entries()) {
          assert.ok(piece.column >= 0 && piece.cells > 0 && piece.column + piece.cells <= 4);
          assert.deepEqual([piece.first, piece.last], [!i && start >= first, i === pieces.length - 1]);
        }
      }
});

test("trees of several roots stand below each other, and an empty one takes no room", () => {
  assert.deepEqual(layout.tidy([]), { places: [], rows: 0, columns: 0 });
  const { places, rows, columns } = layout.tidy([-1, -1, 1, 1, 1]);
  const stand = places.map(({ column, row }) => `${column},${row}`);
  assert.deepEqual([stand.join(" "), rows, columns], ["0,0 0,2 1,1 1,2 1,3", 4, 2]);
});

test("a tree is folded beyond its limit alone", () => {
  const parents = [-1, 0, 0, 1, 2, 4, 3],
    why = ["root", "accepted", "mismatch", "accepted", "unreached", "unreached", "unreached"],
    shown = (limit) => layout.fold(parents, why, limit).flatMap((yes, i) => (yes ? [i] : []));
  const folded = [7, 6, 4].map((limit) => shown(limit).join());
  assert.deepEqual(folded, ["0,1,2,3,4,5,6", "0,1,2,3,6", "0,1,2,3"]);
});

const EOS = 9;
const write = (positions, tokens) => ({ commits: { positions, tokens, causes: tokens.map(() => "") } });
const pieces = [
  { id: 1, text: "a" },
  { id: 2, text: "b" },
  { id: 3, text: "0xC3", kind: "byte" },
  { id: 4, text: "0xA9", kind: "byte" },
];
const READ = { prompt: [1], eos: [EOS], pieces };
/** Parts in short: their texts, each behind the letter of its kind and a mark. */
const parts = (run, t, marked) => reading(run, t, marked).map((one) => [one.text, one.kind, one.marked ?? one.wrong]);
// biome-ignore format: a table
for (const [why, given, t, marked, ...told] of [
  ["nothing", {}, 0, -1],
  ["holes stand together", { canvas: 3, mask: 8 }, 0, -1, ["▢▢", "hole"]],
  ["what is new", { steps: [write([1], [1]), write([2], [2])] }, 2, -1, ["a", "old"], ["b", "new"]],
  ["up to an end mark", { steps: [write([1, 2, 3], [1, EOS, 2])] }, 1, -1, ["a", "new"], ["", "end"]],
  ["a marked place", { steps: [write([1, 2, 3], [1, 2, 1])] }, 1, 2, ["a", "new"], ["b", "new", true], ["a", "new"]],
  ["new by a byte", { steps: [write([1], [3]), write([2, 3], [4, 1])] }, 2, 2, ["é", "new", true], ["a", "new"]],
  ["bytes beside a hole", { canvas: 4, mask: 8, steps: [write([1, 3], [3, 4])] }, 1, -1,
    ["⟨0xC3⟩", "new"], ["▢", "hole"], ["⟨0xA9⟩", "new"]],
  ["bytes before the end", { steps: [write([1, 2, 3], [3, 4, EOS])] }, 1, -1, ["é", "new"], ["", "end"]],
])
  test(`running text: ${why}`, () => {
    const found = parts(made({ ...READ, ...given }), t, marked),
      wanted = told.map(([text, kind, mark]) => [text, kind, mark]);
    assert.deepEqual(found, wanted);
  });

test("bytes make a character once all are there, and a text that looks like one stays text", () => {
  const read = (...texts) => {
    const table = texts.map((text, id) => ({ id, text, kind: text.startsWith("0x") ? "byte" : "text" })),
      steps = texts.map((_, i) => write([i], [i]));
    return reading(made({ pieces: table, steps: [...steps, {}] }), steps.length + 1)
      .map(({ text }) => text)
      .join("|");
  };
  assert.equal(read("0xF0", "0x9F", "0x98", "0x80"), "😀");
  assert.equal(read("a", "0xE2", "0x98 0x83", "b"), "a☃b");
  assert.equal(read("0x83", "0xE2 0x98", "0xE2", "0x98", "0x83", "⟨0xE2⟩"), "⟨0x83⟩⟨0xE2⟩⟨0x98⟩☃⟨0xE2⟩");
});

test("the wrong word is a part of its own", () => {
  const run = made({ prompt: [1], pieces, steps: [write([1, 2, 3], [1, 2, 2]), {}] });
  run.verdict = { first: 2, last: 3, step: 0 };
  const found = parts(run, 2);
  assert.deepEqual(found, [
    ["a", "old", undefined],
    ["bb", "old", true],
  ]);
});

test("a share beside a threshold is on its own side, in as few figures as say so", () => {
  // biome-ignore format: a table
  for (const [share, limit, text] of [
    [0.954, 0.96, "95 %"], [0.8961, 0.9, "89.6 %"], [0.8996, 0.9, "89.96 %"], [0.899999, 0.9, "90.000 %"],
    [0.9, 0.9, "90 %"], [0.912, 0.9, "91 %"], [0, 0.5, "0 %"],
  ])
    assert.equal(words.against(share, limit), text);
});
