// After a chip: where the page goes, and when, in a document in which boxes stand where a test puts them.
// `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { Element, page } from "../player/page.mjs";
import { add, listening } from "./fakes.mjs";

let now, frames, timers, moves, told, observed;
const heard = listening();
performance.now = () => now;
Object.assign(globalThis, { innerHeight: 1000, innerWidth: 1200 });
globalThis.requestAnimationFrame = (act) => frames.push(act);
globalThis.setTimeout = (act, after) => timers.push({ act, at: now + after });
globalThis.clearTimeout = () => {};
globalThis.scrollTo = ({ top }) => {
  globalThis.scrollY = top;
  moves.push(top);
};
globalThis.getComputedStyle = () => ({ position: "static" });
globalThis.ResizeObserver = class {
  constructor(act) {
    this.act = act;
  }
  observe(node) {
    observed.add(node);
    this.constructor.last = this.act;
  }
  disconnect() {
    observed.clear();
  }
};
page();
const { mountChips } = await asset("page/chips.js");
const { groupNamed } = await asset("player/clock.js");
const group = groupNamed("main");

/** Time goes on, frame by frame. */
function wait(milliseconds) {
  for (const end = now + milliseconds; now < end; now += 25) {
    for (const act of frames.splice(0)) act(now);
    for (const one of timers.filter(({ at }) => at <= now)) {
      timers.splice(timers.indexOf(one), 1);
      one.act();
    }
  }
}

/** A player whose board, idea and answer stand at these heights of the page, from top to bottom. */
function runner(slot, { board = [100, 200], idea = [220, 500], text = [520, 600], shown = true } = {}) {
  const run = { length: 8 },
    at = (node, [top, bottom]) => {
      node.getBoundingClientRect = () => ({ top: top - scrollY, bottom: bottom - scrollY, height: bottom - top });
      return node;
    };
  const box = (place) => at(new Element("div"), place),
    part = (name, place) => ({ entry: { name }, frame: box(place), dom: box(place), view: {} }),
    main = part("Idea", idea),
    root = at(new Element("section"), [board[0], text[1]]);
  root.setAttribute("class", "dx-panel");
  if (!shown) root.getClientRects = () => [];
  const all = [part("Tokens", board), main, part("Text", text)],
    views = { run, all, idea: main.entry, tell() {}, resize() {} };
  return { slot, run, t: 0, root, views, axis: () => [0, 1], at() {} };
}

/** A page with two chips, whose players are empty. */
function start() {
  [now, frames, timers, moves, told, observed] = [0, [], [], [], [], new Set()];
  globalThis.scrollY = 0;
  const root = page(),
    [chips, players] = ["scenarios", "players"].map((id) => add(root.body, "div", id));
  for (const name of ["a", "b"]) {
    const chip = add(chips, "button", `scene-${name}`, "scenario");
    chip.closest = () => chip;
  }
  group.members.clear();
  document.addEventListener("dx-at", ({ detail }) => told.push(detail.scene));
  mountChips();
  const come = (...runners) => {
    group.members.clear();
    players.replaceChildren(...runners.map((one) => one.root));
    for (const one of runners) group.add(one);
  };
  const click = (name) => chips.childNodes.find((chip) => chip.id === `scene-${name}`).click();
  return { chips, players, come, click };
}

const LOW = { board: [1100, 1200], idea: [1220, 1500], text: [1520, 1600] };

test("the page moves once the runs of the chip have come and are drawn", () => {
  const { chips, come, click, players } = start(),
    old = runner(0);
  chips.closest = () => null;
  chips.click();
  assert.deepEqual([told, frames], [[], []], "a click beside a chip is none");
  come(old);
  click("a");
  assert.deepEqual([told, document.activeElement], [["a"], old.root], "Space plays then");
  wait(1000);
  assert.deepEqual(moves, [], "what is shown is of before");
  const late = runner(0, LOW);
  late.views.run = null;
  come(late);
  wait(1000);
  assert.deepEqual(moves, [], "its views are not its own yet");
  late.views.run = late.run;
  wait(100);
  assert.deepEqual(moves, [], "the status line moves the page before");
  wait(150);
  assert.equal(moves.length, 1);
  assert.equal(document.documentElement.style.overflowAnchor, "none");
  assert.ok(observed.size === players.querySelectorAll(".dx-panel > *, #toolbar, #scene").length);
  wait(6000);
  assert.equal(moves.length, 1, "it stands well");
});

