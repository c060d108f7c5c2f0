// The slots of a memory as a sky for each layer, a row and a column of keys crossing in each: the token's slots flare,
// the text so far is a long exposure. Below, the bytes that the last tokens read together, here and in the twins.

import { bytes, glyphs } from "../codec.js";
import { el, pool, set, setText, sizeCanvas, svg } from "../dom.js";
import { levelOf, ramp, spanColour } from "../theme.js";
import { tr } from "../words.js";
import { alike, gathered, growth, MOST } from "./slotsread.js";

export const view = { name: "Starfield", title: "Slots of a memory that light up", place: 122, needs: ["routing"] };

const EDGE = 9, // for the ticks
  W = 340,
  H = 112;

export class Starfield {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.sky = el("div", { style: "display:flex;flex-wrap:wrap;gap:10px;margin:6px 0" });
    this.slider = el("input", {
      type: "range",
      min: 1,
      max: MOST,
      value: run.params?.chunk ?? 8,
      "aria-label": tr`Tokens read together`,
      oninput: () => this.show(this.t),
    });
    this.told = el("div", { style: "display:grid;gap:5px;flex:1 1 280px;min-width:0" });
    this.plot = svg("svg", {
      viewBox: `0 0 ${W} ${H}`,
      role: "img",
      style: "flex:1 1 280px;max-width:420px;font-size:12px",
    });
    dom.append(
      this.say,
      this.sky,
      el(
        "p",
        "dx-readout",
        tr`● positive, ○ negative, size: score; □ slots of the tokens read together; ticks: candidate rows and \
columns; shade: how often a slot was read.`,
      ),
      el("label", {}, tr`Tokens read together`, " ", this.slider),
      el("div", { style: "display:flex;flex-wrap:wrap;gap:16px;align-items:center" }, this.told, this.plot),
    );
    this.grow();
  }

  grow() {
    const some = this.run.steps.some(({ routing }) => routing?.some(({ kind }) => kind === "memory"));
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !some;
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const { found, K, layers } = gathered(this.run.steps, t),
      wide = this.dom.clientWidth || 800,
      side = Math.floor(Math.min(270, (wide - 30) / (wide > 620 ? layers.length : 2) - 10)),
      last = found.at(-1)?.[1];
    const figures = pool(this.sky, layers.length, () =>
      el("figure", { style: "margin:0" }, el("canvas", { role: "img" }), el("figcaption", "dx-readout")),
    );
    figures.forEach((figure, l) => {
      const [canvas, name] = figure.children;
      figure.style.width = `${side}px`;
      setText(
        name,
        tr`Layer ${layers[l]}: ${new Set(found.flatMap(([, one]) => one.layers[l].map(([u]) => u))).size} \
of ${K * K} slots read`,
      );
      set(canvas, { "aria-label": name.textContent });
      this.#draw(sizeCanvas(canvas, side, side), side, found, last, l, K);
    });
    setText(this.say, this.describe(t));
    this.#bytes(found, this.run.steps[t - 1]?.facts ?? {});
  }

  #draw(pen, side, found, last, l, K) {
    const mode = this.context.mode(),
      theme = this.context.theme,
      colours = ramp(theme, mode),
      [up, down] = ["fed", "neighbourhood"].map((kind) => spanColour(theme, mode, kind)),
      cell = (side - EDGE) / K,
      at = (unit) => [EDGE + (unit % K) * cell, EDGE + Math.floor(unit / K) * cell],
      counts = new Map();
    pen.fillStyle = colours[0].fill;
    pen.fillRect(EDGE, EDGE, side - EDGE, side - EDGE);
    for (const [, one] of found) for (const [unit] of one.layers[l]) counts.set(unit, (counts.get(unit) ?? 0) + 1);
    const most = Math.max(4, ...counts.values());
    for (const [unit, n] of counts) {
      pen.fillStyle = colours[levelOf(0.3 + (0.7 * n) / most)].fill;
      pen.fillRect(...at(unit), Math.max(1.5, cell - 0.4), Math.max(1.5, cell - 0.4));
    }
    pen.fillStyle = pen.strokeStyle = theme.surface[mode].text;
    for (const row of last?.rows[l] ?? []) pen.fillRect(0, EDGE + row * cell, EDGE - 3, 1.5);
    for (const column of last?.columns[l] ?? []) pen.fillRect(EDGE + column * cell, 0, 1.5, EDGE - 3);
    pen.globalAlpha = 0.7;
    for (const [, one] of found.slice(-this.slider.value))
      for (const [unit] of one.layers[l]) pen.strokeRect(...at(unit), cell, cell);
    pen.globalAlpha = 1;
    const top = Math.max(1e-9, ...(last?.layers[l] ?? []).map(([, w]) => Math.abs(w)));
    for (const [unit, w] of last?.layers[l] ?? []) {
      const [x, y] = at(unit);
      pen.beginPath();
      pen.arc(x + cell / 2, y + cell / 2, 2 + 4.5 * Math.sqrt(Math.abs(w) / top), 0, 7);
      pen.fillStyle = pen.strokeStyle = w < 0 ? down : up;
      pen.lineWidth = 2;
      if (w < 0) pen.stroke();
      else pen.fill();
      pen.lineWidth = 1;
    }
  }

  /** The bars of the chosen number of tokens, and the lines of all numbers. */
  #bytes(found, facts) {
    const lines = growth(found, facts),
      c = Math.min(this.slider.value, lines.length),
      names = [tr`memory`, tr`mixture of experts`, tr`dense twin`],
      top = Math.max(1, ...lines.flat()),
      mode = this.context.mode(),
      colour = (i) => spanColour(this.context.theme, mode, ["fed", "block", "cache"][i]);
    this.told.replaceChildren(
      ...(lines[c - 1] ?? []).map((size, i) => {
        const fixed = [facts.always_bytes, facts.router_bytes, size][i],
          part = (n, alpha) =>
            el("i", { style: `width:${(100 * n) / top}%;background:${colour(i)};opacity:${alpha};height:13px` });
        return el(
          "div",
          {},
          tr`${names[i]}: ${bytes(size)}`,
          el("div", { style: "display:flex" }, part(fixed, 0.45), part(size - fixed, 1)),
        );
      }),
    );
    const x = (n) => 6 + ((n - 1) / (MOST - 1)) * (W - 92),
      y = (size) => H - 18 - (size / top) * (H - 30),
      text = (x, y, words, anchor) => svg("text", { x, y, "text-anchor": anchor, style: "fill:var(--muted)" }, words),
      line = (i) =>
        lines.map((sizes, n) => `${n ? "L" : "M"}${x(n + 1).toFixed(1)},${y(sizes[i]).toFixed(1)}`).join("");
    this.plot.replaceChildren(
      svg("path", { d: `M${x(c || 1)},2V${H - 18}M6,${y(0)}H${x(MOST)}`, style: "stroke:var(--line)" }),
      text(6, H - 5, tr`1 token`, "start"),
      text(x(MOST), H - 5, String(MOST), "end"),
      ...(lines.at(-1) ?? []).flatMap((size, i) => [
        svg("path", { d: line(i), style: `fill:none;stroke:${colour(i)};stroke-width:2.5` }),
        text(x(lines.length) + 4, y(size) + (i === 2 ? 13 : 2), bytes(size), "start"),
      ]),
    );
    set(this.plot, { "aria-label": tr`Bytes read by 1 to ${lines.length} tokens together` });
  }

  describe(t) {
    const { found } = gathered(this.run.steps, t);
    if (!found.length) return tr`Before the first step.`;
    const board = this.run.board(t),
      name = (position) => glyphs(this.run.piece(board[position]?.token ?? 0).text),
      [position, one] = found.at(-1),
      all = one.layers.flat().length,
      [same, i] = alike(found);
    return i < 0 || !same
      ? tr`Position ${position} ${name(position)} reads ${all} slots, all of them its own.`
      : tr`Position ${position} ${name(position)} reads ${all} slots, ${same} of them as position ${found[i][0]} \
${name(found[i][0])} did.`;
  }
}
