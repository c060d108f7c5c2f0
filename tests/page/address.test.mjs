// What the address becomes of what happens on the page, in sequences of events. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";
import { page } from "../player/page.mjs";
import { listening } from "./fakes.mjs";

const { begun, mountAddress, next, placeOf, queryOf } = await asset("page/address.js");
const { groupNamed } = await asset("player/clock.js");

const LATE = 5000;
const place = (tab, kind = "", name = "") => ({ kind, name, tab });

/** A page whose history, players and Gradio are only noted down. */
class Page {
  constructor(search = "") {
    Object.assign(this, { entries: [{ search }], at: 0, now: 0, ids: [], told: [], selected: [], asked: [] });
    this.state = begun(search);
  }

  get search() {
    return this.entries[this.at].search;
  }

  get named() {
    return ["scene", "run", "gallery"].some((key) => new URLSearchParams(this.search).has(key));
  }

  step(type, event) {
    const { state, effects } = next(this.state, { type, ...event });
    this.state = state;
    for (const [name, ...given] of effects) this[name](...given);
  }

  enter(to, shown) {
    const search = queryOf(this.search, to, shown);
    if (search === this.search) return;
    this.entries = [...this.entries.slice(0, this.at + 1), { search }];
    this.at++;
  }

  tell = (to) => this.told.push(to);
  follow = (query) => this.asked.push(query);

  select(tab) {
    this.step("asked", { tab, now: this.now });
    this.selected.push(tab);
  }

  remember() {
    if (!this.named) this.entries[this.at].runs = this.ids;
  }

  shown() {
    const query = new URLSearchParams(this.search);
    return { named: this.named, tells: String(this.ids) === (query.get("run") ?? query.get("gallery")), ids: this.ids };
  }

  /** The players show other runs. */
  show(ids, { live = false, any = this.ids.length > 0 } = {}) {
    this.ids = ids;
    this.step("runs", { ...this.shown(), live, any });
  }

  tab(tab, hidden = false) {
    this.step("tab", { tab, hidden, now: this.now });
  }

  /** Back (-1) or Forward (1). */
  go(by) {
    if (!this.entries[this.at + by]) return;
    this.at += by;
    this.step("lead", { place: placeOf(this.search) });
    this.step("back", { ...this.shown(), search: this.search, runs: this.entries[this.at].runs ?? [] });
  }
}

const LESSON = { lesson: "medusa" };
const MOVES = {
  "a tab": (page) => page.tab("learn"),
  "the first tab": (page) => page.tab("explore"),
  "a lesson": (page) => page.step("at", { detail: LESSON }),
  "a method asked for": (page) => page.step("go", { detail: { method: "eagle" } }),
  "runs of the gallery": (page) => page.step("at", { detail: { gallery: ["a", "b"] } }),
  "a live run": (page) => page.show([], { live: true }),
  back: (page) => page.go(-1),
  forward: (page) => page.go(1),
};

test("after any four events the address leads to where the page is", () => {
  const names = Object.keys(MOVES);
  for (let n = 0; n < names.length ** 4; n++) {
    const page = new Page(),
      way = [0, 1, 2, 3].map((i) => names[Math.floor(n / names.length ** i) % names.length]);
    for (const name of way) {
      page.now += 2 * LATE; // Gradio has shown what it was asked for
      MOVES[name](page);
      assert.deepEqual(placeOf(page.search), page.state.place, way.join(", "));
    }
  }
});

test("Back and Forward return to each place, and tell of it", () => {
  const page = new Page("?still");
  const way = [LESSON, { tab: "docs" }, { method: "eagle" }, { tab: "explore" }, { run: ["a"] }];
  const places = [page, ...way].map((detail) => {
    if (detail !== page) page.step("at", { detail });
    return placeOf(page.search);
  });
  assert.deepEqual(page.told, [], "who says where they are need not be told");
  for (let at = page.at - 1; at >= 0; at--) {
    page.go(-1);
    assert.deepEqual([page.state.place, page.told.at(-1)], [places[at], places[at]]);
  }
  assert.deepEqual(page.selected, ["methods", "docs", "learn", "explore"], "a tab is shown where it is another one");
  assert.equal(page.search, "?still");
});