test("views that grow are followed for some time, unless a person scrolls", () => {
  // biome-ignore format: a table
  for (const [why, wheel, after, moved] of [
    ["in time", false, 1000, true], ["too late", false, 6000, false], ["scrolled", true, 1000, false],
  ]) {
    const { come, click } = start();
    click("a");
    come(runner(0));
    wait(500);
    assert.deepEqual(moves, [], "in sight already");
    if (wheel) heard.get("wheel")();
    wait(after);
    group.members.clear();
    group.add(runner(0, LOW));
    document.dispatchEvent(new Event("dx-moved"));
    assert.equal(moves.length > 0, moved, why);
  }
});

test("a second chip is followed in place of the first, and a person who scrolls while runs come is left alone", () => {
  const { come, click } = start(),
    [first, second] = [runner(0, LOW), runner(0, LOW)];
  click("a");
  click("b");
  assert.deepEqual(told, ["a", "b"]);
  come(first);
  wait(500);
  assert.equal(moves.length, 1);
  come(second);
  scrollTo({ top: 0 });
  moves.length = 0;
  click("a");
  heard.get("wheel")();
  wait(2000);
  come(runner(0, LOW));
  wait(2000);
  assert.deepEqual(moves, []);
  click("b");
  wait(31_000);
  come(runner(0, LOW));
  wait(1000);
  assert.deepEqual(moves, [], "they came too late");
  assert.equal(document.documentElement.style.overflowAnchor, undefined);
});

// Where the page goes: at most so far that the top of what must be seen stands below the bar (70 pixels), at least so
// far that the idea begins above 0.62 of the window (620) and its end stands 10 pixels above the foot.
// `room`: pixels that the idea is given, of which it takes all that it needs.
for (const [why, places, to, room] of [
  ["all in the window", [{ board: [100, 200], idea: [220, 500], text: [510, 600] }], undefined],
  ["an answer below the window", [{ board: [400, 500], idea: [520, 900], text: [910, 1010] }], 20],
  ["an idea that begins too low", [{ board: [600, 640], idea: [700, 900], text: [910, 950] }], 80],
  ["an answer for which there is just room", [{ board: [400, 700], idea: [720, 1200], text: [1250, 1440] }], 330, 360],
  ["no room for the answer", [{ board: [400, 700], idea: [720, 1200], text: [1250, 1442] }], 210],
  ["a board that is too high", [{ board: [100, 640], idea: [651, 801], text: [850, 900] }], 31],
  ["just room for the board", [{ board: [100, 480], idea: [500, 1193], text: [1250, 1300] }], 30, 520],
  ["no room for the board", [{ board: [100, 480], idea: [500, 1195], text: [1250, 1300] }], 205],
  ["an idea that stands at the top", [{ board: [600, 620], idea: [600, 1400], text: [1450, 1500] }], 510],
  ["an idea above its board", [{ board: [700, 720], idea: [600, 900], text: [950, 1100] }], undefined],
  ["an idea that fills the window", [{ board: [100, 800], idea: [900, 1800], text: [1850, 1900] }], 810],
  ["two, one lower", [{}, { board: [300, 500], idea: [650, 940], text: [950, 995] }], 30],
  ["two, of which one may not go up", [{ board: [90, 100] }, { board: [300, 500], idea: [850, 940] }], 20],
  ["one that is not shown", [{}, { ...LOW, shown: false }], undefined],
])
  test(`the idea stands whole in the window, with board and answer where there is room: ${why}`, () => {
    for (const scrolled of to === undefined || to < 100 ? [0] : [0, 50]) {
      const { come, click } = start(),
        runners = places.map((place, slot) => runner(slot, place));
      globalThis.scrollY = scrolled;
      click("a");
      come(...runners);
      wait(400);
      assert.equal(moves[0], to);
      const [{ dom }] = runners[0].views.all.slice(1),
        [, zoom] = /zoom:([\d.]+)/.exec(dom.style.cssText) ?? [],
        [, high] = /min-height:([\d.]+)/.exec(dom.style.cssText);
      if (room) assert.ok(Math.abs(high * (zoom ?? 1) - room) < 1e-6, dom.style.cssText);
      else assert.equal(zoom, undefined, dom.style.cssText);
    }
  });
