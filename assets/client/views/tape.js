// What each call computes and what it takes from the cache: a row per call, a column per position. What is kept of
// finished blocks, what of the open block is older than this call, what is fed, what is written.

import { number } from "../player/codec.js";
import { many } from "../player/counted.js";
import { el } from "../player/dom.js";
import { LETTER, StepMap } from "../player/stepmap.js";
import { tr } from "../player/words.js";

export const view = { title: "Kept, computed, written", place: 162, needs: ["spans.fed+masked"] };

const BARS = 150, // room for the bars on the right, where the panel is wide
  NARROW = 560;
const of = (step, kind) => step.spans.filter((span) => span.kind === kind);
const exact = ({ label }) => label === "exact";

export class Tape extends StepMap {
  load(run, dom, context) {
    const key = (look, text) => el("span", "dx-scale", el("i", `dx-swatch dx-${look}`), text);
    this.kept = key("kept", tr`kept: keys and values of finished blocks, exact`);
    this.older = key("older", tr`kept, but older than the last change`);
    this.free = el("span", "dx-scale", tr`just right of a stored block: the next token, from its last row`);
    const fed = key("fed", tr`computed in this call`),
      fresh = el("span", "dx-scale", el("i", { class: "dx-swatch", "data-s": "new" }), tr`written`);
    this.begin(run, dom, context, el("div", "dx-controls", this.kept, this.older, fed, fresh, this.free));
    this.lay();
  }

  lay() {
    const { steps } = this.run,
      some = (wanted) => steps.some((step) => wanted(of(step, "cache"), of(step, "stale")));
    this.margin = this.width < NARROW ? 0 : BARS;
    this.kept.hidden = !some((cache) => cache.some(exact));
    this.free.hidden = !steps.some(({ commits }) => commits?.causes.includes("autoregressive"));
    this.older.hidden = !some((cache, stale) => stale.length || cache.some((span) => !exact(span)));
    super.lay();
  }

  paint(pen, index) {
    const { run, context, mode } = this,
      surface = context.theme.surface[mode],
      step = run.steps[index],
      fill = (span, colour, line) => {
        for (let position = Math.max(span.start, this.from); position < span.end; position++) {
          if (!this.has(position)) continue;
          const [x, y, w, h] = this.at(index, position);
          pen.fillStyle = colour;
          pen.fillRect(x, y, w, h);
          if (!line) continue;
          pen.strokeStyle = line;
          pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
        }
      };
    for (const span of of(step, "cache"))
      if (exact(span)) fill(span, surface.line);
      else this.#hatch(pen, index, span, surface);
    for (const span of of(step, "stale")) this.#hatch(pen, index, span, surface);
    for (const span of of(step, "fed")) {
      fill(span, surface.panel, surface.accent);
      this.#known(pen, index, span, surface);
    }
    const { positions = [], tokens = [] } = step.commits ?? {};
    positions.forEach((position, i) => {
      if (this.has(position)) this.written(pen, index, position, context.theme.states.new[mode], tokens[i]);
    });
    if (this.margin) this.#bar(pen, index, surface);
  }

  /** What stood in the places that are fed, quietly. */
  #known(pen, index, { start, end }, surface) {
    const board = this.run.board(index);
    for (let position = Math.max(start, this.from); position < end; position++) {
      const token = board[position]?.token ?? null,
        [x, y, w, h] = this.at(index, position),
        room = Math.floor((w - 1) / LETTER);
      if (token === null || !this.has(position) || h < 14 || room < 1) continue;
      pen.fillStyle = surface.muted;
      pen.fillText(this.word(token, room), x + w / 2, y + h / 2 + 0.5);
    }
  }

  #hatch(pen, index, { start, end }, surface) {
    for (let position = start; position < end; position++) {
      if (!this.has(position)) continue;
      const [x, y, w, h] = this.at(index, position);
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w, h);
      pen.clip();
      pen.strokeStyle = surface.muted;
      for (let at = -h; at < w; at += 5) {
        pen.moveTo(x + at, y + h);
        pen.lineTo(x + at + h, y);
      }
      pen.stroke();
      pen.restore();
    }
  }

  /** Right of a row: the positions that were computed, in the frame of those of the whole board. */
  #bar(pen, index, surface) {
    const { run, right } = this,
      [, y, , h] = this.at(index, this.from),
      room = BARS - 60,
      share = run.steps[index].tokens_fed / run.widest;
    pen.fillStyle = surface.accent;
    pen.fillRect(right + 16, y, Math.min(1, share) * room, h);
    pen.strokeStyle = surface.muted;
    pen.setLineDash([3, 3]);
    pen.strokeRect(right + 16.5, y + 0.5, room, h - 1);
    pen.setLineDash([]);
  }

  aside() {
    const { run, right, tall, margin } = this;
    if (!margin) return [];
    const labels = [[right + 16, 13, "start", tr`computed, of ${run.widest}`]];
    run.steps.forEach(({ tokens_fed: fed }, step) => {
      if (tall >= 14) labels.push([right + BARS - 38, this.at(step, 0)[1] + tall / 2 + 4, "start", fed]);
    });
    return labels;
  }

  read(index, position) {
    const step = this.run.steps[index],
      inside = ({ start, end }) => start <= position && position < end;
    const kept = of(step, "cache").some((span) => exact(span) && inside(span)),
      state = of(step, "fed").some(inside)
        ? tr`computed`
        : kept
          ? tr`kept`
          : [...of(step, "cache"), ...of(step, "stale")].some(inside)
            ? tr`kept, but older than the last change`
            : tr`not looked at`;
    return tr`call ${index + 1}, position ${position}: ${state}`;
  }

  describe(t) {
    const { run } = this,
      fed = run.sums[t].fed,
      tokens = run.tokens(t);
    return tr`${many(t, "alone")} computed ${number(fed)} positions; without a cache ${number(t * run.widest)} \
(derived). One by one, ${many(tokens, "token")} take as many calls.`;
  }
}
