// The controls take the settings of runs that were opened. These are found after the runs are shown, and what a person
// has chosen meanwhile stays as it is.

const CONTROLS = ["prompt", "seed", "count", "slot-0", "slot-1", "slot-2", "slot-3"]; // in the order of the server
const LIVE = '#players :is([data-state="live"], [data-state="queued"])'; // runs that nobody has opened
const chosen = new Set(); // since runs were opened

/** A control was changed: by a person, or by what a person has asked for. */
export const chose = (id) => chosen.add(id);

/** The values of the controls, now `now`: those of the runs that were opened, null where they have none. */
globalThis.dxFill = (filled, now) => now.map((value, at) => (chosen.has(CONTROLS[at]) ? value : (filled[at] ?? value)));

document.addEventListener("dx-runs", () => document.querySelector(LIVE) || chosen.clear());
document.addEventListener("input", ({ target }) => chose(CONTROLS.find((id) => target.closest?.(`#${id}`))), true);
