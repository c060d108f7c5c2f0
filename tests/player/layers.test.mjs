// What pictures of layers, caches, experts and devices work out from a record. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { recorded } from "./made.mjs";

globalThis.dxCosts ??= { layers: 1, models: [], devices: [] }; // a page is given them
const { unpacked } = await asset("player/codec.js");
const { ground } = await asset("views/arena.js");
const { together: atOnce } = await asset("views/schedulerows.js");
const sky = await asset("views/slotsky.js");
const routed = await asset("views/routed.js");
const { durations, readers, turn } = await asset("views/stages.js");

const sum = (all) => all.reduce((a, b) => a + b, 0);
const near = (a, b, slack = 1e-9) => assert.ok(Math.abs(a - b) <= slack * Math.max(1, Math.abs(b)), `${a}, not ${b}`);
/** A measured interval in seconds. */
const bar = (track, start, end, kind, about = {}) => ({ track, start, end, kind, about });

test("a first part that is most of a column is cut off below", () => {
  for (const [ends, cut] of [
    [[900, 1000], 900],
    [[400, 1000], 0],
    [[900], 0],
    [[], 0],
  ])
    assert.equal(ground(ends.map((end, i) => ({ start: ends[i - 1] ?? 0, end }))), cut);
});

test("layers that a modelled order does at once are found, and what was measured is none", () => {
  const made = (track, start, kind, about) => ({ ...bar(track, start, start + 1, kind, about), measured: false }),
    attention = [1, 2, 3].map((n) => made(`device ${n}`, 1, "attention", { layer: n + 1 }));
  const found = atOnce([
    ...attention,
    made("device 1", 2, "feed-forward", { layer: 2 }),
    made("device 1", 3, "attention", { layer: 5 }),
    made("x", 3, "head"),
    bar("one device", 1, 2, "attention", { layer: 9 }),
    made("device 1", 4, "branches", { mark: 1 }),
    made("device 2", 4, "branches", { mark: 2 }),
  ]);
  assert.deepEqual(found, [{ begin: 1, end: 2, from: attention[0], to: attention[2], first: 2, last: 4 }]);
  assert.deepEqual(atOnce([]), []);
});

test("readers stand by what they read, with the middle of their times so far", () => {
  const step = (n, long) => ({
    readers: {
      readers: [
        { name: "MFA", bytes: 10 * n, operations: 40 * n },
        { name: "MHA", bytes: 40 * n, operations: 20 * n },
      ],
    },
    intervals: [
      bar("MFA", 0, long, "attention"),
      bar("MFA", long, 9, "feed-forward"),
      bar("MFA", 9, 9 + long, "attention"),
    ],
  });
  const steps = [step(1, 1), step(2, 4), step(3, 2)];
  assert.deepEqual(readers(steps, 2), [
    { name: "MHA", bytes: 80, most: 120, intensity: 0.5, middle: 0 },
    { name: "MFA", bytes: 20, most: 30, intensity: 4, middle: 8 },
  ]);
  assert.equal(readers(steps, 3)[1].middle, 4);
});

const part = (track, start, end, microbatch) => bar(track, start, end, "microbatch", { microbatch, layer: 1 });
const PARTS = [
  part("attention", 1, 3, 1),
  part("attention", 3, 5, 2),
  part("feed-forward", 4, 5.5, 1),
  part("feed-forward", 6, 9, 2),
];
const OTHERS = [bar("attention", 0, 20, "attention", { layer: 1 }), part("links", 0, 20, 1)]; // no part of a microbatch
const turns = (...intervals) => turn({ intervals });

test("a turn is as long as its parts, and both sides work where they overlap", () => {
  const { parts, ...found } = turns(...PARTS, ...OTHERS);
  assert.equal(parts.length, 4);
  assert.deepEqual(found, { start: 1, long: 8, busy: [4 / 8, 4.5 / 8], both: 1 / 8, waited: 1 });
  assert.equal(turns(...OTHERS), null);
});

test("a model is fed with the middle parts and the fastest ways of turns, and with nothing of none", () => {
  assert.deepEqual(durations([turns(...PARTS)]), { layers: 1, m: 2, a: 2, f: 3, out: 1, back: 1 });
  assert.deepEqual(durations([]), { layers: 0, m: 0, a: 0, f: 0, out: 0, back: 0 });
});

/** What a step's tokens chose in layer 2: units by position. */
const entry = (kind, positions, chosen, more) => {
  const shape = [chosen.length, 1, chosen[0].length];
  return { kind, positions, layers: [2], chosen: unpacked(chosen.flat(), shape), weights: null, role: "", ...more };
};

/** A step of a memory with 16 slots and of a mixture with 8 experts; odd slots have a negative weight. */
function read(slots, experts, positions) {
  const weights = unpacked(
      slots.flat().map((slot) => (slot % 2 ? -1 : 1)),
      [slots.length, 1, slots[0].length],
    ),
    keys = positions.map(() => [0, 1]);
  return {
    routing: [
      entry("memory", positions, slots, { weights, units: 16 }),
      ...["rows", "columns"].map((role) => entry("memory", positions, keys, { role, units: 4 })),
      entry("expert", positions, experts, { role: "mixture", units: 8 }),
    ],
  };
}

// biome-ignore format: a table
const READ = [
  read([[1, 4], [4, 6]], [[3, -1], [5, 7]], [0, 1]),
  read([[9, 4]], [[3, 5]], [2]),
  read([[8, 4]], [[0, 1]], [1]),
];
const seen = ({ found }) => found.map(([at, { layers, experts }]) => [at, layers[0].map(([unit]) => unit), experts[0]]);

