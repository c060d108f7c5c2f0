// A chain of thought beside the same model left alone, on one scale of characters: where doubt was drawn a word of
// confidence stands, and where the answer is sure enough the text is cut off. What the other one still writes is what
// was saved.

import { MIDDLE, StepPicture } from "../player/drawing.js";
import { cut, glyphs, many, percent, tr } from "../player/words.js";
import { answerOf, marked } from "./asked.js";

export const view = { title: "Doubt taken out, and left in", place: 66, needs: ["left_alone"] };

export const CARD = 44; // its height
const NARROW = 700, // a panel in which the reason for the end stands above
  PHONE = 420,
  TABS = 74, // room for the tabs over a card
  TOP = 30,
  OWN = TOP + TABS,
  PLAIN = OWN + CARD + 92,
  HIGH = PLAIN + CARD + 66,
  WIDEST = 33; // of a character
const KINDS = {
  thought: { name: tr`sure`, state: "old" },
  doubt: { name: tr`unsure`, state: "rejected" },
  again: { name: tr`once more`, state: "rejected" },
  answer: { name: tr`answer`, state: "accepted" },
};

export class LeftAlone extends StepPicture {
  layers = ["tail", "own", "alone", "tabs", "cuts"];
  none = tr`The model left alone was not recorded in this step.`;

