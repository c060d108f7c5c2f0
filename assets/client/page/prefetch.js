// A model is loaded when it is chosen: the server is told what the slots in sight name, the one that changed last
// first, and the slots say "loading" until it is done. A page just opened waits until its first boards are drawn.

import { tr } from "../player/words.js";
import { parsed, whenThere } from "./dom.js";
import { knownForms } from "./forms.js";

const SETTLED = 1500, // milliseconds from the first boards to the first question
  SOON = 300, // from the last change: who goes through a list by its keys chooses nothing on the way
  AGAIN = 1000, // until the next look at what is being loaded, and twice as long each time,
  RARELY = 16_000; // up to here: it may wait for the runs of many others
const BOARD = '#panel-0 .dx-panel:not([data-state="empty"])';
const key = ({ method, model }) => JSON.stringify([method, model]);

/** The slots' values, those that differ from before first, without their parameters, which load nothing. */
export const latest = (values, before = []) => {
  const short = values.map(({ method, model }) => ({ method, model })),
    isNew = (value, slot) => key(value) !== (before[slot] && key(before[slot]));
  return [...short.filter(isNew), ...short.filter((value, slot) => !isNew(value, slot))];
};

/** props.value: what is asked, JSON of [{method, model}], or the answer, JSON of {loading: [model]}. submit: asks. */
export function mountPrefetch(props, watch, submit) {
  let shown = [],
    asked = null,
    pause = AGAIN,
    timer = null;
  const forms = () => knownForms().values;
  const draw = (loading) => {
    forms().forEach(({ model }, slot) => {
      const place = document.querySelector(`#slot-${slot} .slot-waits`);
      if (place) place.textContent = loading.includes(model) ? tr`loading` : "";
    });
  };
  const ask = () => {
    props.value = JSON.stringify(asked);
    submit();
  };
  const changed = () => {
    const values = forms(),
      next = latest(values, shown);
    if (!values.length || values.map(key).join() === shown.map(key).join()) return false;
    [shown, asked, pause] = [values, next, AGAIN];
    ask();
    return true;
  };
  const later = (after) => {
    clearTimeout(timer);
    timer = setTimeout(changed, after);
  };
  watch("value", () => {
    const { loading } = parsed(props);
    if (!loading) return;
    draw(loading);
    clearTimeout(timer);
    if (loading.length) timer = setTimeout(() => changed() || ask(), pause);
    pause = Math.min(2 * pause, RARELY);
  });
  whenThere([BOARD, ".slot-form"], () => {
    later(SETTLED);
    for (const event of ["dx-form", "dx-filled"]) document.addEventListener(event, () => later(SOON));
  });
}
