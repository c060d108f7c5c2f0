// A scene that is asked for, run live and left while others are on their way; and what keys come to, in a document in
// which nothing is drawn. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { Element, page } from "../player/page.mjs";
import { listening } from "./fakes.mjs";

page();
const { BEGUN, next } = await asset("page/lecture.js");
const { lectureView, meant } = await asset("page/lectureview.js");
const { groupNamed } = await asset("player/clock.js");

const SCENE = { query: "?gallery=a" };
const SHOW = ["send", { act: "show", query: SCENE.query }];
/** What can happen, and what is done then: a function of the state before. */
// biome-ignore format: a table
const EVENTS = {
  show: [{ scene: SCENE }, ({ live }) => (live === "on" ? [["stop"]] : [SHOW])],
  turn: [{ query: "?q" }, ({ live, scene }) => {
    if (live) return [["say"], live === "on" ? ["stop"] : SHOW];
    return scene ? [["say"], ["live", true], ["send", { act: "ready", query: "?q" }]] : [];
  }],
  told: [{}, ({ returning, after, live, ready }) =>
    [...(returning && !after ? [["live", false]] : []), ...(live === "asked" && ready ? [["run"]] : [])]],
  over: [{}, ({ after }) => (after ? [["send", after]] : [])],
  leave: [{}, ({ live }) => (live === "on" ? [["stop"]] : [])],
  "ready yes": [{ ready: true }, () => []],
  "ready no": [{ ready: false, said: "why" }, () => [["live", false], ["say", "why"]]],
};
const HOLDS = {
  show: (was, is) => is.live === null && is.scene === SCENE && Boolean(is.after) === (was.live === "on"),
  turn: (was, is) => (was.live ? is.returning && is.live === null : is.live === (was.scene ? "asked" : null)),
  told: (was, is) =>
    was.live === "asked" && was.ready ? is.live === "on" && !is.ready : is.live === was.live && is.ready === was.ready,
  over: (was, is) => is.live === (was.live === "on" ? "done" : was.live) && is.after === null,
  leave: (_, is) => is.live === null && is.after === null,
  "ready yes": (was, is) => is.ready && is.live === was.live,
  "ready no": (_, is) => !is.ready && is.live === null,
};

test("any five events of a scene do what each asks for, and a run is stopped before the next is shown", () => {
  const names = Object.keys(EVENTS);
  for (let n = 0; n < names.length ** 5; n++) {
    let state = BEGUN;
    const way = [0, 1, 2, 3, 4].map((i) => names[Math.floor(n / names.length ** i) % names.length]);
    for (const name of way) {
      const [event, does] = EVENTS[name],
        made = next(state, { type: name.split(" ")[0], ...event });
      if (JSON.stringify(made.effects) !== JSON.stringify(does(state)) || !HOLDS[name](state, made.state))
        assert.fail(`${way.join(", ")}: at ${name} ${JSON.stringify(state)} became ${JSON.stringify(made)}`);
      if (name !== "turn" && made.state.returning && !state.returning) assert.fail(`${way}: it returns from nothing`);
      if (name === "told" && !state.after && made.state.returning) assert.fail(`${way}: it is back`);
      state = made.state;
    }
  }
});

const FIELD = { closest: (selector) => selector.includes("input") };
const BUTTON = { closest: (selector) => selector.includes("button") };
// biome-ignore format: a table
for (const [event, act] of [
  [{ key: "ArrowRight" }, "next"], [{ key: "L" }, "live"], [{ key: "3" }, 3], [{ key: "0" }, null],
  [{ key: "12" }, null], [{ key: "" }, null], [{ key: "x" }, null],
  ...["ctrlKey", "metaKey", "altKey"].map((held) => [{ key: "l", [held]: true }, null]),
  [{ key: "l", target: FIELD }, null], [{ key: "Escape", target: FIELD }, "leave"],
  [{ key: " ", target: BUTTON }, null], [{ key: "Enter", target: BUTTON }, null],
  [{ key: "ArrowLeft", target: BUTTON }, "back"], [{ key: " ", target: {} }, "next"], [{ key: " " }, "next"],
])
  test(`a key of the lecture: ${JSON.stringify(event)}`, () => {
    assert.equal(meant(event), act);
  });

const heard = listening();
globalThis.scrollTo = () => {};
globalThis.scrollBy = ({ top }) => scrolled.push(top);
const scrolled = [];
const frames = [];
globalThis.requestAnimationFrame = (act) => frames.push(act);
Object.assign(globalThis, { innerWidth: 1600, innerHeight: 900 });
/** Until nothing is asked for any more. */
async function settle() {
  for (let n = 0; n < 400; n++) {
    for (const act of frames.splice(0)) act(0);
    await null;
  }
}

const press = (...keys) =>
  keys.forEach((key) => heard.get("keydown")({ key, preventDefault() {}, stopImmediatePropagation() {} }));

