// The page's side of the player: panels by slot, one toolbar, and the hidden bus that brings batches.

import { cursor, groupNamed } from "./clock.js";
import { openForks } from "./fork.js";
import { add, load } from "./loader.js";
import { mount } from "./player.js";
import { mountToolbar as toolbar } from "./toolbar.js";
import { tr } from "./words.js";

const panels = new Map(),
  waiting = new Map(),
  ids = new Map(); // by slot; an id names a kept or recorded run in a link
const held = new Map(),
  PATIENCE = 3000; // by slot: batches that overtook others, and for how many milliseconds
let stream = null; // of the live run
let inbox = null; // the properties of the bus
let view = null; // where a link points, until its players are there
const read = (value) => (typeof value === "string" ? JSON.parse(value) : value);

/** props: {slot, theme?, group?, title?}; theme is theme.json, as text or object, by itself the page's. */
export function mountPanel(element, { slot = 0, theme = globalThis.dxTheme, group = "main", title = "" }) {
  const there = panels.get(slot);
  if (there?.root.parentElement === element) return there; // drawn before Gradio's page was there (page/first.js)
  there?.destroy();
  const panel = mount(element, { slot, group, title, theme: read(theme), forks: true });
  panels.set(slot, panel);
  for (const batch of waiting.get(slot) ?? []) route(batch);
  if (waiting.delete(slot)) document.dispatchEvent(new Event("dx-runs"));
  look();
  return panel;
}

export function mountToolbar(element, { theme = globalThis.dxTheme, group = "main" } = {}) {
  return toolbar(element, { group, theme: read(theme), slim: true });
}

/** The hidden component that carries requests to fork. props.methods: what can take over, as JSON. */
export function forker(_element, props, submit) {
  openForks(read(props.methods), (request) => {
    props.value = request;
    submit();
  });
}

export const panel = (slot) => panels.get(slot);

function players() {
  return [...panels].sort(([a], [b]) => a - b).filter(([, panel]) => panel.run);
}

function look() {
  const shown = players().map(([, panel]) => panel);
  if (!view || !ids.size || shown.length < ids.size) return;
  restore(view, shown, groupNamed("main"));
  view = null;
}

/** Puts players to where a link points. view: {clock?, step?, of?, lane?}. */
function restore(view, panels, group) {
  if (view.clock) group.setUnit(view.clock);
  if (view.lane) for (const panel of panels) if (panel.run?.lanes.has(view.lane)) panel.context.setLane(view.lane);
  if (view.step !== undefined) panels[(view.of ?? 1) - 1]?.seek(view.step);
}

/** {text}: what to show again, as a query; null if nothing is shown, {without} if a run has no id. shown: [{id, run,
 * axis}] by player; stood: whether to name the step. */
function query(shown, { unit, x, stood }, lane) {
  if (!shown.length) return null;
  const without = shown.filter(({ id }) => !id).map(({ name }) => name);
  if (without.length) return { without };
  const lengths = shown.map(({ axis }) => axis.length),
    longest = lengths.indexOf(Math.max(...lengths));
  const inside = shown.findIndex(({ axis }) => axis.length > 1 && axis[axis.length - 1] >= x),
    lead = inside < 0 ? longest : inside;
  const ids = shown.map(({ id }) => id),
    kept = ids.some((id) => /^[0-9a-f]{16,64}$/.test(id));
  const parts = [[kept ? "run" : "gallery", ids.join(",")]];
  const step = stood && cursor(shown[lead].axis, x);
  if (step) parts.push(["step", step]);
  if (step && lead) parts.push(["of", lead + 1]);
  if (unit !== "steps") parts.push(["clock", unit]);
  if (lane) parts.push(["lane", lane]);
  return {
    text: parts.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&"),
  };
}

/** The link to what the players show, as `query` with the whole address. */
function link(group = groupNamed("main")) {
  const shown = players().map(([slot, panel]) => {
      return { id: ids.get(slot), axis: panel.axis(group.unit), name: tr`player ${slot + 1}` };
    }),
    lanes = players().map(([, { context }]) => context.lane),
    lane = lanes.find((name) => name && name !== "confidence"),
    made = query(shown, group, lane);
  return made?.text ? { text: `${location.origin}${location.pathname}?${made.text}` } : made;
}

