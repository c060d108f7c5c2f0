// What the chooser finds, where an address leads, and what Try puts into the slots. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { ANY, choose, distanceTo, edits, find, fits } = await asset("page/finding.js");
const { placeOf, queryOf } = await asset("page/address.js");
const { slotsToTry } = await asset("page/trying.js");

const entry = (id, more) => ({ id, method: true, title: id, words: [], summary: "", beside: [], parts: [], ...more });
const COPIES = entry("prompt-lookup", {
  title: "Prompt lookup",
  order: "left",
  same: 2,
  rank: 0,
  words: ["n-gram"],
  summary: "Copies what followed.",
});
const HEADS = entry("eagle", {
  title: "EAGLE",
  order: "left",
  same: 2,
  rank: 3,
  parts: ["eagle layer"],
  paper: { id: "eagle", name: "EAGLE", title: "Rethinking Feature Uncertainty", arxiv: "2401.15077" },
});
const LIKE = entry("falcon", { title: "Falcon", order: "left", same: 2, rank: 4, parts: ["x"], words: ["EAGLE"] });
const DRAFTED = entry("sps", { title: "Speculative sampling", order: "left", same: 2, rank: 1, beside: ["causal"] });
const JUDGED = entry("judge", {
  title: "Judge",
  order: "left",
  same: 1,
  rank: 2,
  beside: ["causal"],
  trains: "a judge",
});
const MASKED = entry("llada", {
  title: "LLaDA base",
  order: "masked",
  same: 0,
  rank: 0,
  paper: { id: "llada", name: "LLaDA", title: "Large Language Diffusion Models", arxiv: "2502.09992" },
});
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
  });

test("a study fits no answer but any", () => {
  assert.ok(fits(STUDY, ANY));
  assert.ok(!fits(STUDY, { ...ANY, train: "no" }));
});

for (const [typed, first] of [
  ["prompt lookup", "prompt-lookup"],
  ["PROMPT-LOOKUP", "prompt-lookup"],
  ["lookup", "prompt-lookup"],
  ["EAGLE", "eagle"],
  ["arXiv:2502.09992v2", "llada"],
  ["https://arxiv.org/abs/2401.15077", "eagle"],
  ["LLaDA", "llada"],
  ["feature uncertainty", "eagle"],
  ["ngram", "prompt-lookup"],
  ["n-gram", "prompt-lookup"],
  ["followed", "prompt-lookup"],
  ["lookup copies", "prompt-lookup"],
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
  assert.deepEqual(found, []);
  assert.equal(hidden, 2);
});

for (const [search, place] of [
  ["", { kind: "", name: "", tab: "explore" }],
  ["?still", { kind: "", name: "", tab: "explore" }],
  ["?tab=learn", { kind: "", name: "", tab: "learn" }],
  ["?method=eagle&tab=learn", { kind: "method", name: "eagle", tab: "methods" }],
  ["?paper=llada", { kind: "paper", name: "llada", tab: "methods" }],
  ["?lesson=a%20b", { kind: "lesson", name: "a b", tab: "learn" }],
  ["?doc=using", { kind: "doc", name: "using", tab: "docs" }],
])
  test(`the address ${search || "of the untouched page"} leads to ${place.name || place.tab}`, () => {
    assert.deepEqual(placeOf(search), place);
  });

test("an address keeps what else it has, and is clean on Explore", () => {
  const at = (kind, name, tab) => ({ kind, name, tab });
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
    methods: [
      { slug: "greedy", kind: "causal", params },
      { slug: "copy", kind: "causal", params },
      { slug: "heads", kind: "causal", wants: ["heads"], params },
    ],
  };
  const tried = (method, control, models, now = []) =>
    slotsToTry(
      catalogue,
      { method, control, models },
      now.map((model) => ({ model })),
    ).map((slot) => [slot.method, slot.model, slot.params.n]);
  const both = (method, model) => [
    ["greedy", model, 4],
    [method, model, 4],
  ];
  assert.deepEqual(tried("copy", "greedy", ["lists", "any"]), both("copy", "any"));
  assert.deepEqual(tried("copy", "greedy", ["lists", "any"], ["lists"]), both("copy", "lists"));
  assert.deepEqual(tried("heads", "greedy", ["seer"], ["any"]), both("heads", "seer"));
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
