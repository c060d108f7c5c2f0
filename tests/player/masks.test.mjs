// What pictures of masks, tokens and paths work out from a record, against the trace that it stands in.
// `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { chance, recorded } from "./made.mjs";

const { inOrder } = await asset("player/rounds.js");
const { costs, inLines } = await asset("views/baton.js");
const { estimates } = await asset("views/converging.js");
const { replaced } = await asset("views/edits.js");
const { items } = await asset("views/form.js");
const { onLines } = await asset("views/pauses.js");
const { stairs } = await asset("views/ribbon.js");
const { columns } = await asset("views/vote.js");

const sum = (all) => all.reduce((a, b) => a + b, 0);
const near = (a, b, what) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${what}: ${a}, not ${b}`);

for (const name of ["19-dimple-form", "205-dimple-scene", "206-dimple-picture-form"])
  test(`a form keeps its gaps in place and names the call of each word: ${name}`, () => {
    const run = recorded(name),
      first = run.prompt.length,
      printed = new Set(run.steps[0].form.printed);
    for (let t = 1; t <= run.length; t++) {
      const board = run.board(t),
        told = items(board, first, printed, run.eos);
      assert.equal(sum(told.map(({ n }) => n)), run.canvas - first);
      for (const [i, { position, step, printed: fixed }] of told.entries()) {
        assert.ok(!i || position > told[i - 1].position);
        assert.equal(step, board[position].entry?.step ?? null);
        assert.equal(fixed, printed.has(position));
      }
    }
  });

/** What each position held before: of steps [positions, tokens, cause, what moved], "" where nothing is written. */
const held = (...steps) => [
  ...replaced(
    steps.map((step) => {
      const [positions, tokens, cause, more] = step;
      return { commits: step.length ? { positions, tokens, causes: positions.map(() => cause), ...more } : null };
    }),
  ),
];

test("what each position held is found in the commits", () => {
  const changed = [[3], [9], "changed"];
  assert.deepEqual(held([[3, 4], [7, 8], "top1"], changed, [], [[3, 5], [7, 1], "changed"]), [[3, [7, 9]]]);
});

test("what a position held moves with it, and goes with it", () => {
  const found = held(
    [[3, 4, 5], [7, 8, 6], "quota"],
    [[4, 5], [9, 5], "changed"],
    [[5], [1], "appended", { removed: [3], inserted: [5] }],
    [[3], [1], "inserted", { removed: [5], inserted: [3] }],
  );
  assert.deepEqual(found, [
    [4, [8]],
    [5, [6]],
  ]);
  const wrote = [
    [[3, 4], [7, 8], "quota"],
    [[4], [9], "changed"],
  ];
  const moved = [[], [], "", { removed: [3], inserted: [6] }];
  assert.deepEqual(held(...wrote, moved, [[3], [1], "changed"]), [[3, [8, 9]]]);
  assert.deepEqual(held(...wrote, moved, [[3], [1], "quota"]), [[3, [8]]], "of what was changed alone");
});

/** Forty lists of thirty texts of one to six letters, with spaces and line breaks. */
const TEXTS = Array.from({ length: 40 }, (_, seed) => {
  const of = chance(seed + 3);
  return Array.from({ length: 30 }, () => Array.from({ length: 1 + of(6) }, () => "ab \n"[of(4)]).join(""));
});

test("tokens of code keep their order on lines and overlap nowhere", () => {
  for (const texts of TEXTS) {
    const cells = onLines(texts, 12);
    for (const [i, { line, from }] of cells.entries()) {
      const before = cells[i - 1];
      if (!before) continue;
      const end = before.from + (texts[before.i].includes("\n") ? 0 : before.text.length);
      assert.ok(line > before.line || (line === before.line && from >= end), JSON.stringify([texts, i]));
    }
    assert.ok(cells.every(({ from, text }) => from + text.length <= 12));
  }
});

test("what follows a line break inside a token stands behind what it began", () => {
  const found = onLines(["ab\ncd", "e", "\n\n", "f"], 12).map(({ line, from, text }) => [line, from, text]);
  assert.deepEqual(found, [
    [0, 0, "ab↵"],
    [1, 2, "e"],
    [1, 3, "↵"],
    [3, 0, "f"],
  ]);
});

test("tokens of two writers keep their order on lines of a width and overlap nowhere", () => {
  for (const texts of TEXTS) {
    const laid = inLines(texts, 200);
    assert.ok(laid.every(({ x, w }) => x + w <= 200));
    assert.ok(laid.every(({ line, x }, i) => !i || line > laid[i - 1].line || x >= laid[i - 1].x + laid[i - 1].w));
  }
});

for (const name of ["63-rpc-whole-path", "267-rpc-theory-count"])
  test(`the chance of an answer lies in a band that only narrows: ${name}`, () => {
    const { vote } = recorded(name).steps.at(-1);
    assert.ok(vote.whole);
    vote.answers.forEach((_, answer) => {
      const told = estimates(vote, answer),
        given = (i) => vote.of[i] === answer,
        once = (i) => given(i) && vote.copies[i] < 0; // weights of whole paths are chances of disjoint events
      assert.equal(told.length, vote.of.length);
      near(told.at(-1).low, sum(vote.weights.filter((_, i) => once(i))), "added up");
      const others = vote.weights.filter((_, i) => vote.of[i] >= 0 && !given(i) && vote.copies[i] < 0);
      near(told.at(-1).high, 1 - sum(others), "left by the others");
      let hits = 0;
      told.forEach(({ count, low, high }, i) => {
        hits += given(i);
        near(count, hits / (i + 1), `of ${i + 1}`);
        const before = told[i - 1] ?? { low: 0, high: 1 };
        assert.ok(before.low <= low && low <= high && high <= before.high + 1e-12);
      });
    });
  });

test("what a vote's band is drawn of is told of whole paths alone", () => {
  assert.ok(!("whole" in recorded("60-rpc-pruned").steps.at(-1).vote));
});

for (const name of ["60-rpc-pruned", "61-rpc-crowd", "63-rpc-whole-path"])
  test(`columns hold each path once, and RPC's those that it dropped: ${name}`, () => {
    const { vote } = recorded(name).steps.at(-1),
      paths = vote.of.map((_, i) => i),
      gone = new Set(paths.filter((i) => vote.removed?.[i] && vote.copies[i] < 0));
    assert.equal(gone.size > 0, name !== "61-rpc-crowd");
    for (const { rule, shares } of vote.tallies) {
      const made = columns(vote, { rule, shares }, [0]),
        blocks = made.flatMap((column) => column.blocks.map(({ i }) => i));
      near(sum(made.map((column) => column.sum)), sum(shares), rule);
      assert.deepEqual(
        blocks.sort((a, b) => a - b),
        paths.filter((i) => shares[i] || (rule === "RPC" && gone.has(i))),
      );
    }
  });

