// Each token's expert, known before any layer runs; below, two caches at the moment at which an expert has to
// go, with arcs to each next use.

import { el, swatch } from "../player/dom.js";
import { comeIn, MIDDLE, option, render, StepPicture, stroked } from "../player/drawing.js";
import { Sliding } from "../player/sliding.js";
import { cut, seconds, tr, translated } from "../player/words.js";
import { evictions, loadsOf, RULES, readOf, said, sentence } from "./shelves.js";

export const view = { title: "Experts known ahead", place: 80, needs: ["requests"] };

const LEAST = 19, // width of a token, in CSS pixels
  MOST = 40,
  CELLS = 86, // height at which the tokens' experts stand
  ROW = 17, // of a slot
  ARCS = 44;
const FULL = 1150; // width for whole sentences

export class Slots extends StepPicture {
  layers = ["cells", "bars", "arcs", "marks"];
  none = tr`No expert in this step.`;

  named = el("div", "dx-legend");
  above = [this.named];
  turns = [
    el("button", { onclick: () => this.#turn(-1) }, tr`◂ eviction`),
    el("button", { onclick: () => this.#turn(1) }, tr`eviction ▸`),
  ];
  sliding = new Sliding(this, "requests.lru", "c", tr`Slots of the cache`, [1, 8, 1], ...this.turns);

  grow() {
    this.experts = [...new Set(this.run.steps.flatMap(({ choice }) => choice?.options ?? []))];
    const names = this.experts.map((name) => swatch(`background:${this.#fill(name)}`, ` ${translated(name)}`));
    this.named.replaceChildren(el("b", {}, tr`Experts`), ...names);
  }

  #fill(name, part = "fill") {
    return option(Math.max(0, this.experts.indexOf(name)), part);
  }

  #turn(by) {
    const { places } = evictions(this.#read().held);
    this.picked = places[places.indexOf(this.moment) + by] ?? this.moment;
    this.show(this.t);
  }

  #read() {
    const { slots = 1 } = this.run.steps[this.t - 1]?.requests ?? {};
    return readOf(this.run, this.t, this.sliding.at(slots), this.experts);
  }

  also(told) {
    this.named.hidden = !told;
    if (!told) return this.sliding.show(1, false, "");
    const [lru, look] = this.#read().held.map(loadsOf);
    this.sliding.show(told.slots, true, tr`loads: ${lru} by LRU, ${look} with look-ahead.`);
  }

  draw(_, step, next) {
    const read = this.#read(),
      { asked, held, c } = read,
      { outs, places, parted } = evictions(held),
      wide = this.width >= 700,
      left = wide ? 172 : 4,
      room = this.width - left - 40,
      shown = Math.min(asked.length, Math.floor(room / LEAST));
    this.moment = this.picked ?? parted ?? places.at(-1) ?? asked.length - 1;
    const from = Math.max(0, Math.min(asked.length - shown, this.moment - Math.floor(0.4 * shown))),
      w = Math.min(MOST, room / shown),
      x = (at) => left + (Math.min(Math.max(at, from), from + shown) - from) * w,
      at = { left, from, to: from + shown, w, x, wide, labels: [], bars: [], arcs: [], marks: [] };
    this.#tokens(read, at, step);
    const panel = ARCS + Math.max(2, c) * ROW + 36,
      top = CELLS + (wide ? 78 : 60);
    RULES.forEach((_, i) => {
      this.#cache(read, { ...at, y: top + i * panel, i, gone: outs[i].get(this.moment) });
    });
    render(this.bars, at.bars, ({ expert, title, dim, ...box }) => {
      const style = `fill:${this.#fill(expert)};stroke:none;opacity:${dim ? 0.45 : 1}`;
      return ["rect", { height: ROW - 2, ...box, style }, ["title", {}, title]];
    });
    render(this.arcs, at.arcs, ({ d, cx, cy, n, expert, out }) => {
      const fill = this.#fill(expert),
        edge = `stroke:${out ? "var(--text)" : "none"};stroke-width:2`;
      return [
        {},
        ["path", { d, style: out ? stroked("var(--text)", 3) : stroked(fill, 2, "4 3") }],
        ["circle", { r: 9, cx, cy, style: `fill:${fill};${edge}` }],
        ["text", { ...MIDDLE, x: cx, y: cy + 4, style: `fill:${this.#fill(expert, "text")}` }, n],
      ];
    });
    render(this.marks, at.marks, ([d, style]) => ["path", { d, style }]);
    this.frame(top + 2 * panel, at.labels);
    this.turns[0].disabled = !(this.moment > places[0]);
    this.turns[1].disabled = !(this.moment < places.at(-1));
    if (next) comeIn([this.bars, this.arcs, this.marks], { opacity: 0 });
    return [...this.cells.childNodes].slice(0, shown);
  }

  /** The tokens with their experts, and what an ordinary mixture would know. */
  #tokens({ asked, until }, { left, from, to, w, x, wide, labels, marks }, step) {
    const route = this.run.steps[0]?.intervals?.find(({ kind }) => kind === "route"),
      took = route ? seconds(route.end - route.start) : "?",
      board = this.run.board(this.t),
      L = step.routing?.[0]?.layers.length ?? 0;
    render(this.cells, asked.slice(from, to), (expert, i) => {
      const at = from + i,
        token = board[at]?.token,
        text = token == null ? "" : this.word(token),
        turned = `translate(${x(at) + w / 2 + 4},${CELLS - 5}) rotate(-55)`,
        box = { height: 24, rx: 3, x: x(at) + 1, y: CELLS, width: w - 2 },
        style = `fill:${this.#fill(expert)};stroke:none`;
      marks.push([`M${x(at) + 1.5},${CELLS + 28}h${w - 3}v17h${3 - w}z`, stroked("var(--muted)", 1, "2 2")]);
      return [
        {},
        ["title", {}, tr`token ${at} ${text}: ${translated(expert ?? "")}, in all ${L} layers`],
        ["text", { transform: turned }, cut(text, 8)],
        ["rect", { ...box, style }],
        ["text", { ...MIDDLE, x: x(at + 0.5), y: CELLS + 41 }, "?"],
      ];
    });
    const long = tr`① A small router reads the tokens alone: ${until[0] ?? 0} experts known in ${took}, before layer \
1 of ${L} runs`;
    labels.push([left, 14, "start", this.width > FULL ? long : tr`① Known before layer 1 runs`, true]);
    if (!wide) return;
    labels.push([left - 10, CELLS + 16, "end", tr`known ahead`, true]);
    labels.push([left - 10, CELLS + 41, "end", tr`ordinary mixture`]);
    labels.push([left, CELLS + 63, "start", tr`? a router in each layer: unknown until the layer below has run`]);
  }

  /** One cache: what it holds up to the moment and after it, what it throws out, and when each is needed again. */
  #cache({ asked, until, held, c, ahead }, { left, from, to, x, wide, labels, y, i, gone, bars, arcs, marks }) {
    const m = this.moment,
      base = y + 26 + ARCS,
      later = asked.slice(m + 1, Math.min(until[m] ?? 0, m + 1 + ahead)),
      slots = held[i].filter(({ end, start }) => end > from && start < to),
      name = i ? tr`look-ahead` : tr`LRU`,
      inside = new Set(slots.filter(({ start, end }) => start < m && end >= m).map(({ expert }) => expert));
    for (const { slot, expert, start, end, miss } of slots) {
      const top = base + (slot - 1) * ROW,
        title = tr`${translated(expert)}, tokens ${start} to ${end - 1}`,
        add = (a, b, dim) => x(b) > x(a) && bars.push({ x: x(a), y: top, width: x(b) - x(a), expert, title, dim });
      add(start, Math.min(end, m), false);
      add(Math.max(start, m), end, true);
      if (miss && start >= from) marks.push([`M${x(start)},${top - 1}h9l-9,9z`, "fill:var(--text);opacity:1"]);
    }
    marks.push([`M${x(m)},${y + 22}V${base + c * ROW}`, stroked("var(--text)", 2)]);
    for (const expert of inside) {
      const n = later.indexOf(expert) + 1,
        cx = x(Math.min(m + n + 0.5, to)),
        cy = base - 13,
        high = cy - Math.min(ARCS - 10, 8 + 9 * Math.log2(1 + n)),
        d = `M${x(m)},${base}C${x(m)},${high} ${cx},${high} ${cx},${cy}`;
      if (n) arcs.push({ d, cx, cy, n, expert, out: expert === gone?.out });
    }
    const cross = gone && `M${x(m) - 13},${base + (gone.slot - 1) * ROW + 2}l10,10m0,-10l-10,10`;
    if (gone) marks.push([cross, stroked("var(--text)", 2.5)]);
    labels.push([left, y + 14, "start", sentence(m, gone, later, c, i, this.width > FULL), true]);
    if (!wide) return;
    labels.push([left - 10, base + 13, "end", name, true]);
    labels.push([left - 10, base + 13 + ROW, "end", tr`◤ loads: ${loadsOf(held[i])}`]);
  }

  sentence({ start, experts: numbers = [] }, { facts = {} }) {
    const experts = numbers.map((expert) => this.experts[expert]);
    if (!experts.length) return this.none;
    if (experts.length === 1) return tr`Token ${start} asks for ${translated(experts[0])}. ${said(facts)}.`;
    const stretches = experts.filter((one, i) => one !== experts[i - 1]).length;
    return tr`${experts.length} tokens were routed before the first layer ran: ${stretches} stretches of one expert. \
${said(facts)}.`;
  }
}
