// What is copied from where: the source above, the text below, a ribbon for each stretch that was taken over, a red
// mark where the model overruled the source.

import { el, frame, legend, setText, svg } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { copies } from "../player/rounds.js";
import { cut, glyphs, many, tr, translated } from "../player/words.js";

export const view = { title: "Copied from the source", place: 118, needs: ["spans.match"] };

const MOST = 160, // tokens of a line; longer ones show what is near this step
  CHARS = 9,
  H = 24,
  GAP = 3,
  LOW = 96, // where the lower line begins
  MARGIN = 4,
  LEFT = 62; // names of the lines

const LOOK = { class: "dx-tree", role: "img", "aria-label": tr`Copied from the source` },
  KINDS = {
    accepted: tr`copied`,
    rejected: tr`the model overruled the source`,
    unreached: tr`pasted after that, in vain`,
    correction: tr`the model's correction`,
    bonus: tr`its bonus token`,
    old: tr`from the model alone`,
  };

export class Copying extends Parts {
  say = this.below(el("p", "dx-readout"));
  ribbons = svg("g");
  cells = svg("g");
  names = [tr`source`, tr`text`].map((name, i) => svg("text", { x: MARGIN, y: (i ? LOW : 18) + 16.5 }, name));
  picture = svg("svg", LOOK, this.ribbons, this.cells, ...this.names);
  scroll = this.below(el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Source and text` }, this.picture));
  legend = this.below(el("div", "dx-legend"));
  keys = (theme) => [
    ...Object.entries(KINDS).map(([state, words]) => legend(theme, state, words)),
    el("span", {}, tr`dotted: where the last words were found`),
  ];

  /** The stretch of the board that is copied from anywhere in the run. */
  grow() {
    const matches = this.run.steps.flatMap(({ spans = [] }) => spans.filter(({ kind }) => kind === "match"));
    this.low = Math.min(...matches.map(({ start }) => start));
    this.high = Math.max(...matches.map(({ end }) => end));
  }

  show(t, hurry) {
    if (hurry) return;
    const { run } = this,
      made = copies(run, t),
      now = made.at(-1)?.step === t - 1 ? made.at(-1) : null,
      cells = run.board(t);
    setText(this.say, this.describe(t, made));
    this.scroll.hidden = !(this.low < this.high);
    if (this.scroll.hidden) return;
    const near = now?.pasted ? now.from : this.low,
      low = Math.max(this.low, Math.min(near - MOST / 2, this.high - MOST)),
      first = Math.max(run.prompt.length, cells.length - MOST);
    const upper = this.#line(cells, low, Math.min(this.high, low + MOST, cells.length), 18),
      lower = this.#line(cells, first, cells.length, LOW);
    for (const one of made) {
      const { from, pasted, to, kept, wrote } = one;
      for (let i = 0; i < kept; i++) {
        mark(upper, from + i, "accepted");
        mark(lower, to + i, "accepted");
      }
      for (let i = kept; i < wrote; i++) mark(lower, to + i, !pasted ? "old" : kept < pasted ? "correction" : "bonus");
      if (kept < pasted && wrote > kept) mark(upper, from + kept, "rejected");
      if (one === now) for (let i = kept + 1; i < pasted; i++) mark(upper, from + i, "unreached");
    }
    this.#draw(
      [...upper.values(), ...lower.values()],
      made.flatMap((one) => this.#tie(one, one === now, upper, lower)),
    );
    const wide = Math.max(upper.right, lower.right) + MARGIN;
    frame(this.picture, wide, LOW + H + MARGIN);
    this.scroll.scrollLeft = (lower.right * this.picture.clientWidth) / wide - 0.7 * this.scroll.clientWidth;
  }

  /** Cells of the board in one line: position -> {x, y, w, token, state}. */
  #line(cells, start, end, y) {
    const line = new Map();
    let x = LEFT;
    for (let position = start; position < end; position++) {
      const { token } = cells[position];
      if (token === null) continue;
      const whole = glyphs(this.run.piece(token).text),
        text = cut(whole, CHARS),
        w = 7.3 * [...text].length + 12;
      line.set(position, { x, y, w, text, whole, position, state: "prompt" });
      x += w + GAP;
    }
    line.right = x - GAP;
    return line;
  }

  /** A ribbon for what was kept of a paste, a dashed line from the tokens that led there. */
  #tie({ from, to, kept, held }, fresh, upper, lower) {
    const ends = (line, at) => [line.get(at), line.get(at + kept - 1)],
      [a, b] = ends(upper, from),
      [c, d] = ends(lower, to),
      before = lower.get(to - 1),
      top = 18 + H,
      middle = (top + LOW) / 2,
      curve = (x, end, at) => `C${x},${middle} ${end},${middle} ${end},${at}`,
      drawn = [];
    if (kept && a && b && c && d) {
      const way = `M${a.x},${top}${curve(a.x, c.x, LOW)}H${d.x + d.w}${curve(d.x + d.w, b.x + b.w, top)}Z`,
        style = `fill:var(--accepted-fill);opacity:${fresh ? 0.55 : 0.25}`;
      drawn.push(["path", { d: way, "data-s": "accepted", style }]);
    }
    if (fresh && held && a && before) {
      const d = `M${before.x + before.w / 2},${LOW}${curve(before.x + before.w / 2, a.x, top)}`;
      drawn.push(["path", { d, "data-s": "unreached", style: "stroke-width:2;stroke-dasharray:2 5" }]);
    }
    return drawn;
  }

  #draw(cells, ties) {
    render(this.ribbons, ties);
    render(this.cells, cells, ({ x, y, w, text, whole, position, state }) => [
      { transform: `translate(${x},${y})`, "data-s": state },
      ["title", {}, tr`${whole}: position ${position}, ${translated(this.context.theme.states[state].label)}`],
      ["rect", { height: H, rx: 6, width: w }],
      ["text", { x: 6, y: 16.5 }, text],
    ]);
  }

  describe(t, made = copies(this.run, t)) {
    if (!t) return tr`Before the first step.`;
    const copied = made.reduce((sum, { kept }) => sum + kept, 0),
      written = made.reduce((sum, { wrote }) => sum + wrote, 0),
      calls = this.run.sums[t].forwards;
    return tr`${many(calls, "target")} for ${many(written, "token")}, ${copied} of them copied.`;
  }
}

function mark(line, position, state) {
  const cell = line.get(position);
  if (cell && !(state === "unreached" && cell.state !== "prompt")) cell.state = state;
}
