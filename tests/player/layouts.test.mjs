// Where the marks of ten views stand, in small records: they stand where they stood (layouts.json has digests of them;
// UPDATE=1 writes it anew), and keep the rules of their pictures. `node --test tests/player/`
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { asset } from "./assets.mjs";

const FILE = new URL("layouts.json", import.meta.url);
const stood = JSON.parse(readFileSync(FILE, "utf8"));
const view = async (name) => asset(`player/views/${name}layout.js`);

/** All marks as text: numbers to a hundredth of a pixel. */
const plain = (marks) =>
  JSON.stringify(marks, (_, v) => (typeof v === "number" ? Math.round(100 * v) / 100 : (v ?? null)));
const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 12);

/** The marks of these records at these widths are those of before, and there are no numbers that are none. */
function stand(name, widths, records, draw) {
  for (const [which, record] of Object.entries(records))
    test(`marks stand where they stood: ${name}, ${which}`, () => {
      const now = widths.map((width) => plain(draw(record, width))).join("\n");
      assert.ok(!/NaN|undefined|Infinity/.test(now), now);
      if (process.env.UPDATE) stood[`${name}, ${which}`] = digest(now);
      assert.equal(digest(now), stood[`${name}, ${which}`], `now they are ${now}`);
    });
}
process.on("exit", () => process.env.UPDATE && writeFileSync(FILE, `${JSON.stringify(stood, null, 1)}\n`));

// a vote

const vote = await view("vote");
const tally = (rule, shares, winner, more) => ({ rule, shares, winner, ...more });
const VOTE = {
  answers: ["12", "a long answer", "7"],
  of: [0, 1, 0, -1, 2],
  voters: [1, 2, 3, 4, 5],
  weights: [0.4, 0.1, 0.2, 0.3, 0.05],
  copies: [-1, -1, 0, -1, -1],
  removed: [false, false, false, false, true],
  tallies: [
    tally("RPC", [0.5, 0.2, 0, 0, 0], 0),
    tally("self-consistency", [1, 1, 1, 0, 1], 0, { tied: true }),
    tally("own rule", [0, 0.25, 0, 0, 0.25], 1),
  ],
};
const MANY = {
  ...VOTE,
  answers: Array.from({ length: 9 }, (_, i) => `answer ${i}`),
  of: [0, 1, 2, 3, 4, 5, 6, 7, 8, 8],
  weights: Array(10).fill(0.1),
  voters: Array.from({ length: 10 }, (_, i) => i),
  removed: Array.from({ length: 10 }, (_, i) => i > 4),
  tallies: [tally("perplexity", Array(10).fill(0.1), 8), tally("RPC", Array(10).fill(0.1), -1)],
};
const votes = {
  three: VOTE,
  many: MANY,
  "without weights": { ...VOTE, weights: [0, 0, 0, 0, 0], copies: undefined, removed: undefined },
  "none that can be read": { ...VOTE, of: [-1, -1, -1, -1, -1], tallies: [tally("RPC", [0, 0, 0, 0, 0])] },
  whole: { ...VOTE, whole: {} },
};
stand("vote", [340, 521, 760], votes, (one, width) => vote.layout(one, width, 0));
stand("vote of the wrong", [1150], { three: VOTE, unknown: VOTE }, (one, width) => vote.layout(one, width, 2));

for (const [name, one] of Object.entries(votes))
  test(`blocks of a column stand on each other, and none leaves its rule's box: ${name}`, () => {
    for (const width of [340, 760, 1150]) {
      const { parts, height } = vote.layout(one, width, null),
        columns = [];
      assert.equal(parts.boxes.length, one.tallies.length);
      for (const { x, y, w, h } of parts.blocks) {
        const box = parts.boxes.find((b) => x >= b.x && x + w <= b.x + b.w && y >= b.y && y + h <= b.y + b.h);
        assert.ok(box, `${x} ${y}`);
        assert.ok(
          columns.every((other) => other.x !== x || other.y >= y + h || other.y + other.h <= y || box !== other.box),
        );
        columns.push({ x, y, h, box });
      }
      for (const box of parts.boxes) assert.ok(box.x >= 0 && box.x + box.w <= width && box.y + box.h <= height);
    }
  });

// a trained filter

