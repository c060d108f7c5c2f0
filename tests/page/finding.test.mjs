// What the chooser finds, where an address leads, and what Try puts into the slots. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { ANY, choose, distanceTo, edits, find, fits } = await asset("page/finding.js");
const { placeOf, queryOf } = await asset("page/address.js");
const { slotsToTry } = await asset("page/trymethod.js");

const entry = (id, more) => ({ id, method: true, title: id, words: [], summary: "", beside: [], parts: [], ...more });
const left = (id, title, rank, more) => entry(id, { title, order: "left", same: 2, rank, ...more });
const paper = (id, name, title, arxiv) => ({ paper: { id, name, title, arxiv } });
const FEATURES = paper("eagle", "EAGLE", "Rethinking Feature Uncertainty", "2401.15077");
const LARGE = paper("llada", "LLaDA", "Large Language Diffusion Models", "2502.09992");
const COPIES = left("prompt-lookup", "Prompt lookup", 0, { words: ["n-gram"], summary: "Copies what followed." });
const HEADS = left("eagle", "EAGLE", 3, { parts: ["eagle layer"], ...FEATURES });
const LIKE = left("falcon", "Falcon", 4, { parts: ["x"], words: ["EAGLE"] });
const DRAFTED = left("sps", "Speculative sampling", 1, { beside: ["causal"] });
const JUDGED = left("judge", "Judge", 2, { same: 1, beside: ["causal"], trains: "a judge" });
const MASKED = entry("llada", { title: "LLaDA base", order: "masked", same: 0, rank: 0, ...LARGE });
const STUDY = entry("laws", { method: false, title: "Scylla", order: "" });
const ALL = [HEADS, LIKE, DRAFTED, JUDGED, MASKED, COPIES, STUDY];
const ids = (list) => list.map(({ id }) => id);

for (const [why, answers, expected] of [
  ["nothing asked: by rank, studies last", {}, ["llada", "prompt-lookup", "sps", "judge", "eagle", "falcon", "laws"]],
  ["masked", { order: "masked" }, ["llada"]],
  ["nothing trained", { order: "left", train: "no" }, ["prompt-lookup", "sps"]],
  ["training allowed comes first where it is used", { train: "yes", order: "left" }, ["judge", "eagle", "falcon"]],
  ["no second model", { order: "left", draft: "no" }, ["prompt-lookup", "eagle", "falcon"]],
  ["a second model is used first", { draft: "yes", order: "left" }, ["sps", "judge", "prompt-lookup"]],
  ["the same text, without a condition first", { same: "yes" }, ["prompt-lookup", "sps", "eagle", "falcon", "judge"]],
  ["the text may differ", { same: "no", order: "masked" }, ["llada"]],
  ["none", { order: "masked", same: "yes" }, []],
])
  test(`four answers: ${why}`, () => {
    const { found } = choose(ALL, { ...ANY, ...answers }, "");
    assert.deepEqual(ids(found).slice(0, expected.length), expected);
    for (const one of found) assert.ok(fits(one, { ...ANY, ...answers }));
    assert.equal(fits(STUDY, { ...ANY, ...answers }), !Object.keys(answers).length, "a study fits no answer but any");
  });

// biome-ignore format: a table
for (const [typed, first] of [
  ["prompt lookup", "prompt-lookup"], ["PROMPT-LOOKUP", "prompt-lookup"], ["lookup", "prompt-lookup"],
  ["EAGLE", "eagle"], ["arXiv:2502.09992v2", "llada"], ["https://arxiv.org/abs/2401.15077", "eagle"],
  ["LLaDA", "llada"], ["feature uncertainty", "eagle"], ["ngram", "prompt-lookup"], ["n-gram", "prompt-lookup"],
  ["followed", "prompt-lookup"], ["lookup copies", "prompt-lookup"],
])
  test(`a search for ${typed} finds ${first} first`, () => {
    const { found, near } = find(ALL, typed);
    assert.equal(found[0].id, first);
    assert.equal(near, null);
  });

test("an exact title comes before a word, a word before a summary", () => {
  assert.deepEqual(ids(find(ALL, "eagle").found), ["eagle", "falcon"]);
  assert.ok(distanceTo(COPIES, "n-gram") < distanceTo(COPIES, "copies"));
  assert.equal(distanceTo(COPIES, "masks"), Number.POSITIVE_INFINITY);
  assert.equal(distanceTo(MASKED, "2401.15077"), Number.POSITIVE_INFINITY);
});

test("a misspelling finds the closest and says what it took it for", () => {
  assert.deepEqual(ids(find(ALL, "eagel").found).slice(0, 1), ["eagle"]);
  assert.equal(find(ALL, "eagel").near, "EAGLE");
  assert.equal(find(ALL, "promt lokup").near, "Prompt lookup");
  assert.equal(find(ALL, "lada").found[0].id, "llada");
  for (const typed of ["qqqqqqq", "xy", "42"]) assert.deepEqual(find(ALL, typed), { found: [], near: null });
  assert.equal(edits("eagel", "eagle", 2), 1);
  assert.equal(edits("abc", "abcdef", 2), 3);
});