/** The buttons that copy, whose module is fetched when the page shows them. */
export const mountShare = (...given) => load("share").then(({ share }) => share(...given, link));

const ahead = (target, { run, seq }) => Boolean(target?.last) && target.last.run === run && seq > target.last.seq + 1;

function route(batch) {
  const { slot = 0 } = batch,
    target = panels.get(slot);
  if (ahead(target, batch)) {
    held.set(
      slot,
      [...(held.get(slot) ?? []), batch].sort((a, b) => a.seq - b.seq),
    );
    return void setTimeout(() => held.get(slot)?.includes(batch) && release(slot, true), PATIENCE);
  }
  if (batch.id) ids.set(slot, batch.id);
  else if (batch.trace || batch.header || batch.state === "queued") ids.delete(slot);
  if (batch.stream && (target?.last?.run !== batch.run || target.last.seq < batch.seq)) listen(batch.stream);
  if (!target) waiting.set(slot, [...(waiting.get(slot) ?? []), batch]);
  else if (batch.trace) target.load(batch.trace, batch);
  else target.push(batch);
  if (target && batch.end) handOver(target);
  release(slot);
}

/** Batches whose turn has come; overdue: those before did not come, as the player will say. */
function release(slot, overdue = false) {
  const target = panels.get(slot),
    [first, ...rest] = held.get(slot) ?? [];
  if (!first || (ahead(target, first) && !overdue)) return;
  held.set(slot, overdue ? [] : rest);
  if (!overdue) route(first);
  else target.push(first);
}

/** Reads the steps of a live run beside the bus, which is slower; what comes twice is known by its number. */
function listen(name) {
  stream?.close();
  const mine = (stream = new EventSource(new URL(`live/${name}`, document.baseURI)));
  mine.onmessage = ({ data }) => JSON.parse(data).batches.forEach(route);
  mine.addEventListener("end", () => mine.close());
}

/** Who pressed Run or Stop would press it again with Space: at a run's end the focus goes to its player. */
function handOver(target) {
  const { activeElement: focus } = document;
  if (focus?.closest("#run, #stop")) target.root.focus({ preventScroll: true });
}

/** The bus: its value is JSON text {"batches": [{slot, run, seq, id?, ...} | {slot, trace, at?}]}, with "clear" to
 * empty all panels, "play" to play afterwards, "view": {clock, step, of, lane} to go there, "ids": {slot: id} of
 * what is shown, "expect": whether a run may still take their place, and "tokens": {slot: length of its prompt}. */
export function bus(_element, props, watch) {
  if (!inbox) listenToPage(props);
  const drawn = inbox?.value === props.value; // before Gradio's page was there
  inbox = props;
  if (!drawn) handle();
  watch("value", handle);
}

function listenToPage(props) {
  const { dataset } = document.documentElement;
  if (!dataset.receipts)
    // numbers outside the players ask for them: {anchor, receipt, numbers, header}
    document.addEventListener("dx-receipt", async ({ detail }) => {
      const { showReceipt } = await load("receipt");
      showReceipt(detail);
    });
  dataset.receipts = "here";
  add(read(props.views || "[]"));
  document.addEventListener("dx-link", ({ detail }) => {
    const group = groupNamed("main");
    if (!group.quiet) detail.text = link({ ...group, stood: true })?.text ?? null; // the opening needs no link
  });
  document.addEventListener("dx-show", ({ detail }) => panels.get(detail)?.reveal());
}

function handle() {
  const message = inbox.value ? read(inbox.value) : {};
  if (message.clear) {
    stream?.close();
    held.clear();
    waiting.clear();
    ids.clear();
    for (const target of panels.values()) target.clear();
  }
  if ("expect" in message)
    for (const [slot, target] of players()) target.expect(message.expect, message, message.tokens?.[slot]);
  for (const batch of message.batches ?? []) route(batch);
  for (const [slot, id] of Object.entries(message.ids ?? {})) ids.set(Number(slot), id);
  view = message.view ?? view;
  globalThis.dxRuns = new Map(ids);
  document.dispatchEvent(new Event("dx-runs"));
  look();
  if (message.play && !matchMedia("(prefers-reduced-motion: reduce)").matches) groupNamed("main").play();
}
