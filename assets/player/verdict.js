// What finished runs of one prompt say when held against each other: same text or not, tokens per second as a
// multiple, drafts that were accepted, target calls. Each part has the facts of its receipt. No DOM.

import { besides, many as counted } from "./counted.js";
import { main, nameOf, place } from "./field.js";
import { tooBusy } from "./noise.js";
import { difference } from "./race.js";
import { compose, fill, lost, numbers } from "./receipt.js";
import { tr } from "./words.js";

const percent = (share) => `${Math.round(100 * share)} %`;
const times = (ratio) => `${ratio.toFixed(ratio < 0.95 ? 2 : 1)}×`;
const many = (n, what) => counted(n, what, n.toLocaleString("en"));

export const WORDS = {
  waits: tr`The verdict comes when all runs were shown to their end.`,
  same: (name) => tr`same text as ${name}`,
  far: (name) => tr`same text as ${name} as far as both go`,
  respelled: (name) => tr`same text as ${name}, in other tokens`,
  differs: (name, n, unit) =>
    n ? tr`text differs from ${name} after ${many(n, unit)}` : tr`another text than ${name}`,
  busy: tr`this machine was too busy to tell the speed`,
  speed: (ratio, apart) => tr`${times(ratio)} tokens/s${apart ? tr` on another model` : ""}`,
  drafts: (share) => tr`${percent(share)} of drafts accepted`,
  calls: (n, alone, other) =>
    `${many(n, alone ? "alone" : "target")}${other === null || other === n ? "" : tr` instead of ${other}`}`,
  beside: (n, what) => tr`${many(n, what)} beside`,
};
const TEXT = {
  label: tr`Text`,
  formula: tr`the emitted ids of both runs before their first end mark, held against each other in order`,
  spelled: tr`the texts of both runs, character by character, since their models have other tokenizers`,
};
const SPEED = {
  label: (name) => tr`Tokens per second over those of ${name}`,
  formula: tr`tokens per second of this run ÷ tokens per second of the other; each is tokens ÷ (model time + method \
time) of the whole run`,
  terms: (name) => tr`{gained} ÷ ({model_seconds} + {method_seconds}) here, divided by OTHER in ${name}`,
  other: tr`{gained} ÷ ({model_seconds} + {method_seconds})`,
  note: tr`the reading of the prompt is inside; warm-up, recording and drawing are left out. One run of each on the \
machine below: no benchmark`,
  apart: tr`The two runs have other models, so the method is not all that differs`,
  busy: tr`no ratio: single steps took far longer than the others of their run, other programs had the processor for \
much of the calls, or the ratio is more than the calls and the work of the two runs explain. Run both again on a quiet \
machine, or use decoding-explorer bench, which repeats`,
};
const DRAFTS = {
  label: tr`Acceptance rate`,
  formula: tr`Σ accepted ÷ Σ drafted nodes`,
  note: tr`over the steps that verified a draft tree; the root row is no drafted node`,
};
const CALLS = {
  target: {
    label: (alone) => (alone ? tr`Model calls` : tr`Target calls`),
    formula: tr`calls of the chosen model; a batch of alternatives in one call is one call`,
    terms: (name) => tr`{roles}; in ${name} OTHER`,
  },
  draft: {
    label: tr`Draft calls`,
    formula: tr`calls of all other models of the run: a draft, a small model, an encoder`,
    note: tr`a draft call costs less than a target call, so they are never added up; the work in layer-rows has both`,
  },
};

/** Accepted and drafted nodes over all steps of a run; null where it verified no drafts. */
export function drafts(run) {
  const trees = run.steps.map(({ tree }) => tree).filter(Boolean),
    drafted = trees.reduce((n, { parents }) => n + parents.length - 1, 0),
    accepted = trees.reduce((n, { why }) => n + why.filter((fate) => fate === "accepted").length, 0);
  return drafted ? { accepted, drafted } : null;
}

