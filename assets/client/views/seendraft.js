// What of a picture reaches a draft: the target keeps a token for each patch; who looks for the draft has a heat map of
// the patches on the faded picture, and what comes of it stands in the draft's own sequence.

import { unpack } from "../player/codec.js";
import { set, svg } from "../player/dom.js";
import { render, StepPicture } from "../player/drawing.js";
import { pictureOf } from "../player/pixels.js";
import { glyphs, percent, tr } from "../player/words.js";

const WIDE = 760, // of a panel in which the parts stand side by side
  SCENE = 196,
  MAP = 144,
  TILE = 16, // of a position, at most
  TOP = 24,
  GLOBAL = "global vector";
const BOLD = "font-weight:600",
  PIXELS = { preserveAspectRatio: "none", style: "image-rendering:pixelated" };
const SHORT = { draft: tr`draft`, "compact token": tr`compact token`, [GLOBAL]: tr`global vector` };
const LOOKS = {
  draft: tr`the draft looks here`,
  "compact token": tr`compact token: made from here`,
  [GLOBAL]: tr`global vector g: made from here`,
};

export class SeenByDraft extends StepPicture {
  early = true;
  scene = svg("image", PIXELS);
  layers = [this.scene, "grid", "maps", "strips", "ways"];
  told = () => this.now.scene?.pixels && this.now;

  /** now: {scene, seen, entries, recalled}: the groups with the pixels and the looks, what the draft keeps, and whether
   * the global vector joins its words. */
  show(t, now) {
    this.now = now;
    super.show(t);
  }

  draw({ scene, seen, entries }) {
    const wide = this.width >= WIDE,
      [rows, columns] = scene.grid?.length ? scene.grid : [1, 1],
      n = rows * columns,
      { picture = n, text = 0 } = entries ?? {},
      side = wide ? SCENE : 150,
      left = wide ? SCENE + 44 : 0,
      readers = seen?.readers ?? [],
      map = Math.min(MAP, (this.width - left - 24) / Math.max(1, readers.length)),
      pitch = Math.min(TILE, (this.width - left - 4) / (n + text + 1)),
      y = { target: wide ? TOP : TOP + side + 26 };
    y.maps = y.target + TILE + 34;
    y.draft = y.maps + (readers.length ? map + 44 : 0);
    const labels = [[0, 14, "start", tr`the picture: ${n} image tokens`]];
    this.href = pictureOf(scene.pixels);
    set(this.scene, { x: 0, y: TOP, width: side, height: side, href: this.href });
    render(this.grid, [this.#grid(rows, columns, 0, TOP, side)]);
    const tiles = [];
    const strip = (row, full) => {
      for (let i = 0; i < full + text; i++) tiles.push({ x: left + i * pitch, y: y[row], full: i < full });
    };
    if (entries) {
      strip("target", n);
      strip("draft", picture);
      const long = tr`Target model: all ${n} image tokens, then the text`,
        short = tr`Target: positions for the picture: ${n}`;
      labels.push([left, y.target - 8, "start", wide ? long : short, BOLD]);
      labels.push([left, y.draft + TILE + 18, "start", this.#draftLabel(picture, n, wide), BOLD]);
    }
    const at = { rows, columns, left, map, pitch, y, picture, text, entries, wide, labels },
      ways = this.#maps(seen, readers, at);
    render(this.strips, tiles, ({ x, y, full }) => {
      const box = { rx: 2, x: x + 1, y, width: Math.max(2, pitch - 2), height: TILE - 2 },
        style = `fill:${full ? "var(--accent)" : "none"};stroke:var(--${full ? "accent" : "muted"})`;
      return ["rect", { ...box, class: full ? "dx-seen-patch" : "", style }];
    });
    const moving = render(this.ways, ways, ([d, width, opacity]) => [
      "path",
      { d, style: `fill:none;stroke:var(--accent);stroke-width:${width};opacity:${opacity}` },
    ]);
    if (wide && readers.length === 2) {
      const x = left + 2 * (map + 128);
      labels.push([x, y.maps + 20, "start", tr`Two learned queries look at all`]);
      labels.push([x, y.maps + 38, "start", tr`${n} image tokens, once.`]);
    }
    this.frame(Math.max(TOP + side, entries ? y.draft + TILE + 26 : 0) + 4, labels);
    return moving;
  }

  #draftLabel(picture, n, wide) {
    if (!wide) return tr`Draft: positions for the picture: ${picture}`;
    if (picture >= n) return tr`Draft: the same ${n} image tokens, then the text`;
    const instead = picture
      ? tr`Draft: ${picture} compact token instead of ${n}, then the text`
      : tr`Draft: no image token, only the text`;
    return this.now.recalled ? instead + tr`; g joins every word` : instead;
  }

  #grid(rows, columns, x, y, side) {
    const across = Array.from({ length: rows + 1 }, (_, i) => `M${x},${y + (i * side) / rows}h${side}`),
      down = Array.from({ length: columns + 1 }, (_, i) => `M${x + (i * side) / columns},${y}v${side}`),
      style = "stroke:var(--muted);stroke-width:1;opacity:.5;fill:none";
    return ["path", { d: [...across, ...down].join(""), style }];
  }

  /** Who looked, from left to right, each with what comes of it; gives the ways from there into the draft. */
  #maps(seen, readers, { rows, columns, left, map, pitch, y, picture, text, entries, wide, labels }) {
    const ways = [],
      values = seen ? unpack(seen.looks).values : [],
      n = rows * columns;
    render(this.maps, readers, (reader, k) => {
      const at = left + k * (wide ? map + 128 : this.width / 2),
        shares = values.slice(k * n, (k + 1) * n),
        least = Math.min(...shares),
        most = Math.max(...shares, least + 1e-9),
        foot = y.maps + map,
        middle = at + map / 2,
        into = left + pitch / 2,
        g = reader === GLOBAL && this.now.recalled,
        name = wide ? LOOKS[reader] : SHORT[reader],
        image = { ...PIXELS, x: at, y: y.maps, width: map, height: map, href: this.href, opacity: 0.22 };
      const cells = Array.from(shares, (share, i) => {
        const width = map / columns,
          height = map / rows,
          box = { x: at + (i % columns) * width, y: y.maps + Math.floor(i / columns) * height, width, height },
          opacity = ((0.9 * (share - least)) / (most - least)).toFixed(3);
        return ["rect", { ...box, opacity, style: "fill:var(--accent);stroke:none" }];
      });
      labels.push([at, y.maps - 8, "start", name ?? glyphs(reader, 20)]);
      if (wide)
        labels.push(
          [at + map + 8, foot - 24, "start", tr`attention`],
          [at + map + 8, foot - 6, "start", tr`${percent(least)} to ${percent(most)}`],
        );
      if (entries && reader === "compact token" && picture)
        ways.push([`M${middle},${foot + 2}C${middle},${foot + 26} ${into},${foot + 10} ${into},${y.draft - 2}`, 3, 1]);
      for (let i = 0; entries && g && i < text; i++) {
        const to = left + (picture + i + 0.5) * pitch,
          d = `M${middle},${foot + 14}C${middle},${y.draft - 6} ${to},${foot + 14} ${to},${y.draft - 2}`;
        ways.push([d, 1, 0.4]);
      }
      return [
        {},
        ["image", image],
        ["g", {}, ...cells],
        this.#grid(rows, columns, at, y.maps, map),
        ["circle", { r: 8, cx: middle, cy: foot + 14, style: g && entries ? "fill:var(--accent)" : "display:none" }],
      ];
    });
    return ways;
  }
}
