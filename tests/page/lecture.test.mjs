// A scene that is asked for, run live and left while others are on their way; and what keys come to, in a document in
// which nothing is drawn. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { Element, page } from "../player/page.mjs";
import { add, listening, storage } from "./fakes.mjs";

page();
const { BEGUN, mountLecture, next } = await asset("page/lecture.js");
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

/** A lecture of scenes, one with a lever; what is asked of the page is noted down. room: pixels that the players take
 * at no enlargement. */
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
  scenes[1].voice = { lever: {} };
  /** The runs of the scene come. */
  const come = (drawn = true) => {
    group.members.clear();
    const run = { length: 2 },
      views = { run: drawn ? run : null, all: [], tell: (_, t) => (players.step = t), idea: null };
    group.members.add({ run, views, slot: 0, t: 0, root: new Element("div"), axis: () => [0, 1, 2], at() {} });
    group.refresh();
    return { run, views };
  };
  const words = (name) => view.root.querySelector(`.lecture-${name}`).textContent;
  const button = (act) => view.root.querySelector(`[data-act="${act}"]`);
  return { view, scenes, done, come, words, button, players, group };
}

test("keys go through the scenes, and an end is an end", () => {
  const { view, scenes, done, words, button } = lecture();
  view.open(scenes, 7);
  assert.deepEqual([view.on, view.number, done.splice(0)], [true, 2, ["scene 2", 2]]);
  assert.deepEqual([button("next").disabled, button("back").disabled, words("count")], [true, false, "3 of 3"]);
  press("ArrowRight", "9");
  assert.deepEqual(done, []);
  press("1", "1", "ArrowLeft");
  assert.deepEqual([view.number, done.splice(0)], [0, ["scene 0", 0]]);
  assert.deepEqual([button("next").disabled, button("back").disabled], [false, true]);
  assert.equal(view.root.querySelector(".lecture-prompt").hidden, false);
  press("ArrowRight");
  assert.deepEqual([words("name"), view.root.querySelector(".lecture-prompt").hidden], ["scene 1 · 1 min", true]);
  assert.equal(view.root.querySelector(".lecture-tip").hidden, false, "it has a lever");
  const now = view.root.querySelectorAll("ol button").map((item) => item.getAttribute("aria-current"));
  assert.deepEqual(now, ["false", "true", "false"]);
  press("s");
  const list = view.root.querySelector(".lecture-list");
  assert.equal(list.hidden, false);
  press("Escape");
  assert.deepEqual([list.hidden, done.includes("leave")], [true, false], "the list is closed first");
  press("Escape", "L");
  assert.deepEqual(done.slice(-2), ["leave", "live"]);
  view.close();
  view.close();
  assert.deepEqual([view.on, view.number, heard.has("keydown")], [false, -1, false]);
  view.open([{ dead: "gone" }], 0);
  assert.match(words("said"), /^gone.*No scene/);
  done.length = 0;
  view.open(scenes, -3);
  assert.deepEqual([done, words("said")], [["scene 0", 0], ""], "an address before the first is the first");
  view.close();
});

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

/** The page of the program with lecture mode, at this address; what it sends is noted down. */
function mounted(search = "", { stored = null } = {}) {
  const root = page();
  heard.clear();
  add(root.body, "div", "players");
  const status = add(add(root.body, "div", "status"), "p", "", "status"),
    sent = [];
  for (const id of ["run", "stop"]) add(root.body, "button", id).addEventListener("click", () => sent.push(id));
  Object.assign(globalThis, {
    location: { search, href: `http://page/${search}` },
    setTimeout: (act) => act(),
    MutationObserver: class {
      constructor(act) {
        observed = act;
      }
      observe() {}
    },
  });
  let observed, changed;
  const entries = [];
  const write = (how) => (_, __, to) => {
    Object.assign(globalThis.location, { href: to.href, search: to.search });
    entries.push([how, to.search]);
  };
  globalThis.history = { pushState: write("push"), replaceState: write("replace") };
  const store = storage(stored ? [["decoding-explorer-lecture", stored]] : []);
  groupNamed("main").members.clear();
  const props = { value: "" };
  const submit = () => {
    const { asked, ...wish } = JSON.parse(props.value);
    sent.push(wish);
  };
  mountLecture(props, (_, act) => (changed = act), submit);
  const tell = (value) => {
    props.value = typeof value === "string" ? value : JSON.stringify(value);
    changed();
  };
  const event = (type) => root.dispatchEvent(new Event(type));
  const state = (kind, text) => {
    status.dataset.kind = kind;
    status.textContent = text;
    observed();
  };
  const view = () => root.querySelector(".lecture"),
    said = () => view().querySelector(".lecture-said").textContent;
  return { sent, entries, store, tell, event, press, state, root, view, said };
}