for (const name of ["10-ead-sort", "268-ead-borrow"])
  test(`what two models cost is what their calls were: ${name}`, () => {
    const { header, steps, prompt, length } = recorded(name),
      sizes = Object.fromEntries(header.models.map(({ role, parameters }) => [role, parameters])),
      told = costs(steps, sizes, "large", prompt.length),
      read = sum(steps.flatMap(({ forwards }) => Object.entries(forwards).map(([role, n]) => n * sizes[role]))),
      work = sum(steps.map(({ tokens_fed: fed, relay }) => fed * sizes[relay.writer]));
    near(told.weights, read / (length * sizes.large), "weights");
    near(told.work, work / ((prompt.length + length - 1) * sizes.large), "work");
    assert.ok(told.weights > 0 && told.weights < told.work && told.work <= 1.2);
  });

/** Rounds that wrote these words, each {position: token}. */
const rounds = (...written) =>
  written.map((words, index) => ({
    index,
    words: Object.entries(words).map(([at, token]) => ({ at: Number(at), token })),
    refused: [],
  }));

test("a caption of rounds in the order of the text stands in its rounds", () => {
  const made = rounds({ 4: 1, 5: 2 }, { 6: 3 });
  assert.equal(inOrder(made), made);
});

test("a caption that is filled with gaps is cut where another round wrote in front", () => {
  const found = inOrder(rounds({ 9: 5 }, { 4: 1, 5: 2 }, { 6: 3, 8: 4 }));
  assert.deepEqual(
    found.map(({ index, words }) => [index, ...words.map(({ at, token }) => [at, token])]),
    [
      [1, [4, 1], [5, 2]],
      [2, [6, 3]],
      [-1, [7, null]],
      [2, [8, 4]],
      [0, [9, 5]],
    ],
  );
});

test("a threshold is level over its step: a slope would show some that were never held", () => {
  const choices = [{ threshold: 3 }, { threshold: 3 }, { threshold: 2 }, null, { threshold: 1 }];
  assert.equal(
    stairs(choices, (v) => 10 * v),
    "M0,30H1V30H2V20H3M4,10H5",
  );
});
