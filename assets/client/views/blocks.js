// Blocks and windows over the steps: a row for each step, a bar for each stretch of the text that the method works in.

import { el, legend, set, setText, svg, swatch } from "../player/dom.js";
import { Parts } from "../player/drawing.js";
import { spanColour } from "../player/theme.js";
import { tr, translated } from "../player/words.js";

export const view = { title: "Blocks over the steps", place: 165, needs: ["spans+masked"] };

const WRITTEN = { width: 0.8, height: 0.5, "data-s": "new" };
const LEAST = 6, // pixels of a step
  ROOM = 150; // pixels that the picture takes if it can

/** Stretches of one kind that touch each other, as one; label: of the first with words. */
function joined(spans) {
  const out = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const last = out.findLast(({ kind }) => kind === span.kind);
    if (last && last.end === span.start && !span.label && !last.label) last.end = span.end;
    else out.push({ ...span });
  }
  return out;
}

const LOOK = { preserveAspectRatio: "none", role: "img", "aria-label": tr`Blocks, steps by positions` };

export class Blocks extends Parts {
  t = 0;
  say = this.below(el("p", "dx-readout"));
  picture = svg("svg", LOOK);
  hand = el("div", "dx-row");
  veil = el("div", "dx-veil");
  look = { class: "dx-timeline dx-down", onclick: (event) => this.#go(event) };
  line = this.below(el("div", this.look, this.picture, this.veil, this.hand));
  key = this.below(el("div", "dx-legend"));

  grow() {
    this.relook();
  }

  relook() {
    const { run, context, picture } = this,
      first = run.prompt.length,
      mode = context.mode(),
      rows = Math.max(run.length, 1),
      kinds = run.spanKinds.filter((kind) => kind !== "prompt");
    this.row = Math.max(LEAST, Math.min(22, ROOM / rows));
    picture.style.height = `${this.row * rows}px`;
    set(picture, { viewBox: `0 0 ${Math.max(run.widest - first, 1)} ${rows}` });
    const boxes = run.steps.flatMap((step, y) => {
      const spans = joined(step.spans ?? []).map(({ kind, start, end, label = "" }) => {
          const height = 0.8 - 0.22 * Math.min(kinds.indexOf(kind), 2),
            x = Math.max(start - first, 0),
            box = { x, y: y + (1 - height) / 2, width: Math.max(end - first - x, 0), height },
            style = `fill:${spanColour(context.theme, mode, kind)}`,
            title = tr`step ${y + 1}, ${translated(kind)} ${start}–${end - 1} ${label}`;
          return svg("rect", { ...box, style }, svg("title", {}, title.trim()));
        }),
        written = (step.commits?.positions ?? []).filter((position) => position >= first);
      return [...spans, ...written.map((at) => svg("rect", { ...WRITTEN, x: at - first + 0.1, y: y + 0.25 }))];
    });
    picture.replaceChildren(...boxes);
    this.key.replaceChildren(
      legend(context.theme, "new", tr`written in the step`),
      ...kinds.map((kind) => swatch(`background:${spanColour(context.theme, mode, kind)}`, translated(kind))),
    );
    this.show(this.t);
  }

  #go(event) {
    const box = this.picture.getBoundingClientRect();
    this.context.seek(Math.floor(((event.clientY - box.top) / box.height) * this.run.length) + 1);
  }

  show(t, hurry) {
    this.t = t;
    this.veil.style.transform = this.hand.style.transform = `translateY(${t * this.row}px)`;
    if (!hurry) setText(this.say, this.describe(t));
  }

  describe(t) {
    const spans = joined(this.run.steps[t - 1]?.spans ?? []).filter(({ label }, _, all) => label || all.length < 4);
    const words = ({ kind, start, end, label }) =>
      tr`${translated(kind)} ${start}–${end - 1} (${end - start} positions${label ? `, ${label}` : ""})`;
    return spans.length ? `${spans.slice(0, 3).map(words).join("; ")}.` : tr`No block in this step.`;
  }
}
