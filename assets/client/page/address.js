// The address of what is shown: ?tab=, ?method=, ?paper=, ?lesson=, ?doc=, and ?scene=, ?gallery= or ?run= of runs
// that were opened. Choosing one of them writes the address, Back and Forward return to it without a reload; prompt
// and slots stay, and the players show again what they showed there. Other modules say where they are with `dx-at`
// {kind: name}, ask to go somewhere with `dx-go`, and are told with `dx-place` {kind, name, tab}, which
// `globalThis.dxPlace` holds for those that are made later. Gradio says with `dx-tab` {tab, panel} which tab is shown,
// and the id of its element.

import { groupNamed } from "../player/clock.js";
import { announce, parsed } from "./dom.js";

const TABS = { method: "methods", paper: "methods", lesson: "learn", doc: "docs" };
const HOME = "explore";
const LATE = 5000; // milliseconds in which Gradio shows a tab that it was asked for
const SHOWN = ["scene", "run", "gallery"]; // what names runs
const RUNS = [...SHOWN, "step", "of", "clock", "lane"];

/** Where a query leads: {kind, name, tab}; kind is "" where it names a tab alone, or nothing. */
export function placeOf(search) {
  const query = new URLSearchParams(search);
  for (const [kind, tab] of Object.entries(TABS)) if (query.get(kind)) return { kind, name: query.get(kind), tab };
  return { kind: "", name: "", tab: query.get("tab") || HOME };
}

/** The query of a place, with what else the one before had. shown: {scene: name}, {gallery: ids} or {run: ids} that are
 * shown from now on; {} where they have no address. */
export function queryOf(search, { kind, name, tab }, shown = null) {
  const query = new URLSearchParams(search);
  for (const key of [...Object.keys(TABS), "tab"]) query.delete(key);
  if (shown) for (const key of RUNS) query.delete(key);
  for (const [key, ids] of Object.entries(shown ?? {})) query.set(key, String(ids));
  if (kind) query.set(kind, name);
  else if (tab !== HOME) query.set("tab", tab);
  const text = query
    .toString()
    .replaceAll("%2C", ",")
    .replace(/=(?=&|$)/g, "");
  return text && `?${text}`;
}

/** The place that a module says it is at: {tab}, {method}, {paper}, {lesson}, {doc}, {scene}, {gallery} or {run}. */
function placeSaid(detail) {
  const [kind, name] = Object.entries(detail)[0];
  if (RUNS.includes(kind)) return { kind: "", name: "", tab: HOME };
  return kind === "tab" ? { kind: "", name: "", tab: name } : { kind, name, tab: TABS[kind] };
}

/** A new entry of the history, if the query is another one. */
function enter(search) {
  if (search === location.search) return;
  try {
    history.pushState(history.state, "", `${location.pathname}${search}${location.hash}`);
  } catch {
    // a frame without a history of its own: the page works, its address stays
  }
}

/** What an entry whose address names no runs showed, for who comes back to it. */
function remember() {
  try {
    history.replaceState({ runs: idsShown() }, "");
  } catch {
    // as above
  }
}

const LIVE = '#players :is([data-state="live"], [data-state="queued"])';
const SCENE = "scene-"; // the chip of a scene has its name behind this

/** The names of the runs in the players, in their order; [] where one has none. */
function idsShown() {
  const ids = [...groupNamed("main").runners]
    .sort((one, other) => one.slot - other.slot)
    .map(({ slot }) => globalThis.dxRuns?.get(slot));
  return ids.every(Boolean) ? ids : [];
}

/** Whether a query names the runs that are shown; a scene goes on being shown when its lever has moved. */
function tells(query) {
  const scene = query.get("scene");
  if (scene) return document.querySelector("#scenarios [data-now]")?.id === SCENE + scene;
  return String(idsShown()) === (query.get("run") ?? query.get("gallery"));
}

const names = (search) => SHOWN.some((key) => new URLSearchParams(search).has(key));

/** How a page begins. place: where a person is; last: in each tab, which a return to the tab shows again; asked: the
 * tab that Gradio is to show, and until when it may tell of another one; due: the runs of this address were asked for,
 * and are on their way; beside: what was added or forked goes beside others. */
export const begun = (search) => ({
  place: placeOf(""),
  last: new Map(),
  asked: null,
  due: names(search),
  live: false,
  beside: false,
});

const done = (state, ...effects) => ({ state, effects });
const be = (state, place) => ({ ...state, place, last: new Map(state.last).set(place.tab, place) });
const turned = (from, to) => (to.place.tab === from.place.tab ? [] : [["select", to.place.tab]]);

