// Predict mode: what is asked, against the trace, and how an answer is scored. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made, RECORDED, recorded } from "./made.mjs";

const { question, scoreDrafts, scorePositions, total } = await asset("views/predict.js");
const { unpacked } = await asset("player/codec.js");

test("before drafts are verified it is asked how many are accepted, at most as many as are deep", () => {
  let seen = 0;
  for (const run of RECORDED.map(recorded))
    run.steps.forEach(({ tree }, t) => {
      if (!tree) return;
      const { kind, answer, nodes, most } = question(run, t);
      assert.deepEqual([kind, answer], ["drafts", tree.why.filter((why) => why === "accepted").length]);
      assert.equal(nodes, tree.parents.length - 1);
      assert.ok(answer <= most && most <= nodes);
      seen++;
    });
  assert.ok(seen > 20);
});

/** The positions that a step wrote, where they were on the board before it. */
function written(run, { positions, tokens, removed = [], inserted = [] }) {
  const places = Array.from({ length: 2000 }, (_, i) => i).filter((place) => !removed.includes(place));
  for (const place of [...inserted].sort((a, b) => a - b)) places.splice(place, 0, -1);
  return positions.filter((_, i) => tokens[i] >= 0 && tokens[i] !== run.mask).map((position) => places[position]);
}

test("before a board of masks is filled it is asked which open positions the step writes", () => {
  let seen = 0;
  for (const run of RECORDED.map(recorded).filter(({ canvas }) => canvas !== null)) {
    const filled = new Set(),
      moves = run.steps.some(({ commits }) => commits?.removed?.length || commits?.inserted?.length);
    run.steps.forEach(({ tree, commits }, t) => {
      const asked = question(run, t);
      if (tree || !asked) return;
      const writes = commits ? written(run, commits) : [];
      assert.deepEqual(new Set(asked.answer), new Set(writes.filter((place) => asked.open.includes(place))));
      if (!moves) assert.ok(!asked.open.some((place) => filled.has(place)), "what is filled is not asked again");
      for (const place of writes) filled.add(place);
      seen++;
    });
  }
  assert.ok(seen > 20);
});

/** Eight masks behind two tokens; what the model was sure of before the second step is 0.1 a place. */
function masked(second) {
  const sure = Array.from({ length: 10 }, (_, place) => (place < 2 ? Number.NaN : place / 10)),
    lane = { name: "confidence", unit: "probability", values: unpacked(sure, [10]), start: 0 },
    first = { positions: [2], tokens: [5], causes: ["top1"] };
  return made({
    prompt: [3, 4],
    mask: 0,
    canvas: 10,
    steps: [{ commits: first, scores: [lane] }, { commits: second }],
  });
}

test("picked positions are scored against as many of the surest, and against chance", () => {
  const run = masked({ positions: [8, 9], tokens: [6, 7], causes: ["top1", "top1"] }),
    score = (t, picks) => scorePositions(run, t, question(run, t), picks),
    found = { tried: 2, hits: 1, misses: 1, overlooked: [9], chance: (2 * 2) / 7 };
  assert.deepEqual(score(1, [8, 3]), { ...found, baseline: 2 });
  assert.equal(score(1, [3]).baseline, 1);
  assert.equal(score(0, [2]).baseline, null, "before the first step nothing has been seen");
});

test("what is hidden again, or withdrawn, is no answer", () => {
  const run = masked({ positions: [3, 4], tokens: [0, -1], causes: ["remasked", "withdrawn"] });
  assert.deepEqual([...question(run, 1).answer], []);
});

/** A run whose steps accept so many of five drafts in a row; null: a step without drafts. */
function drafting(...accepted) {
  const parents = [-1, 0, 1, 2, 3, 4],
    why = (good) => ["root", ...parents.slice(1).map((_, i) => (i < good ? "accepted" : "mismatch"))];
  return made({ steps: accepted.map((good) => (good === null ? {} : { tree: { parents, why: why(good) } })) });
}

test("a guessed number of drafts is scored against the last one, and against chance", () => {
  const run = drafting(0, 1, null, 1, 3),
    score = (t) => scoreDrafts(run, t, question(run, t), 1),
    wrong = { tried: 1, hits: 0, misses: 1, chance: 1 / 6 },
    right = { ...wrong, hits: 1, misses: 0, off: 0 };
  assert.deepEqual(score(0), { ...wrong, off: 1, baseline: null });
  assert.deepEqual(score(1), { ...right, baseline: 0 });
  assert.deepEqual(score(3), { ...right, baseline: 1 });
  assert.deepEqual(score(4), { ...wrong, off: 2, baseline: 0 });
});

test("a sum leaves out of its comparison what the baseline knew nothing of", () => {
  const run = drafting(0, 1),
    sum = total([0, 1].map((t) => scoreDrafts(run, t, question(run, t), 1)));
  assert.deepEqual(sum, { tried: 2, hits: 1, chance: 2 / 6, held: 1, against: 1, baseline: 0 });
});
