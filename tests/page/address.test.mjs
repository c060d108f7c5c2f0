// What the address becomes of what happens on the page, in sequences of events. `node --test tests/page/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "../player/assets.mjs";

const { begun, next, placeOf, queryOf } = await asset("page/address.js");

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
