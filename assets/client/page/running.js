// Run turns into Stop: from the click on, while it waits for its turn, and while any player shows a run that goes on.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { announce, whenThere } from "./dom.js";
import { knownForms } from "./forms.js";
import { methodOf } from "./slot.js";

const GOES_ON = '[data-state="live"], [data-state="queued"], [data-expected]';

export function mountRunning() {
  whenThere(["#controls", "#players", "#run", "#stop", "#prompt"], watch);
  whenThere(["#status"], tellWaiting);
}

function watch(controls, players, run, stop, prompt) {
  // Gradio cancels only when Stop has been answered; it would cancel what was begun in between.
  const going = { asked: false, ending: false };
  const draw = () => {
    const on = going.asked || going.ending || players.querySelector(GOES_ON) !== null,
      before = controls.hasAttribute("data-running");
    if (on === before) return;
    const focused = document.activeElement;
    controls.toggleAttribute("data-running", on);
    if (on && focused === run) stop.focus({ preventScroll: true });
    if (!on && focused === stop) run.focus({ preventScroll: true });
  };
  const set = (name, now) => () => {
    going[name] = now;
    draw();
  };
  const ask = () => announce("dx-asked");
  run.addEventListener("click", ask);
  prompt.addEventListener("keydown", ({ key, shiftKey }) => key === "Enter" && shiftKey && ask());
  document.addEventListener("dx-asked", set("asked", true));
  document.addEventListener("dx-over", set("asked", false));
  stop.addEventListener("click", set("ending", true));
  document.addEventListener("dx-ended", set("ending", false));
  new MutationObserver(draw).observe(players, {
    subtree: true,
    childList: true,
    attributeFilter: ["data-state", "data-expected"],
  });
  draw();
}

// From the click on Run to the first step: the earlier boards leave at once, their players say what is done for the
// new run, and who waits for others is told so in a sentence, not in Gradio's "queue: 1/1 | 0.8/52.0s". A run that is
// refused gives the boards back.

const SOON = 400; // milliseconds: so long a run may stand first in the queue of an idle server
const players = () => groupNamed("main").runners;

/** How many runs are before one, by Gradio's own words for the place in its queue; 0 where it waits for nobody. */
export const before = (text) => Number(/queue: *(\d+)/.exec(text ?? "")?.[1] ?? 0);

/** A sentence below a status line while what it tells of stands in Gradio's queue; `tell` gets the number of runs
 * before it. */
export function queueLine(status, tell = () => {}) {
  const line = el("p", { class: "waits", role: "status", hidden: true }),
    now = () => before(status.querySelector(".progress-text")?.textContent);
  let waits = 0,
    timer = null;
  const draw = (n) => {
    clearTimeout(timer);
    timer = null;
    if (n === waits) return;
    waits = n;
    line.hidden = !n;
    const words = n === 1 ? tr`Waiting: one run is before this one.` : tr`Waiting: ${n} runs are before this one.`;
    line.textContent = n ? words : "";
    status.toggleAttribute("data-waits", n > 0);
    tell(n);
  };
  const look = () => {
    if (!now()) draw(0);
    else timer ??= setTimeout(() => draw(now()), SOON);
  };
  status.append(line);
  new MutationObserver(look).observe(status, { subtree: true, childList: true, characterData: true });
}

function tellWaiting(status) {
  const expect = (what, some = players()) => {
    const { catalogue, values } = knownForms(),
      name = ({ method } = {}) => method && methodOf(catalogue, method).title;
    for (const one of some) one.expect(what, { title: what && name(values[one.slot]) });
  };
  const expected = () => players().filter(({ root }) => "expected" in root.dataset);
  groupNamed("main").progress = progress;
  queueLine(status, (n) => expect(n ? tr`waiting for its turn` : true, expected()));
  document.addEventListener("dx-asked", ({ detail }) => detail?.boards === false || expect(true));
  document.addEventListener("dx-over", () => expect(false, expected()));
}

/** How far a run has come that goes on, in words: "reading 671 tokens" before the first step; then what is written of
 * what may be, and how fast since the first step, which has read the prompt: tokens over the measured seconds. */
export function progress(run) {
  const { prompt, steps, sums, length } = run;
  if (!length) return tr`reading ${prompt.length.toLocaleString("en")} tokens`;
  const answer = run.board(length).slice(prompt.length),
    n = answer.filter(({ token }) => token !== null).length,
    most = run.canvas === null ? run.header.params?.max_new_tokens : answer.length,
    [first, last] = [sums[1], sums[length]].map(({ model, method }) => model + method),
    rate = (n - (steps[0].commits?.positions.length ?? 0)) / (last - first);
  const written = most ? tr`${n} of ${most} written` : tr`${n} written`;
  return rate > 0 && rate < 1e6 ? tr`${written}, ${Number(rate.toPrecision(2))} tokens/s` : written;
}
