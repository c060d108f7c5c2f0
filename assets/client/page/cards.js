// A card of the chooser: what a method is, what it needs, what it promises and what was measured of it here.

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { langOf } from "./prose.js";

const KINDS = {
  causal: tr`a left-to-right model`,
  layered: tr`a left-to-right model whose layers can be run one by one`,
  masked: tr`a masked diffusion model`,
  block: tr`a block diffusion model`,
  canvas: tr`a canvas diffusion model`,
  moe: tr`a mixture of experts`,
  memory: tr`a model with memory layers`,
  split: tr`a mixture of experts whose layers come apart`,
  seq2seq: tr`an encoder-decoder`,
  reader: tr`a reader of word images`,
  scene: tr`a model that captions scenes`,
  "power-law": tr`a model with power-law attention`,
};
const BASES = {
  paper: tr`written from the paper's text`,
  code: tr`written from public code and the abstract`,
  abstract: tr`written from the abstract and secondary sources`,
  ours: tr`a design of our own, no paper's`,
};
const WORDS = {
  needs: tr`Needs`,
  text: tr`Text`,
  measured: tr`Measured here`,
  recorded: tr`Recorded`,
  nothing: tr`nothing trained, no second model`,
  second: (kinds) => tr`a second model: ${kinds}`,
  part: (names) => tr`a trained part: ${names}`,
  trains: (what) => tr`training: ${what}`,
  same: (control) => tr`the same as ${control}'s, in float32`,
  sameWith: (control, given) => tr`the same as ${control}'s, in float32, with ${given}`,
  other: (control) => tr`may differ from ${control}'s`,
  control: tr`it is a control: others are compared with it`,
  own: tr`its own; no control is declared`,
  study: tr`a study, no decoding method`,
  planned: tr`planned; it does not run here yet`,
  unmeasured: tr`not measured here`,
  more: tr`More of it`,
  play: tr`Play`,
  lesson: tr`Lesson`,
  try: tr`Try`,
  paper: tr`Paper`,
  departs: (what) => tr`Departs from the paper: ${what}`,
  missing: (what) => tr`Missing: ${what}`,
  command: tr`As a command:`,
  file: (name) => tr`your file ${name}`,
};

/** A title with what belongs to it: the phrase on what it rests on, and one's own file. */
export const nameOf = ({ title, own, file }) =>
  [title, own && `(${translated(own)})`, file && `(${WORDS.file(file)})`].filter(Boolean).join(" ");

const many = (entries) => entries.filter(Boolean).join("; ");

const prose = (tag, text) => el(tag, { translate: "no", lang: langOf(text) }, translated(text));

/** A label and the text behind it, which may be in another language. */
const named = (label, text) => [label(""), prose("span", text)];

/** What has to be at hand. */
export function needs({ method, paper, kind, beside, parts, trains }) {
  if (!method) return paper.state === "planned" ? WORDS.planned : WORDS.study;
  const kinds = (list) => list.map((one) => KINDS[one] ?? one).join(", ");
  return many([
    KINDS[kind] ?? kind,
    beside.length && WORDS.second(kinds(beside)),
    parts.length && WORDS.part(parts.join(", ")),
    trains && WORDS.trains(translated(trains)),
    !beside.length && !parts.length && !trains && WORDS.nothing,
  ]);
}

/** What it promises of its control's text. */
export function promise({ same, baseline, condition, isControl }) {
  if (!baseline) return isControl ? WORDS.control : WORDS.own;
  if (condition) return WORDS.sameWith(baseline, condition);
  return same ? WORDS.same(baseline) : WORDS.other(baseline);
}

const span = ({ span: ends }) => (ends.length ? ends.join(" – ") : "–");
const given = (text) => (text ? ` (${text})` : "");
const SAID = {
  timed: (r) => tr`${r.speed}× the tokens per second of ${r.control} (95 %: ${span(r)}), the median of ${r.classes} \
kinds of text; ${r.model}, ${r.tokens} new tokens, batch 1${given(r.given)}; the same text in ${r.same} of \
${r.prompts} prompts in ${r.dtype}; ${r.machine}`,
  swept: (r) => tr`${r.share} % of ${r.tried} held-out prompts right (95 %: ${span(r)}) in ${r.calls} model \
calls each${given(r.given)}; ${r.control}: ${r.base_share} % in ${r.base}; ${r.model}`,
  names: (r) => tr`${r.share} % of ${r.prompts} names at a dot exist (95 %: ${span(r)}); ${r.control}: \
${r.base} %; ${r.model}`,
  part: (r) =>
    r.prompts
      ? tr`tokens per model call on ${r.prompts} held-out prompts, ${r.part}: ${r.lines}`
      : tr`tokens per model call on held-out prompts, ${r.part}: ${r.lines}`,
  row: (r) => tr`${r.title}: ${r.lines}; ${r.where}`,
  table: (r) => tr`a table in Docs, Measured here: ${r.title}`,
};