test("a tab that was left before Gradio showed it is no new place, for some time", () => {
  // biome-ignore format: a table
  for (const [tab, hidden, after, kept] of [
    ["learn", false, 0, true], ["learn", false, LATE - 1, true], ["learn", false, LATE, false],
    ["learn", true, LATE, true], ["methods", false, 0, true],
  ]) {
    const page = new Page();
    page.step("go", { detail: { method: "eagle" } });
    page.now += after;
    page.tab(tab, hidden);
    assert.equal(page.search === "?method=eagle", kept, `${tab} after ${after}`);
    assert.equal(page.state.asked === null, !hidden && (tab === "methods" || !kept));
  }
});

test("a tab that is opened again shows the place that it had, and who asks for the one that is shown is told", () => {
  const page = new Page();
  page.step("at", { detail: LESSON });
  page.tab("explore");
  page.tab("learn");
  assert.equal(page.search, "?lesson=medusa");
  page.step("here", { place: place("docs", "doc", "using") });
  assert.deepEqual([page.told.at(-1).name, page.selected], ["using", []]);
  const fresh = new Page();
  fresh.step("go", { detail: { tab: "explore" } });
  assert.deepEqual([fresh.told, fresh.selected], [[place("explore")], []]);
  fresh.step("go", { detail: { paper: "llada" } });
  assert.deepEqual([fresh.told.at(-1), fresh.selected], [place("methods", "paper", "llada"), ["methods"]]);
});

// What players show, one after the other: names of runs, live ones (of which some have come), and what is added to them.
// biome-ignore format: a table
for (const [why, search, acts, after] of [
  ["runs of the address that are on their way", "?run=a,b", ["x"], "?run=a,b"],
  ["they came, and others took their place", "?run=a,b", ["a,b", "x"], ""],
  ["a live run", "?run=a,b&step=3", ["a,b", "live "], ""],
  ["a live run before they came", "?gallery=a", ["live ", "c"], ""],
  ["runs that nobody asked for by address", "", ["a"], ""],
  ["what was added", "?run=a", ["a", "adding", "a,b"], "?run=a,b"],
  ["what was added to no address", "", ["a", "adding", "a,b"], "?run=a,b"],
  ["what was added has no name", "?run=a", ["a", "adding", ""], ""],
  ["a fork beside others", "?run=a", ["a", "live a", "a,f"], "?run=a,f"],
  ["live runs alone", "?run=a", ["live ", "l"], ""],
  ["a run that goes on being live", "", ["live ", "live some l", "l"], ""],
  ["what is added once", "?run=a", ["a", "adding", "a,b", "c"], ""],
])
  test(`the address names the runs that are shown: ${why}`, () => {
    const page = new Page(search);
    for (const act of acts) {
      const [, live, some, ids] = /^(live )?(some )?(.*)$/.exec(act);
      if (act === "adding") page.step("adding");
      else page.show(ids.split(",").filter(Boolean), { live: Boolean(live), ...(some && { any: true }) });
    }
    assert.equal(page.search, after);
  });

test("runs that have no address are asked for again by who comes back to them", () => {
  const page = new Page();
  page.show(["x", "y"]);
  page.step("at", { detail: { gallery: ["a"] } });
  page.show(["x", "y"]);
  assert.equal(page.search, "?gallery=a", "they are on their way");
  page.show(["a"]);
  page.go(-1);
  assert.deepEqual([page.search, page.asked], ["", ["?run=x,y"]]);
  page.go(1);
  assert.deepEqual(page.asked, ["?run=x,y"], "what is shown is not asked for");
  page.show(["x", "y"]);
  page.go(-1);
  assert.equal(page.asked.length, 1);
  page.go(1);
  assert.deepEqual(page.asked.at(-1), "?gallery=a");
});

