// What may be changed at a cursor: the places of the answer, what may be done with each, and the line of one change in
// the panel for forks.

import { el, select } from "../player/dom.js";
import { tr } from "../player/words.js";
import { share } from "./details.js";

export const FREE = tr`type a text …`;

/** The positions of the answer that can be changed after t steps: {position, token (null: open), later}. */
export function placesOf(run, t) {
  const cells = run.board(t).slice(run.prompt.length),
    behind = run.prompt.length + cells.length;
  const places = cells.map(({ position, token }) => ({ position, token, later: null }));
  if (run.canvas === null)
    for (let position = behind; position < Math.max(run.widest, behind + 1); position++)
      places.push({ position, token: null });
  for (const place of places) {
    const writes = run.history[run.cell(place.position, t)] ?? [];
    place.later = writes.find(({ step, token }) => step >= t && token >= 0 && token !== run.mask) ?? null;
  }
  return places;
}

/** What may be done with a place, as [key, words]. A causal run takes nothing back but by forcing another token, and
 * leaves no gap: what stands before is open to change, or changed by one of the `rows`. */
export function actionsOf(run, t, rows, { position, token }) {
  const masked = run.canvas !== null,
    before = rows.some((row) => row.position === position - 1 && row.action === "force");
  const forced = masked || position <= run.board(t).length || before ? [["force", "force"]] : [];
  if (token === null) return [...forced, ["forbid", "forbid"]];
  const again = [
    ["remask", tr`mask again`],
    ["retry", tr`mask again, and forbid`],
  ];
  return masked ? [...forced, ...again] : forced;
}

/** Tokens that were likely at a place, best first. */
export function likelyAt(run, t, { position, token, later }) {
  const entry = run.written(position, t);
  const found =
    (token === null && later && run.candidates(later.step, position, t)) ||
    run.candidates(t, position, t) ||
    run.candidates(t - 1, position) ||
    (entry && run.candidates(entry.step, position, t)) ||
    [];
  const first = token ?? later?.token;
  if (first == null || found.some((c) => c.token === first)) return found;
  return [{ token: first, probability: NaN }, ...found];
}

/** The step whose candidates these are, counted from 1; null where none were recorded. */
export function stepOf(run, t, { position, token, later }) {
  const entry = run.written(position, t),
    steps = [token === null && later ? later.step : null, t, t - 1, entry?.step ?? null];
  const found = steps.find((step) => step !== null && run.candidates(step, position, t));
  return found === undefined ? null : found + 1;
}

/** The line of one change. row: {position, action, token, text}, written to by the line's fields. look: gives a token's
 * text. step: whose candidates they are. draw: draws the panel anew. drop: takes the change back. */
export function rowLine(row, { place, actions, likely, step }, look, draw, drop) {
  if (!actions.some(([key]) => key === row.action)) row.action = actions[0]?.[0];
  const chance = (probability) => (Number.isNaN(probability) ? "" : `  ${share(probability)}`);
  const tokens = likely.map(({ token, probability }) => [token, look(token) + chance(probability)]);
  tokens.push([FREE, FREE]);
  if (!tokens.some(([key]) => String(key) === String(row.token))) row.token = tokens[0][0];
  const action = select(tr`Position ${row.position}`, actions, row.action, (value) => {
    row.action = value;
    // What is there, or would be.
    if (value !== "force" && row.token !== FREE) row.token = place.token ?? place.later?.token ?? row.token;
    draw();
  });
  const token = select(step ? tr`token, as likely in step ${step}` : tr`token`, tokens, row.token, (value) => {
    row.token = value === FREE ? FREE : Number(value);
    draw();
  });
  const label = tr`Text for position ${row.position}`,
    typed = el("input", { type: "text", maxlength: 400, "aria-label": label, placeholder: tr`text, spaces count` });
  typed.addEventListener("input", () => (row.text = typed.value));
  typed.value = row.text;
  const leave = el("button", { "aria-label": tr`Leave position ${row.position} as it is`, onclick: drop }, "✕"),
    choice = row.action === "remask" ? [] : row.token === FREE ? [token, typed] : [token];
  return el("div", { class: "dx-fork-line", "data-position": row.position }, action, ...choice, leave);
}
