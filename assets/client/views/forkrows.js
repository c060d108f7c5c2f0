// What may be changed at a cursor: the places of the answer, what may be done with each, and the line of one change in
// the panel for forks; the method's parameters, and the field of one.

import { el, select } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { share } from "./picking.js";

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

/** {likely, step}: tokens that were likely at a place, best first, and the step whose candidates they are, counted from
 * 1; null where none were recorded. */
export function likelyAt(run, t, { position, token, later }) {
  const steps = [token === null && later ? later.step : null, t, t - 1, run.written(position, t)?.step ?? null],
    step = steps.find((index) => index !== null && run.candidates(index, position, t)),
    known = step === undefined ? [] : run.candidates(step, position, t),
    first = token ?? later?.token,
    missing = first != null && !known.some((candidate) => candidate.token === first);
  return {
    likely: missing ? [{ token: first, probability: NaN }, ...known] : known,
    step: step === undefined ? null : step + 1,
  };
}

/** The line of one change. row: one of `rows`, {position, action, token, text}, written to by the line's fields. look:
 * gives a token's text. draw: draws the panel anew. */
export function rowLine(row, places, { run, t, rows, look, draw }) {
  const place = places.find(({ position }) => position === row.position),
    actions = actionsOf(run, t, rows, place),
    { likely, step } = likelyAt(run, t, place);
  if (!actions.some(([key]) => key === row.action)) row.action = actions[0]?.[0];
  const chance = (probability) => (Number.isNaN(probability) ? "" : `  ${share(probability)}`),
    tokens = likely.map(({ token, probability }) => [token, look(token) + chance(probability)]);
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
    typed = el("input", {
      ...{ type: "text", maxlength: 400, "aria-label": label, placeholder: tr`text, spaces count` },
      oninput: () => (row.text = typed.value),
    });
  typed.value = row.text;
  const drop = () => {
    rows.splice(rows.indexOf(row), 1);
    draw();
  };
  const leave = el("button", { "aria-label": tr`Leave position ${row.position} as it is`, onclick: drop }, "✕"),
    choice = row.action === "remask" ? [] : row.token === FREE ? [token, typed] : [token];
  return el("div", { class: "dx-fork-line", "data-position": row.position }, action, ...choice, leave);
}

/** The method that is at work after t steps, and its parameters. */
export function settings({ header }, t) {
  const { origin, edits = [] } = header;
  const made = edits.length || !origin?.edit ? edits : [{ after_step: origin.step - 1, edit: origin.edit }];
  let now = { method: header.method, params: header.params };
  for (const { edit } of made.filter(({ after_step }) => after_step < t))
    now = edit.method
      ? { method: edit.method, params: edit.params ?? {} }
      : { ...now, params: { ...now.params, ...edit.params } };
  return now;
}

/** The field of a parameter, as its declaration says. was: what holds unless it is changed. keep: gets a new value. */
export function paramField({ kind, name, symbol, choices, low, high, step, presets, help }, was, value, keep) {
  const onchange = ({ target }) => keep(target.value);
  let input;
  if (kind === "bool")
    input = el("input", { type: "checkbox", checked: value === true, onchange: () => keep(input.checked) });
  else if (kind === "choice")
    input = el("select", { onchange }, ...choices.map((choice) => el("option", { value: choice }, choice)));
  else if (kind === "code") input = el("textarea", { rows: 3, maxlength: 12000, spellcheck: "false", onchange });
  else if (kind === "text") input = el("input", { type: "text", maxlength: 2000, onchange });
  else {
    const number = ({ target }) => keep(target.value === "" ? was : Number(target.value));
    input = el("input", { type: "number", min: low, max: high, step: step ?? "any", onchange: number });
  }
  if (kind !== "bool") input.value = presets?.[value] ?? value;
  return el("label", { title: translated(help) }, el("span", {}, `${name}${symbol ? ` (${symbol})` : ""}`), input);
}