const rate = ({ gained, model_seconds, method_seconds }) =>
  model_seconds === null || !gained ? null : gained / (model_seconds + method_seconds);

/** The parts of the verdict on a run: {text, name, receipt(): the receipt of the part}. */
export function verdict(run, basis) {
  const [here, there] = [run, basis].map((one) => numbers(one, one.length)),
    name = nameOf(basis),
    sheet = (facts) => () => compose({ at: "", ...facts }, here, run.header);
  return [text(run, basis, name, sheet), speed(here, there, run, basis, sheet), accepted(run, sheet)]
    .concat(calls(run, here, there, name, sheet))
    .filter(Boolean);
}

function text(run, basis, name, sheet) {
  const { unit, at, count, limited, respelled } = difference(run, basis),
    same = at === null;
  const words = respelled
    ? WORDS.respelled(name)
    : same
      ? WORDS[limited ? "far" : "same"](name)
      : WORDS.differs(name, at, unit);
  return {
    text: words,
    name: "text",
    receipt: sheet({
      label: TEXT.label,
      kind: "derived",
      value: words,
      formula: unit === "token" ? TEXT.formula : TEXT.spelled,
      terms: tr`${many(same ? count : at, unit)} are the same`,
    }),
  };
}

function speed(here, there, run, basis, sheet) {
  const [mine, theirs] = [rate(here), rate(there)];
  if (!mine || !theirs || !Number.isFinite(mine / theirs) || place(run) !== place(basis)) return null;
  const value = `${(mine / theirs).toFixed(2)}×`,
    apart = main(run) !== main(basis);
  if (tooBusy(run, basis, apart))
    return {
      text: WORDS.busy,
      name: "busy",
      value: null,
      receipt: sheet({
        label: SPEED.label(nameOf(basis)),
        kind: "derived",
        value: "–",
        formula: SPEED.formula,
        terms: "",
        note: SPEED.busy,
      }),
    };
  return {
    text: WORDS.speed(mine / theirs, apart),
    name: "speed",
    value: mine / theirs,
    receipt: sheet({
      label: SPEED.label(nameOf(basis)),
      kind: "derived",
      value,
      formula: SPEED.formula,
      terms: fill(SPEED.terms(nameOf(basis)), here).replace("OTHER", fill(SPEED.other, there)),
      counts: ["gained", "time"],
      note: apart ? `${SPEED.note}. ${SPEED.apart}` : SPEED.note,
    }),
  };
}

function accepted(run, sheet) {
  const found = drafts(run);
  if (!found) return null;
  const share = found.accepted / found.drafted;
  return {
    text: WORDS.drafts(share),
    name: "drafts",
    value: share,
    receipt: sheet({
      ...DRAFTS,
      kind: "derived",
      value: `${(100 * share).toFixed(1)} %`,
      terms: `${found.accepted} ÷ ${found.drafted}`,
    }),
  };
}

/** The target's calls first. */
function calls(run, here, there, name, sheet) {
  if (lost("target_calls", run).length) return [];
  const alone = !here.draft_calls,
    { target, draft } = CALLS,
    n = WORDS.calls(here.target_calls, alone, there.target_calls);
  const other = there.target_calls === null ? tr`not recorded` : String(there.target_calls);
  return [
    {
      text: n,
      name: "calls",
      value: here.target_calls,
      receipt: sheet({
        label: target.label(alone),
        kind: "measured",
        value: String(here.target_calls),
        formula: target.formula,
        terms: fill(target.terms(name), here).replace("OTHER", other),
        counts: ["calls"],
      }),
    },
    !alone && {
      text: WORDS.beside(here.draft_calls, besides(run)),
      name: "draft",
      value: here.draft_calls,
      receipt: sheet({ ...draft, kind: "measured", value: String(here.draft_calls), terms: fill("{roles}", here) }),
    },
  ];
}
