// The address of what is shown, and the way back from it.

import { cursor } from "./clock.js";

/** {text}: what to show again, as a query; null if nothing is shown, {without} if a run has no id. shown: [{id, run,
 * axis}] by player; stood: whether to name the step. */
export function query(shown, { unit, x, stood }, lane) {
  if (!shown.length) return null;
  const without = shown.filter(({ id }) => !id).map(({ name }) => name);
  if (without.length) return { without };
  const lengths = shown.map(({ axis }) => axis.length),
    longest = lengths.indexOf(Math.max(...lengths));
  const inside = shown.findIndex(({ axis }) => axis.length > 1 && axis[axis.length - 1] >= x),
    lead = inside < 0 ? longest : inside;
  const ids = shown.map(({ id }) => id),
    kept = ids.some((id) => /^[0-9a-f]{16,64}$/.test(id));
  const parts = [[kept ? "run" : "gallery", ids.join(",")]];
  const step = stood && cursor(shown[lead].axis, x);
  if (step) parts.push(["step", step]);
  if (step && lead) parts.push(["of", lead + 1]);
  if (unit !== "steps") parts.push(["clock", unit]);
  if (lane) parts.push(["lane", lane]);
  return {
    text: parts.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`).join("&"),
  };
}

/** Puts players to where a link points. view: {clock?, step?, of?, lane?}. */
export function restore(view, panels, group) {
  if (view.clock) group.setUnit(view.clock);
  if (view.lane) for (const panel of panels) if (panel.run?.lanes.has(view.lane)) panel.context.setLane(view.lane);
  if (view.step !== undefined) panels[(view.of ?? 1) - 1]?.seek(view.step);
}