const filter = await view("filtering");
const cell = (token, step) => ({ token, entry: step === null ? undefined : { step } });
const FILTER = {
  masked: [true, true, false, true, true, true],
  confidence: [0.9, 0.5, 0.1, 0.796, 0.4, 0.85],
  filter: [0.7, 0.1, 0, 0.55, 0.5, 0.2],
  start: 3,
  length: 8,
  end: 8,
  end_confidence: 0.77,
};
const filters = {
  six: FILTER,
  "an end mark": { ...FILTER, end: 5 },
  "an end mark far right": { ...FILTER, end: 7 },
  "no filter": { ...FILTER, filter: [] },
  "an oracle": { ...FILTER, filter: [], oracle: [true, false, true, true, false, false] },
  both: { ...FILTER, oracle: [true, false, true, true, false, false] },
  one: { ...FILTER, masked: [true], confidence: [0.3], filter: [0.2] },
};
stand("filter", [330, 640, 1150], filters, (told, width) => {
  const own = told.masked.map((open, i) => open && (told.filter[i] ?? Number(told.oracle?.[i] ?? i === 0)) > 0.5),
    plain = told.masked.map((open, i) => open && told.confidence[i] >= 0.8),
    board = [cell(1, null), cell(2, null), cell(3, 0), cell(4, 1), cell(null, 1), cell(5, 0), cell(6, 1)];
  if (!told.filter.length && !told.oracle) own[0] = true;
  return filter.layout(told, {
    width,
    theta: 0.8,
    tau: 0.5,
    plain,
    own,
    word: (i) => `w${i}`,
    answer: { board, t: 2, first: 2, all: 10 },
  });
});

// a chain of thought left alone

const left = await view("leftalone");
const OWN = {
  texts: ["so ", "it is", " 4", ""],
  starts: [0, 1, 2],
  kinds: ["thought", "doubt", "answer"],
  sign: (text) => `(${text})`,
};
const ALONE = {
  texts: ["perhaps it is 4 or ", "5, no, it is 4"],
  starts: [0, 1],
  kinds: ["again", "odd"],
  sign: () => "?",
};
const put = (at, drawn, is, before = 0.5, after = 0.25) => ({ at, drawn, put: is, before, after });
const CHAIN = {
  own: OWN,
  alone: ALONE,
  longest: 33,
  over: false,
  stop: null,
  done: [put(1, "Wait", true), put(2, null, false)],
};
const chains = {
  "on the way": CHAIN,
  over: { ...CHAIN, over: true },
  "cut off": { ...CHAIN, over: true, stop: { value: 0.93, threshold: 0.9 } },
  "nothing yet": {
    ...CHAIN,
    own: { ...OWN, texts: [], starts: [], kinds: [] },
    longest: 0,
    done: [put(0, null, true), put(0, "x", false, 0.3, 0.296)],
  },
  long: { ...CHAIN, longest: 400, over: true, stop: { value: 0.93, threshold: 0.9 } },
};
stand("left alone", [340, 420, 700, 1150], chains, (one, width) => left.layout({ ...one, width }));

test("cards lie side by side in the order of their text", () => {
  const [one, two, three] = left.cards(OWN.texts, OWN);
  assert.deepEqual([one.from, one.to, two.from, two.to, three.from, three.to], [0, 3, 3, 8, 8, 10]);
  assert.deepEqual([one.text, three.text], ["so ", " 4"]);
  assert.deepEqual(left.cards([], { starts: [], kinds: [] }), []);
});

// pauses

const pauses = await view("pauses");
const words = (...texts) =>
  texts.map((text, i) => ({ text, H: i % 3 ? 0.5 * i : null, paused: i === 2, overruled: i === 4 }));
const FUTURES = [
  { tokens: [1, 2, 3], p: 0.5, mean: 0.4, won: false },
  { tokens: [4], p: 0.3, mean: 0.6, won: true },
  { tokens: [5, 6, 7, 8, 9, 10, 11, 12], p: 0.004, mean: 0, won: false },
];
const PAUSE = { written: words("def", " f", "(x):\n", "  return", " x"), line: 1.2, rows: FUTURES, at: 5, now: true };
const paused = {
  now: PAUSE,
  before: { ...PAUSE, now: false },
  "the first choice stays": { ...PAUSE, rows: [{ ...FUTURES[0], won: true }] },
  never: { ...PAUSE, rows: [], at: 0, now: false },
  "no code": { ...PAUSE, written: [], rows: [], at: 0, now: false },
  "many lines": { ...PAUSE, written: words(..."a\nb\nc\nd\ne\nf\ng\nh".split(/(?<=\n)/)), line: 0 },
  overruled: { ...PAUSE, written: words("a", "b", "c", "d", "e", "f") },
  certain: { ...PAUSE, rows: FUTURES.map((row) => ({ ...row, mean: 0 })) },
};
stand("pauses", [340, 600, 760, 1150], paused, (one, width) =>
  pauses.layout({ ...one, width, word: (token) => `word${token}` }),
);

// an arena

