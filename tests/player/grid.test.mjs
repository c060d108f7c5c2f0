// The boards of a group share one plan and begin at one height. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { Element } from "./page.mjs";

const { agree, leave, level, relay } = await asset("player/grid.js");

const NEED = { width: 500, typical: 4, kinds: 1, count: 30 };
const player = (laid, name) => ({ views: { tell: (what) => laid.push(`${name} ${what}`) } });

test("a board that asks for more makes the others follow, and one that goes makes them return", async () => {
  const laid = [],
    group = { members: new Set() },
    [a, b] = [player(laid, "a"), player(laid, "b")];
  assert.deepEqual(agree(group, a, NEED), { ...NEED, compact: false });
  assert.deepEqual(laid, [], "who asks is told by the answer");
  const both = { width: 400, typical: 6, kinds: 2, count: 30, compact: false };
  assert.deepEqual(agree(group, b, { width: 400, typical: 6, kinds: 2, count: 9 }), both);
  assert.deepEqual(laid.splice(0), ["a relay"]);
  agree(group, b, { ...NEED, width: 400, typical: 6, kinds: 2, count: 8 });
  relay(group);
  assert.deepEqual(laid, [], "the plan is the same");
  group.compact = 1;
  relay(group);
  assert.deepEqual(laid.splice(0), ["a relay", "b relay"]);
  leave(group, b);
  leave(group, player(laid, "c"));
  assert.deepEqual(laid, [], "what takes its place may come at once");
  await null;
  assert.deepEqual(laid.splice(0), ["a relay"]);
  leave(group, a);
  await null;
  assert.deepEqual(laid, []);
});

test("boards side by side begin at one height, others where they stand", () => {
  const frames = [];
  globalThis.requestAnimationFrame = (act) => frames.push(act);
  const boxes = (...places) => {
    const members = places.map(([top, above, shown = true]) => {
      const root = new Element("section"),
        board = new Element("div");
      board.setAttribute("class", "dx-board");
      board.offsetParent = shown;
      root.append(board);
      root.getBoundingClientRect = () => ({ top });
      board.getBoundingClientRect = () => ({ top: top + above + (Number.parseFloat(root.style["--dx-lift"]) || 0) });
      return { root };
    });
    const group = { members: new Set(members) };
    for (const _ of [1, 2]) {
      level(group);
      level(group);
      assert.equal(frames.length, 1, "once in a frame");
      frames.pop()();
    }
    return members.map(({ root }) => Number.parseFloat(root.style["--dx-lift"]) || 0);
  };
  assert.deepEqual(boxes([10, 40], [10.2, 60]), [20, 0]);
  assert.deepEqual(boxes([10, 40], [300, 60]), [0, 0], "one below the other");
  assert.deepEqual(boxes([10, 40], [10, 90, false], [10, 50]), [10, 0, 0], "one that is not shown");
  assert.deepEqual(boxes(), []);
});
