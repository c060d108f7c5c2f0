// The address of what is shown: ?tab=, ?method=, ?paper=, ?lesson=, ?doc=, and ?scene=, ?gallery= or ?run= of runs
// that were opened. Choosing one of them writes the address, Back and Forward return to it without a reload; prompt
// and slots stay, and the players show again what they showed there. Other modules say where they are with `dx-at`
// {kind: name}, ask to go somewhere with `dx-go`, and are told with `dx-place` {kind, name, tab}, which
// `globalThis.dxPlace` holds for those that are made later. Gradio says with `dx-tab` {tab, panel} which tab is shown,
// and the id of its element.

import { groupNamed } from "../player/clock.js";

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

/** Keeps the address true to what the players show: a live run, or any other, takes out what named those before it;
 * `dx-adding` and a fork that has ended put in what stands beside what. write: takes {run: ids}, or {}. */
function watchRuns(write) {
  const named = () => SHOWN.some((key) => new URLSearchParams(location.search).has(key));
  let due = named(), // the runs of this address were asked for, and are on their way
    live = false,
    beside = false; // what was added or forked goes beside others
  const look = () => {
    const before = live;
    live = document.querySelector(LIVE) !== null;
    if (live) {
      due = false;
      if (!before) beside = globalThis.dxRuns.size > 0;
      if (named()) write({});
    } else if (named() && tells(new URLSearchParams(location.search))) due = false;
    else if (!due) {
      const ids = beside ? idsShown() : [];
      if (ids.length) write({ run: ids });
      else if (named()) write({});
      beside = false;
      if (!named()) remember();
    }
  };
  const later = () => queueMicrotask(look); // once the scene has been told
  document.addEventListener("dx-runs", later);
  if (globalThis.dxRuns?.size) later(); // they were there before this module
  document.addEventListener("dx-adding", () => (beside = true));
  return {
    due: () => (due = true),
    /** Asks for the runs of the entry that the history has gone back to. */
    back(state) {
      const query = new URLSearchParams(location.search),
        ids = state?.runs ?? [];
      if (named() ? tells(query) : !ids.length || String(ids) === String(idsShown())) return;
      due = true;
      document.dispatchEvent(new CustomEvent("dx-follow", { detail: named() ? location.search : `?run=${ids}` }));
    },
  };
}

/** The hidden component: props.value takes the query that the page was opened with, and comes back as JSON of {kind,
 * name, tab}, or {refused}. trigger: `submit` asks, `select` shows the tab of `dxPlace`. */
export function mountAddress(props, watch, trigger) {
  let place = placeOf("");
  const last = new Map(); // where a person was in each tab, which a return to the tab shows again
  const be = (next) => {
    place = globalThis.dxPlace = next;
    last.set(next.tab, next);
  };
  const put = (next) => {
    be(next);
    document.dispatchEvent(new CustomEvent("dx-place", { detail: next }));
  };
  const write = (detail, next = placeSaid(detail)) => {
    const shown = SHOWN.includes(Object.keys(detail)[0]) ? detail : null;
    if (shown) runs.due();
    be(next);
    enter(queryOf(location.search, next, shown));
  };
  const runs = watchRuns((shown) => enter(queryOf(location.search, place, shown)));
  let asked = null; // the tab that Gradio is to show, and until when it may tell of another one
  const select = (tab) => {
    asked = { tab, until: performance.now() + LATE };
    trigger("select");
  };
  const go = (next) => {
    const shown = place.tab;
    put(next);
    if (next.tab !== shown) select(next.tab);
  };
  document.addEventListener("dx-at", ({ detail }) => write(detail));
  document.addEventListener("dx-go", ({ detail }) => {
    const shown = place.tab;
    write(detail);
    put(place);
    if (place.tab !== shown) select(place.tab);
  });
  document.addEventListener("dx-tab", ({ detail: { tab, panel } }) => {
    // after Back and Forward in quick succession Gradio still tells of the tab that was asked for before: before the
    // other one is shown, or after it
    if (document.getElementById(panel)?.style.display === "none") return;
    if (asked && tab !== asked.tab && performance.now() < asked.until) return;
    asked = null;
    if (tab !== place.tab) write({ tab }, last.get(tab));
  });
  addEventListener("popstate", ({ state }) => {
    go(placeOf(location.search));
    runs.back(state);
  });
  watch("value", () => {
    let told;
    try {
      told = JSON.parse(props.value);
    } catch {
      return; // what this module has put in
    }
    if (told?.tab) go({ kind: told.kind, name: told.name, tab: told.tab });
  });
  const first = placeOf(location.search);
  if (first.kind === "doc")
    put(first); // the text is asked for by its own link
  else if (first.kind || first.tab !== HOME) {
    props.value = location.search;
    trigger("submit");
  }
}
