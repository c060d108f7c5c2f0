// What became of a run, and where two part, in runs that are small enough to count by hand. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { chance, made } from "./made.mjs";

const { difference, growth, inAll, standing, work } = await asset("player/race.js");

const [EOS, MASK] = [9, 8];
const write = (positions, tokens, more = {}) => ({
  commits: { positions, tokens, causes: tokens.map(() => ""), ...more },
});

test("tokens are counted as the board has them, in a run that comes at once and in one that grows", () => {
  for (let seed = 0; seed < 80; seed++) {
    const next = chance(seed),
      moving = seed % 2 === 1,
      prompt = [1, 2].slice(next(2)),
      first = prompt.length;
    let width = first + 5;
    const steps = Array.from({ length: 6 }, (_, t) => {
      const more = {};
      if (moving && t % 2) {
        more.removed = width > first ? [first + next(width - first)] : [];
        width -= more.removed.length;
        more.inserted = [first + next(width - first + 1)];
        width++;
      }
      const at = first + next(width - first),
        back = !moving && next(5) === 0;
      return write([at], [back ? -1 : next(10)], { causes: [next(6) ? "" : "noise"], ...more });
    });
    const run = made({ prompt, canvas: first + 5, mask: MASK, eos: [EOS], steps: moving ? steps : steps.slice(0, 3) }),
      points = growth(run);
    if (!moving) run.addSteps(steps.slice(3).map((step, i) => ({ ...made.step, ...step, index: i + 3 })));
    growth(run);
    const counted = Array.from({ length: 7 }, (_, t) => run.tokens(t));
    assert.deepEqual(points, counted, `seed ${seed}`);
  }
});

test("tokens of all samples are counted where more than one of them lives", () => {
  const branch = (id, ...tokens) => ({ id, tokens }),
    run = (...steps) => made({ eos: [EOS], steps: steps.map((branches) => ({ branches })) });
  assert.equal(inAll(run([branch(1, 2)], [branch(1, 2)])), null, "one text");
  assert.equal(inAll(run([branch(1, 2), branch(2, 3)], [branch(1, 4)])), null, "what stands in one step was a guess");
  const two = run([branch(1, 2), branch(2, 3, EOS)], [branch(1, 4), branch(2)], undefined, [branch(1, 1, 1)]);
  assert.deepEqual(inAll(two), [0, 2, 3, 3, 5]);
  assert.deepEqual(inAll(two), [0, 2, 3, 3, 5], "asked again");
});

for (const [why, given, t, told] of [
  ["what stays", [write([1, 2], [3, 4]), write([3], [5])], 1, { tokens: 2, missing: 1 }],
  ["all of it", [write([1, 2], [3, 0])], 1, { tokens: 2 }],
  ["what is changed", [write([1], [3]), write([1], [4])], 1, { tokens: 1, changed: 1, missing: 1 }],
  ["what is written again", [write([1], [3]), write([1], [3])], 1, { tokens: 1 }],
  ["what is masked again", [write([1, 2], [3, 4]), write([2], [MASK])], 1, { tokens: 2, remasked: 1 }],
  ["what is taken back", [write([1, 2], [3, 4]), write([2], [-1])], 1, { tokens: 2, cut: 1 }],
  ["what an end mark leaves behind", [write([3, 4], [4, 5]), write([2], [EOS])], 1, { tokens: 2, behind: 2 }],
  ["behind its own end mark", [write([1, 2, 3], [3, EOS, 4]), {}], 1, { tokens: 1 }],
  ["before the first step", [write([1], [3])], 0, { missing: 1 }],
  ["a place that moves", [write([1], [3]), write([1], [5], { inserted: [1] })], 1, { tokens: 1, missing: 1 }],
  ["a place that goes", [write([1, 2], [3, 4]), write([], [], { removed: [1] })], 1, { tokens: 2, changed: 0, cut: 1 }],
])
  test(`what stands and what becomes of it: ${why}`, () => {
    const run = made({ prompt: [1], canvas: 5, mask: MASK, eos: [EOS], steps: given }),
      { tokens, remasked, changed, cut, behind, missing } = standing(run, t);
    const none = { tokens: 0, remasked: 0, changed: 0, cut: 0, behind: 0, missing: 0 };
    assert.deepEqual({ tokens, remasked, changed, cut, behind, missing }, { ...none, ...told });
  });

test("with what stands come the steps, the calls and the seconds", () => {
  const step = { forwards: { big: 2 }, model_seconds: 1, method_seconds: 0.25 },
    { steps, forwards, seconds } = standing(made({ prompt: [1], steps: [step, step] }), 1);
  assert.deepEqual([steps, forwards, seconds], [1, 2, 1.25]);
});

const call = (track, start, end, more = {}) => ({ track, start, end, ...more });
const step = (seconds, ...intervals) => ({ model_seconds: seconds, intervals });
const about = (part_of) => ({ about: { part_of } });
// biome-ignore format: a table
const MET = { a: [[0, 2]], b: [[1, 3]], "at once": [[1, 2]] },
  LATE = { a: [[0, 1], [5, 6]], b: [[4, 5]], "at once": [] },
  TWO = { a: [[0, 2], [1, 3]], b: [[2, 4]], "at once": [[2, 3]] },
  ON = { a: [[0, 1], [1, 2]], b: [[0, 2]], "at once": [[0, 2]] },
  THREE = { a: [[0, 4]], b: [[1, 3]], c: [[1, 2]], "at once": [[1, 3]] };