/** A measured result in a sentence. */
export const measured = (result) => SAID[result.kind](result);

/** The same as an element: the row of a table is English, as the table is. */
const result = (tag, one) => el(tag, { translate: "no", lang: one.kind === "row" ? "en" : null }, measured(one));

function picture({ pictures = [] }) {
  const [src] = pictures;
  if (!src) return null;
  const image = { src: new URL(src, document.baseURI).href, alt: "", loading: "lazy", decoding: "async" };
  return el("div", { class: "card-pictures", "aria-hidden": "true" }, el("img", image));
}

/** What its recording took, which is a sentence of the server's, and on which models. */
const recorded = ({ cost, models }) =>
  el("span", {}, el("span", {}, cost), el("span", { translate: "no" }, `; ${models.join(" + ")}`));

function facts(entry, whole) {
  const own = (text) => el("span", { translate: "no" }, text), // is in the page's language, or is English prose
    line = (name, ...values) => [el("dt", {}, name), ...values.map((value) => el("dd", {}, value))];
  const results = entry.results.map((one) => result("span", one)),
    told = entry.method && (results.length ? results : entry.tools?.length ? [] : [own(WORDS.unmeasured)]);
  return el(
    "dl",
    {},
    ...line(WORDS.needs, own(needs(entry))),
    ...(entry.method ? line(WORDS.text, own(promise(entry))) : []),
    ...(told?.length ? line(WORDS.measured, ...told.slice(0, whole ? told.length : 1)) : []),
    ...(entry.cost ? line(WORDS.recorded, recorded(entry)) : []),
  );
}

function more(entry, whole) {
  const results = entry.results.slice(1).map((one) => result("span", one)),
    told = whole ? [] : results.map((node) => el("p", { translate: "no" }, `${WORDS.measured}: `, node));
  const said = [
    entry.departures && el("p", {}, WORDS.departs(translated(entry.departures))),
    entry.missing && el("p", { translate: "no" }, ...named(WORDS.missing, entry.missing)),
    entry.published && prose("p", entry.published),
    entry.tools?.length && el("p", {}, WORDS.command, " ", el("code", {}, entry.tools.join(" · "))),
  ].filter(Boolean);
  if (!told.length && !said.length) return null;
  return el("details", { open: whole }, el("summary", {}, WORDS.more), ...told, ...said);
}

function actions(entry, acts) {
  const { paper, play, lesson, runs = [], id, control } = entry,
    name = nameOf(entry);
  const button = (word, act) => el("button", { "aria-label": `${word}: ${name}`, onclick: act }, word);
  return el(
    "div",
    { class: "card-acts" },
    play.length ? button(WORDS.play, () => acts.play(play)) : null,
    lesson ? button(WORDS.lesson, () => acts.learn(lesson)) : null,
    runs.length ? button(WORDS.try, () => acts.try({ method: id, control, models: runs })) : null,
    paper?.address
      ? el(
          "a",
          {
            href: paper.address,
            target: "_blank",
            rel: "noopener noreferrer",
            "aria-label": `${WORDS.paper}: ${name}`,
          },
          WORDS.paper,
        )
      : null,
  );
}

/** A list item. acts: {play, learn, try}. whole: with everything that is known of it. title: its name as a link. */
export function card(entry, acts, whole, title) {
  const { paper, family, summary } = entry,
    origin = [
      paper && paper.name !== entry.title && paper.name,
      paper?.year && `${paper.year}, arXiv:${paper.arxiv}`,
      translated(family),
      paper?.basis && BASES[paper.basis],
    ];
  return el(
    "li",
    { class: "card", "data-id": entry.id },
    picture(entry),
    el("h3", {}, title),
    el("p", { class: "chooser-quiet" }, origin.filter(Boolean).join(" · ")),
    prose("p", summary),
    actions(entry, acts),
    facts(entry, whole),
    more(entry, whole),
  );
}
