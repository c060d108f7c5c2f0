// What a slot may hold, without a document: a slot's value is {method, model, params, row_invariant?}. The catalogue is
// what the server offers: {open, models: [{name, kind, label, tasks, kinds?, has?}], methods: [{slug, title, family,
// kind, needs?, wants?, summary, baseline?, lossless?, rank?, params}]}; wants and has are companions by role and
// trained parts, rank the place in the benchmarks that ship. A parameter is {name, kind, default, help, symbol?, low?,
// high?, step?, choices?, neutral?, source?, presets?}. The server checks every value again.
//
// Where the page is at home, a model may be "TARGET + DRAFTER": a published drafter beside it, in the place of one of
// the trained parts that a method names in `drafts`.

import { tr, translated } from "../player/words.js";

/** The declaration of a method; the first one where the slug is not offered. */
export const methodOf = (catalogue, slug) =>
  catalogue.methods.find((method) => method.slug === slug) ?? catalogue.methods[0];

/** [[family, methods]] in the order of the catalogue. */
export function families({ methods }) {
  const groups = new Map();
  for (const method of methods) {
    const name = method.family[0].toUpperCase() + method.family.slice(1);
    groups.set(name, [...(groups.get(name) ?? []), method]);
  }
  return [...groups];
}

const BESIDE = " + ";

/** A model's name in two: [target, drafter], the second "" where there is none. */
export function parted(model) {
  const at = model.indexOf(BESIDE);
  return at < 0 ? [model, ""] : [model.slice(0, at), model.slice(at + BESIDE.length)];
}

/** The name of a target with a drafter beside it. */
export const together = (target, drafter) => (drafter ? target + BESIDE + drafter : target);

/** The models that a method can run on; drafted: with a published drafter beside them. */
export const modelsFor = ({ models }, { kind, needs, wants = [], drafts = [] }, drafted = false) =>
  models.filter(
    (model) =>
      model.kind === kind &&
      (!needs || model.kinds?.includes(needs)) &&
      wants.every((beside) => model.has?.includes(beside) || (drafted && drafts.includes(beside))),
  );

/** The model of a slot that has this method: it stays if it fits, or if it is one that only the person knows. */
export function modelFor(catalogue, method, model) {
  const [target, given] = parted(model),
    drafter = catalogue.open && method.drafts ? given : "";
  const fitting = modelsFor(catalogue, method, Boolean(drafter));
  const unlisted = catalogue.open && target && !catalogue.models.some(({ name }) => name === target);
  if (unlisted || fitting.some(({ name }) => name === target)) return together(target, drafter);
  return fitting[0]?.name ?? "";
}

/** Whether a parameter can have that value: of its kind, in its range, among its choices. */
export function allows(param, value) {
  const { kind, low = -Infinity, high = Infinity, choices = [] } = param;
  if (kind === "bool") return typeof value === "boolean";
  if (kind === "text") return typeof value === "string";
  if (kind === "choice") return choices.includes(value);
  return typeof value === "number" && value >= low && value <= high && (kind === "float" || Number.isInteger(value));
}

/** The paper's values: {name: default}. */
export const defaults = ({ params }) => Object.fromEntries(params.map((param) => [param.name, param.default]));

/** Names of the parameters that are not at their default. */
export const changed = ({ params }, values) =>
  params.filter(({ name, default: usual }) => values[name] !== usual).map(({ name }) => name);

/** Row-invariant forwards as a parameter of the slot: null where its method runs other models, or strangers come. */
export const rows = ({ open }, { kind, needs }) =>
  open && kind === "causal" && (!needs || needs === "layered")
    ? {
        name: "row_invariant",
        kind: "bool",
        default: false,
        help: tr`Row-invariant forwards: a row's logits are the same to the bit whatever other rows are computed with it, \
so that a lossless method writes its control's text in bfloat16, too, where both have them. The receipt says what they \
cost.`,
      }
    : null;

/** The values after a change of method: what a person has set stays where the next method has a parameter of that name
    and allows the value; all others are at the next paper's default. */
export function carry(from, to, values) {
  const set = new Set(changed(from, values));
  const keeps = (param) => set.has(param.name) && allows(param, values[param.name]);
  return Object.fromEntries(to.params.map((param) => [param.name, keeps(param) ? values[param.name] : param.default]));
}

/** The first causal model that knows a task, else the first that is asked anything; "" where there is none. */
export function able({ models }, task = "") {
  const causal = models.filter(({ kind }) => kind === "causal");
  return (causal.find(({ tasks }) => tasks.includes(task)) ?? causal.find(({ tasks }) => !tasks.length))?.name ?? "";
}

