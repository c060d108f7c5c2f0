// A card of the chooser: what a method is, what it needs, what it promises and what was measured of it here.

import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { outward } from "./dom.js";
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
const MEASURED = tr`Measured here`,
  PAPER = tr`Paper`;

/** A title with what belongs to it: the phrase on what it rests on, and one's own file. */
export const nameOf = ({ title, own, file }) =>
  [title, own && `(${translated(own)})`, file && `(${tr`your file ${file}`})`].filter(Boolean).join(" ");

const many = (entries) => entries.filter(Boolean).join("; ");

const prose = (tag, text) => el(tag, { translate: "no", lang: langOf(text) }, translated(text));

/** What has to be at hand. */
export function needs({ method, paper, kind, beside, parts, trains }) {
  if (!method)
    return paper.state === "planned" ? tr`planned; it does not run here yet` : tr`a study, no decoding method`;
  const kinds = (list) => list.map((one) => KINDS[one] ?? one).join(", ");
  return many([
    KINDS[kind] ?? kind,
    beside.length && tr`a second model: ${kinds(beside)}`,
    parts.length && tr`a trained part: ${parts.join(", ")}`,
    trains && tr`training: ${translated(trains)}`,
    !beside.length && !parts.length && !trains && tr`nothing trained, no second model`,
  ]);
}

/** What it promises of its control's text. */
export function promise({ same, baseline, condition, isControl }) {
  if (!baseline)
    return isControl ? tr`it is a control: others are compared with it` : tr`its own; no control is declared`;
  if (condition) return tr`the same as ${baseline}'s, in float32, with ${condition}`;
  return same ? tr`the same as ${baseline}'s, in float32` : tr`may differ from ${baseline}'s`;
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

/** The pictures of a card; null where it has none. */
export function picturesOf(pictures) {
  if (!pictures.length) return null;
  const images = pictures.map((src) =>
    el("img", { src: new URL(src, document.baseURI).href, alt: "", loading: "lazy", decoding: "async" }),
  );
  return el("div", { class: "card-pictures", "aria-hidden": "true" }, ...images);
}

/** What its recording took, which is a sentence of the server's, and on which models. */
const recorded = ({ cost, models }) =>
  el("span", {}, el("span", {}, cost), el("span", { translate: "no" }, `; ${models.join(" + ")}`));

function facts(entry, whole) {
  const own = (text) => el("span", { translate: "no" }, text), // is in the page's language, or is English prose
    line = (name, ...values) => [el("dt", {}, name), ...values.map((value) => el("dd", {}, value))];
  const results = entry.results.map((one) => result("span", one)),
    told = entry.method && (results.length ? results : entry.tools?.length ? [] : [own(tr`not measured here`)]);
  return el(
    "dl",
    {},
    ...line(tr`Needs`, own(needs(entry))),
    ...(entry.method ? line(tr`Text`, own(promise(entry))) : []),
    ...(told?.length ? line(MEASURED, ...told.slice(0, whole ? told.length : 1)) : []),
    ...(entry.cost ? line(tr`Recorded`, recorded(entry)) : []),
  );
}

function more(entry, whole) {
  const results = entry.results.slice(1).map((one) => result("span", one)),
    told = whole ? [] : results.map((node) => el("p", { translate: "no" }, `${MEASURED}: `, node));
  const said = [
    entry.departures && el("p", {}, tr`Departs from the paper: ${translated(entry.departures)}`),
    entry.missing && el("p", { translate: "no" }, tr`Missing: ${""}`, prose("span", entry.missing)),
    entry.published && prose("p", entry.published),
    entry.tools?.length && el("p", {}, tr`As a command:`, " ", el("code", {}, entry.tools.join(" · "))),
  ].filter(Boolean);
  if (!told.length && !said.length) return null;
  return el("details", { open: whole }, el("summary", {}, tr`More of it`), ...told, ...said);
}

function actions(entry, acts) {
  const { paper, play, lesson, runs = [], id, control } = entry,
    name = nameOf(entry);
  const button = (word, act) => el("button", { "aria-label": `${word}: ${name}`, onclick: act }, word);
  return el(
    "div",
    "card-acts",
    play.length ? button(tr`Play`, () => acts.play(play)) : null,
    lesson ? button(tr`Lesson`, () => acts.learn(lesson)) : null,
    runs.length ? button(tr`Try`, () => acts.try({ method: id, control, models: runs })) : null,
    paper?.address ? outward(paper.address, PAPER, { "aria-label": `${PAPER}: ${name}` }) : null,
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
    picturesOf((entry.pictures ?? []).slice(0, 1)),
    el("h3", {}, title),
    el("p", "chooser-quiet", origin.filter(Boolean).join(" · ")),
    prose("p", summary),
    actions(entry, acts),
    facts(entry, whole),
    more(entry, whole),
  );
}
