// From the click on Run to the first step: the earlier boards leave at once, their players say what is done for the
// new run, and who waits for others is told so in a sentence, not in Gradio's "queue: 1/1 | 0.8/52.0s". A run that is
// refused gives the boards back.

import { groupNamed } from "../player/clock.js";
import { tr } from "../player/words.js";
import { make, whenThere } from "./dom.js";
import { progress } from "./progress.js";
import { methodOf } from "./slot.js";

const SOON = 400; // milliseconds: so long a run may stand first in the queue of an idle server
const WORDS = {
  waits: tr`waiting for its turn`,
  before: (n) =>
    n === 1
      ? tr`Waiting for the model: one run is before this one.`
      : tr`Waiting for the model: ${n} runs are before this one.`,
};
const players = () => groupNamed("main").runners;

/** How many runs are before one, by Gradio's own words for the place in its queue; 0 where it waits for nobody. */
export const before = (text) => Number(/queue: *(\d+)/.exec(text ?? "")?.[1] ?? 0);

export const mountWaiting = () => whenThere(["#status", "#controls"], watch);

function watch(status, controls) {
  const line = make("p", { class: "waits", role: "status", hidden: true });
  status.append(line);
  groupNamed("main").progress = progress;
  let waits = 0;
  const expect = (what, some = players()) => {
    const detail = {};
    document.dispatchEvent(new CustomEvent("dx-forms", { detail }));
    const { catalogue, values = [] } = detail,
      name = ({ method } = {}) => method && methodOf(catalogue, method).title;
    for (const one of some) one.expect(what, { title: what && name(values[one.slot]) });
  };
  const expected = () => players().filter(({ root }) => "expected" in root.dataset);
  let timer = null;
  const now = () => before(status.querySelector(".progress-text")?.textContent);
  const look = () => {
    if (!now()) draw(0);
    else timer ??= setTimeout(() => draw(now()), SOON);
  };
  const draw = (n) => {
    clearTimeout(timer);
    timer = null;
    if (n === waits) return;
    waits = n;
    line.hidden = !n;
    line.textContent = n ? WORDS.before(n) : "";
    controls.toggleAttribute("data-waits", n > 0);
    expect(n ? WORDS.waits : true, expected());
  };
  document.addEventListener("dx-asked", () => expect(true));
  document.addEventListener("dx-over", () => expect(false, expected()));
  new MutationObserver(look).observe(status, { subtree: true, childList: true, characterData: true });
}
