// The voice of a scene: its question, one sentence for the moment that the players show, and one lever that exchanges a
// run for another recorded one. Which scene it is follows from the runs that are shown, however they came there.

import { groupNamed } from "../player/clock.js";
import { tr, translated } from "../player/words.js";
import { make, styles } from "./dom.js";

const MARKS = { true: "✓", false: "✗" };
const GAP = 8; // pixels between the voice and the bar of the players, when both stick to the top

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

/** What is said after `step` steps of the longer run. moved: whether the lever was moved, and then its stop speaks. */
export function saidAt({ scene, stop }, step, moved) {
  if (stop && (moved || stop.trace !== scene.traces[scene.lever.slot])) return stop.say;
  return scene.says?.findLast(({ at }) => at <= step)?.say ?? scene.watch;
}

/** The sentence that is said now, for who paces the opening; empty where no scene is shown. */
export const saying = () => document.querySelector("#scene .scene-says")?.textContent ?? "";

/** props.scenes: JSON of all scenes whose runs are recorded. ask: sends {slot, stop}, what the lever asks for. */
export function mountStage(element, props, ask) {
  styles("stage.css", import.meta.url);
  const scenes = JSON.parse(props.scenes || "[]"),
    group = groupNamed("main"),
    question = make("h2", { class: "scene-question" }),
    says = make("p", { class: "scene-says", "aria-live": "polite" }),
    sides = make("p", { class: "scene-sides" }, tr`Left is player 1, right is player 2.`),
    place = make("div", { class: "scene-lever" }),
    root = make(
      "section",
      { class: "scene", hidden: true, "aria-label": tr`What is shown` },
      question,
      says,
      sides,
      place,
    );
  let now = null, // {scene, stop}
    moved = false;
  const tell = () => {
    if (!now) return;
    const step = Math.max(0, ...group.runners.map(({ t }) => t)),
      said = translated(saidAt(now, step, moved));
    says.setAttribute("aria-live", group.quiet ? "off" : "polite");
    if (says.textContent !== said) says.textContent = said;
  };
  const pull = (stop) => {
    now = { ...now, stop };
    moved = true;
    tell();
    props.value = JSON.stringify({ slot: now.scene.lever.slot, stop: stop.trace, asked: Date.now() });
    ask();
  };
  const look = () => {
    const found = sceneOf(scenes, globalThis.dxRuns ?? new Map()),
      other = found?.scene !== now?.scene;
    if (other) moved = false;
    if (other || !moved) now = found; // while the lever moves, what comes is behind it
    root.hidden = !now;
    document
      .querySelectorAll("#scenarios .scenario")
      .forEach((chip, n) => chip.toggleAttribute("data-now", scenes[n] === now?.scene));
    if (!now) return place.replaceChildren();
    question.textContent = translated(now.scene.question || now.scene.title);
    if (other) place.replaceChildren(...(now.scene.lever ? drawn(now, pull) : []));
    tell();
  };
  element.replaceChildren(root);
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--scene-high", `${root.hidden ? 0 : root.offsetHeight + GAP}px`);
  }).observe(root); // the bar of the players sticks below the voice
  document.addEventListener("dx-runs", look);
  group.listeners.add(tell);
  look();
}

/** The lever: a slider whose places are the recorded runs, and below each what it costs and whether it is right. */
function drawn({ scene: { lever }, stop }, pull) {
  const { stops } = lever,
    value = make("output", {}),
    name = translated(lever.label);
  const slider = make("input", {
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
    make(
      "li",
      { title: `${name} ${one.value}: ${spoken(one)}`, onclick: () => show(true, n) },
      make("b", {}, String(one.value)),
      make("span", { "data-mark": one.right === undefined ? null : String(one.right) }, said(one)),
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
    make("label", { for: "scene-lever" }, name, " ", value),
    make("span", { class: "scene-end" }, translated(lever.low)),
    make("div", { class: "scene-places" }, slider, make("ol", { "aria-hidden": "true" }, ...marks)),
    make("span", { class: "scene-end" }, translated(lever.high)),
  ];
}
