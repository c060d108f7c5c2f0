// The table of a race that is frozen at a budget: what each run has by then.

import { el, rowOf } from "../player/dom.js";
import { nameOf } from "../player/field.js";
import { later, lost, racing, receipt } from "../player/receipt.js";
import { besides, many, number, seconds, tr, translated } from "../player/words.js";
import { figure } from "./receipt.js";

export const WORDS = {
  steps: tr`steps`,
  forwards: tr`model calls`,
  seconds: tr`seconds`,
  work: tr`layer-rows`,
};
export const NOT = tr`not recorded`;
export const SLACK = 1e-6; // a step that exactly fits a budget is inside it
const ONCE = "at once"; // the key of the spells in which two models computed
const HEAD = [tr`Run`, tr`Tokens`, tr`of these revised later`, tr`Still missing`, tr`Model calls`, tr`Seconds`];

// The run does not say where its steps lie on this clock.
export const untimed = (run, unit) => run.length > 0 && run.axes[unit].length < 2;
export const amount = (unit, x) => (unit === "seconds" ? seconds(x) : number(Math.floor(x + SLACK)));

/** How many of the tokens were taken away later, and how. */
function revisions({ remasked, changed, cut, behind }) {
  const way = (count, name) => (count ? [`${count} ${name}`] : []),
    ways = [...way(remasked, tr`re-masked`), ...way(changed, tr`changed`), ...way(cut, tr`cut off`)],
    how = ways.join(", "),
    n = remasked + changed + cut;
  return `${n}${n ? ` (${how})` : ""}${behind ? tr`; ${behind} after a later end mark` : ""}`;
}

/** Head and body of the table, for the players of a group at its place of the clock. */
export function standings({ unit, x, runners }) {
  const runs = runners.map(({ run }) => run);
  const rows = runners.map(({ run, slot, t }) => {
      const { forwards, model, method } = run.sums[t],
        here = later(run, t),
        known = Boolean(run.figures.key),
        stopped = run.end && run.end.reason !== "complete" ? tr` of a run that is ${run.end.reason}` : "",
        place = `${amount(unit, x)} ${unit === "seconds" ? tr`of the clock` : WORDS[unit]}`,
        at = tr`at ${place}: after step ${t} of ${run.length}`;
      const cell = (name, text, value = text) => {
        const made = () => receipt(name, value, run, racing(run, t), at);
        return untimed(run, unit) ? NOT : figure(lost(name, run).length ? NOT : text, made);
      };
      return rowOf(
        `${slot + 1} ${nameOf(run, runs)}`,
        cell("tokens", number(run.tokens(t))),
        cell("revised", ...(known ? [revisions(here), number(here.remasked + here.changed + here.cut)] : ["–"])),
        cell("missing", known ? `${here.missing}${stopped}` : "–"),
        cell("target_calls", number(forwards)),
        cell("busy_seconds", seconds(model + method)),
      );
    }),
    head = HEAD.map((text) => el("th", { scope: "col" }, text));
  return [el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)];
}

/** What is drawn below the tokens of a lane: on the clock of seconds when each model computed, on that of model calls
 * the calls of the other models in each stretch of it, as high as they are many. */
export function below(run, unit) {
  if (unit === "seconds") {
    const { [ONCE]: once = [], ...tracks } = run.figures.work;
    if (Object.keys(tracks).length < 2) return [];
    return Object.entries({ ...tracks, [ONCE]: once }).map(([track, spells]) => ({
      spells,
      said: `${translated(track)} ${seconds(spells.reduce((sum, [a, b]) => sum + b - a, 0))}`,
    }));
  }
  const calls = run.sums.slice(1).map(({ others }, t) => others - run.sums[t].others),
    most = Math.max(...calls);
  if (unit !== "forwards" || !(most > 0)) return [];
  const axis = run.axes.forwards;
  const spells = calls.map((n, t) => [axis[t], axis[t + 1], n / most]).filter(([, , part]) => part);
  return [{ spells, said: `+ ${many(run.sums.at(-1).others, besides(run))}` }];
}