const EVENTS = {
  /** A module says where it is. */
  at(state, { detail, place = placeSaid(detail) }) {
    const shown = SHOWN.includes(Object.keys(detail)[0]) ? detail : null;
    return done({ ...be(state, place), due: state.due || shown !== null }, ["enter", place, shown]);
  },
  /** A module asks to go somewhere. */
  go(state, { detail }) {
    const { state: to, effects } = EVENTS.at(state, { detail });
    return done(to, ...effects, ["tell", to.place], ...turned(state, to));
  },
  /** The page shows a place already. */
  here: (state, { place }) => done(be(state, place), ["tell", place]),
  /** The address, or the server, leads to a place. */
  lead(state, { place }) {
    const { state: to, effects } = EVENTS.here(state, { place });
    return done(to, ...effects, ...turned(state, to));
  },
  asked: (state, { tab, now }) => done({ ...state, asked: { tab, until: now + LATE } }),
  /** Gradio tells of a tab. After Back and Forward in quick succession it still tells of the one that was asked for
   * before: before the other one is shown, or after it. */
  tab(state, { tab, hidden, now }) {
    const { asked, place, last } = state;
    if (hidden || (asked && tab !== asked.tab && now < asked.until)) return done(state);
    const free = { ...state, asked: null };
    return tab === place.tab ? done(free) : EVENTS.at(free, { detail: { tab }, place: last.get(tab) });
  },
  adding: (state) => done({ ...state, beside: true }),
  /** What the players show: a live run, or any other, takes out what named those before it; what was added or forked is
   * put in beside what stands. any: whether runs stood there; named: whether the address names some; tells: whether
   * those that are shown; ids: of these. */
  runs(state, { live, any, named, tells, ids }) {
    if (live) {
      const beside = state.live ? state.beside : any;
      return done({ ...state, live, beside, due: false }, ...(named ? [["enter", state.place, {}]] : []));
    }
    if (named && tells) return done({ ...state, live, due: false });
    if (state.due) return done({ ...state, live });
    const shown = state.beside && ids.length ? { run: ids } : named ? {} : null;
    return done({ ...state, live, beside: false }, ...(shown ? [["enter", state.place, shown]] : []), ["remember"]);
  },
  /** The history has gone back to an entry that showed `runs`: they are asked for. */
  back(state, { named, tells, search, runs, ids }) {
    if (named ? tells : !runs.length || String(runs) === String(ids)) return done(state);
    return done({ ...state, due: true }, ["follow", named ? search : `?run=${runs}`]);
  },
};

/** What an event {type, ...} makes of the state, and what is to be done then, in this order: {state, effects}. */
export const next = (state, { type, ...event }) => EVENTS[type](state, event);

/** The hidden component: props.value takes the query that the page was opened with, and comes back as JSON of {kind,
 * name, tab}, or {refused}. trigger: `submit` asks, `select` shows the tab of `dxPlace`. */
export function mountAddress(props, watch, trigger) {
  let state = begun(location.search);
  const step = (type, event) => {
    const made = next(state, { type, ...event });
    if (made.state.place !== state.place) globalThis.dxPlace = made.state.place;
    state = made.state;
    for (const [name, ...given] of made.effects) effects[name](...given);
  };
  const effects = {
    enter: (place, shown) => enter(queryOf(location.search, place, shown)),
    tell: (place) => announce("dx-place", place),
    select: (tab) => {
      step("asked", { tab, now: performance.now() });
      trigger("select");
    },
    remember: () => names(location.search) || remember(),
    follow: (query) => announce("dx-follow", query),
  };
  const shown = () => ({
    named: names(location.search),
    tells: tells(new URLSearchParams(location.search)),
    ids: idsShown(),
  });
  const look = () =>
    step("runs", { ...shown(), live: document.querySelector(LIVE) !== null, any: globalThis.dxRuns?.size > 0 });
  const later = () => queueMicrotask(look); // once the scene has been told
  document.addEventListener("dx-runs", later);
  if (globalThis.dxRuns?.size) later(); // they were there before this module
  document.addEventListener("dx-adding", () => step("adding"));
  document.addEventListener("dx-at", ({ detail }) => step("at", { detail }));
  document.addEventListener("dx-go", ({ detail }) => step("go", { detail }));
  document.addEventListener("dx-tab", ({ detail: { tab, panel } }) =>
    step("tab", { tab, hidden: document.getElementById(panel)?.style.display === "none", now: performance.now() }),
  );
  addEventListener("popstate", ({ state: kept }) => {
    step("lead", { place: placeOf(location.search) });
    step("back", { ...shown(), search: location.search, runs: kept?.runs ?? [] });
  });
  watch("value", () => {
    const { kind, name, tab } = parsed(props);
    if (tab) step("lead", { place: { kind, name, tab } });
  });
  const first = placeOf(location.search);
  if (first.kind === "doc")
    step("here", { place: first }); // the text is asked for by its own link
  else if (first.kind || first.tab !== HOME) {
    props.value = location.search;
    trigger("submit");
  }
}
