// Half columns: at layer l the state of the last token is mapped to the places after it, where no token is yet. Each
// mapped state goes on through the layers above; the word that the output head reads of it after each is in its cell,
// filled where the next call wrote that word there. Beside it how often that was so, by layer.

import { LETTER, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { cut, many, tr } from "../player/words.js";
import { emitted, oneByOne } from "./onepass.js";

export const view = { title: "Guesses refined by the upper layers", place: 53, needs: ["transfer"] };

const ROOF = 52, // heights of the parts from top to bottom, in CSS pixels
  FLOOR = 32, // of a layer that is read
  DEEP = 84, // of the layers below
  MOST = 9, // layers that are read
  WIDEST = 132, // of a column
  THIN = 44,
  NARROW = 560;

/** At most MOST of `count` layers, with both ends: rows of the record, from the lowest. */
export function floors(count) {
  const shown = Math.min(count, MOST);
  return Array.from({ length: shown }, (_, i) => Math.round((i * (count - 1)) / Math.max(1, shown - 1)));
}

/** Of the guesses that a call of these steps could check, how many a row of the record reads right: [right,
 * checked]. */
export function tally(steps, row) {
  let right = 0,
    checked = 0;
  for (const { transfer, tree } of steps)
    transfer?.tokens?.[row]?.slice(0, tree?.emitted.length).forEach((token, i) => {
      checked++;
      right += token === tree?.emitted[i];
    });
  return [right, checked];
}

export class Transferred extends StepPicture {
  layers = ["tall", "plain", "lines", "halves", "bars", "cells", "hops", "ends"];
  none = tr`Nothing was guessed for this call.`;
  told = ({ transfer, tree }) => tree && transfer?.tokens?.[0]?.length && transfer;

  draw(told, { tree }) {
    const { width } = this,
      m = told.tokens[0].length,
      wide = width >= NARROW,
      rows = floors(told.tokens.length),
      left = wide ? 124 : 24,
      w = Math.min(WIDEST, wide ? (width - left - 232) / (m + 1) : (width - left - 2 * THIN) / m),
      first = wide ? w : THIN, // of the column of the last token
      base = ROOF + rows.length * FLOOR,
      labels = [],
      at = {
        ...{ m, wide, rows, left, w, first, base, labels, foot: base + DEEP, begin: left + first + m * w },
        x: (i) => left + (i ? first + (i - 0.5) * w : first / 2),
        y: (r) => base - (r + 1) * FLOOR,
      };
    this.#column(told, at);
    const cells = this.#cells(told, tree, at),
      hops = this.#hops(at);
    this.#ends(told, tree, at);
    oneByOne(this, tree, this.#bars(at), ROOF, at.foot, labels);
    this.frame(at.foot + (wide ? 34 : 54), labels);
    return [...hops, ...cells];
  }

  /** The column of the last token, through all layers, and the names of those that are read. */
  #column({ layer: l }, { rows, wide, left, first, base, foot, y, labels }) {
    const box = { class: "dx-lift", rx: 8, x: left + 3, y: ROOF - 4, width: first - 6, height: foot - ROOF + 4 };
    render(this.tall, [["rect", box]]);
    const below = Array.from({ length: l }, (_, k) => base + ((k + 0.5) * DEEP) / l),
      lines = [...rows.map((_, r) => y(r) + FLOOR / 2), ...below];
    render(this.lines, lines, (at) => ["path", { d: `M${left + 12},${at.toFixed(1)}H${left + first - 12}` }]);
    rows.forEach((row, r) => labels.push([left - 8, y(r) + 20, "end", wide ? tr`layer ${l + row}` : l + row]));
  }

  /** What is read of each half column after each layer, and its frame. */
  #cells({ tokens, chances }, { emitted }, { m, rows, w, base, x, y }) {
    const boxes = rows.flatMap((row, r) => Array.from({ length: m }, (_, i) => ({ row, r, i }))),
      roomy = w > 112,
      most = Math.floor((w - 16 - (roomy ? 44 : 0)) / LETTER);
    const columns = Array.from({ length: m }, (_, i) => x(i + 1)),
      half = { class: "dx-eta", "data-s": "drafted" };
    render(this.halves, columns, (middle) => {
      const d = `M${middle - w / 2 + 3},${base + 2}V${ROOF - 4}H${middle + w / 2 - 3}V${base + 2}Z`;
      return ["path", { ...half, d }];
    });
    return render(this.cells, boxes, ({ row, r, i }) => {
      const whole = this.word(tokens[row][i]),
        known = i < emitted.length,
        right = known && tokens[row][i] === emitted[i],
        share = `${Math.round(100 * chances[row][i])} %`,
        sign = right ? "✓ " : known ? "✕ " : "",
        word = { x: x(i + 1) - (roomy ? w / 2 - 13 : 0), y: y(r) + 20, "text-anchor": roomy ? "start" : "middle" },
        beside = { x: x(i + 1) + w / 2 - 13, y: y(r) + 20, "text-anchor": "end", style: "fill:var(--ink)" };
      return [
        { "data-s": right ? "accepted" : known ? "masked" : "unreached" },
        ["title", {}, `${whole}: ${share}`],
        ["rect", { rx: 4, x: x(i + 1) - w / 2 + 7, y: y(r) + 2, width: w - 14, height: FLOOR - 4 }],
        ["text", word, sign + cut(whole, Math.max(1, most - sign.length))],
        ["text", beside, roomy ? share : ""],
      ];
    });
  }

  /** The maps: from the column at layer l to the foot of each half column. */
  #hops({ m, base, x, y, labels }) {
    const from = y(0) + FLOOR / 2,
      places = Array.from({ length: m }, (_, i) => x(i + 1));
    return render(this.hops, places, (to, i) => {
      const drop = base + 4 + (30 + 22 * i) / 0.75,
        head = `M${to - 6},${base + 14}L${to},${base + 6}L${to + 6},${base + 14}`,
        d = `M${x(0)},${from}C${x(0)},${drop} ${to},${drop} ${to},${base + 8}${head}`;
      labels.push([to + 12, base + 24, "start", `W${"₁₂₃₄₅₆₇₈₉"[i] ?? ""}`]);
      return [{ "data-s": "drafted" }, ["path", { class: "dx-arc", d }], ["circle", { r: 5, cx: x(0), cy: from }]];
    });
  }

  /** What the columns stand on, and what was written over them. */
  #ends({ source }, tree, { m, wide, left, w, first, foot, x, labels }) {
    const path = tree.tokens.map((_, row) => row).filter((row) => row && tree.accepted[row]),
      end = (i) => (i < m || wide ? x(i + 1) : this.width - THIN / 2 - 2),
      before = ([token, y]) => {
        const whole = this.word(token);
        return { x: x(0), y, state: "old", whole, text: first < w ? cut(whole, 4) : undefined };
      };
    const items = [
      ...[
        [source, foot + 6],
        [tree.tokens[0], 4],
      ].map(before),
      ...Array.from({ length: m }, (_, i) => ({ x: x(i + 1), y: foot + 6, state: "masked", whole: "?" })),
      ...emitted(this, tree, end).map((item, i) =>
        i < m || wide ? item : { ...item, sign: false, whole: cut(item.whole, 4) },
      ),
    ];
    this.chips(this.ends, items, w - 4);
    path.forEach((row, i) => {
      if (tree.ranks?.[row] > 0) labels.push([x(i + 1), ROOF - 10, "middle", tr`guess ${tree.ranks[row] + 1}`]);
    });
    if (wide) labels.push([left - 8, 20, "end", tr`written`], [left - 8, foot + 22, "end", tr`tokens in`]);
  }

  /** How often each layer reads right what was checked so far. Returns where the next part may begin. */
  #bars({ rows, wide, base, foot, begin, y, labels }) {
    const counts = rows.map((row) => tally(this.run.steps.slice(0, this.t), row)),
      left = begin + 22,
      long = wide ? Math.min(130, this.width - left - 60) : 0,
      shares = counts.map(([right, checked]) => right / (checked || 1));
    render(this.bars, wide ? shares : [], (share, r) => {
      const box = { x: left, y: y(r) + 6, width: Math.max(1, long * share), height: FLOOR - 12 };
      return ["rect", { class: "dx-warm", rx: 3, ...box }];
    });
    shares.forEach((share, r) => {
      const ends = wide ? [left + long * share + 6, "start"] : [this.width - 2, "end"];
      labels.push([ends[0], y(r) + 20, ends[1], `${Math.round(100 * share)} %`]);
    });
    const so = tr`right so far, of ${counts[0][1]} checked`;
    labels.push(wide ? [left, base + 18, "start", so] : [this.width - 2, foot + 48, "end", `% ${so}`]);
    return left + long + 110;
  }

  sentence(told, step, t) {
    const { accepted } = rowsOf(step.tree),
      { layer: l, layers: n } = told,
      by = l + 1 < n ? tr`layers ${l + 1} to ${n}` : l < n ? tr`layer ${n}` : tr`no layer`,
      wrote = many(step.tree.emitted.length, "token");
    return tr`In call ${t - 1} the state of ${this.word(told.source)} after layer ${l} was mapped to the places after \
it, m = ${told.tokens[0].length}; refined by ${by}. Call ${t} accepts ${accepted} and writes ${wrote}.`;
  }
}