test("what is gathered of a memory forgets places that are written again", () => {
  const two = sky.gathered(READ, 2),
    first = [0, [1, 4], [3]];
  assert.deepEqual([two.K, two.layers], [4, [2]]);
  // biome-ignore format: a table
  assert.deepEqual(seen(two), [first, [1, [4, 6], [5, 7]], [2, [9, 4], [3, 5]]]);
  assert.deepEqual(seen(sky.gathered(READ, 3)), [first, [1, [8, 4], [0, 1]]]);
});

test("slots have their weights, and the keys that cross in them", () => {
  const [[, one], [, other]] = sky.gathered(READ, 1).found;
  // biome-ignore format: a table
  assert.deepEqual([one.layers, other.layers], [[[[1, -1], [4, 1]]], [[[4, 1], [6, 1]]]]);
  // biome-ignore format: a table
  assert.deepEqual([one.rows, one.columns], [[[0, 1]], [[0, 1]]]);
});

test("the last tokens read the bytes of their union", () => {
  const alone = { slot_bytes: 10, always_bytes: 100 },
    facts = { ...alone, router_bytes: 5, expert_bytes: 20, dense_bytes: 101 };
  assert.deepEqual(sky.growth(sky.gathered(READ, 2).found, facts), [
    [120, 45, 101],
    [130, 65, 101],
    [140, 65, 101],
  ]);
  assert.deepEqual(sky.growth(sky.gathered(READ, 1).found, alone), [[120], [130]]);
});

test("of the tokens that share most slots with the last one the latest is named", () => {
  assert.deepEqual(sky.alike(sky.gathered(READ, 2).found), [1, 1]);
});

// biome-ignore format: a table
const PAIR = [[1, 4], [4, -1]]; // experts of two tokens; the second has one

test("a layer of a step used the units that are there, and no layer that was not told", () => {
  const both = entry("expert", [7, 8], PAIR, { units: 6 }),
    { found, units } = routed.used([both], 2);
  // biome-ignore format: a table
  assert.deepEqual([...found], [[7, [[1, 1], [4, 1]]], [8, [[4, 1]]]]);
  assert.equal(units, 6);
  assert.equal(routed.used([both], 3).found.size, 0);
  const two = { ...both, layers: [1, 2], chosen: unpacked([3, 4, 5, 0], [2, 2, 1]) };
  // biome-ignore format: a table
  assert.deepEqual([...routed.used([two], 2).found], [[7, [[4, 1]]], [8, [[0, 1]]]]);
});

test("a unit's share is that of the columns that use it", () => {
  // biome-ignore format: a table
  assert.deepEqual([...routed.together([[[1, 1], [4, 1]], [[4, 1]]])], [[1, 0.5], [4, 1]]);
});

const COUNTS = [4, 1, 6, 0, 9];
const PAIRS = COUNTS.map((count) => Array.from({ length: count }, (_, unit) => [unit, 1]));
/** 400 choices by chance of as many of 32 units as each position uses. */
const TRIALS = Array.from({ length: 400 }, (_, i) =>
  PAIRS.map((pairs, j) => routed.drawn(pairs, 5 * i + j, 32).map(([unit]) => unit)),
);

test("by chance a position uses as many different units as it does", () => {
  for (const trial of TRIALS) assert.equal(String(trial.map((units) => new Set(units).size)), String(COUNTS));
});

test("the mean of units that are used by chance is exact, and what is drawn comes near", () => {
  const mean = routed.expected(PAIRS, 32),
    unions = TRIALS.map((trial) => new Set(trial.flat()).size);
  near(mean, 32 * (1 - COUNTS.reduce((rest, count) => rest * (1 - count / 32), 1)));
  assert.ok(Math.abs(sum(unions) / 400 - mean) < 0.5);
});

test("by chance each unit is drawn about as often", () => {
  const often = Array(32).fill(0);
  for (const unit of TRIALS.flat(2)) often[unit]++;
  const mean = sum(often) / 32;
  assert.ok(Math.min(...often) > 0.7 * mean && Math.max(...often) < 1.3 * mean);
});

test("lines between tokens and experts on devices are counted, a journey once for each device", () => {
  const devices = (positions, at, role) =>
      entry(
        "device",
        positions,
        at.map((one) => [one]),
        { role },
      ),
    routing = [entry("expert", [7, 8], PAIR), devices([7, 8], [0, 1], "")],
    steps = [{ routing: [devices([0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 1, 1], "experts")] }, { routing }];
  assert.deepEqual(routed.counted(routed.placed(steps, 2, 2)), { all: 3, local: 2, visits: 1, load: [1, 2] });
});

for (const name of ["183-speculative-moe-placed", "184-speculative-moe-ordinary"])
  test(`places are those that the engine's facts compare: ${name}`, () => {
    const { steps } = recorded(name);
    steps.forEach(({ facts }, i) => {
      const [usual, ours] = [routed.ordinary, (one) => one].map((as) =>
          [0, 1, 2, 3].map((layer) => routed.counted(as(routed.placed(steps, i + 1, layer)))),
        ),
        of = (side, what) => sum(side.map((one) => one[what]));
      near(of(usual, "local") / of(usual, "all"), facts.lar_ordinary);
      near(of(ours, "local") / of(ours, "all"), facts.lar);
      near(of(usual, "visits") * facts.bytes_moved, of(ours, "visits") * facts.bytes_moved_ordinary);
    });
  });

test("the last tokens of the text are gathered from as many steps as it takes", () => {
  const { steps, prompt } = recorded("183-speculative-moe-placed");
  for (const [t, most] of [
    [8, 5],
    [1, 3],
  ]) {
    const found = routed.gathered(steps, t, 0, most).tokens.map(({ position }) => position),
      end = prompt.length + t - 1;
    assert.deepEqual(
      found,
      Array.from({ length: most }, (_, i) => end - most + i),
    );
  }
});
