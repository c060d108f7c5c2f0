// Hindsight of a finished run: since when each final token had been the top guess, against the step that wrote it.

import { el, legend, set, setText, svg, timeline } from "../player/dom.js";
import { levelOf, ramp } from "../player/theme.js";
import { glyphs, number, tr } from "../player/words.js";

export const view = {
  title: "Hindsight: decodable before it was written",
  place: 175,
  needs: ["candidates+masked+end"],
};

const NOTHING = tr`Nothing to show: no candidates were recorded for a position before the step that wrote it.`;
const START = { other: tr`not the top guess`, unknown: tr`decodable since: unknown` };

/** The figure's lists as a row for each position: {position, token, committed, known, since, delay, earlier}. */
const rowsOf = ({ positions, committed, since, delay, earlier, other }, board) =>
  positions.map((position, i) => ({
    position,
    token: board[position].token,
    committed: committed[i],
    known: since[i] !== null ? "since" : other.includes(position) ? "other" : "unknown",
    since: since[i],
    delay: delay[i],
    earlier: earlier.includes(position),
  }));

export class Hindsight {
  load(run, dom, context) {
    const { hindsight } = run.figures;
    Object.assign(this, { run, context, positions: [], say: el("p", "dx-none") });
    if (!hindsight) return dom.append(el("p", "dx-none", NOTHING));
    const { forwards, enough, mean, max, never, replaced, restored } = hindsight,
      positions = rowsOf(hindsight, run.board(run.length));
    Object.assign(this, { positions, max });
    this.cells = positions.map((row) => {
      const text = glyphs(run.piece(row.token).text, 24);
      const start = START[row.known] ?? tr`decodable since step ${row.since + 1}${row.earlier ? tr` or earlier` : ""}`;
      row.label = tr`position ${row.position}, ${text}: ${start}, written in step ${row.committed + 1}`;
      const look = { class: "dx-cell", role: "listitem", tabindex: -1, title: row.label, "aria-label": row.label };
      return el("span", { ...look, "data-k": row.known }, text);
    });
    const name = tr`From decodable to written, over steps`,
      viewBox = `0 0 ${run.length} ${positions.length}`;
    this.picture = svg("svg", { viewBox, preserveAspectRatio: "none", role: "img", "aria-label": name });
    this.picture.style.height = `${Math.min(Math.max(positions.length * 7, 60), 420)}px`;
    this.line = timeline(run, context, this.picture);
    const count = (word) => positions.filter((row) => row[word] || row.known === word).length;
    const left = {
        earlier: tr`of them perhaps earlier`,
        other: tr`not the top guess when written (×)`,
        unknown: tr`without candidates when written (?)`,
      },
      after =
        tr`After ${enough} of ${forwards} model calls (${Math.round((100 * enough) / forwards)} %) every final token\
 was written, or was the top guess and stayed it.` +
        (mean === null ? "" : tr` Written ${number(mean)} model calls later on average, ${max} at most.`),
      known = [
        tr`${count("since")} of ${positions.length} written positions`,
        ...Object.keys(left).flatMap((word) => (count(word) ? `${count(word)} ${left[word]}` : [])),
        ...(replaced ? [tr`${replaced} replaced, ${restored} of them by a token that had stood there before`] : []),
        ...(never ? [tr`${never} never written`] : []),
      ],
      why = tr`In hindsight of this run, not a promise: writing earlier would have changed the later guesses. \
Start known for `,
      delay = el("span", {}, tr`delay 0`, el("i", "dx-ramp"), tr`${max ?? 0} calls`),
      states = [legend(context.theme, "drafted", tr`decodable`), legend(context.theme, "new", tr`written`)];
    dom.append(
      el("p", {}, after),
      el("p", "dx-none", `${why}${known.join("; ")}.`),
      this.#list(),
      this.line.node,
      el("div", "dx-ticks", el("span", {}, tr`step 1`), this.say, el("span", {}, tr`step ${run.length}`)),
      el("div", "dx-legend", ...states, delay),
    );
    this.relook();
  }

  /** The final tokens; a click or Enter goes to the step that committed one, up and down choose one. */
  #list() {
    const go = (node) =>
      this.cells.includes(node) && this.context.seek(this.positions[this.cells.indexOf(node)].committed + 1);
    const name = tr`Delay of each position: up and down choose one, Enter goes to the step that wrote it`,
      look = { class: "dx-scroll dx-late", role: "list", tabindex: 0, "aria-label": name },
      list = el("div", look, ...this.cells);
    const onkeydown = (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key],
        at = this.cells.indexOf(event.target);
      if (move) this.cells[Math.min(Math.max(at + move, 0), this.cells.length - 1)]?.focus();
      else if (event.key === "Enter") go(event.target);
      else return;
      event.preventDefault();
    };
    set(list, { onkeydown, onclick: (event) => go(event.target.closest(".dx-cell")) });
    return list;
  }

  relook() {
    if (!this.cells) return;
    const shades = ramp(this.context.theme, this.context.mode());
    this.picture.replaceChildren(
      ...this.positions.flatMap((row, y) => {
        const { since, committed, label } = row;
        const bar = (x, width, look) =>
          svg("rect", { x, y: y + 0.1, width, height: 0.8, ...look }, svg("title", {}, label));
        row.shade = shades[levelOf(row.delay / (this.max || 1))];
        if (since === null) return bar(committed, 1, { "data-s": "masked" });
        const before = bar(since, committed - since, { style: `fill:${row.shade.fill}` });
        return [before, bar(committed, 1, { "data-s": "new" })];
      }),
    );
    this.states = [];
    this.show(this.t ?? 0);
  }

  show(t) {
    this.t = t;
    this.cells?.forEach((node, i) => {
      const { since, committed, shade } = this.positions[i],
        heat = since !== null && committed < t;
      const state = committed < t ? "old" : since !== null && since < t ? "drafted" : "masked";
      if (this.states[i] === state) return;
      node.dataset.s = this.states[i] = state;
      node.style.background = heat ? shade.fill : "";
      node.style.color = heat ? shade.text : "";
    });
    this.line?.show(t);
    setText(this.say, this.describe(t));
  }

  describe(t) {
    const open = this.positions.filter(({ since, committed }) => since !== null && since < t && committed >= t);
    return this.cells ? tr`${open.length} decodable and not written yet.` : "";
  }
}