test("what the answers rule out of a search is counted", () => {
  const { found, hidden } = choose(ALL, { ...ANY, train: "no" }, "eagle");
  assert.deepEqual([found, hidden], [[], 2]);
});

const at = (kind, name, tab) => ({ kind, name, tab });
// biome-ignore format: a table
for (const [search, ...place] of [
  ["", "", "", "explore"], ["?still", "", "", "explore"], ["?tab=learn", "", "", "learn"],
  ["?method=eagle&tab=learn", "method", "eagle", "methods"], ["?paper=llada", "paper", "llada", "methods"],
  ["?lesson=a%20b", "lesson", "a b", "learn"], ["?doc=using", "doc", "using", "docs"],
])
  test(`the address ${search || "of the untouched page"} leads to ${place.join(" ").trim()}`, () => {
    assert.deepEqual(placeOf(search), at(...place));
  });

test("an address keeps what else it has, and is clean on Explore", () => {
  assert.equal(queryOf("?still&tab=learn", at("method", "eagle", "methods")), "?still&method=eagle");
  assert.equal(queryOf("?method=eagle", at("", "", "explore")), "");
  assert.equal(queryOf("?lang=zh-Hans&lesson=x", at("", "", "docs")), "?lang=zh-Hans&tab=docs");
  assert.equal(queryOf("?run=a,b&step=3&method=x", at("", "", "learn")), "?run=a,b&step=3&tab=learn");
  const played = queryOf("?run=a&step=3&clock=work&method=x", at("", "", "explore"), { gallery: ["01-x", "02-y"] });
  assert.equal(played, "?gallery=01-x,02-y");
  assert.equal(queryOf(played, at("", "", "explore"), { run: ["ab"] }), "?run=ab");
});

test("Try puts the control first, on one model that reads any text where there is one", () => {
  const params = [{ name: "n", kind: "int", default: 4 }];
  const catalogue = {
    open: false,
    models: [
      { name: "lists", kind: "causal", tasks: ["sort"] },
      { name: "any", kind: "causal", tasks: [] },
      { name: "seer", kind: "causal", kinds: ["layered"], tasks: [], has: ["heads"] },
    ],
    methods: ["greedy", "copy", "heads"].map((slug) => ({ slug, kind: "causal", params })),
  };
  catalogue.methods[2].wants = ["heads"];
  const tried = (method, control, models, ...now) => {
    const shown = now.map((model) => ({ model }));
    return slotsToTry(catalogue, { method, control, models }, shown).map((slot) => [
      slot.method,
      slot.model,
      slot.params.n,
    ]);
  };
  const both = (method, model) => ["greedy", method].map((one) => [one, model, 4]);
  assert.deepEqual(tried("copy", "greedy", ["lists", "any"]), both("copy", "any"));
  assert.deepEqual(tried("copy", "greedy", ["lists", "any"], "lists"), both("copy", "lists"));
  assert.deepEqual(tried("heads", "greedy", ["seer"], "any"), both("heads", "seer"));
  assert.deepEqual(tried("copy", "", ["any"]), [["copy", "any", 4]]);
  catalogue.methods[1].params = [...params, { name: "ends", default: true, fair: false }];
  const ends = (control) =>
    slotsToTry(catalogue, { method: "copy", control, models: ["any"] }, []).map((slot) => slot.params.ends);
  assert.deepEqual(ends("greedy"), [undefined, false]);
  assert.deepEqual(ends(""), [true], "alone it runs as it is");
});

test("a search finds what a lesson says, whatever the endings of its words", () => {
  const falls = entry("prophet", {
    title: "Prophet",
    rank: 5,
    read: "It stops once a gap passes a threshold, which falls as the run proceeds.",
  });
  const fixed = entry("fixed", { title: "Fixed threshold", rank: 0, read: "A threshold that stays." });
  const all = [COPIES, fixed, falls];
  for (const typed of ["falling threshold", "threshold falls", "threshold that falls", "Proceeds"])
    assert.deepEqual(find(all, typed), { found: [falls], near: null }, typed);
  assert.deepEqual(find(all, "threshold").found, [fixed, falls]); // its name before its lesson
});

test("where nothing has all the words, what has most of them is shown and said to be part", () => {
  const falls = entry("prophet", { title: "Prophet", rank: 5, read: "a threshold, which falls as the run proceeds" });
  const other = entry("other", { title: "Other", rank: 1, read: "a threshold" });
  const { found, part, near, hidden } = choose([COPIES, other, falls], ANY, "threshold falls from step to step");
  assert.deepEqual([found, part, near, hidden], [[falls], true, null, 0]);
  assert.deepEqual(find([COPIES, other], "zebra quantum threshold").found, []); // less than half
  assert.deepEqual(find([COPIES, other, falls], "zebra").found, []);
});