/** The names of the models in these slots that know our own tasks only, and not this one ("": none of ours). */
export function lost({ models }, values, task = "") {
  const told = new Map(models.map(({ name, tasks }) => [name, tasks]));
  return [...new Set(values.map(({ model }) => model))].filter(
    (name) => told.get(name)?.length && !told.get(name).includes(task),
  );
}

/** The methods that run on a model. */
const fitting = (catalogue, model) =>
  catalogue.methods.filter((method) => modelsFor(catalogue, method).some(({ name }) => name === model));

const LENGTH = "max_new_tokens";

/** Slots that are compared may write equally much: the longest limit among those that a person changed, else among all.
    Calls for 48 tokens and for 64 say nothing side by side. */
export function equallyLong(catalogue, slots) {
  const declared = slots.map(({ method }) => methodOf(catalogue, method)),
    chosen = slots.filter(({ params }, n) => changed(declared[n], params).includes(LENGTH)),
    longest = Math.max(...(chosen.length ? chosen : slots).map(({ params }) => params[LENGTH] ?? 0));
  return slots.map((slot, n) => {
    const param = declared[n].params.find(({ name }) => name === LENGTH);
    return param && allows(param, longest) ? { ...slot, params: { ...slot.params, [LENGTH]: longest } } : slot;
  });
}

/** A fair comparison on one model in as many slots: a control, then lossless methods that have it, those of the slots
    first, then the fastest in the benchmarks that ship; all may write equally much. */
export function fair(catalogue, values, model) {
  const order = ({ rank = Infinity, wants = [] }) => [rank, wants.length],
    before = (a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] - b[0]),
    fits = fitting(catalogue, model),
    lossless = fits
      .filter(({ lossless: keeps, baseline }) => keeps && baseline)
      .sort((a, b) => before(order(a), order(b))),
    control = lossless[0]?.baseline ?? (fits.find(({ baseline }) => !baseline) ?? fits[0]).slug,
    able = lossless.filter(({ baseline }) => baseline === control).map(({ slug }) => slug),
    kept = values.filter(({ method }) => method === control || able.includes(method));
  const methods = [...new Set([control, ...kept.map(({ method }) => method), ...able])].slice(0, values.length),
    slots = methods.map((method) => {
      const known = kept.find((value) => value.method === method) ?? {};
      return complete(catalogue, { ...known, method, model });
    });
  return equallyLong(catalogue, slots);
}

/** The same slots on one model: as they are where all of their methods run there and a control stands first, else a
    fair comparison. */
export function instead(catalogue, values, model) {
  const fits = new Map(fitting(catalogue, model).map((method) => [method.slug, method])),
    first = fits.get(values[0]?.method);
  if (first && !first.baseline && values.every(({ method }) => fits.has(method)))
    return values.map((value) => ({ ...value, model }));
  return fair(catalogue, values, model);
}

/** A slot's value made complete: a method and a model that are offered, a value for every parameter, and no other. */
export function complete(catalogue, { method: slug, model = "", params = {}, row_invariant: wished = false } = {}) {
  const method = methodOf(catalogue, slug);
  const values = Object.fromEntries(method.params.map(({ name, default: usual }) => [name, params[name] ?? usual]));
  return {
    method: method.slug,
    model: modelFor(catalogue, method, model),
    params: values,
    ...(wished === true && rows(catalogue, method) ? { row_invariant: true } : {}),
  };
}

/** A value in words: on and off for a switch, quotes around a text. */
export function said(value) {
  if (typeof value === "boolean") return value ? tr`on` : tr`off`;
  return typeof value === "string" && (value === "" || /\s/.test(value)) ? JSON.stringify(value) : String(value);
}

/** The line under a parameter: its default and where that comes from, its range, and where it equals the baseline. */
export function hint({ default: usual, source, low, high, neutral = null, fair = null }, baseline) {
  const parts = [tr`default ${said(usual)}${source ? ` (${translated(source)})` : ""}`];
  if (low !== undefined && high !== undefined) parts.push(tr`${low} to ${high}`);
  if (neutral !== null && baseline) parts.push(tr`at ${said(neutral)} the same output as ${baseline}`);
  if (fair !== null && baseline)
    parts.push(tr`${said(fair)} to compare fairly with ${baseline}, which has no such rule`);
  return parts.join(" · ");
}

/** A slot in one line. */
export function summary(catalogue, value) {
  const method = methodOf(catalogue, value.method),
    count = changed(method, value.params).length;
  return [
    method.title,
    ...(method.own ? [translated(method.own)] : []),
    value.model || tr`no model`,
    ...(count ? [tr`${count} changed`] : []),
    ...(value.row_invariant ? [tr`row-invariant`] : []),
  ].join(" · ");
}
