// Which scene is shown and what it says, which need no document. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { saidAt, sceneOf } = await asset("page/voice.js");
const { merged } = await asset("page/onelegend.js");

const LEVER = {
  slot: 1,
  stops: [
    { trace: "low", say: "wrong" },
    { trace: "b", say: "right" },
  ],
};
const SAYS = [
  { at: 0, say: "begin" },
  { at: 3, say: "three" },
];
const SCENES = [
  { traces: ["a", "b"], says: SAYS, watch: "look", lever: LEVER },
  { traces: ["a", "c", "d"], watch: "four ways" },
];
const ids = (...names) => new Map(names.map((name, slot) => [slot, name]));

for (const [why, shown, scene, stop] of [
  ["its own runs", ids("a", "b"), 0, "b"],
  ["another place of its lever", ids("a", "low"), 0, "low"],
  ["a scene without a lever", ids("a", "c", "d"), 1, undefined],
])
  test(`a scene is known by the runs that are shown: ${why}`, () => {
    const found = sceneOf(SCENES, shown);
    assert.equal(found.scene, SCENES[scene]);
    assert.equal(found.stop?.trace, stop);
  });

for (const [why, shown] of [
  ["one run more", ids("a", "b", "c")],
  ["one run less", ids("a")],
  ["the lever's run in the other player", ids("low", "b")],
  ["a run that nobody recorded", new Map([[0, "a"]])],
  ["nothing", new Map()],
])
  test(`other runs belong to no scene: ${why}`, () => assert.equal(sceneOf(SCENES, shown), null));

test("a sentence stands from its step to the next one's", () => {
  const now = sceneOf(SCENES, ids("a", "b"));
  assert.deepEqual(
    [0, 2, 3, 99].map((step) => saidAt(now, step, false)),
    ["begin", "begin", "three", "three"],
  );
});

test("the lever speaks once it was moved, and wherever another run stands", () => {
  assert.equal(saidAt(sceneOf(SCENES, ids("a", "b")), 3, true), "right");
  assert.equal(saidAt(sceneOf(SCENES, ids("a", "low")), 3, false), "wrong");
});

test("a scene that says nothing of its steps says what to watch", () =>
  assert.equal(saidAt(sceneOf(SCENES, ids("a", "c", "d")), 5, false), "four ways"));

const entry = (mark, words, ramp = false) => ({ mark, words, ramp });

test("the legends of two boards become one, each entry once", () => {
  const left = [entry("n", "new"), entry("o", "old")],
    right = [entry("n", "new"), entry("a", "accepted")];
  assert.deepEqual(
    merged([left, right]).map(({ words }) => words),
    ["new", "old", "accepted"],
  );
});

for (const [why, one, other] of [
  ["one colour stands for two authors", entry("0", "large"), entry("0", "small")],
  ["two scores have ranges of their own", entry("r", "confidence 0 1", true), entry("q", "entropy 0 3", true)],
])
  test(`legends stay apart where ${why}`, () => assert.equal(merged([[one], [other]]), null));
