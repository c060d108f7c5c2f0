// What is known about one position at one step: its token, why it was written, what else the model considered,
// every score.

import { el, rowOf } from "../player/dom.js";
import { glyphs, number, tr, translated } from "../player/words.js";

const WHOLE = 20000; // characters of a token that are shown in full

// Recorded in 254 steps, so the ends are bounds and not values.
export const share = (p) => (p < 0.002 ? "< 0.002" : p > 0.998 ? "> 0.998" : number(p));

/** Candidates as items of a list: a bar as long as the token is probable, the token, its probability. */
export const bars = (run, candidates, chosen) =>
  candidates.map(({ token, probability }) => {
    const width = `width:${Math.max(1, (Number.isNaN(probability) ? 0 : probability) * 100)}%`,
      bar = el("span", { class: "dx-bar", style: width }),
      code = el("code", {}, glyphs(run.piece(token).text));
    return el("li", { class: token === chosen ? "dx-chosen" : "" }, bar, code, el("span", {}, share(probability)));
  });

function scores(run, index, position, t) {
  const rows = [...run.lanes].flatMap(([name, { unit }]) => {
    const value = run.score(index, name, position, t),
      threshold = run.lane(index, name)?.threshold;
    return Number.isNaN(value)
      ? []
      : [rowOf(translated(name), number(value, unit), threshold == null ? "" : tr`threshold ${number(threshold)}`)];
  });
  return rows.length ? el("table", {}, ...rows) : null;
}

/** The elements of a details box for a cell of the board at cursor t. */
export function details(run, { position, token, state, entry }, t, theme) {
  const piece = token === null ? null : run.piece(token);
  const index = token !== null && entry ? entry.step : t - 1;
  const candidates = index >= 0 ? run.candidates(index, position, t) : null;
  const facts = [tr`position ${position}`, translated(theme.states[state].label)];
  if (token !== null && !run.missing.has("token_ids"))
    facts.push(tr`id ${piece.token ?? token}${piece.kind === "text" ? "" : ` (${piece.kind})`}`);
  if (entry) facts.push(tr`step ${entry.step + 1}`, tr`cause: ${translated(entry.cause)}`);
  if (entry?.probability != null) facts.push(tr`probability ${number(entry.probability)}`);
  const out = [
    el("code", "dx-whole", piece ? glyphs(piece.text, WHOLE) : theme.states.masked.glyph),
    el("p", {}, facts.join(" · ")),
  ];
  if (token !== null && !entry) out.push(el("p", "dx-none", tr`Part of the prompt.`));
  else if (index < 0) out.push(el("p", "dx-none", tr`The run has not begun.`));
  else {
    const table = scores(run, index, position, t),
      list = { class: "dx-bars", "aria-label": tr`Most likely tokens` },
      none = tr`No candidates recorded at this step.`;
    out.push(
      el("h4", {}, tr`Candidates in step ${index + 1}`),
      candidates ? el("ol", list, ...bars(run, candidates, token)) : el("p", "dx-none", none),
    );
    if (table) out.push(el("h4", {}, tr`Scores in step ${index + 1}`), table);
  }
  return out;
}
