// The verdict above the players: what finished runs of one prompt say when they are held against each other. Nothing of
// it is told before all of them were shown to their end.

import { el, pool, setText } from "../player/dom.js";
import { apart, field, nameOf, pairOf } from "../player/field.js";
import { compose, DEFINITIONS, fill, lost, numbers } from "../player/receipt.js";
import { besides, many as counted, tr, translated } from "../player/words.js";
import { figure } from "./receipt.js";

export const view = { title: "", place: "toolbar", needs: [] };

const EVENTS = ["dx-seen", "dx-pairs"];

export class Verdict {
  constructor(group) {
    Object.assign(this, { group, known: [] });
    this.root = el("div", { class: "dx-verdict dx-below", role: "region", "aria-label": tr`Verdict`, hidden: true });
    this.told = () => this.update();
    for (const event of EVENTS) document.addEventListener(event, this.told);
  }

  destroy() {
    for (const event of EVENTS) document.removeEventListener(event, this.told);
  }

  /** Called after every move of the clock. */
  update(hurry) {
    if (hurry) return;
    const { runners } = this.group,
      known = [globalThis.dxMeasured];
    for (const { run, seen } of runners) known.push(run, Boolean(run.end && seen));
    for (const { run } of runners) known.push(...runners.map((other) => pairOf(run, other.run)));
    if (known.length === this.known.length && known.every((part, i) => part === this.known[i])) return;
    this.known = known;
    const runs = runners.map(({ run }) => run),
      found = field(runs);
    for (const { run, head } of runners) head.apart(apart(run, runs));
    this.root.hidden = !found;
    if (!found) return;
    const all = [found.basis, ...found.others],
      shown = runners.every(({ run, seen }) => !all.includes(run) || (run.end && seen)),
      ready = shown && found.others.every((run) => pairOf(run, found.basis));
    this.root.toggleAttribute("data-ready", ready);
    const mark = (name, value) => name === "check" && (value ? "right" : "wrong"),
      part = ({ text, name, value, receipt }) =>
        figure(text, receipt, { "data-part": name, "data-mark": mark(name, value) });
    // one line for each run that is held against another, told or not: the players below do not move
    pool(this.root, found.others.length, () => el("p")).forEach((line, i) => {
      if (!ready) return void setText(line, i ? "\u00a0" : WORDS.waits);
      const run = found.others[i],
        place = runners.find((runner) => runner.run === run).slot + 1;
      line.replaceChildren(el("strong", {}, `${place} ${nameOf(run, all)}: `), ...verdict(run, found.basis).map(part));
    });
  }
}

const percent = (share) => `${Math.round(100 * share)} %`;
const times = (ratio) => `${ratio.toFixed(ratio < 0.95 ? 2 : 1)}×`;
const many = (n, what) => counted(n, what, n.toLocaleString("en"));

export const WORDS = { waits: tr`The verdict comes when all runs were shown to their end.` };

/** What is said of a number of DEFINITIONS, in the reader's language. */
const words = (name) => {
  const { label, formula, note = "", kind = "measured" } = DEFINITIONS[name];
  return { label: translated(label), formula: translated(formula), note: translated(note), kind };
};

/** Whether the page shows a verdict on this run against this control that was measured in repeats, with the model, its
 * options and the parameters that both have here: {prompt, model, options, control, params by method}. */
export function judged(run, basis) {
  const { prompt, model, options, control, params } = globalThis.dxMeasured ?? {};
  const same = (a = {}, b = {}) => JSON.stringify(a) === JSON.stringify(b);
  return (
    basis.header.method === control &&
    [run, basis].every(
      ({ header }) =>
        header.prompt === prompt &&
        header.models?.[0]?.name === model &&
        same(header.models[0].options, options) &&
        same(header.params, params[header.method]),
    )
  );
}

/** The parts of the verdict on a run: {text, name, value, receipt(): the receipt of the part}. */
export function verdict(run, basis) {
  const [here, there] = [run, basis].map((one) => numbers(one, one.length)),
    name = nameOf(basis, [run]),
    pair = pairOf(run, basis),
    { limited } = pair.difference,
    part = (what, text, value, facts) => ({
      ...{ text, name: what, value },
      receipt: () => compose({ at: "", value: text, ...facts }, here, run.header),
    });
  return [
    mark(run, part),
    textual(pair.difference, name, part),
    speed(here, there, run, basis, pair, name, part),
    accepted(run, part),
    ...calls(run, here, there, name, part, limited),
    limited ? null : ending(pair, name, part),
  ].filter(Boolean);
}

