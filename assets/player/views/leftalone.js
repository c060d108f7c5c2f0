// A chain of thought beside the same model left alone, on one scale of characters: where doubt was drawn a word of
// confidence stands, and where the answer is sure enough the text is cut off. What the other one still writes is what
// was saved.

import { glyphs } from "../codec.js";
import { many } from "../counted.js";
import { pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { isRight, marked } from "./plainly.js";

export const view = { name: "LeftAlone", title: "Doubt taken out, and left in", place: 66, needs: ["left_alone"] };

const NARROW = 700, // a panel in which the reason for the end stands above
  PHONE = 420,
  CARD = 44, // its height
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

export class LeftAlone extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["tail", "own", "alone", "tabs", "cuts"]);
  }

  told({ left_alone: told }) {
    return told;
  }

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
          drawn: one.drawn ?? null,
          put: commits.causes.includes("injected"),
          before: one.doubt_without,
          after: one.doubt_with,
        });
      if (choice?.chosen === "stop") stop = choice;
    }
    return { tabs, stop };
  }

  draw(told, _, next) {
    const { run, width } = this,
      { own, alone } = this.#both(this.t),
      { tabs, stop } = this.#done(this.t),
      rows = [cards(own, told.own), cards(alone, told.alone)],
      most = Math.max(this.#longest(), 12),
      w = Math.min(WIDEST, (width - 12) / most),
      x = (n) => 4 + n * w,
      ends = [own, alone].map((texts) => texts.join("").length),
      mark = (row) => marked(isRight(run, row.findLast(({ kind }) => kind === "answer")?.text)),
      over = stop !== null || run.eos.has(run.written(run.widths[this.t] - 1, this.t)?.token);
    const heading = width < NARROW ? tr`Left alone` : tr`The same model left alone (same random numbers)`;
    this.labels = [
      [
        4,
        16,
        "start",
        `${width < NARROW && stop ? tr`Confident` : tr`With confidence put in`} ${over ? mark(rows[0]) : ""}`,
      ],
      [4, PLAIN - 14, "start", `${heading} ${over ? mark(rows[1]) : ""}`],
    ];
    this.frame(HIGH);
    this.#cards(this.own, rows[0], OWN, x, w);
    this.#cards(this.alone, rows[1], PLAIN, x, w);
    const saved = over ? Math.max(0, ends[1] - ends[0]) : 0,
      cut = [];
    if (over)
      cut.push({ d: `M${x(ends[0]) + 3},${OWN - 8}V${PLAIN + CARD + 10}`, class: "dx-eta", "data-s": "rejected" });
    pool(this.cuts, cut.length, () => svg("path")).forEach((path, i) => set(path, cut[i]));
    pool(this.tail, saved ? 1 : 0, () => svg("rect", { class: "dx-lift dx-plain", rx: 6 })).forEach((box) =>
      set(box, { x: x(ends[0]) + 3, y: PLAIN - 6, width: saved * w + 4, height: CARD + 34 }),
    );
    if (stop) this.#stopped(stop, x(ends[0]) + 10, width);
    if (saved)
      this.labels.push([
        ...this.#beside(x(ends[0]) + 8, PLAIN + CARD + 52, width, 200),
        tr`${many(saved, "character")} saved`,
      ]);
    const made = this.#tabs(tabs, rows[0], x);
    this.label(this.labels);
    if (next && made.length && tabs.at(-1).at === own.length - 1) comeIn([made.at(-1)], { opacity: 0 });
  }

  /** The longer text of the whole run, in characters. */
  #longest() {
    if (this.sought !== this.run.length) {
      const { own, alone } = this.#both(this.run.length);
      Object.assign(this, { sought: this.run.length, longest: Math.max(own.join("").length, alone.join("").length) });
    }
    return this.longest;
  }

  /** A label from x on, or up to x where it has no room on the right. */
  #beside(x, y, width, wide) {
    return x + wide > width ? [Math.max(x - 14, wide), y, "end"] : [x, y, "start"];
  }

  #stopped({ value, threshold }, x, width) {
    if (width < NARROW) {
      const words =
        width < PHONE
          ? tr`✂ sure: ${percent(value)} > ${percent(threshold)}`
          : tr`✂ sure of the answer: ${percent(value)} > ${percent(threshold)}`;
      return void this.labels.push([width - 4, 16, "end", words]);
    }
    this.labels.push(
      [
        ...this.#beside(x, OWN + 18, width, 330),
        tr`✂ sure of the answer: ${percent(value)}, above ${percent(threshold)}`,
      ],
      [...this.#beside(x, OWN + 36, width, 330), tr`so the text ends here`],
    );
  }

  #cards(layer, items, y, x, w) {
    const node = () =>
      svg("g", {}, svg("title"), svg("rect", { height: CARD, rx: 7 }), svg("text", { "text-anchor": "middle", y: 27 }));
    pool(layer, items.length, node).forEach((group, i) => {
      const { from, to, kind, text } = items[i],
        { state, name } = KINDS[kind] ?? KINDS.thought,
        [title, box, word] = group.childNodes,
        wide = Math.max(4, (to - from) * w - 4);
      set(group, { transform: `translate(${x(from).toFixed(1)},${y})`, "data-s": state });
      set(box, { width: wide });
      set(word, { x: wide / 2, textLength: null });
      word.style.fontSize = `${Math.max(12, Math.min(17, w * 1.25))}px`;
      const room = Math.floor(wide / Math.max(7.4, Math.min(10.4, w * 0.78)));
      setText(word, text.length > room ? `${text.slice(0, Math.max(0, room - 1))}…` : text);
      setText(title, `${name}: ${text}`);
      if (wide > 7 * name.length) this.labels.push([x(from) + wide / 2, y + CARD + 18, "middle", name]);
    });
  }

  /** Over each card of this run what its phrase did; where doubt had been drawn, that mark, struck out. */
  #tabs(tabs, own, x) {
    const shown = tabs.filter(({ before, after, put }) => put || before - after > 0.005),
      node = () =>
        svg(
          "g",
          {},
          svg("rect", { rx: 5, height: 40, y: -48 }),
          svg("text", { x: 8, y: -32 }),
          svg("text", { x: 8, y: -15, style: "fill:var(--ink)" }),
        );
    return pool(this.tabs, shown.length, node).map((group, i) => {
      const { at, drawn, put, before, after } = shown[i],
        card = own.find(({ start }) => start === at) ?? own.at(-1),
        [box, first, second] = group.childNodes,
        room = Math.max(60, x(card?.to ?? 0) - x(card?.from ?? 0) - 4),
        mark = drawn === null ? tr`phrase put in` : tr`✕ ‘${this.#text(drawn)}’ (unsure) → sure`;
      set(group, {
        transform: `translate(${x(card?.from ?? 0).toFixed(1)},${OWN})`,
        "data-s": put ? "new" : "unreached",
      });
      set(box, { width: room });
      setText(
        first,
        put
          ? room > 150
            ? mark
            : drawn === null
              ? "+"
              : `✕ ${this.#text(drawn)}`
          : room > 110
            ? tr`chance of doubt`
            : tr`doubt`,
      );
      setText(
        second,
        room > 150 && put
          ? tr`doubt ${percent(before)} → ${percent(after)}`
          : `${room > 96 ? percent(before) : ""} → ${percent(after)}`,
      );
      return group;
    });
  }

  describe(t) {
    const told = this.run.steps[t - 1]?.left_alone;
    if (!told) return t ? tr`The model left alone was not recorded in this step.` : tr`Before the first step.`;
    const { own, alone } = this.#both(t),
      { tabs } = this.#done(t),
      length = (texts) => texts.join("").length;
    return tr`Steps with confidence put in: ${tabs.filter(({ put }) => put).length}. \
${many(length(own), "character")} here, ${length(alone)} by the same model left alone.`;
  }
}