const arena = await view("arena");
const part = (name, start, end) => ({ name, start, end, measured: true });
const ARENA = {
  at: [
    [part("weights", 0, 1000), part("cache", 1000, 1100)],
    [],
    [part("weights", 0, 1000), part("cache", 1000, 1300), part("rest", 1300, 1310)],
  ],
  limits: [1400, null, 2000],
  names: ["weights", "cache", "rest"],
  group: "arena",
  base: 1000,
  top: 1500,
};
const GROUPS = [
  ["arena", ARENA.at[2]],
  ["other", [part("weights", 0, 1000), part("cache", 1000, 1500)]],
  ["odd", [part("x", 0, 5), part("y", 5, 9)]],
  ["one", [part("z", 0, 9)]],
];
const arenas = {
  "from the first part on": [ARENA, new Map(GROUPS)],
  "from nothing on": [{ ...ARENA, base: 0 }, new Map(GROUPS)],
  empty: [{ ...ARENA, at: [], limits: [], names: [], base: 0, top: 1 }, new Map()],
  "one step": [{ ...ARENA, at: [ARENA.at[2]], limits: [1500] }, new Map(GROUPS.slice(0, 1))],
};
stand("arena", [340, 640, 1150], arenas, ([one, groups], width) => [
  arena.areas({ ...one, width }),
  arena.below({ ...one, width }, groups),
]);
test("fills of parts come again after the last", () => {
  assert.equal(arena.fill(0), arena.fill(8));
  assert.notEqual(arena.fill(0), arena.fill(1));
  assert.deepEqual(
    [340, 1150].map((width) => arena.wideOf({ width }) + arena.leftOf({ width }) < width),
    [true, true],
  );
});

// a draft tree and its sources

const tree = await view("tree");
const row = (parent, why = "accepted", more) => ({ parent, why, value: null, ...more });
const TREE = { tails: false, all: 3, wide: 800, byPass: false, aligned: false, least: 0, plan: () => ({ w: 0, h: 0 }) };
const beside = { least: 200, plan: (width) => ({ w: Math.min(width, 250), h: 120 }) };
const trees = {
  root: { ...TREE, rows: [row(-1, "root")] },
  four: { ...TREE, rows: [row(-1, "root"), row(0), row(0, "mismatch"), row(1)] },
  tails: { ...TREE, tails: true, rows: [row(-1, "root"), row(0), row(0, "mismatch")] },
  passes: {
    ...TREE,
    byPass: true,
    rows: [
      row(-1, "root"),
      row(0, "accepted", { value: 1 }),
      row(1, "accepted", { value: 1 }),
      row(0, "mismatch", { value: 2 }),
    ],
  },
  sources: { ...TREE, ...beside, rows: [row(-1, "root"), row(0), row(0), row(2)] },
  "sources above": { ...TREE, ...beside, aligned: true, rows: [row(-1, "root"), row(0), row(0, "unreached")] },
  "sources that have no room beside": { ...TREE, ...beside, wide: 340, rows: [row(-1, "root"), row(0)] },
  "sources that fit exactly": {
    ...TREE,
    least: 800 - 64 - 308,
    plan: (w) => ({ w: w / 2, h: 20 }),
    rows: [row(-1, "root"), row(0)],
  },
  folded: {
    ...TREE,
    rows: [
      row(-1, "root"),
      ...Array.from({ length: 10 }, () => row(0)),
      ...Array.from({ length: 195 }, (_, i) => row(1 + (i % 10), "unreached")),
      row(30, "unreached"),
    ],
  },
};
stand("tree", [800, 340], trees, (one, width) => {
  const made = tree.layout({ ...one, wide: Math.min(one.wide, width) });
  return {
    ...made,
    number: [...made.number],
    edges: made.edges.map(({ d }) => d),
    folded: one.rows.map(({ folded }) => folded),
  };
});

const origins = await view("origins");
const THREADS = {
  sources: [
    {
      kind: "text",
      links: [
        [0, 0],
        [1, 2],
        [9, 0],
      ],
    },
    {
      kind: "model",
      links: [
        [1, -1],
        [0, 3],
      ],
    },
  ],
  states: ["accepted", "rejected"],
  at: (at) =>
    [
      { x: 300, y: 4, w: 80, h: 24 },
      { x: 420, y: 60, w: 80, h: 24 },
    ][at],
  x: 0,
  y: 20,
  left: 100,
  w: 26,
  pitch: 29,
  cells: 3,
  above: false,
  over: false,
};
stand(
  "threads",
  [0],
  {
    beside: THREADS,
    over: { ...THREADS, over: true },
    above: { ...THREADS, above: true, over: true },
    level: { ...THREADS, y: 4 },
    none: { ...THREADS, sources: [] },
  },
  origins.threads,
);

// bars under the cells of the board