const LEFT_OUT = [
  call("a", 0, 1, { measured: true, unit: "seconds" }),
  call("b", 0, 2, about("x")),
  call("c", 0, 1, { measured: false }),
  call("d", -9, 1, { unit: "bytes" }),
  call("e", 0, 1, about("a")),
  call("f", 4, 5),
];
for (const [why, steps, told] of [
  ["one track alone is nothing to compare", [step(4, call("a", 0, 1))], {}],
  ["two that meet", [step(4, call("a", 0, 2), call("b", 1, 3))], MET],
  ["two that are told late", [step(4, call("b", 1, 3), call("a", 0, 2))], MET],
  ["one that goes on", [step(4, call("a", 0, 1), call("a", 1, 2), call("b", 0, 2))], ON],
  ["two that touch", [step(4, call("a", 0, 1), call("b", 1, 3))], { a: [[0, 1]], b: [[1, 3]], "at once": [] }],
  ["each step after the one before", [step(4, call("a", 7, 8)), step(2, call("b", 20, 21), call("a", 21, 22))], LATE],
  ["calls of one track that overlap", [step(5, call("a", 0, 2), call("a", 1, 3), call("b", 2, 4))], TWO],
  ["three at once are once at once", [step(5, call("a", 0, 4), call("b", 1, 3), call("c", 1, 2))], THREE],
  [
    "what was not measured, is of another unit, part of another track or behind the step is left out",
    [step(4, ...LEFT_OUT)],
    { a: [[0, 1]], b: [[0, 2]], "at once": [[0, 1]] },
  ],
])
  test(`when each track computed: ${why}`, () => {
    const close = (spells) => spells.map((spell) => spell.map((x) => Number(x.toFixed(6)))),
      found = [...work(made({ steps }))].map(([name, spells]) => [name, close(spells)]);
    assert.deepEqual(Object.fromEntries(found), told);
  });

const pieces = ["a", "b", "c", "dd", "é", "ab"].map((text, id) => ({ id, text }));
const text = (ids) => ids.map((id) => pieces[id]?.text ?? "").join("");
/** A finished run of these ids; name: of its tokenizer. */
function over(ids, { name = "one", reason = "complete", asked = 9, said = text(ids), ...more } = {}) {
  const end = { output_ids: ids, reason, text: said };
  return made({
    prompt: [1, 1],
    eos: [EOS],
    pieces,
    models: [{ role: "m", tokenizer: name }],
    params: { max_new_tokens: asked },
    end,
    ...more,
  });
}
const other = { name: "two" },
  cut = { reason: "budget" },
  unknown = { unit: "character" };

// biome-ignore format: a table
for (const [why, run, beside, told] of [
  ["the same", over([0, 1]), over([0, 1]), { unit: "token", at: null, count: 2, position: null, limited: false }],
  ["a token", over([0, 1, 2]), over([0, 2, 2]),
    { at: 1, ours: "b", theirs: "c", position: 3, limited: false, respelled: false }],
  ["one goes on", over([0, 1]), over([0]), { at: 1, ours: "b", theirs: "", position: 3, count: 1 }],
  ["the other goes on", over([0]), over([0, 1]), { at: 1, ours: "", theirs: "b", count: 2 }],
  ["both came to their end", over([0, EOS], { asked: 3 }), over([0, 1, EOS]), { at: 1, theirs: "b", limited: false }],
  ["what stands behind an end mark is none of it", over([0, EOS, 1]), over([0, EOS, 2]), { at: null, count: 1 }],
  ["one had fewer to write", over([0, 1], { asked: 2 }), over([0, 1, 2]), { at: null, count: 2, limited: true }],
  ["one was stopped", over([0, 1, 2]), over([0], cut), { at: null, count: 1, limited: true, respelled: false }],
  ["other tokens", over([0, 1]), over([5]), { at: 0, ours: "a", theirs: "ab", respelled: true, limited: false }],
  ["other tokens, and cut", over([0, 1]), over([5], { ...cut, said: "ab" }),
    { at: 0, limited: true, respelled: false }],
  ["other tokenizers", over([0, 3, 2]), over([0, 3, 1], other),
    { unit: "character", at: 3, ours: "c", theirs: "b", position: 4, count: 4 }],
  ["inside a token", over([0, 3]), over([0, 0], other), { unit: "character", at: 1, position: 3, respelled: false }],
  ["the same text", over([0, 4]), over([0, 4], other),
    { unit: "character", at: null, ours: "", theirs: "", position: null, count: 2 }],
  ["one text cut", over([0, 1, 2]), over([0, 1], { ...other, ...cut }), { at: null, limited: true, count: 2 }],
  ["the other text longer", over([0]), over([0, 1], other), { at: 1, ours: "", theirs: "b", position: 3 }],
  ["one text longer", over([0, 1, 2]), over([0, 1], other),
    { at: 2, ours: "c", theirs: "", limited: false, position: 4 }],
  ["tokens that do not spell it", over([0, 1], { said: "xay" }), over([0, 2], other),
    { unit: "character", at: 0, position: null }],
  ["behind the first letter", over([3, 1], { said: "db" }), over([3], { ...other, said: "dc" }),
    { at: 1, ours: "b", position: 3 }],
  ["tokens that are not known", over([0], { missing: ["token_ids"] }), over([0]), unknown],
  ["tokens that were not counted", over([0], { missing: ["tokens"] }), over([0]), unknown],
  ["a tokenizer without a name", over([0], { name: null }), over([0], { name: null }), unknown],
])
  test(`where two outputs part: ${why}`, () => {
    const found = difference(run, beside);
    assert.deepEqual(Object.fromEntries(Object.keys(told).map((name) => [name, found[name]])), told);
  });
