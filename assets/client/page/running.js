// Run turns into Stop: from the click on, while it waits for its turn, and while any player shows a run that goes on.

import { whenThere } from "./dom.js";
import { mountWaiting } from "./waiting.js";

const GOES_ON = '[data-state="live"], [data-state="queued"], [data-expected]';

export function mountRunning() {
  whenThere(["#controls", "#players", "#run", "#stop", "#prompt"], watch);
  mountWaiting();
}

function watch(controls, players, run, stop, prompt) {
  let asked = false,
    ending = false; // Gradio cancels only when Stop has been answered; it would cancel what was begun in between
  const draw = () => {
    const on = asked || ending || players.querySelector(GOES_ON) !== null,
      before = controls.hasAttribute("data-running");
    if (on === before) return;
    const focused = document.activeElement;
    controls.toggleAttribute("data-running", on);
    if (on && focused === run) stop.focus({ preventScroll: true });
    if (!on && focused === stop) run.focus({ preventScroll: true });
  };
  const tell = (now) => () => {
    asked = now;
    draw();
  };
  const end = (now) => () => {
    ending = now;
    draw();
  };
  const ask = () => document.dispatchEvent(new Event("dx-asked"));
  run.addEventListener("click", ask);
  prompt.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && shiftKey && ask());
  document.addEventListener("dx-asked", tell(true));
  document.addEventListener("dx-over", tell(false));
  stop.addEventListener("click", end(true));
  document.addEventListener("dx-ended", end(false));
  new MutationObserver(draw).observe(players, {
    subtree: true,
    childList: true,
    attributeFilter: ["data-state", "data-expected"],
  });
  draw();
}
