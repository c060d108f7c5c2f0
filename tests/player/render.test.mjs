// Layers of a drawing that are described as data. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { page } from "./page.mjs";

page();
const { svg } = await asset("player/dom.js");
const { render, write } = await asset("player/drawing.js");
const seen = (layer) => layer.children.filter(({ style }) => style.display !== "none");

test("nodes that are there are changed, spare ones are hidden and come back", () => {
  const layer = svg("g"),
    box = (width) => ["rect", { width, height: 4 }],
    [first, second] = render(layer, [1, 2], box);
  assert.deepEqual(render(layer, [3], box), [first]);
  assert.equal(first.getAttribute("width"), "3");
  assert.deepEqual(seen(layer), [first]);
  assert.deepEqual(render(layer, [5, 6], box), [first, second]);
  assert.deepEqual(seen(layer), [first, second]);
});

test("a group has its parts inside, each with a text or parts of its own", () => {
  const layer = svg("g"),
    draw = (words) =>
      render(layer, words, (word) => [{ "data-s": word }, ["title", {}, word], ["g", {}, ["path", { d: "M0,0" }]]]);
  const [group] = draw(["old"]);
  assert.equal(group.tagName, "g");
  assert.deepEqual(
    group.children.map(({ tagName }) => tagName),
    ["title", "g"],
  );
  assert.equal(group.children[1].children[0].getAttribute("d"), "M0,0");
  draw(["new"]);
  assert.equal(group.getAttribute("data-s"), "new");
  assert.equal(group.textContent, "new");
});

test("a node of another kind takes the place of the one that was there", () => {
  const layer = svg("g"),
    [path] = render(layer, [["path", {}]]),
    [circle] = render(layer, [["circle", { r: 2 }]]);
  assert.notEqual(circle, path);
  assert.deepEqual(layer.children, [circle]);
});

test("words are bold, styled or plain, whatever stood there before", () => {
  const layer = svg("g"),
    style = (look) => write(layer, [[1, 2, "end", "word", look]])[0].getAttribute("style");
  assert.equal(style(true), "font-weight:700");
  assert.equal(style("fill:red"), "fill:red");
  assert.equal(style(undefined), "");
});