const LEVER = { traces: ["a", "b"], lever: { slot: 1, stops: [{ trace: "low" }, { trace: "b" }] } };
const FIRST = { title: "one", query: "?gallery=a,b", voice: LEVER };
const LISTED = { scenes: [FIRST, { title: "two", query: "?gallery=c" }], text: "{}", said: null, own: false };

// biome-ignore format: a table
for (const [search, wanted] of [
  ["?lecture", 0], ["?lecture=2", 1], ["?lecture=0", 0], ["?lecture=x", 0], ["?lecture=-4", 0],
])
  test(`the address ${search} opens scene ${wanted + 1}`, () => {
    const { sent, tell, entries } = mounted(search);
    assert.deepEqual(sent, [{ act: "list" }]);
    tell(LISTED);
    assert.deepEqual(sent.at(-1), { act: "show", query: LISTED.scenes[wanted].query });
    const address = `?lecture=${wanted + 1}`;
    assert.deepEqual(entries, address === search ? [] : [["replace", address]]);
  });

test("without that address nothing is asked until it is opened, and leaving takes it out", () => {
  const { sent, tell, event, entries, view } = mounted("?still");
  assert.deepEqual(sent, []);
  event("dx-lecture-open");
  assert.deepEqual([sent.length, entries], [1, [["push", "?still=&lecture=1"]]]);
  tell("no JSON");
  tell(LISTED);
  assert.equal(view().hidden, false);
  press("Escape");
  assert.deepEqual([view().hidden, entries.at(-1)], [true, ["push", "?still="]]);
  heard.get("popstate")();
  assert.equal(sent.length, 2, "the address names no scene");
  location.search = "?lecture=2";
  heard.get("popstate")();
  tell(LISTED);
  assert.deepEqual(sent.at(-1), { act: "show", query: "?gallery=c" });
  heard.get("popstate")();
  assert.equal(sent.length, 4, "it is open already");
  location.search = "";
  heard.get("popstate")();
  assert.equal(view().hidden, true);
});

test("a list of one's own is asked for, kept by the browser, and dropped where it is no lecture", () => {
  const own = { name: "mine", text: "[]" },
    { sent, tell, store, said } = mounted("?lecture", { stored: JSON.stringify(own) });
  assert.deepEqual(sent, [{ act: "list", ...own }]);
  tell({ ...LISTED, own: true });
  assert.equal(store.size, 1);
  tell({ ...LISTED, said: ["no lecture"] });
  assert.deepEqual([store.size, said().length > 0], [0, true]);
  for (const stored of ["{", '{"name": "x"}', "3"])
    assert.deepEqual(mounted("?lecture", { stored }).sent, [{ act: "list" }]);
});

test("L runs what the lever shows, and says how that goes, in its first sentence", () => {
  const { sent, tell, event, state, root, said, view } = mounted("?lecture");
  state("error", "before");
  tell(LISTED);
  const lever = Object.assign(add(root.body, "input", "scene-lever"), { value: "0", checkVisibility: () => true });
  press("l");
  assert.deepEqual(sent.at(-1), { act: "ready", query: "?gallery=a,low" });
  press("l");
  event("dx-lecture-told");
  lever.value = "1";
  press("l");
  assert.deepEqual(sent.at(-1), { act: "ready", query: "?gallery=a,b" });
  lever.checkVisibility = () => false;
  press("l");
  event("dx-lecture-told");
  lever.value = "0";
  press("l");
  assert.deepEqual(sent.at(-1), { act: "ready", query: "?gallery=a,b" }, "a lever that is hidden moves nothing");
  state("", "Loading. Press Run.");
  assert.equal(said(), "", "it does not run yet");
  tell({ ready: true });
  event("dx-lecture-told");
  assert.equal(sent.at(-1), "run");
  assert.equal(view().hasAttribute("data-live"), true);
  state("", "Loading. Press Run.");
  assert.equal(said(), "Loading.");
  state("warn", "All of it. Yes.");
  assert.equal(said(), "All of it. Yes.");
  press("ArrowRight");
  assert.equal(sent.at(-1), "stop");
  event("dx-over");
  assert.deepEqual(sent.at(-1), { act: "show", query: "?gallery=c" });
  press("l");
  assert.deepEqual(sent.at(-1), { act: "ready", query: "?gallery=c" }, "no lever");
});

test("a list that Windows wrote is read as it was meant", async () => {
  const { textOf } = await asset("page/download.js"),
    text = '[{"title": "Größe 散"}]',
    wide = new Uint8Array(new Uint16Array([...`\ufeff${text}`].map((c) => c.charCodeAt(0))).buffer),
    plain = new TextEncoder().encode(text);
  assert.equal(textOf(plain), text);
  assert.equal(textOf(new TextEncoder().encode(`\ufeff${text}`)), text);
  assert.equal(textOf(wide), text);
  assert.equal(textOf(wide.map((_, i) => wide[i ^ 1])), text); // the other order of bytes
});
