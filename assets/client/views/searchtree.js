// A table that learns from the text, searched for drafts: the successors of the newest pair with what of their weight
// this text has taught, the search tree below them, and what became of the drafts that were taken from it. Beside it
// the drafts of the same search in the table as it was loaded.

import { el, set, setText, svg } from "../player/dom.js";
import { CHIP, LETTER, MIDDLE, render, StepPicture } from "../player/drawing.js";
import { tidy } from "../player/layout.js";
import { Sliding, short, unknown } from "../player/sliding.js";
import { cut, many, tr } from "../player/words.js";
import { after, drafts, fates, LINE, lines, shown, successors, trail, why } from "./searched.js";

export const view = { title: "A table that learns, searched for drafts", place: 51, needs: ["table_search"] };

const NARROW = 900, // a panel without room for bars left of the tree
  BESIDE = 1000, // a panel with room for the baseline's drafts
  LEAVES = 11, // rows of the tree
  LISTED = 9, // drafts of the baseline
  TOP = 30;

export class SearchTree extends StepPicture {
  threads = svg("g", "dx-threads");
  plain = svg("g", { opacity: 0.7 });
  layers = ["bars", this.threads, "circles", "cells", this.plain];
  none = tr`No search in this step.`;
  sliding = new Sliding(this, "table_search.iterations", tr`iterations I`, tr`Iterations of the search`, [0, 1, 1]);
  terms = this.below(el("p", "dx-readout"));

  also(search, step) {
    const n = search?.ends.length ?? 0;
    set(this.sliding.slider, { max: Math.max(n, 1) });
    this.sliding.show(n, n > 0, search ? this.#again(search, step) : "");
    setText(this.terms, search && this.#moved(search) ? this.#iteration(search) : "");
  }

  /** The iterations that are shown: those that were made, or as many as a person left the slider at. */
  #k({ ends }) {
    return Math.min(this.sliding.at(ends.length), ends.length);
  }

  /** After other iterations than were made: the nodes that drafts end in, what comes of them, and the terms of the last
   * one; null where no slider was moved, or that is not known. */
  #moved(search) {
    return this.#k(search) > 0 ? this.sliding.decided(null) : null;
  }

