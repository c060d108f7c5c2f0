// The address of what is shown: ?tab=, ?method=, ?paper=, ?lesson=, ?doc=, and ?gallery= or ?run= of runs that were
// opened. Choosing one of them writes the address, Back and Forward return to it without a reload; players, prompt and
// slots stay. Other modules say where they are with `dx-at` {kind: name}, ask to go somewhere with `dx-go`, and are
// told with `dx-place` {kind, name, tab}, which `globalThis.dxPlace` holds for those that are made later. Gradio says
// with `dx-tab` which tab is shown.

const TABS = { method: "methods", paper: "methods", lesson: "learn", doc: "docs" };
const HOME = "explore";
const RUNS = ["run", "gallery", "step", "of", "clock", "lane"];

/** Where a query leads: {kind, name, tab}; kind is "" where it names a tab alone, or nothing. */
export function placeOf(search) {
  const query = new URLSearchParams(search);
  for (const [kind, tab] of Object.entries(TABS)) if (query.get(kind)) return { kind, name: query.get(kind), tab };
  return { kind: "", name: "", tab: query.get("tab") || HOME };
}

/** The query of a place, with what else the one before had. shown: {gallery: ids} or {run: ids} that are shown from
 * now on. */
export function queryOf(search, { kind, name, tab }, shown = null) {
  const query = new URLSearchParams(search);
  for (const key of [...Object.keys(TABS), "tab"]) query.delete(key);
  if (shown) for (const key of RUNS) query.delete(key);
  for (const [key, ids] of Object.entries(shown ?? {})) query.set(key, ids.join(","));
  if (kind) query.set(kind, name);
  else if (tab !== HOME) query.set("tab", tab);
  const text = query
    .toString()
    .replaceAll("%2C", ",")
    .replace(/=(?=&|$)/g, "");
  return text && `?${text}`;
}

/** The place that a module says it is at: {tab}, {method}, {paper}, {lesson}, {doc}, {gallery} or {run}. */
function placeSaid(detail) {
  const [kind, name] = Object.entries(detail)[0];
  if (RUNS.includes(kind)) return { kind: "", name: "", tab: HOME };
  return kind === "tab" ? { kind: "", name: "", tab: name } : { kind, name, tab: TABS[kind] };
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
    const shown = RUNS.includes(Object.keys(detail)[0]) ? detail : null,
      search = queryOf(location.search, next, shown);
    be(next);
    if (search === location.search) return;
    try {
      history.pushState(null, "", `${location.pathname}${search}${location.hash}`);
    } catch {
      // a frame without a history of its own: the page works, its address stays
    }
  };
  const go = (next) => {
    const shown = place.tab;
    put(next);
    if (next.tab !== shown) trigger("select");
  };
  document.addEventListener("dx-at", ({ detail }) => write(detail));
  document.addEventListener("dx-go", ({ detail }) => {
    const shown = place.tab;
    write(detail);
    put(place);
    if (place.tab !== shown) trigger("select");
  });
  document.addEventListener("dx-tab", ({ detail: tab }) => {
    if (tab !== place.tab) write({ tab }, last.get(tab));
  });
  addEventListener("popstate", () => go(placeOf(location.search)));
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
