// The matrices G of every layer and head as heat maps: those of the run's decoder, still where they are cached, and
// those of the decoder without a cache, drawn again for each token. Below, both texts with the first token in which
// they differ, and the milliseconds of every token.

import { glyphs, number } from "../codec.js";
import { el, pool, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";
import { differ, left, mapsOf, paint, ROLES, textsOf, timesOf, width } from "./operatormaps.js";

export const view = {
  name: "Operators",
  title: "Attention operator G of every layer and head",
  place: 121,
  needs: ["operators"],
};

const WIDE = 600, // of the drawing of times
  HIGH = 90,
  LEFT = 72, // for the marks of the scale
  COLOURS = ["var(--accent)", "var(--warn)"],
  STAMP = "margin-left:8px;padding:0 6px;border:1.5px solid var(--accent);border-radius:4px;color:var(--accent)",
  DIFFERS = "outline:2px solid var(--warn);border-radius:3px";

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

export class Operators {
  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.say = el("p", "dx-readout");
    this.strips = ROLES.map(() => {
      const name = el("span"),
        stamp = el("b", { style: STAMP }, tr`frozen`),
        far = el("span", { style: "float:right;color:var(--muted)" }),
        canvas = el("canvas", { role: "img", style: "display:block;width:100%;image-rendering:pixelated" }),
        bars = svg("svg", { style: "display:block;width:100%;height:12px", preserveAspectRatio: "none" }),
        node = el("div", { style: "margin:6px 0" }, el("div", {}, name, stamp, far), canvas, bars);
      return { name, stamp, far, canvas, bars, node };
    });
    this.texts = ROLES.map(() => el("p", { style: "margin:4px 0;overflow-wrap:anywhere" }));
    this.lines = COLOURS.map((stroke) => svg("path", { fill: "none", stroke, "stroke-width": 2 }));
    this.marks = [12, HIGH - 4].map((y) =>
      svg("text", { x: LEFT - 6, y, "text-anchor": "end", fill: "var(--muted)", "font-size": 12 }),
    );
    this.times = svg(
      "svg",
      { role: "img", viewBox: `0 0 ${WIDE} ${HIGH}`, style: "display:block;width:100%;max-width:760px" },
      svg("path", { d: `M${LEFT},${HIGH - 1}H${WIDE}`, stroke: "var(--line)" }),
      ...this.lines,
      ...this.marks,
    );
    dom.append(
      this.say,
      ...this.strips.map(({ node }) => node),
      ...this.texts,
      this.times,
      el(
        "p",
        "dx-readout",
        tr`A map is G of a head, the heads of each layer together: blue above 0, orange below. Bars: how far it \
moved from its first. Curves: milliseconds of each token, blue this decoder, orange without a cache.`,
      ),
    );
  }

  show(t, hurry) {
    if (hurry) return;
    ROLES.forEach((role, i) => this.#strip(mapsOf(this.run, t, role), this.strips[i], i));
    const texts = textsOf(this.run, t),
      first = differ(texts);
    texts.forEach((tokens, i) => {
      this.texts[i].hidden = i > 0 && !tokens.length;
      pool(this.texts[i], tokens.length + 1, () => el("span")).forEach((span, at) => {
        setText(span, at ? this.#piece(tokens[at - 1]) : `${i ? tr`No cache` : tr`This decoder`}: `);
        span.style.cssText = at ? (at - 1 === first ? DIFFERS : "") : "color:var(--muted)";
      });
    });
    this.#curves(t);
    const words = this.describe(t);
    setText(this.say, words);
    set(this.times, { "aria-label": words });
  }

  #piece(token) {
    const { text, kind } = this.run.piece(token);
    return kind === "special" ? glyphs(text, 8) : text;
  }

  #strip(maps, { name, stamp, far, canvas, bars, node }, other) {
    node.hidden = !maps;
    if (!maps) return;
    const held = maps.last.held && !other,
      moved = Math.max(...maps.far),
      { theme } = this.context,
      mode = this.context.mode(),
      { panel, accent } = theme.surface[mode];
    setText(name, other ? tr`No cache: G made again` : held ? tr`This decoder: G kept` : tr`This decoder: G made`);
    stamp.hidden = !held;
    setText(far, moved ? tr`moved by up to ${(100 * moved).toFixed(0)} %` : tr`did not move`);
    set(canvas, { "aria-label": tr`${maps.layers} layers with ${maps.heads} maps each` });
    paint(canvas, maps, { nothing: panel, above: accent, below: theme.options[mode][1].fill });
    set(bars, { viewBox: `0 0 ${width(maps)} 10` });
    pool(bars, maps.far.length, () => svg("rect", { y: 0, fill: "var(--warn)" })).forEach((bar, i) =>
      set(bar, { x: left(maps, i), width: maps.d, height: Math.min(10, 20 * maps.far[i]).toFixed(2) }),
    ); // half of its size fills the strip
  }

  #curves(t) {
    const series = timesOf(this.run, this.run.length),
      known = series.map((one) => one.filter((ms) => ms !== null)),
      top = 1.5 * Math.max(...known.map(middle), 1e-6), // slower ones, such as the prompt's, are cut off
      x = (at) => (LEFT + ((WIDE - LEFT) * at) / Math.max(1, this.run.length - 1)).toFixed(1),
      y = (ms) => (HIGH * (1 - Math.min(1, ms / top))).toFixed(1);
    this.times.style.display = known[0].length ? "block" : "none";
    series.forEach((one, i) => {
      const points = one.slice(0, t).flatMap((ms, at) => (ms === null ? [] : [`${x(at)},${y(ms)}`]));
      set(this.lines[i], { d: points.length ? `M${points.join("L")}` : "" });
    });
    [tr`${number(top)} ms`, "0"].forEach((text, i) => setText(this.marks[i], text));
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
