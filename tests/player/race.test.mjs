// What a run has written, when its models computed and where two part, in small runs. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made } from "./made.mjs";

const { difference, growth, inAll, work } = await asset("player/race.js");

const [EOS, MASK] = [9, 8];
const write = (positions, tokens) => ({ commits: { positions, tokens, causes: tokens.map(() => "") } });

test("tokens are counted as the board has them, in a run that comes at once and in one that grows", () => {
  const steps = [write([2, 3], [1, 2]), write([1], [1]), write([2], [-1]), write([2, 3, 4], [4, EOS, 5])],
    whole = made({ prompt: [1], canvas: 5, mask: MASK, eos: [EOS], steps }),
    live = made({ prompt: [1], canvas: 5, mask: MASK, eos: [EOS], steps: steps.slice(0, 2) });
  assert.equal(growth(live).length, 3);
  live.addSteps(steps.slice(2).map((step, i) => ({ ...made.step, ...step, index: i + 2 })));
  growth(live);
  for (const run of [whole, live])
    assert.deepEqual(
      growth(run),
      [0, 1, 2, 3, 4].map((t) => run.tokens(t)),
    );
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
