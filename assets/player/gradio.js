// The page's side of the player: panels by slot, one toolbar, and the hidden bus that brings batches.

import { groupNamed } from "./clock.js";
import { mount, mountToolbar as toolbar } from "./player.js";
import { openDesk } from "./views/fork.js";

const panels = new Map(), waiting = new Map();
const read = (value) => (typeof value === "string" ? JSON.parse(value) : value);

function styles() {
  const href = new URL("player.css", import.meta.url).href;
  if (!document.querySelector(`link[href="${href}"]`)) document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

/** props: {slot, theme, group?, title?}; theme is theme.json, as text or as an object. */
export function mountPanel(element, { slot = 0, theme, group = "main", title = "" }) {
  styles();
  panels.get(slot)?.destroy();
  const panel = mount(element, { slot, group, title, theme: read(theme) });
  panels.set(slot, panel);
  for (const batch of waiting.get(slot) ?? []) route(batch);
  waiting.delete(slot);
  return panel;
}

export function mountToolbar(element, { theme, group = "main" }) {
  styles();
  return toolbar(element, { group, theme: read(theme) });
}

/** The hidden component that carries requests to fork. props.methods: what can take over, as JSON. */
export function forker(element, props, submit) {
  openDesk(read(props.methods), (request) => {
    props.value = request;
    submit();
  });
}

export const panel = (slot) => panels.get(slot);

function route(batch) {
  const target = panels.get(batch.slot ?? 0);
  if (!target) waiting.set(batch.slot ?? 0, [...(waiting.get(batch.slot ?? 0) ?? []), batch]);
  else if (batch.trace) target.load(batch.trace, batch);
  else target.push(batch);
}

/** The bus: its value is JSON text {"batches": [{slot, run, seq, ...} | {slot, trace, at?}]}, with "clear": true to empty all panels
    first and "play": true to play afterwards. */
export function bus(element, props, watch) {
  const handle = () => {
    const message = props.value ? read(props.value) : {};
    if (message.clear) {
      waiting.clear();
      for (const target of panels.values()) target.clear();
    }
    for (const batch of message.batches ?? []) route(batch);
    if (message.play && !matchMedia("(prefers-reduced-motion: reduce)").matches) groupNamed("main").play();
  };
  handle();
  watch("value", handle);
}
