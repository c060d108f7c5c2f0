// What each call computes and what it takes from the cache: a row per call, a column per position. What is kept of
// finished blocks, what of the open block is older than this call, what is fed, what is written.

import { el } from "../player/dom.js";
import { LETTER, StepMap } from "../player/stepmap.js";
import { many, number, tr } from "../player/words.js";

export const view = { title: "Kept, computed, written", place: 162, needs: ["spans.fed+masked"] };

const BARS = 150, // room for the bars on the right, where the panel is wide
  NARROW = 560;
const of = (step, kind) => step.spans.filter((span) => span.kind === kind);
const exact = ({ label }) => label === "exact";

const key = (look, text) => el("span", "dx-scale", el("i", `dx-swatch ${look}`), text);

export class Tape extends StepMap {
  kept = key("dx-kept", tr`kept: keys and values of finished blocks, exact`);
  older = key("dx-older", tr`kept, but older than the last change`);
  fed = key("dx-fed", tr`computed in this call`);
  fresh = el("span", "dx-scale", el("i", { class: "dx-swatch", "data-s": "new" }), tr`written`);
  free = el("span", "dx-scale", tr`just right of a stored block: the next token, from its last row`);
  controls = el("div", "dx-controls", this.kept, this.older, this.fed, this.fresh, this.free);

  lay() {
    const { steps } = this.run,
      some = (wanted) => steps.some((step) => wanted(of(step, "cache"), of(step, "stale")));
    this.margin = this.width < NARROW ? 0 : BARS;
    this.kept.hidden = !some((cache) => cache.some(exact));
    this.free.hidden = !steps.some(({ commits }) => commits?.causes.includes("autoregressive"));
    this.older.hidden = !some((cache, stale) => stale.length || cache.some((span) => !exact(span)));
    super.lay();
  }

  /** The cells of a span that are shown: [its position, x, y, width, height]. */
  #cells(index, { start, end }) {
    const positions = Array.from({ length: end - start }, (_, i) => start + i);
    return positions
      .filter((position) => this.has(position))
      .map((position) => [position, ...this.at(index, position)]);
  }

  paint(pen, index) {
    const { run, context, mode } = this,
      surface = context.theme.surface[mode],
      step = run.steps[index],
      { positions = [], tokens = [] } = step.commits ?? {};
    for (const span of [...of(step, "cache"), ...of(step, "stale")])
      for (const [, x, y, w, h] of this.#cells(index, span))
        if (span.kind === "cache" && exact(span)) {
          pen.fillStyle = surface.line;
          pen.fillRect(x, y, w, h);
        } else this.#hatch(pen, x, y, w, h, surface);
    for (const span of of(step, "fed")) this.#computed(pen, index, span, surface);
    positions.forEach((position, i) => {
      if (this.has(position)) this.written(pen, index, position, context.theme.states.new[mode], tokens[i]);
    });
    if (this.margin) this.#bar(pen, index, surface);
  }

  /** What is fed; what stood in its places, quietly. */
  #computed(pen, index, span, surface) {
    const cells = this.#cells(index, span);
    for (const [, x, y, w, h] of cells) {
      pen.fillStyle = surface.panel;
      pen.fillRect(x, y, w, h);
      pen.strokeStyle = surface.accent;
      pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
    const board = this.run.board(index);
    for (const [position, x, y, w, h] of cells) {
      const token = board[position]?.token ?? null,
        room = Math.floor((w - 1) / LETTER);
      if (token === null || h < 14 || room < 1) continue;
      pen.fillStyle = surface.muted;
      pen.fillText(this.word(token, room), x + w / 2, y + h / 2 + 0.5);
    }
  }

  #hatch(pen, x, y, w, h, surface) {
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

  /** Right of a row: the positions that were computed, in the frame of those of the whole board. */
  #bar(pen, index, surface) {
    const { run, right } = this,
      [, y, , h] = this.at(index, this.from),
      room = BARS - 60,
      share = Math.min(1, run.steps[index].tokens_fed / run.widest);
    pen.fillStyle = surface.accent;
    pen.fillRect(right + 16, y, share * room, h);
    pen.strokeStyle = surface.muted;
    pen.setLineDash([3, 3]);
    pen.strokeRect(right + 16.5, y + 0.5, room, h - 1);
    pen.setLineDash([]);
  }

  aside() {
    const { run, right, tall, margin } = this;
    if (!margin) return [];
    const head = [right + 16, 13, "start", tr`computed, of ${run.widest}`],
      y = (step) => this.at(step, 0)[1] + tall / 2 + 4,
      fed = run.steps.map(({ tokens_fed: n }, step) => [right + BARS - 38, y(step), "start", n]);
    return tall >= 14 ? [head, ...fed] : [head];
  }

  read(index, position) {
    const around = (this.run.steps[index].spans ?? []).filter(({ start, end }) => start <= position && position < end),
      is = (kind) => around.some((span) => span.kind === kind);
    let state = tr`not looked at`;
    if (is("fed")) state = tr`computed`;
    else if (around.some((span) => span.kind === "cache" && exact(span))) state = tr`kept`;
    else if (is("cache") || is("stale")) state = tr`kept, but older than the last change`;
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