  #again(search, { tree }) {
    const k = this.#k(search),
      [, [, , rows, kept]] = this.sliding.decided([[], []]),
      least = kept === tree.emitted.length ? "≥ " : "";
    return tr`after ${k} iterations ${many(rows, "drafted")}, ${least}${kept} accepted`;
  }

  /** What the last of the iterations did, in the terms of the rule. */
  #iteration(search) {
    const k = this.#k(search),
      way = trail(search, search.ends[k - 1]),
      words = (tokens) => tokens.map((token) => this.word(token, 12)).join(" "),
      [, , terms] = this.#moved(search),
      rolled = search.rollouts[k - 1];
    const on = rolled.length ? tr`, rolled out to ${words(rolled)}` : "";
    return tr`Iteration ${k}: ${words(way.map((node) => search.tokens[node]))} (${why(terms)})${on}, score \
${short(search.scores[k - 1])}.`;
  }

  draw(search, step) {
    const { width } = this,
      narrow = width < NARROW,
      beside = width >= BESIDE,
      pitch = narrow ? 26 : 30,
      R = narrow ? 12 : 20, // of a circle with all visits
      { list, hidden } = shown(search, step, LEAVES),
      { places, rows, columns } = tidy(list.map(({ parent }) => parent)),
      heads = list.filter(({ parent, node }) => parent === 0 && node > 0),
      left = narrow ? 4 : 0.3 * width,
      right = beside ? 0.75 * width : width,
      top = TOP + (narrow ? heads.length * LINE + 34 : 0),
      apart = (right - left - 8) / Math.max(1, columns - 1),
      room = Math.floor((Math.min(150, apart - 2 * R - 14) - 12) / LETTER),
      foot = top + rows * pitch + 16,
      moved = this.#moved(search),
      now = moved && fates(drafts(search, moved[0]), moved[1], step.tree.emitted);
    list.forEach((item, i) => {
      if (now) item.state = now.get(String(item.tokens)) ?? "";
      const { column, row } = places[i],
        whole = i ? this.word(item.tokens.at(-1)) : "",
        text = cut(whole, Math.max(1, room)),
        x = left + (column - 1) * apart + R,
        start = x + R + 4,
        end = start + LETTER * [...text].length + 12;
      Object.assign(item, { x, y: top + (row + 0.5) * pitch, whole, text, start, end });
    });
    const word = (token, most) => this.word(token, most),
      labels = successors(this.bars, search, heads, word, { narrow, width: narrow ? width : left, top: TOP }),
      circles = this.#grow(search, list, R, labels),
      title = narrow ? tr`search: area = visits` : tr`search: area = visits; boxes go to the target`;
    if (heads.length) labels.push([left, top - 14, "start", title]);
    if (hidden > 0) labels.push([left, foot, "start", tr`and ${hidden} nodes with fewer visits`]);
    this.#baseline(search, step, beside ? right + 24 : null, foot, labels);
    this.tall = { [width]: Math.max(foot + (beside ? 8 : 48), this.tall?.[width] ?? 0) }; // so that nothing jumps
    this.frame(this.tall[width], labels);
    return circles.slice(1);
  }

  /** The search tree: circles as large as their visits, edges as heavy as the weights, and the tokens that were sent to
   * the target as boxes. */
  #grow(search, list, R, labels) {
    const k = this.#k(search),
      visits = after(search, k),
      way = new Set(this.#moved(search) ? trail(search, search.ends[k - 1]) : []),
      size = ({ node }) => (node > 0 ? R * Math.sqrt(visits[node] / search.ends.length) : 0),
      kind = ({ node }) => (2 * search.loaded[node] < search.weights[node] ? "text" : "store"),
      below = list.slice(1),
      boxes = below.filter(({ state }) => state);
    this.chips(
      this.cells,
      boxes.map((box) => ({ ...box, x: (box.start + box.end) / 2, y: box.y - CHIP / 2 })),
      999,
    );
    for (const { state, start, y, text } of below) if (!state) labels.push([start + 4, y + 4, "start", text]);
    const edges = below.filter(({ parent, from }) => parent || from);
    render(this.threads, edges, (item) => {
      const { parent, node, start, x, y } = item,
        [x1, y1] = parent ? [list[parent].end + 2, list[parent].y] : [item.from, y],
        x2 = node < 0 ? start : x - size(item),
        bend = (x1 + x2) / 2,
        heavy = 1 + 3 * Math.min(1, search.weights[node] ?? 0.3),
        d = `M${x1},${y1}C${bend},${y1} ${bend},${y} ${x2},${y}`,
        source = node < 0 ? "" : kind(item);
      return ["path", { d, style: `stroke-width:${heavy}`, "data-source": source }];
    }).forEach((path, i) => {
      path.style.opacity = way.has(edges[i].node) || (!way.size && edges[i].state) ? 0.9 : 0.3;
    });
    const circles = render(this.circles, list, (item) => {
      const r = size(item),
        n = visits[item.node] ?? 0,
        style = "fill:color-mix(in srgb, var(--source) 35%, var(--panel))",
        circle = { cx: item.x, cy: item.y, r: r.toFixed(1), class: "dx-source", "data-source": kind(item), style };
      return [
        {},
        ["title", {}, tr`visits: ${n}`],
        ["circle", circle],
        ["text", { ...MIDDLE, x: item.x, y: item.y + 4 }, r > 8 ? n : ""],
      ];
    });
    circles.forEach((group, i) => (group.childNodes[1].style.strokeWidth = way.has(list[i].node) ? 3 : 1.2));
    return circles;
  }

  /** What the same search drafts in the table as it was loaded, and what of it the target would have kept. */
  #baseline({ fixed }, { tree }, x, foot, labels) {
    const came = this.run.asked(this.t, "table_search", "fixed"),
      [, , rows, kept] = came ?? [],
      made = rows ? tr`${many(rows, "drafted")}, ${kept} accepted` : tr`nothing is drafted`,
      all = came && x !== null ? lines(fixed, came, tree.emitted) : [],
      boxes = [],
      at = [x ?? 4, x === null ? foot + 22 : TOP - 14];
    labels.push([...at, "start", tr`○ without learning (derived):`]);
    labels.push([at[0], x === null ? foot + 40 : TOP + 6, "start", came ? made : unknown(this.run)]);
    all.slice(0, LISTED).forEach((line, i) => {
      let at = x;
      const room = (this.width - x) / line.length - 20; // of a token
      for (const { token, state } of line) {
        const text = this.word(token, Math.min(10, Math.floor(room / LETTER))),
          wide = LETTER * [...text].length + 12;
        boxes.push({ x: at + wide / 2, y: TOP + 18 + i * 30, state, whole: this.word(token, 40), text });
        at += wide + 4;
      }
    });
    this.chips(this.plain, boxes, 999);
    if (all.length > LISTED) labels.push([x, TOP + 34 + LISTED * 30, "start", tr`and ${all.length - LISTED} more`]);
  }

  sentence({ pair, ends }, { tree }) {
    const after = pair.map((token) => this.word(token, 12)).join(" "),
      drafted = many(tree.tokens.length - 1, "drafted"),
      accepted = tree.accepted.filter(Boolean).length - 1;
    if (!ends.length) return tr`The table has no entry after ${after}: nothing is searched.`;
    return tr`${ends.length} iterations search the table from ${after} on; the most visited paths, ${drafted}, \
go to the target in one call: ${accepted} accepted.`;
  }
}
