// The attention operator G, token by token: without a cache its network makes it again for each, here it runs for the
// prompt, and what it made is kept. Below, the time of each token; then the maps of every layer and head, and how far
// those of the decoder without a cache have moved.

import { CHIP, chips } from "../chips.js";
import { glyphs, number } from "../codec.js";
import { el, pool, set, setText, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { fine } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";
import { lanesOf, MAP, NET } from "./operatorlanes.js";
import { differ, left, mapsOf, paint, pictured, ROLES, textsOf, timesOf, width } from "./operatormaps.js";

export const view = {
  name: "Operators",
  title: "Attention operator G of every layer and head",
  place: 121,
  needs: ["operators"],
};

const NAMES = 176, // room for the names of the rows
  PITCH = 92,
  LANE = NET + MAP + CHIP + 28, // height of a decoder's row
  BARS = 66,
  STAMP = "margin-left:8px;padding:0 6px;border:1.5px solid var(--accent);border-radius:4px;color:var(--accent)";

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

export class Operators extends StepPicture {
  load(run, dom, context) {
    this.strips = ROLES.map(() => {
      const name = el("span"),
        stamp = el("b", { style: STAMP }, tr`frozen`),
        canvas = el("canvas", { role: "img", style: "display:block;width:100%;image-rendering:pixelated" }),
        layers = el("div", { style: "position:relative;height:20px" }),
        node = el("div", { style: "margin:4px 0" }, el("div", {}, name, stamp), layers, canvas);
      return { name, stamp, canvas, layers, node };
    });
    const key = el(
      "p",
      "dx-readout",
      tr`A map is G of a head, which stands between query and key: blue above 0, orange below.`,
    );
    this.begin(
      run,
      dom,
      context,
      ["nets", "keeps", "maps", "tokens", "times"],
      ...this.strips.map(({ node }) => node),
      key,
    );
  }

  show(t, hurry) {
    super.show(t, hurry);
    if (!hurry) ROLES.forEach((role, i) => this.#strip(mapsOf(this.run, t, role), this.strips[i], i));
  }

  told({ operators }) {
    return operators?.decoders;
  }

  #colours() {
    const { theme } = this.context,
      mode = this.context.mode(),
      { panel, accent } = theme.surface[mode];
    return { nothing: panel, above: accent, below: theme.options[mode][1].fill };
  }

  draw(_, __, next) {
    const { t, width } = this,
      narrow = width < 700,
      room = narrow ? 0 : NAMES,
      n = Math.max(2, Math.floor((width - room) / (narrow ? 66 : PITCH))),
      pitch = (width - room) / n,
      // the prompt's step stays in sight; of the others the last ones
      steps =
        t <= n
          ? Array.from({ length: t }, (_, i) => i + 1)
          : [1, ...Array.from({ length: n - 1 }, (_, i) => t - n + 2 + i)],
      x = (i) => room + (i + 0.5) * pitch,
      lanes = ROLES.map((role) => ({ role, at: steps.map((step) => mapsOf(this.run, step, role)) }))
        .filter(({ at }) => at.some(Boolean))
        .reverse(), // the baseline stands above
      labels = [],
      which = this.#furthest(),
      items = { nets: [], keeps: [], maps: [], tokens: [] };
    lanes.forEach(({ role, at }, lane) => {
      const top = 26 + lane * (LANE + 30),
        own = role === ROLES[0],
        held = own && at.some((maps) => maps?.last.held);
      labels.push([0, top - 10, "start", this.#title(own, held, at, narrow), 600]);
      at.forEach((maps, i) => {
        if (!maps) return;
        const ran = !maps.last.held;
        items.nets.push({ x: x(i), y: top, ran });
        items.maps.push({ x: x(i) - MAP / 2, y: top + NET + 12, href: pictured(maps, which, this.#colours()) });
        items.tokens.push(this.#token(own, steps[i], x(i), top + NET + MAP + 20));
        if (!ran && i) items.keeps.push(`M${x(i - 1) + MAP / 2},${top + NET + 12 + MAP / 2}H${x(i) - MAP / 2}`);
      });
      if (!narrow) {
        labels.push([0, top + 16, "start", tr`network that makes G`]);
        labels.push(
          [0, top + NET + 26, "start", tr`score = q G k: G of`],
          [0, top + NET + 44, "start", this.#where(which)],
        );
        labels.push([0, top + NET + MAP + 36, "start", own ? tr`token written` : tr`token it writes`]);
      }
    });
    const foot = this.#times(steps, { x, pitch, narrow, top: 12 + lanes.length * (LANE + 30) }, labels);
    this.frame(foot);
    lanesOf(this, items);
    chips(this.tokens, items.tokens, this.context.theme, 64);
    this.#texts(labels);
    if (next)
      comeIn(
        [...this.nets.childNodes, ...this.maps.childNodes].filter((_, i) => i === steps.length - 1),
        { opacity: 0 },
      );
  }

  /** The head whose G moves most without a cache, over the run as far as it goes. */
  #furthest() {
    if (this.sought === this.run.length) return this.most;
    const far = mapsOf(this.run, this.run.length, ROLES[1])?.far ?? [0];
    Object.assign(this, { sought: this.run.length, most: far.indexOf(Math.max(...far)) });
    return this.most;
  }

  #where(i) {
    const { heads } = mapsOf(this.run, this.run.length, ROLES[0]) ?? { heads: 1 };
    return tr`layer ${Math.floor(i / heads) + 1}, head ${(i % heads) + 1}`;
  }

  #title(own, held, at, narrow) {
    if (!own)
      return narrow ? tr`No cache: G made again` : tr`Without a cache: the network makes G again for every token`;
    const { source } = at.find(Boolean).last;
    if (source && source !== "own") return tr`This run: G is not its own (${glyphs(source, 24)})`;
    if (held) return narrow ? tr`This run: G kept` : tr`This run: made once for the prompt, then G is kept`;
    return tr`This run: the network makes G`;
  }

  #token(own, step, x, y) {
    const texts = (this.texts ??= {}),
      at = texts[this.t] ?? (this.texts = { [this.t]: textsOf(this.run, this.t) })[this.t],
      { commits } = this.run.steps[step - 1],
      place = (commits?.positions[0] ?? 0) - this.run.prompt.length,
      token = at[own ? 0 : 1][place],
      first = differ(at);
    return {
      x,
      y,
      state: place === first && !own ? "rejected" : "old",
      whole: token == null || token < 0 ? "–" : this.#word(token),
    };
  }

  #word(token) {
    return glyphs(this.run.piece(token).text, 12);
  }

  /** Milliseconds of each token, both decoders side by side; gives the foot. */
  #times(steps, { x, pitch, narrow, top }, labels) {
    const series = timesOf(this.run, this.run.length),
      known = series.map((one) => one.filter((ms) => ms !== null)),
      bars = [];
    if (!known[0].length) return top;
    const most = Math.max(...series.flatMap((one) => steps.map((step) => one[step - 1] ?? 0)), 1e-6),
      wide = Math.min(26, pitch / 2 - 4),
      foot = top + BARS + 18;
    series.forEach((one, k) =>
      steps.forEach((step, i) => {
        const ms = one[step - 1];
        if (ms == null) return;
        const high = Math.max(1, (BARS * ms) / most);
        bars.push({ x: x(i) + (k ? -wide - 1 : 1), y: foot - high, width: wide, height: high, k });
        if (!narrow)
          labels.push([x(i) + (k ? -1 - wide / 2 : 1 + wide / 2), foot - high - 4, "middle", String(Math.round(ms))]);
      }),
    );
    pool(this.times, bars.length, () => svg("rect", { rx: 2 })).forEach((bar, i) => {
      const { k, ...box } = bars[i];
      set(bar, box);
      bar.style.cssText = `fill:var(--${k ? "span-fed" : "accent"});stroke:none`;
    });
    if (narrow) labels.push([0, foot + 16, "start", tr`time of each token, up to ${number(most)} ms`]);
    else labels.push([0, foot - 8, "start", tr`milliseconds per token`]);
    return foot + (narrow ? 24 : 6);
  }

  #texts(labels) {
    this.label(labels);
    labels.forEach(([, , , , weight], i) => this.words.childNodes[i].setAttribute("font-weight", weight ?? 400));
  }

  #strip(maps, { name, stamp, canvas, layers, node }, other) {
    node.hidden = !maps;
    if (!maps) return;
    const held = maps.last.held && !other,
      whole = width(maps);
    setText(
      name,
      other
        ? tr`No cache: G made again; since the prompt it has moved`
        : held
          ? tr`This decoder: G kept`
          : tr`This decoder: G made`,
    );
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
