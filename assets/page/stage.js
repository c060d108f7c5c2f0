// The voice of a scene on the page: above the players, below it the bar of the players sticks.

import { styles, whenThere } from "./dom.js";
import { voice } from "./voice.js";

const GAP = 8; // pixels between the voice and the bar of the players, when both stick to the top

/** props.scenes: JSON of all scenes whose runs are recorded. ask: sends {slot, stop}, what the lever asks for. */
export function mountStage(element, props, ask) {
  styles("stage.css", import.meta.url);
  const scenes = JSON.parse(props.scenes || "[]");
  const told = voice(scenes, (wish) => {
    props.value = JSON.stringify({ ...wish, asked: Date.now() });
    ask();
  });
  const { root } = told;
  const look = () => {
    told.look(globalThis.dxRuns ?? new Map());
    mark();
  };
  const mark = () => {
    const names = told.now?.scene.traces.join();
    document
      .querySelectorAll("#scenarios .scenario")
      .forEach((chip, n) => chip.toggleAttribute("data-now", scenes[n]?.traces.join() === names));
  };
  element.replaceChildren(root);
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--scene-high", `${root.hidden ? 0 : root.offsetHeight + GAP}px`);
  }).observe(root); // the bar of the players sticks below the voice
  document.addEventListener("dx-runs", look);
  for (const [name, over] of Object.entries({ "dx-filled-in": true, "dx-at": false }))
    document.addEventListener(name, () => {
      told.rest(over);
      look();
    });
  document.addEventListener("dx-voice", ({ detail }) => told.use(detail)); // a lecture speaks
  look();
  whenThere(["#scenarios"], (chips) => {
    mark(); // they can come after the runs of the opening
    new MutationObserver(mark).observe(chips, { childList: true, subtree: true });
  });
}