/** Right or wrong by the task's exact check, before anything else is praised. */
function mark({ verdict: checked }, part) {
  if (!checked) return null;
  const { right, expected } = checked;
  return part("check", right ? tr`✓ right` : tr`✗ wrong`, right, {
    label: tr`Answer`,
    kind: "derived",
    formula: tr`the task's exact check of the text`,
    terms: right ? "" : tr`expected: ${expected}`,
  });
}

function textual({ unit, at, count, limited, respelled }, name, part) {
  const same = limited ? tr`same text as ${name} as far as both go` : tr`same text as ${name}`,
    differs = at ? tr`text differs from ${name} after ${many(at, unit)}` : tr`another text than ${name}`,
    said = respelled ? tr`same text as ${name}, in other tokens` : at === null ? same : differs,
    terms = tr`${many(at ?? count, unit)} are the same`;
  return part("text", said, undefined, { ...words(`same_${unit}s`), terms });
}

function speed(here, there, run, basis, pair, name, part) {
  const { speed: ratio } = pair;
  if (!ratio) return null;
  const facts = { ...words("speed"), label: tr`Tokens per second over those of ${name}`, value: "–" };
  if (judged(run, basis)) {
    const note = tr`seconds of single runs decide nothing; the verdict above is from repeated runs`;
    return part("judged", tr`speed: measured above, in repeated runs`, null, { ...facts, note });
  }
  const { label, formula } = words("too_busy");
  if (pair.busy) return part("busy", label, null, { ...facts, note: formula });
  const { terms } = DEFINITIONS.tokens_per_second,
    apart = tr`The two runs have other models, so the method is not all that differs`,
    said = tr`${times(ratio)} tokens/s in one run${pair.model ? "" : tr` on another model`}`;
  return part("speed", said, ratio, {
    ...facts,
    value: `${ratio.toFixed(2)}×`,
    terms: tr`${fill(terms, here)} here, divided by ${fill(terms, there)} in ${name}`,
    counts: ["gained", "time"],
    note: pair.model ? facts.note : `${facts.note}. ${apart}`,
  });
}

function accepted(run, part) {
  if (!run.figures.drafts) return null;
  const [kept, drafted] = run.figures.drafts,
    share = kept / drafted,
    facts = { value: `${(100 * share).toFixed(1)} %`, terms: `${kept} ÷ ${drafted}` };
  return part("drafts", tr`${percent(share)} of drafts accepted`, share, {
    ...words("acceptance_rate_of_drafted"),
    ...facts,
  });
}

/** The target's first; against the other run's only where both wrote all that they would: fewer tokens need fewer
    calls. */
function calls(run, here, there, name, part, limited) {
  if (lost("target_calls", run).length) return [];
  const { target_calls: own, draft_calls: beside, roles } = here,
    theirs = there.target_calls,
    target = words("target_calls"),
    compared = limited || theirs === null || theirs === own ? "" : tr` instead of ${theirs}`;
  const first = part("calls", many(own, "target") + compared, own, {
    ...target,
    label: beside ? target.label : tr`Model calls`,
    value: String(own),
    terms: tr`${roles}; in ${name} ${theirs === null ? tr`not recorded` : String(theirs)}`,
    counts: ["calls"],
  });
  if (!beside) return [first];
  const note = tr`a draft's call costs less than the target's, so they are never added up; the work in layer-rows has \
both`,
    facts = { ...words("draft_calls"), value: String(beside), terms: roles, note };
  return [first, part("draft", tr`${many(beside, besides(run))} beside`, beside, facts)];
}

/** What a rule for the end saved of the calls: the method must not be credited with it. */
function ending({ end }, name, part) {
  if (!end) return null;
  const [after, all] = end;
  return part("end", tr`its rule for the end, not the method, saves ${after} of these`, after, {
    label: tr`Model calls of the control after its end`,
    kind: "derived",
    value: String(after),
    formula: tr`calls of the control whose step came when everything up to its first end mark was written`,
    terms: tr`${after} of the ${all} of ${name}`,
    note: tr`this run filled the rest of its board by such a rule, the control has none; off, the pair differs in the \
method alone`,
  });
}