/** A document with an address, in which players show runs with these names by slot. */
function mounted(search, { runs = [], live = false, scene = "" } = {}) {
  const root = page(),
    heard = listening(),
    log = [];
  globalThis.location = { search, pathname: "/", hash: "#top" };
  const write = (kept, to) => {
    globalThis.history.state = kept;
    if (to) location.search = to.slice(1, to.indexOf("#"));
  };
  globalThis.history = { state: null, pushState: (kept, _, to) => write(kept, to), replaceState: write };
  const show = (runs) => {
    globalThis.dxRuns = new Map(runs);
    groupNamed("main").members = new Set(runs.map(([slot]) => ({ slot, run: {} })));
  };
  show(runs);
  const found = { live, scene };
  root.querySelector = (selector) =>
    selector.includes("live") ? (found.live ? {} : null) : found.scene ? { id: `scene-${found.scene}` } : null;
  const panel = { style: { display: "" } };
  root.getElementById = () => panel;
  for (const type of ["dx-place", "dx-follow"]) root.addEventListener(type, ({ detail }) => log.push([type, detail]));
  const props = { value: "" };
  let told = null;
  const watch = (_, act) => (told = act);
  mountAddress(props, watch, (event) => log.push([event]));
  const say = (type, detail) => root.dispatchEvent(new CustomEvent(type, { detail }));
  const look = async (change = {}) => {
    Object.assign(found, change);
    if (change.runs) show(change.runs);
    say("dx-runs");
    await null;
  };
  return { log, props, panel, say, look, heard, told: () => told() };
}

// biome-ignore format: a table
for (const [search, log, sent] of [
  ["", [], ""], ["?doc=using", [["dx-place", place("docs", "doc", "using")]], ""],
  ["?lesson=medusa", [["submit"]], "?lesson=medusa"], ["?tab=learn", [["submit"]], "?tab=learn"],
])
  test(`a page that is opened at ${search || "its clean address"} asks for what is there`, () => {
    const opened = mounted(search);
    assert.deepEqual([opened.log, opened.props.value], [log, sent]);
  });

test("the document is told of places, and Gradio is asked for tabs", () => {
  const { log, props, panel, say, told, heard } = mounted("");
  say("dx-at", { lesson: "medusa" });
  assert.deepEqual([log, location.search, globalThis.dxPlace.name], [[], "?lesson=medusa", "medusa"]);
  say("dx-go", { method: "eagle" });
  assert.deepEqual(log.splice(0), [["dx-place", place("methods", "method", "eagle")], ["select"]]);
  panel.style.display = "none";
  say("dx-tab", { tab: "methods", panel: "p" });
  panel.style.display = "";
  say("dx-tab", { tab: "learn", panel: "p" });
  assert.equal(location.search, "?method=eagle");
  say("dx-tab", { tab: "methods", panel: "p" });
  say("dx-tab", { tab: "learn", panel: "p" });
  assert.equal(location.search, "?lesson=medusa", "the place that it had");
  props.value = "not JSON";
  told();
  props.value = '{"refused": "no"}';
  told();
  assert.deepEqual(log, []);
  props.value = '{"kind": "", "name": "", "tab": "docs"}';
  told();
  location.search = "";
  heard.get("popstate")({ state: null });
  const told_ = log.map(([type, detail]) => detail?.tab ?? type);
  assert.deepEqual(told_, ["docs", "select", "explore", "select"]);
});

test("the document's runs are named, remembered and asked for", async () => {
  const A = Object.entries({ c: 2, a: 0, b: 1 }).map(([name, slot]) => [slot, name]);
  const { log, say, look, heard } = mounted("?run=a,b,c", { runs: A });
  await null;
  await look({ runs: [[0, "x"]] });
  assert.equal(location.search, "", "they were there, and others took their place");
  assert.deepEqual(history.state, { runs: ["x"] });
  say("dx-adding");
  await look({ runs: A });
  assert.deepEqual([location.search, history.state], ["?run=a,b,c", { runs: ["x"] }]);
  location.search = "";
  heard.get("popstate")({ state: { runs: ["x"] } });
  assert.deepEqual(log.at(-1), ["dx-follow", "?run=x"]);
  heard.get("popstate")({ state: { runs: ["a", "b", "c"] } });
  heard.get("popstate")({ state: null });
  assert.equal(log.filter(([type]) => type === "dx-follow").length, 1);
  say("dx-at", { scene: "one" });
  await look({ scene: "one" });
  await look({ scene: "one" });
  assert.equal(location.search, "?scene=one");
  await look({ scene: "two" });
  assert.equal(location.search, "");
  say("dx-at", { run: ["a"] });
  await look({ live: true });
  assert.equal(location.search, "");
});