const bars = await view("bars");
const BOARD = { columns: 4, w: 50, gap: 3, gutter: 30, first: 2 };
const SCORES = [NaN, NaN, 0.5, 0.9, 0, NaN, 0.3, 1, 0.7, 0.2];
const bared = {
  plain: { value: (p) => SCORES[p] },
  lifted: { value: (p) => SCORES[p], base: (p) => SCORES[p] - 0.2 },
  "lifted by nothing": { value: (p) => SCORES[p], base: (p) => SCORES[p] },
  "lifted from below": { value: (p) => SCORES[p], base: () => 0 },
  "a base that is not known": { value: (p) => SCORES[p], base: () => NaN },
  none: { value: null },
};
stand("bars", [3, 6], bared, (one, start) => {
  const g = bars.gridOf(BOARD, start, 10),
    on = { g, start, widest: 10, y: (v) => g.h - g.h * v };
  return [
    g,
    bars.layout({ base: null, ...on, ...one, written: new Set([3, 8]), inside: (p) => p < 9 }),
    bars.lineOf({ ...on, threshold: 0.6 }),
    bars.lineOf({ ...on, lines: (p) => (p === 7 ? NaN : SCORES[p] / 2) }),
    bars.lineOf({ ...on }),
  ];
});
stand("rows of bars", [1, 5, 40], { rows: BOARD }, (grid, widest) => bars.gridOf(grid, 2, widest));

// attention operators

const operators = await view("operators");
const token = { state: "old", whole: "w" };
const lane = (own, ...held) => ({
  own,
  title: own ? "own" : "other",
  where: "head 1",
  at: held.map((one, i) => (one === null ? undefined : { held: one, href: `#${i}`, token })),
});
const operated = {
  both: [
    [lane(false, false, false, false), lane(true, false, true, true)],
    [
      [3, 2, 1, 5],
      [9, 8, 7, 6],
    ],
  ],
  one: [[lane(true, true, null, true)], [[3, null, 1], []]],
  "no times": [[lane(true, false)], [[null, null], [4]]],
  none: [[], [[], []]],
};
for (const t of [1, 3, 12])
  stand(`operators at step ${t}`, [340, 699, 700, 1150], operated, ([lanes, series], width) => {
    const columns = operators.columnsOf(t, width);
    return [columns, columns.steps.map((_, i) => columns.x(i)), operators.layout(columns, lanes, series)];
  });
test("the prompt's step and the last ones are shown, as many as have room", () => {
  for (const t of [0, 1, 5, 6, 40]) {
    const { steps, pitch } = operators.columnsOf(t, 560);
    assert.deepEqual([steps[0] ?? 1, steps.at(-1) ?? 0], [1, t]);
    assert.ok(steps.length <= Math.max(2, Math.floor(560 / 66)) && pitch >= 66);
    assert.deepEqual(
      steps.slice(2).map((step, i) => step - steps[i + 1]),
      steps.slice(2).map(() => 1),
    );
  }
});

// the token board

const tokens = await view("tokens");
test("a board that scrolls shows what was written last, from its first place on", () => {
  const grid = { columns: 4, w: 50, gap: 3, gutter: 0, rowHeight: 40, height: 400, first: 2 },
    to = (top, written, most = 3) => tokens.scrolledTo(grid, { top, written, most });
  assert.deepEqual([to(0, [4]), to(0, [14]), to(0, [18]), to(200, [18]), to(200, [4, 5])], [0, 40, 80, 160, 0]);
  assert.deepEqual(
    [to(80, [14, 40]), to(120, []), to(70, [3], 10), to(70, [3], Infinity), to(70, [3], 9)],
    [120, 0, 70, 70, 0],
  );
  // biome-ignore format: a table
  for (const [i, seen] of [
    [0, false], [3, false], [4, true], [8, true], [15, true], [16, true], [19, true], [20, false],
  ])
    assert.equal(tokens.inSight(grid, i, { top: 50, most: 3 }), seen, `cell ${i}`);
  assert.equal(tokens.inSight(grid, 0, { top: 40, most: 3 }), false);
  assert.equal(tokens.inSight(grid, 12, { top: 0, most: 3 }), false);
});

test("cells are as wide as most words need, and rows as many as have room", () => {
  assert.deepEqual(
    [[], [1], [9, 1, 5, 5], [40, 50, 60, 70], [1, 2, 3, 4, 5, 6, 7, 8]].map(tokens.typicalOf),
    [5, 2.4, 9, 9, 7],
  );
  assert.deepEqual(
    [
      [null, 200],
      [null, 900],
      [64, 559],
      [64, 560],
    ].map(([canvas, width]) => tokens.rowsSeen(canvas, width)),
    [3, 3, 3, 4],
  );
});
