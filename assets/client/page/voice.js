// The voice of a scene: its question, one sentence for the moment that the players show, and one lever that exchanges a
// run for another recorded one. Which scene it is follows from the runs that are shown, however they came there. The
// page has it, and so have the static site and pages that are saved.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { oneLegend } from "./onelegend.js";
import { showRoles } from "./roles.js";

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
    question = el("h2", { class: "scene-question" }),
    says = el("p", { class: "scene-says", "aria-live": "polite" }),
    said = el("div", { class: "scene-said" }, says),
    sides = el("p", { class: "scene-sides" }, tr`Left is player 1, right is player 2.`),
    place = el("div", { class: "scene-lever" }),
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
  const said = ({ calls, right }) =>
    [calls === 1 ? tr`1 call` : tr`${calls} calls`, MARKS[right]].filter(Boolean).join(" ");
  const spoken = ({ calls, right }) =>
    [calls === 1 ? tr`1 call` : tr`${calls} calls`, { true: tr`right`, false: tr`wrong` }[right]]
      .filter(Boolean)
      .join(", ");
  const marks = stops.map((one, n) =>
    el(
      "li",
      { title: `${name} ${one.value}: ${spoken(one)}`, onclick: () => show(true, n) },
      el("b", {}, String(one.value)),
      el("span", { "data-mark": one.right === undefined ? null : String(one.right) }, said(one)),
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
    el("span", { class: "scene-end" }, translated(lever.low)),
    el("div", { class: "scene-places" }, slider, el("ol", { "aria-hidden": "true" }, ...marks)),
    el("span", { class: "scene-end" }, translated(lever.high)),
  ];
}
