// The controls of a group, one for all of its players; below them the views that show the group.

import { groupNamed, SPEEDS, UNITS } from "./clock.js";
import { el, icon, select, set, setText } from "./dom.js";
import { bring, IN_TOOLBAR } from "./loader.js";
import { installTheme } from "./theme.js";
import { number, seconds, tr } from "./words.js";

/** Draws the controls of the group `name` into an element: {group, root, destroy}. slim: at first one row only. */
export function mountToolbar(element, { group: name = "main", theme, slim = false } = {}) {
  if (theme) installTheme(theme);
  const group = groupNamed(name);
  group.slim = slim;
  const button = (label, shape, act) => el("button", { "aria-label": label, title: label, onclick: act }, icon(shape));
  const play = button(tr`Play`, "M2 1V11L11 6Z", () => group.toggle()),
    slider = el("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": tr`Place in the run` });
  const place = el("span", "dx-place");
  const units = Object.entries(UNITS).map(([unit, text]) =>
    el("button", { "data-unit": unit, onclick: () => group.setUnit(unit) }, text),
  );
  const speeds = SPEEDS.map((s) => [s, `${s}×`]),
    speed = select(tr`Speed`, speeds, 1, (s) => group.setSpeed(Number(s))),
    buttons = [
      button(tr`Restart`, "M1 1H3V11H1ZM11 1V11L4 6Z", () => group.seek(0)),
      button(tr`Step back`, "M9 1V11L2 6ZM7.6 3.8V8.2L4.5 6Z", () => group.move(-1)),
      play,
      button(tr`Step forward`, "M3 1V11L10 6ZM4.4 3.8V8.2L7.5 6Z", () => group.move(1)),
    ],
    clock = el("div", { class: "dx-units", role: "group", "aria-label": tr`Clock` }, ...units),
    look = { class: "dx dx-toolbar", role: "toolbar", "aria-label": tr`Playback of all players` },
    onkeydown = (event) => group.key(event),
    root = el("div", { ...look, onkeydown }, el("div", "dx-buttons", ...buttons), slider, place, clock, speed);
  const GRAIN = 1000; // the slider counts whole steps, or thousandths of the longest run
  slider.addEventListener("input", () => {
    group.pause();
    group.seek(group.unit === "steps" ? Number(slider.value) : (slider.value / GRAIN) * group.end, true);
  });
  const update = (hurry) => {
    const { unit, x, end, playing } = group,
      whole = unit === "steps",
      say = (v) => (unit === "seconds" ? seconds(v) : number(Math.floor(v + 1e-6)));
    set(slider, { max: whole ? end : GRAIN });
    const to = whole ? Math.floor(x) : end ? (x / end) * GRAIN : 0;
    if (!hurry || Math.abs(to - slider.value) > slider.max / 200) slider.value = to; // a few pixels
    if (hurry) return;
    set(slider, { "aria-valuetext": tr`${say(x)} of ${say(end)} ${UNITS[unit].toLowerCase()}` });
    setText(place, end ? `${say(x)} / ${say(end)}` : "");
    set(play.firstChild.firstChild, { d: playing ? "M2 1H5V11H2ZM7 1H10V11H7Z" : "M2 1V11L11 6Z" });
    set(play, { "aria-label": playing ? tr`Pause` : tr`Play`, title: tr`${playing ? tr`Pause` : tr`Play`} (space)` });
    for (const node of units) set(node, { "aria-pressed": String(node.dataset.unit === unit) });
    speed.lastChild.value = group.speed;
  };
  const idle = (event) =>
    event.target === document.body && root.offsetParent && / |Arrow(Left|Right)/.test(event.key) && group.key(event);
  document.addEventListener("keydown", idle);
  const listeners = new Set(),
    views = [];
  const listen = (listener) => {
    listeners.add(listener);
    group.listeners.add(listener);
    listener();
  };
  const rowFor = (part) => (part.classList.contains("dx-below") ? null : root.querySelector(".dx-below"));
  let gone = false;
  element.replaceChildren(root);
  const unstick = stickSlim(root);
  listen(update);
  for (const entry of IN_TOOLBAR) {
    const draw = (View) => {
      if (gone) return;
      const view = new View(group);
      for (const part of [view.toggle, view.root]) if (part) root.insertBefore(part, rowFor(part));
      views.push(view);
      listen((hurry) => view.update(hurry));
    };
    bring(entry, draw); // without it the controls still work
  }
  return {
    group,
    root,
    destroy: () => {
      gone = true;
      document.removeEventListener("keydown", idle);
      for (const listener of listeners) group.listeners.delete(listener);
      for (const view of views) view.destroy?.();
      unstick();
      root.remove();
    },
  };
}

/** Controls that stick to the top of the window are one row there; what stands below keeps its room: nothing moves. A
 * view below the first row has the class dx-below. Returns what ends it. */
function stickSlim(root) {
  let held = null;
  const holder = () => {
    for (let node = root; node; node = node.parentElement)
      if (getComputedStyle(node).position === "sticky") return node;
    return null;
  };
  const release = () => {
    if (!held) return;
    held.style.marginBottom = "";
    root.removeAttribute("data-stuck");
    held = null;
  };
  const look = () => {
    const node = holder(),
      at = node ? parseFloat(getComputedStyle(node).top) : NaN,
      stuck = Number.isFinite(at) && scrollY > 0 && node.getBoundingClientRect().top <= at + 0.5;
    if (!stuck) return release();
    if (held || [...root.querySelectorAll(".dx-below")].some((view) => view.contains(document.activeElement))) return;
    const before = node.offsetHeight,
      margin = parseFloat(getComputedStyle(node).marginBottom) || 0;
    root.setAttribute("data-stuck", "");
    node.style.marginBottom = `${margin + before - node.offsetHeight}px`;
    held = node;
  };
  addEventListener("scroll", look, { passive: true });
  addEventListener("resize", release);
  return () => {
    release();
    removeEventListener("scroll", look);
    removeEventListener("resize", release);
  };
}
