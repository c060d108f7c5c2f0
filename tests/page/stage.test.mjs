// Which scene is shown and what it says, which need no document. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { saidAt, sceneOf } = await asset("page/voice.js");
const { merged } = await asset("page/voice.js");

const STOPS = [["low", "wrong"], ["b", "right"]].map(([trace, say]) => ({ trace, say })); // biome-ignore format: a table
const SAYS = [[0, "begin"], [3, "three"]].map(([at, say]) => ({ at, say })); // biome-ignore format: a table
const SCENES = [
  { traces: ["a", "b"], says: SAYS, watch: "look", lever: { slot: 1, stops: STOPS } },
  { traces: ["a", "c", "d"], watch: "four ways" },
];
const ids = (...names) => new Map(names.map((name, slot) => [slot, name]));

// biome-ignore format: a table
for (const [why, shown, scene, stop] of [
  ["its own runs", ids("a", "b"), SCENES[0], "b"], ["another place of its lever", ids("a", "low"), SCENES[0], "low"],
  ["a scene without a lever", ids("a", "c", "d"), SCENES[1]], ["one run more", ids("a", "b", "c")],
  ["one run less", ids("a")], ["the lever's run in the other player", ids("low", "b")], ["nothing", new Map()],
])
  test(`a scene is known by the runs that are shown, and other runs belong to none: ${why}`, () => {
    const found = sceneOf(SCENES, shown);
    assert.deepEqual([found?.scene, found?.stop?.trace], [scene, stop]);
  });

// biome-ignore format: a table
for (const [why, runs, step, moved, words] of [
  ["a sentence stands from its step on", ["a", "b"], 0, false, "begin"], ["to the next one's", ["a", "b"], 2, false, "begin"],
  ["which follows", ["a", "b"], 3, false, "three"], ["and the last one stays", ["a", "b"], 99, false, "three"],
  ["the lever speaks once it was moved", ["a", "b"], 3, true, "right"],
  ["and wherever another run stands", ["a", "low"], 3, false, "wrong"],
  ["a scene without sentences says what to watch", ["a", "c", "d"], 5, false, "four ways"],
])
  test(`what a scene says: ${why}`, () => assert.equal(saidAt(sceneOf(SCENES, ids(...runs)), step, moved), words));

const entry = (mark, words, ramp = false) => ({ mark, words, ramp });

test("the legends of two boards become one, each entry once", () => {
  const left = [entry("n", "new"), entry("o", "old")],
    right = [entry("n", "new"), entry("a", "accepted")];
  const found = merged([left, right]).map(({ words }) => words);
  assert.deepEqual(found, ["new", "old", "accepted"]);
});

for (const [why, one, other] of [
  ["one colour stands for two authors", entry("0", "large"), entry("0", "small")],
  ["two scores have ranges of their own", entry("r", "confidence 0 1", true), entry("q", "entropy 0 3", true)],
])
  test(`legends stay apart where ${why}`, () => assert.equal(merged([[one], [other]]), null));
