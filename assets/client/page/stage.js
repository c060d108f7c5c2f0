// The voice of a scene on the page: above the players, below it the bar of the players sticks.

import { whenThere } from "./dom.js";
import { voice } from "./voice.js";

const GAP = 8; // pixels between the voice and the bar of the players, when both stick to the top

let send = () => {}; // asks the server, once it can be asked
let wish = null; // what was asked for before: {slot, stop} of the lever

function want(asked) {
  wish = asked;
  send();
}

/** props.scenes: JSON of all scenes whose runs are recorded. ask: sends what the lever asks for; without it the scene
 * is drawn before Gradio's page is there (first.js). */
export function mountStage(element, props, ask = null) {
  send = () => {
    if (!ask || !wish) return;
    props.value = JSON.stringify({ ...wish, asked: Date.now() });
    wish = null;
    ask();
  };
  send();
  if (element.querySelector(".scene")) return;
  const scenes = JSON.parse(props.scenes || "[]");
  const told = voice(scenes, want);
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