  #text(token) {
    return this.run.eos.has(token) ? "" : glyphs(this.run.piece(token).text);
  }

  /** Texts of the tokens of both, up to step t. */
  #both(t) {
    const { run } = this,
      own = run
        .board(t)
        .slice(run.prompt.length)
        .filter(({ token }) => token !== null);
    return {
      own: own.map(({ token }) => this.#text(token)),
      alone: run.steps
        .slice(0, t)
        .flatMap(({ left_alone: one }) => (one?.tokens ?? []).map((token) => this.#text(token))),
    };
  }

  /** What was done up to step t: {tabs: [{at, drawn, before, after}], stop: {value, threshold} or null}. */
  #done(t) {
    const tabs = [];
    let stop = null;
    for (const { left_alone: one, commits, choice } of this.run.steps.slice(0, t)) {
      if (one?.doubt_without !== undefined && commits)
        tabs.push({
          at: commits.positions[0] - this.run.prompt.length,
          drawn: one.drawn == null ? null : this.#text(one.drawn),
          put: commits.causes.includes("injected"),
          before: one.doubt_without,
          after: one.doubt_with,
        });
      if (choice?.chosen === "stop") stop = choice;
    }
    return { tabs, stop };
  }

  draw(told) {
    const { run, width } = this,
      { own, alone } = this.#both(this.t),
      { tabs: done, stop } = this.#done(this.t),
      text = this.spelled(run.steps.flatMap(({ left_alone: one }) => one?.tokens ?? [])), // of the whole run left alone
      { height, labels, ...layers } = layout({
        own: { texts: own, sign: marked(run.verdict?.right ?? null), ...told.own },
        alone: { texts: alone, sign: marked(answerOf(run, text)[1]), ...told.alone },
        longest: this.whole(({ length }) => this.#longest(length)),
        over: stop !== null || run.eos.has(run.written(run.widths[this.t] - 1, this.t)?.token),
        done,
        stop,
        width,
      });
    const { tabs } = this.paint(height, labels, layers);
    return done.at(-1)?.at === own.length - 1 ? tabs.slice(-1) : [];
  }

  /** The longer text up to step t, in characters. */
  #longest(t) {
    return Math.max(...Object.values(this.#both(t)).map((texts) => texts.join("").length));
  }

  sentence(_told, _step, t) {
    const { own, alone } = this.#both(t),
      { tabs } = this.#done(t),
      length = (texts) => texts.join("").length;
    return tr`Steps with confidence put in: ${tabs.filter(({ put }) => put).length}. \
${many(length(own), "character")} here, ${length(alone)} by the same model left alone.`;
  }
}

/** Steps of a text as cards: [{from, to, kind, text}] in characters; the end mark of the text is none of them.
 * texts: of its tokens. */
export function cards(texts, { starts, kinds }) {
  const ends = [0];
  for (const text of texts) ends.push(ends.at(-1) + text.length);
  return starts.map((start, i) => {
    const stop = starts[i + 1] ?? texts.length;
    return { from: ends[start], to: ends[stop], kind: kinds[i], text: texts.slice(start, stop).join(""), start };
  });
}

/** A label from x on, or up to x where it has no room on the right. */
const beside = (x, y, width, wide) => (x + wide > width ? [Math.max(x - 14, wide), y, "end"] : [x, y, "start"]);

/** Both texts, own and alone, {texts of tokens, starts, kinds, sign}, on one scale: {height, labels}, and as they are
 * drawn {own, alone, cuts, tail, tabs}. longest: characters of the longer text in the end; over: whether both are;
 * stop: {value, threshold} or null; done: what was put in. */
export function layout({ own, alone, longest, over, stop, done, width }) {
  const rows = [cards(own.texts, own), cards(alone.texts, alone)],
    most = Math.max(longest, 12),
    w = Math.min(WIDEST, (width - 12) / most),
    x = (n) => 4 + n * w,
    ends = [own, alone].map(({ texts }) => texts.join("").length),
    heading = width < NARROW ? tr`Left alone` : tr`The same model left alone (same random numbers)`,
    sign = (row, one) => (over && row.some(({ kind }) => kind === "answer") ? one.sign : ""),
    ours = width < NARROW && stop ? tr`Confident` : tr`With confidence put in`,
    labels = [
      [4, 16, "start", `${ours} ${sign(rows[0], own)}`],
      [4, PLAIN - 14, "start", `${heading} ${sign(rows[1], alone)}`],
    ],
    layers = { own: boxes(rows[0], OWN, x, w, labels), alone: boxes(rows[1], PLAIN, x, w, labels) },
    saved = over ? Math.max(0, ends[1] - ends[0]) : 0,
    end = x(ends[0]),
    line = { class: "dx-eta", "data-s": "rejected", d: `M${end + 3},${OWN - 8}V${PLAIN + CARD + 10}` },
    box = { x: end + 3, y: PLAIN - 6, width: saved * w + 4, height: CARD + 34 };
  if (stop) labels.push(...stopped(stop, end + 10, width));
  if (saved) labels.push([...beside(end + 8, PLAIN + CARD + 52, width, 200), tr`${many(saved, "character")} saved`]);
  return {
    height: HIGH,
    labels,
    ...layers,
    cuts: over ? [["path", line]] : [],
    tail: saved ? [["rect", { class: "dx-lift dx-plain", rx: 6, ...box }]] : [],
    tabs: tabs(done, rows[0], x),
  };
}

function stopped({ value, threshold }, x, width) {
  const [sure, line] = [percent(value), percent(threshold)];
  if (width < PHONE) return [[width - 4, 16, "end", tr`✂ sure: ${sure} > ${line}`]];
  if (width < NARROW) return [[width - 4, 16, "end", tr`✂ sure of the answer: ${sure} > ${line}`]];
  return [
    [...beside(x, OWN + 18, width, 330), tr`✂ sure of the answer: ${sure}, above ${line}`],
    [...beside(x, OWN + 36, width, 330), tr`so the text ends here`],
  ];
}

function boxes(items, y, x, w, labels) {
  return items.map(({ from, to, kind, text }) => {
    const { state, name } = KINDS[kind] ?? KINDS.thought,
      wide = Math.max(4, (to - from) * w - 4),
      room = Math.floor(wide / Math.max(7.4, Math.min(10.4, w * 0.78)));
    if (wide > 7 * name.length) labels.push([x(from) + wide / 2, y + CARD + 18, "middle", name]);
    const size = `font-size:${Math.max(12, Math.min(17, w * 1.25))}px`;
    return [
      { transform: `translate(${x(from).toFixed(1)},${y})`, "data-s": state },
      ["title", {}, `${name}: ${text}`],
      ["rect", { height: CARD, rx: 7, width: wide }],
      ["text", { ...MIDDLE, y: 27, x: wide / 2, style: size }, text && room < 1 ? "…" : cut(text, room)],
    ];
  });
}

/** Over each card of this run what its phrase did; where doubt had been drawn, that mark, struck out. */
function tabs(done, own, x) {
  return done
    .filter(({ before, after, put }) => put || before - after > 0.005)
    .map(({ at, drawn, put, before, after }) => {
      const card = own.find(({ start }) => start === at) ?? own.at(-1),
        room = Math.max(60, x(card?.to ?? 0) - x(card?.from ?? 0) - 4),
        wide = room > 150,
        mark = drawn === null ? tr`phrase put in` : tr`✕ ‘${drawn}’ (unsure) → sure`,
        short = drawn === null ? "+" : `✕ ${drawn}`,
        chance = room > 110 ? tr`chance of doubt` : tr`doubt`,
        shares = `${room > 96 ? percent(before) : ""} → ${percent(after)}`,
        second = wide && put ? tr`doubt ${percent(before)} → ${percent(after)}` : shares;
      return [
        { transform: `translate(${x(card?.from ?? 0).toFixed(1)},${OWN})`, "data-s": put ? "new" : "unreached" },
        ["rect", { rx: 5, height: 40, y: -48, width: room }],
        ["text", { x: 8, y: -32 }, put ? (wide ? mark : short) : chance],
        ["text", { x: 8, y: -15, style: "fill:var(--ink)" }, second],
      ];
    });
}
