// The attention operator G, token by token: without a cache its network makes it again for each, here it runs for the
// prompt, and what it made is kept. Below, the time of each token; then the maps of every layer and head, and how far
// those of the decoder without a cache have moved.

import { el, pool, set, setText } from "../player/dom.js";
import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { fine, glyphs, number, tr } from "../player/words.js";
import {
  columnsOf,
  differ,
  layout,
  left,
  MAP,
  mapsOf,
  NET,
  paint,
  pictured,
  ROLES,
  textsOf,
  timesOf,
  width,
} from "./operatormaps.js";

export const view = { title: "Attention operator G of every layer and head", place: 121, needs: ["operators"] };

const STAMP = "margin-left:8px;padding:0 6px;border:1.5px solid var(--accent);border-radius:4px;color:var(--accent)";

const RUNS = { "stroke-dasharray": "none", style: "fill:var(--span-fed);stroke:none" },
  SKIPPED = { "stroke-dasharray": "3 3", style: "fill:none;stroke:var(--muted)" };
const label = (ran) => (ran ? tr`runs` : tr`skipped`);
const ARROW = "stroke:var(--span-fed);stroke-width:2;fill:none;opacity:1";

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

export class Operators extends StepPicture {
  layers = ["nets", "keeps", "maps", "tokens", "times"];
  strips = ROLES.map(() => {
    const name = el("span"),
      stamp = el("b", { style: STAMP }, tr`frozen`),
      canvas = el("canvas", { role: "img", style: "display:block;width:100%;image-rendering:pixelated" }),
      layers = el("div", { style: "position:relative;height:20px" }),
      node = this.below(el("div", { style: "margin:4px 0" }, el("div", {}, name, stamp), layers, canvas));
    return { name, stamp, canvas, layers, node };
  });
  key = this.below(el("p", "dx-readout", tr`A map is G of a head, between query and key: blue above 0, orange below.`));

  also() {
    ROLES.forEach((role, i) => this.#strip(mapsOf(this.run, this.t, role), this.strips[i], i));
  }

  told = ({ operators }) => operators?.decoders;

  #colours() {
    const { theme } = this.context,
      mode = this.context.mode(),
      { panel, accent } = theme.surface[mode];
    return { nothing: panel, above: accent, below: theme.options[mode][1].fill };
  }

