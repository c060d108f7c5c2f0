// The voice of a scene: its question, one sentence for the moment that the players show, and one lever that exchanges a
// run for another recorded one. Which scene it is follows from the runs that are shown, however they came there. The
// page has it, and so have the static site and pages that are saved.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { announce } from "./dom.js";

const MARKS = { true: "✓", false: "✗" };
/** The scene that shows these runs, and the stop of its lever: {scene, stop}; null where they belong to none. ids: of
    the recorded runs by player. */
export function sceneOf(scenes, ids) {
  for (const scene of scenes) {
    const { traces, lever } = scene;
    if (ids.size !== traces.length) continue;
    const stop = lever?.stops.find(({ trace }) => trace === ids.get(lever.slot));
    if (traces.every((name, slot) => ids.get(slot) === name || (stop && slot === lever.slot)))
      return { scene, stop: stop ?? null };
  }
  return null;
}

const nameOf = (ids) => JSON.stringify([...ids]);

/** What is said after `step` steps of the longer run. moved: whether the lever was moved, and then its stop speaks. */
export function saidAt({ scene, stop }, step, moved) {
  if (stop && (moved || stop.trace !== scene.traces[scene.lever.slot])) return stop.say;
  return scene.says?.findLast(({ at }) => at <= step)?.say ?? scene.watch;
}

/** All that a scene says. On a narrow screen they stand unseen in the place of the one that is said, so that it has the
 * height of the longest and nothing below it moves. */
const textsOf = ({ watch, says = [], lever }) =>
  [watch, ...says.map(({ say }) => say), ...(lever?.stops ?? []).map(({ say }) => say)].filter(Boolean).map(translated);

/** The sentence that is said now, for who paces the opening; empty where no scene is shown. */
export const saying = () => document.querySelector("#scene .scene-says")?.textContent ?? "";

/** Draws it: {root, look(ids), rest(over), use({scenes, live}), now}. scenes: all that there are; pull: called with
 * {slot, stop}, what the lever asks for. `rest` ends the scene. `use` lets others speak (null: the scenes again); live:
 * what is said while the same is run now, in place of what was told of the recording. */
export function voice(scenes, pull) {
  const group = groupNamed("main"),
    question = el("h2", "scene-question"),
    says = el("p", { class: "scene-says", "aria-live": "polite" }),
    said = el("div", "scene-said", says),
    sides = el("p", "scene-sides", tr`Left is player 1, right is player 2.`),
    place = el("div", "scene-lever"),
    root = el(
      "section",
      { class: "scene", hidden: true, "aria-label": tr`What is shown` },
      question,
      said,
      sides,
      place,
    );
  const legend = oneLegend();
  let now = null, // {scene, stop}
    moved = false,
    known = scenes,
    live = "",
    rested = "", // the runs whose scene is over, though they are still shown
    shown = new Map();
  const tell = () => {
    showRoles(group, now?.scene.roles);
    legend.look(group, Boolean(now));
    if (!now) return;
    const step = Math.max(0, ...group.runners.map(({ t }) => t)),
      text = live || translated(saidAt(now, step, moved));
    says.setAttribute("aria-live", group.quiet ? "off" : "polite");
    if (says.textContent !== text) says.textContent = text;
  };
  const asked = (stop) => {
    now = { ...now, stop };
    moved = true;
    tell();
    pull({ slot: now.scene.lever.slot, stop: stop.trace });
  };
  const look = (ids = shown) => {
    shown = ids;
    if (live && now) return tell(); // what runs now has no name yet
    const found = nameOf(ids) === rested ? null : sceneOf(known, ids),
      other = found?.scene !== now?.scene;
    if (other) moved = false;
    if (other || !moved) now = found; // while the lever moves, what comes is behind it
    root.hidden = !now;
    if (!now) {
      place.replaceChildren();
      return tell();
    }
    question.textContent = translated(now.scene.question || now.scene.title);
    sides.hidden = now.scene.traces.length !== 2;
    if (other) {
      place.replaceChildren(...(now.scene.lever ? drawn(now, asked) : []));
      for (const spare of said.querySelectorAll(".scene-spare")) spare.remove();
      said.append(...textsOf(now.scene).map((text) => el("p", { class: "scene-spare", "aria-hidden": "true" }, text)));
    }
    tell();
  };
  group.listeners.add(tell);
  return {
    root,
    look,
    use: ({ scenes: others, live: words = "" }) => {
      [known, live] = [others ?? scenes, words];
      place.hidden = Boolean(live);
      look();
      tell();
    },
    /** A person has turned to other things: the scene is over until it is asked for again (false). */
    rest: (over = true) => {
      rested = over ? nameOf(shown) : "";
      if (over) group.pause();
      look();
    },
    get now() {
      return now;
    },
  };
}