/** A lecture of scenes; what is asked of the page is noted down. room: pixels that the players take at no enlargement. */
function lecture({ room = 100 } = {}) {
  const done = [],
    players = new Element("div"),
    group = groupNamed("main");
  group.members.clear();
  players.getBoundingClientRect = () => ({
    top: 100,
    height: (players.step === 1 ? room : room / 2) * (Number(players.style["--lecture-zoom"]) || 1),
  });
  const view = lectureView({
    players,
    show: (scene) => done.push(scene.title),
    leave: () => done.push("leave"),
    live: () => done.push("live"),
    moved: (n) => done.push(n),
  });
  Object.defineProperty(view.root, "offsetHeight", { value: 40 });
  const scenes = [0, 1, 2].map((n) => ({ title: `scene ${n}`, minutes: n, prompt: n ? "" : "ask" }));
  /** The runs of the scene come. */
  const come = (drawn = true) => {
    group.members.clear();
    const run = { length: 2 },
      views = { run: drawn ? run : null, all: [], tell: (_, t) => (players.step = t), idea: null };
    group.members.add({ run, views, slot: 0, t: 0, root: new Element("div"), axis: () => [0, 1, 2], at() {} });
    group.refresh();
    return { run, views };
  };
  return { view, scenes, done, come, players, group };
}

test("what is pressed while the runs of a scene come is done once they stand, and not for another scene", async () => {
  const { view, scenes, come, group, players } = lecture();
  view.open(scenes, 0);
  press(".", ".", ",");
  heard.get("resize")();
  await settle();
  assert.equal(group.x, 0, "a window that changes is not what they wait for");
  come();
  await settle();
  assert.equal(group.x, 1, "two steps and one back");
  press(".");
  assert.equal(group.x, 2, "now at once");
  press(",", "ArrowDown", "ArrowUp");
  assert.deepEqual(scrolled.splice(0), [270, -270], "without a lever the page moves");
  press("2", ".", "3");
  come();
  await settle();
  assert.equal(group.x, 1, "they were for the scene before");
  assert.equal(players.attributes.has("data-fitting"), false);
  assert.equal(group.pace, undefined);
  press("p");
  await null;
  assert.equal(group.pace, 1000 / 600, "as slowly as a step without words is read");
  assert.equal(group.playing, true);
  press("1");
  assert.equal(group.playing, false);
  view.close();
});

test("the arrows move a lever, and Escape out of the full screen leaves, unless F did it", async () => {
  const { view, scenes, come, done } = lecture(),
    lever = Object.assign(new Element("input"), { id: "scene-lever", value: 1, checkVisibility: () => true });
  document.body.append(lever);
  view.open(scenes, 0);
  come();
  await settle();
  press("ArrowUp", "ArrowDown", "ArrowDown");
  assert.equal(lever.value, "0");
  lever.remove();
  const screen = (element) => {
    document.fullscreenElement = element;
    document.dispatchEvent(new Event("fullscreenchange"));
  };
  document.exitFullscreen = () => screen(null);
  screen({});
  press("f");
  screen({});
  assert.equal(done.includes("leave"), false);
  screen(null);
  assert.equal(done.at(-1), "leave");
  view.close();
});

test("runs whose views come when the lecture is over, or for another scene, are not enlarged", async () => {
  // biome-ignore format: a table
  for (const [last, zoom] of [[() => press("2"), undefined], [(view) => view.close(), undefined], [() => {}, "2.2"]]) {
    const { view, scenes, come, players } = lecture();
    view.open(scenes, 0);
    const { run, views } = come(false);
    await settle();
    assert.equal(players.style["--lecture-zoom"], undefined, "they are not drawn yet");
    last(view);
    views.run = run;
    await settle();
    assert.equal(players.style["--lecture-zoom"], zoom);
    view.close();
  }
});

// biome-ignore format: a table
for (const [why, room, width, zoom, tight] of [
  ["much room", 100, 1600, "2.2", false], ["some room", 400, 1600, "1.8", false],
  ["no more than fits exactly", 760 / 1.6, 1600, "1.6", false], ["too little room", 800, 1600, "1", true],
  ["a window that is not wide", 100, 760, "1.45", false], ["a phone", 100, 690, "1", false],
])
  test(`players are as large as fits above the bar: ${why}`, async () => {
    globalThis.innerWidth = width;
    const { view, scenes, come, players } = lecture({ room });
    view.open(scenes, 0);
    come();
    await settle();
    assert.equal(players.style["--lecture-zoom"], zoom);
    assert.equal(document.documentElement.attributes.has("data-tight"), tight);
    players.style["--lecture-zoom"] = "as it is";
    groupNamed("main").refresh();
    await settle();
    assert.equal(players.style["--lecture-zoom"], "as it is", "nothing has changed");
    heard.get("resize")();
    await settle();
    assert.equal(players.style["--lecture-zoom"], zoom);
    view.close();
    globalThis.innerWidth = 1600;
  });
