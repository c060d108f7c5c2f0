// From the click on Run to the first step: the earlier boards leave at once, their players say what is done for the
// new run, and who waits for others is told so in a sentence, not in Gradio's "queue: 1/1 | 0.8/52.0s". A run that is
// refused gives the boards back.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { whenThere } from "./dom.js";
import { progress } from "./progress.js";
import { methodOf } from "./slot.js";

const SOON = 400; // milliseconds: so long a run may stand first in the queue of an idle server
const WORDS = {
  waits: tr`waiting for its turn`,
  before: (n) => (n === 1 ? tr`Waiting: one run is before this one.` : tr`Waiting: ${n} runs are before this one.`),
};
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
    line.textContent = n ? WORDS.before(n) : "";
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

export const mountWaiting = () => whenThere(["#status"], watch);

function watch(status) {
  const expect = (what, some = players()) => {
    const detail = {};
    document.dispatchEvent(new CustomEvent("dx-forms", { detail }));
    const { catalogue, values = [] } = detail,
      name = ({ method } = {}) => method && methodOf(catalogue, method).title;
    for (const one of some) one.expect(what, { title: what && name(values[one.slot]) });
  };
  const expected = () => players().filter(({ root }) => "expected" in root.dataset);
  groupNamed("main").progress = progress;
  queueLine(status, (n) => expect(n ? WORDS.waits : true, expected()));
  document.addEventListener("dx-asked", ({ detail }) => detail?.boards === false || expect(true));
  document.addEventListener("dx-over", () => expect(false, expected()));
}