/** The lever: a slider whose places are the recorded runs, and below each what it costs and whether it is right. */
function drawn({ scene: { lever }, stop }, pull) {
  const { stops } = lever,
    value = el("output", {}),
    name = translated(lever.label);
  const slider = el("input", {
    type: "range",
    id: "scene-lever",
    min: 0,
    max: stops.length - 1,
    step: 1,
    oninput: () => show(true),
  });
  const told = ({ calls, right }, marks) =>
    [calls === 1 ? tr`1 call` : tr`${calls} calls`, marks[right]].filter(Boolean);
  const spoken = (one) => told(one, { true: tr`right`, false: tr`wrong` }).join(", ");
  const marks = stops.map((one, n) =>
    el(
      "li",
      { title: `${name} ${one.value}: ${spoken(one)}`, onclick: () => show(true, n) },
      el("b", {}, String(one.value)),
      el("span", { "data-mark": one.right === undefined ? null : String(one.right) }, told(one, MARKS).join(" ")),
    ),
  );
  const show = (asked, n = Number(slider.value)) => {
    slider.value = n;
    value.textContent = String(stops[n].value);
    slider.setAttribute("aria-valuetext", `${stops[n].value}: ${spoken(stops[n])}`);
    marks.forEach((mark, at) => mark.toggleAttribute("data-here", at === n));
    if (asked) pull(stops[n]);
  };
  show(false, Math.max(0, stops.indexOf(stop)));
  return [
    el("label", { for: "scene-lever" }, name, " ", value),
    el("span", "scene-end", translated(lever.low)),
    el("div", "scene-places", slider, el("ol", { "aria-hidden": "true" }, ...marks)),
    el("span", "scene-end", translated(lever.high)),
  ];
}

// What part each run plays, above the name of its method: "One at a time", then "LLaDA base · tiny-dlm".

/** Names the boards of the group's players by slot; a player without a role keeps the name of its method alone. */
function showRoles(group, roles = []) {
  for (const { slot, root } of group.members) {
    const head = root.querySelector("h2"),
      there = head.querySelector(".scene-role"),
      role = translated(roles[slot] ?? "");
    if ((there?.textContent ?? "") === role) continue;
    if (!role) there.remove();
    else if (there) there.textContent = role;
    else head.prepend(el("em", "scene-role", role));
  }
}

// One legend above the boards, in place of the same one below each of them.

/** The entries of several legends, each once, in the order of the first that has it: [{mark, words, ramp, node}]. Null
 * where one mark would have two meanings, or two scores their ranges. */
export function merged(legends) {
  const found = new Map();
  for (const entry of legends.flat()) {
    const known = found.get(entry.mark);
    if (known && known.words !== entry.words) return null;
    found.set(entry.mark, known ?? entry);
  }
  const all = [...found.values()];
  return new Set(all.filter(({ ramp }) => ramp).map(({ words }) => words)).size > 1 ? null : all;
}

const entriesOf = (legend) =>
  [...legend.children].map((node) => ({
    mark: node.querySelector("i")?.outerHTML ?? node.textContent, // what a legend explains; the words stand beside it
    words: node.textContent,
    ramp: Boolean(node.querySelector(".dx-ramp")),
    node,
  }));

/** Draws it in front of the players: {look(group, on)}. on: whether a scene is shown. Where the legends cannot be one,
 * each board keeps its own. */
function oneLegend() {
  const root = el("div", { class: "dx dx-legend scene-legend", hidden: true }),
    changed = new MutationObserver(() => draw()); // other colours, or a state that was not there before
  let legends = [],
    drawn = "";
  function draw() {
    const players = document.querySelector("#players"),
      entries = legends.length > 1 ? (merged(legends.map(entriesOf)) ?? []) : [],
      said = entries.map(({ node }) => node.outerHTML).join("");
    if (said === drawn || !players) return;
    drawn = said;
    if (!root.isConnected) players.before(root);
    root.replaceChildren(...entries.map(({ node }) => node.cloneNode(true)));
    root.hidden = !said;
    players.toggleAttribute("data-one-legend", Boolean(said));
    announce("dx-moved"); // what stands below it has moved
  }
  return {
    look(group, on) {
      const found = on
        ? group.runners.flatMap(({ root: panel }) => panel.querySelector(".dx-under > .dx-legend") ?? [])
        : [];
      if (found.length === legends.length && found.every((node, n) => node === legends[n])) return;
      legends = found;
      changed.disconnect();
      for (const node of legends) changed.observe(node, { childList: true });
      draw();
    },
  };
}

// The clock goes as slowly as what is said of each step is read.

const [SHORT, LETTER, LONG] = [600, 45, 6500]; // milliseconds: a step of which nothing new is said, a letter, the most

export class Pace {
  /** first: milliseconds of the first step. */
  constructor(group, first) {
    Object.assign(this, { group, first });
    this.restart();
  }

  restart() {
    Object.assign(this, { step: -1, said: "" });
  }

  /** Milliseconds for what is said of this step. */
  time() {
    const text = saying(),
      fresh = text !== this.said;
    this.said = text;
    return fresh ? Math.min(LONG, Math.max(SHORT, LETTER * text.length)) : SHORT;
  }

  /** To be called whenever the clock has moved. */
  turn() {
    const step = Math.floor(this.group.x);
    if (step === this.step) return;
    this.step = step;
    queueMicrotask(() => (this.group.pace = 1000 / (step ? this.time() : this.first))); // once it is said
  }
}
