// How a number was obtained, as rows of words: the formula with this run's numbers put in, what was counted, and the
// conditions. No DOM.

import { tr, translated } from "./words.js";

// What numbers are called and how they are obtained, as the page was given it: explorer/figures/definitions.py.
const { COUNTED, KINDS, LOST } = globalThis.dxDefinitions;
export const DEFINITIONS = globalThis.dxDefinitions.DEFINITIONS;

/** A number as a receipt writes it, as in explorer/figures/definitions.py. */
export function shown(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  return name.endsWith("_seconds") ? `${value.toFixed(6)} s` : value.toLocaleString("en");
}

/** A formula with its numbers; "" where one of them was not recorded, since the others do not give its value. */
export const fill = (terms, numbers) =>
  [...terms.matchAll(/\{(\w+)\}/g)].some(([, name]) => numbers[name] === null)
    ? ""
    : terms.replace(/\{(\w+)\}/g, (_, name) => shown(name, numbers[name]));

/** The fields that a number needs (its own if nothing else is said) and the record of the run does not hold. */
export const lost = (name, { missing, header }) =>
  (DEFINITIONS[name].needs ?? [name]).filter(
    (field) => missing.has(field) && !(header.arrivals && field === "method_seconds" && name !== field),
  );

/** What a number of this run is called: an answer that a server sent has no time in calls, only one until it came. */
export const meant = (name, { header }) => (header.arrivals && name === "model_seconds" ? "waiting_seconds" : name);

const byRole = (counts, between) =>
  Object.entries(counts)
    .map(([role, n]) => `${role} ${n.toLocaleString("en")}`)
    .join(between) || "0";

/** What formulas and counts are filled with after t steps. */
export function numbers(run, t) {
  const { forwards, others, roles, work, layers, fed, model, method } = run.sums[t],
    first = run.prompt.length,
    tokens = run.tokens(t),
    counted = ["masks", "end_tokens", "padding", "bonus", "corrections"].map((name) => [name, run.count(name, t)]);
  const all = {
    steps: t,
    target_calls: forwards,
    draft_calls: others,
    roles: byRole(roles, ", "),
    work,
    work_roles: byRole(layers, " + "),
    tokens_fed: fed,
    tokens,
    gained: run.gained(t) ?? tokens,
    ids: run.end && t === run.length ? run.end.output_ids.length : run.widths[t] - first,
    prompt: first,
    ...Object.fromEntries(counted),
    model_seconds: model,
    method_seconds: method,
    record_seconds: run.end?.record_seconds ?? null,
    warmup_seconds: run.header.warmup_seconds ?? 0,
  };
  for (const field of run.missing) for (const name of LOST[field] ?? [field]) if (name in all) all[name] = null;
  return all;
}

/** The tokens that stand after t steps, by what became of them, and those that were still missing; null while that is
 * not known. */
export const later = (run, t) =>
  Object.fromEntries(
    ["remasked", "changed", "cut", "behind", "missing"].map((name) => [
      name,
      run.figures.key ? run.count(name, t, run.figures.later) : null,
    ]),
  );

/** The numbers with what became of the tokens. */
export function racing(run, t) {
  const known = later(run, t),
    final = run.tokens(run.length);
  return { ...numbers(run, t), ...known, final, kept: known.missing === null ? null : final - known.missing };
}

const said = (without, header) =>
  tr`not in ${header.imported_from ?? tr`the record of this run`}: ${without.join(", ").replaceAll("_", " ")}`;

/** A receipt of one of the player's own numbers; `at`: where it was taken, in words; `title`: what it is called where
 * that is not its usual name. */
export function receipt(number, value, run, known, at, title) {
  const name = meant(number, run),
    { kind = "measured", counts = [], ...words } = DEFINITIONS[name],
    [label, formula, terms, note] = [title ?? words.label, words.formula, words.terms ?? "", words.note ?? ""].map(
      translated,
    ),
    without = lost(name, run);
  const facts = without.length
    ? { value: tr`not recorded`, note: said(without, run.header) }
    : { value, terms: fill(terms, known), counts, note };
  return compose({ label, kind, formula, at, ...facts }, known, run.header);
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

export const ofModel = ({ name, parameters, dtype, device = "cpu", threads = 1, options }) =>
  [
    name,
    parameters && tr`${COMPACT.format(parameters)} parameters`,
    dtype,
    device,
    threads && tr`${threads} thread${threads > 1 ? "s" : ""}`,
    options?.row_invariant && tr`row-invariant`,
  ]
    .filter(Boolean)
    .join(", ");

const modelRow = (m) => [
  tr`model (${m.role})`,
  tr`${ofModel(m)}${m.revision ? tr`, revision ${m.revision}` : ""}; weights sha256 ${m.sha256 || tr`not recorded`}`,
];

/** {title, kind, about, sections: [[heading, rows of [name, text]]]} from the facts of a number, the numbers of its run
 * and the run's header. */
export function compose({ label, kind, value, formula, terms = "", counts = [], note = "", at = "" }, known, header) {
  const how = [
    [tr`formula`, formula],
    ...(terms ? [[tr`here`, `${terms}${/[−÷+×]/.test(terms) ? ` = ${value}` : ""}`]] : []),
    ...(at ? [[tr`taken`, at]] : []),
    ...(note ? [[tr`holds`, note]] : []),
  ];
  const several = known.gained !== known.tokens, // amounts are of the answer, and the number is of all samples
    partly = (group, name) => (several && group === "gained" && name !== "prompt" ? "" : name),
    each = counts.flatMap((group) => COUNTED[group].map(([what, name, yes]) => [what, partly(group, name), yes])),
    amount = (name) => (name ? `; ${shown(name, known[name])} ${at ? tr`so far` : tr`in this run`}` : ""),
    counted = [...new Map(each.map((row) => [row[0], row])).values()].map(([what, name, yes]) => [
      translated(what),
      `${yes ? tr`✓ counted` : tr`✗ not counted`}${amount(name)}`,
    ]);
  return {
    title: `${label}: ${value}`,
    kind,
    about: translated(KINDS[kind]),
    sections: [
      [tr`How`, how],
      ...(counted.length ? [[tr`What is counted`, counted]] : []),
      [tr`Under which conditions`, conditions(header)],
    ],
  };
}

function conditions({ models = [], versions = {}, warmup_seconds = 0, params = {}, missing = [], ...header }) {
  const { machine, seed, detail, started_at } = header,
    held = (field, text) => (missing.includes(field) ? tr`not recorded` : text),
    listed = (all) =>
      Object.entries(all)
        .map(([name, value]) => `${name} ${value}`)
        .join(", ");
  return [
    ...models.map(modelRow),
    [tr`machine`, machine],
    [tr`seed`, held("seed", String(seed))],
    [tr`batch`, "1"],
    [tr`warm-up`, held("warmup_seconds", tr`${shown("_seconds", warmup_seconds)}, not counted`)],
    [tr`recorded`, tr`${started_at}, at detail ‘${detail}’`],
    [tr`parameters`, held("params", listed(params) || tr`none`)],
    [tr`libraries`, listed(versions) || tr`not recorded`],
  ];
}