  draw() {
    const { run, t } = this,
      columns = columnsOf(t, this.width),
      { narrow, steps } = columns,
      far = this.whole(() => mapsOf(run, run.length, ROLES[1])?.far ?? [0]),
      which = far.indexOf(Math.max(...far)), // the head whose G moves most without a cache
      { heads } = mapsOf(run, run.length, ROLES[0]) ?? { heads: 1 },
      where = tr`layer ${Math.floor(which / heads) + 1}, head ${(which % heads) + 1}`,
      texts = textsOf(run, t),
      drawn = (one) => ({ held: one.last.held, href: pictured(one, which, this.#colours()) }),
      lanes = ROLES.map((role) => ({ role, maps: steps.map((step) => mapsOf(run, step, role)) }))
        .filter(({ maps }) => maps.some(Boolean))
        .reverse() // the baseline stands above
        .map(({ role, maps }) => {
          const own = role === ROLES[0],
            held = own && maps.some((one) => one?.last.held);
          return {
            own,
            title: this.#title(own, held, maps, narrow),
            where,
            at: maps.map((one, i) => one && { ...drawn(one), token: this.#token(texts, own, steps[i]) }),
          };
        }),
      made = layout(columns, lanes, timesOf(run, run.length));
    render(this.times, made.times, ({ k, ...box }) => {
      const style = `fill:var(--${k ? "span-fed" : "accent"});stroke:none`;
      return ["rect", { rx: 2, ...box, style }];
    });
    this.#lanes(made);
    this.chips(this.tokens, made.tokens, 64);
    this.frame(made.height, made.labels);
    return [...this.nets.childNodes, ...this.maps.childNodes].filter((_, i) => i === steps.length - 1);
  }

  /** For each token whether the network that makes G ran, and the G that it used; what is kept goes along a line. */
  #lanes({ nets, keeps, maps }) {
    render(this.nets, nets, ({ x, y, ran }) => [
      {},
      ["rect", { ...(ran ? RUNS : SKIPPED), rx: 5, height: NET, width: 58, x: x - 29, y }],
      ["text", { ...MIDDLE, x, y: y + 16, style: `fill:var(--${ran ? "panel" : "muted"})` }, label(ran)],
      ["path", { d: ran ? `M${x},${y + NET}v9m-4,-5l4,5l4,-5` : "", style: ARROW }],
    ]);
    render(this.keeps, keeps, (d) => ["path", { d, style: "stroke:var(--accent);stroke-width:4;opacity:1" }]);
    const map = { width: MAP, height: MAP, style: "image-rendering:pixelated" };
    render(this.maps, maps, (one) => ["image", { ...map, ...one }]);
  }

  #title(own, held, at, narrow) {
    if (!own)
      return narrow ? tr`No cache: G made again` : tr`Without a cache: the network makes G again for every token`;
    const { source } = at.find(Boolean).last;
    if (source && source !== "own") return tr`This run: G is not its own (${glyphs(source, 24)})`;
    if (held) return narrow ? tr`This run: G kept` : tr`This run: made once for the prompt, then G is kept`;
    return tr`This run: the network makes G`;
  }

  #token(texts, own, step) {
    const { commits } = this.run.steps[step - 1],
      place = (commits?.positions[0] ?? 0) - this.run.prompt.length,
      token = texts[own ? 0 : 1][place],
      whole = token == null || token < 0 ? "–" : glyphs(this.run.piece(token).text, 12);
    return { state: place === differ(texts) && !own ? "rejected" : "old", whole };
  }

  #strip(maps, { name, stamp, canvas, layers, node }, other) {
    node.hidden = !maps;
    if (!maps) return;
    const held = maps.last.held && !other,
      whole = width(maps),
      own = held ? tr`This decoder: G kept` : tr`This decoder: G made`;
    setText(name, other ? tr`No cache: G made again; since the prompt it has moved` : own);
    stamp.hidden = !held;
    set(canvas, { "aria-label": tr`${maps.layers} layers with ${maps.heads} maps each` });
    paint(canvas, maps, this.#colours());
    pool(layers, maps.layers, () => el("span")).forEach((span, l) => {
      const far = Math.max(...maps.far.slice(l * maps.heads, (l + 1) * maps.heads)),
        from = left(maps, l * maps.heads);
      span.style.cssText = "position:absolute;overflow:hidden;white-space:nowrap";
      Object.assign(span.style, { left: `${(100 * from) / whole}%`, maxWidth: `${100 / maps.layers}%` });
      setText(span, other ? tr`layer ${l + 1}: ${far ? fine(far) : tr`nothing seen`}` : tr`layer ${l + 1}`);
    });
  }

  describe(t) {
    const [own, other] = ROLES.map((role) => mapsOf(this.run, t, role));
    if (!own) return tr`Nothing was read yet.`;
    if (!other) return tr`G of ${own.layers} layers with ${own.heads} heads each.`;
    const ms = timesOf(this.run, t).map((one) => number(middle(one.filter((value) => value !== null)))),
      time = tr`A token takes ${ms[0]} ms, without a cache ${ms[1]} ms.`,
      at = differ(textsOf(this.run, t)),
      moved = (100 * Math.max(...other.far)).toFixed(0);
    return at < 0
      ? tr`Without a cache G moved by up to ${moved} %; the texts are the same so far. ${time}`
      : tr`Without a cache G moved by up to ${moved} %; the texts differ from token ${at + 1} on. ${time}`;
  }
}
