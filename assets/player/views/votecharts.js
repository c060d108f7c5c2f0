// The two pictures of a vote: the modes of the weights, and a stacked bar for each rule.

import { cut, glyphs, number } from "../codec.js";
import { set, svg } from "../dom.js";
import { tr } from "../words.js";

const W = 340,
  H = 170,
  BASE = 132,
  BINS = 20,
  ROW = 50;

const text = (x, y, words, more = {}) => svg("text", { x, y, style: "fill:var(--text)", ...more }, words);

/** Density of a Weibull distribution. */
function weibull(x, { shape, scale }) {
  const r = x / scale;
  return (shape / scale) * r ** (shape - 1) * Math.exp(-(r ** shape));
}

/** Weights of the voters as bars, those dropped hollow, with the fitted modes. */
export function chart(picture, vote) {
  set(picture, { viewBox: `0 0 ${W} ${H}` });
  const voters = vote ? vote.weights.map((x, i) => ({ x, i })).filter(({ i }) => vote.of[i] >= 0) : [];
  if (!voters.length) return picture.replaceChildren(text(0, 20, tr`Drawn when the paths are over.`));
  const xs = voters.map(({ x }) => x),
    lo = Math.max(0, Math.min(...xs) - 0.02 * Math.max(...xs)),
    hi = Math.max(...xs) * 1.02 || 1,
    step = (hi - lo) / BINS || 1,
    bins = Array.from({ length: BINS }, () => [0, 0]);
  for (const { x, i } of voters)
    bins[Math.min(BINS - 1, Math.floor((x - lo) / step))][(vote.removed ?? [])[i] ? 1 : 0]++;
  const most = Math.max(...bins.map(([a, b]) => a + b)),
    px = (x) => 8 + ((x - lo) / (hi - lo)) * (W - 16),
    py = (n) => BASE - (Math.min(n, most * 1.15) / (most * 1.15)) * (BASE - 12),
    nodes = [];
  bins.forEach(([kept, gone], b) => {
    const box = (from, to, style) =>
      nodes.push(
        svg("rect", {
          x: px(lo + b * step),
          y: py(to),
          width: (W - 16) / BINS - 1,
          height: py(from) - py(to),
          style,
        }),
      );
    if (kept) box(0, kept, "fill:var(--accepted-fill)");
    if (gone) box(kept, kept + gone, "fill:none;stroke:var(--warn);stroke-dasharray:3 2");
  });
  (vote.modes ?? []).forEach((mode, m) => {
    const d = Array.from({ length: 161 }, (_, i) => {
      const x = lo + ((hi - lo) * i) / 160,
        y = py(mode.share * weibull(x, mode) * voters.length * step);
      return `${i ? "L" : "M"}${px(x).toFixed(1)},${(Number.isFinite(y) ? y : py(0)).toFixed(1)}`;
    }).join("");
    nodes.push(svg("path", { d, style: `fill:none;stroke:var(${m ? "--warn" : "--accent"});stroke-width:2` }));
  });
  const mean = px(vote.mean ?? 0);
  nodes.push(
    svg("path", { class: "dx-threshold", d: `M${mean},6V${BASE}` }),
    text(mean, BASE + 14, tr`mean`, { "text-anchor": mean > W - 60 ? "end" : "middle" }),
    text(8, BASE + 14, number(lo)),
    text(W - 8, BASE + 14, number(hi), { "text-anchor": "end" }),
    text(
      8,
      BASE + 31,
      (vote.modes ?? []).length ? tr`■ kept  ┄ dropped: lower mode, below mean` : tr`no fit: nothing dropped`,
    ),
  );
  set(picture, {
    "aria-label": tr`${voters.length} weights, ${voters.filter(({ i }) => vote.removed?.[i]).length} dropped`,
  });
  picture.replaceChildren(...nodes);
}

/** One bar per rule, a segment per voter in the colour of its answer; below it who wins after the first 1 .. n. */
export function bars(picture, vote, colour) {
  const tallies = vote?.tallies ?? [];
  set(picture, { viewBox: `0 0 ${W} ${Math.max(1, tallies.length) * ROW}`, "aria-label": tr`Votes by rule` });
  if (!tallies.length) return picture.replaceChildren(text(0, 20, tr`Counted when the paths are over.`));
  picture.replaceChildren(
    ...tallies.flatMap((one, row) => {
      const y = row * ROW,
        all = one.shares.reduce((a, b) => a + b, 0) || 1,
        order = one.shares.map((_, i) => i).sort((a, b) => vote.of[a] - vote.of[b] || one.shares[b] - one.shares[a]),
        won = one.winner ?? -1,
        running = one.running ?? [],
        cell = W / Math.max(1, running.length);
      let x = 0;
      const parts = order
        .filter((i) => one.shares[i] > 0)
        .map((i) => {
          const width = (one.shares[i] / all) * W,
            rect = {
              x,
              y: y + 16,
              width: Math.max(0.5, width - 0.7),
              height: 15,
              style: `fill:${colour(vote.of[i])}`,
            };
          x += width;
          const words = tr`${glyphs(vote.answers[vote.of[i]])}: path ${vote.voters[i]}, ${number(one.shares[i])}`;
          return svg("rect", rect, svg("title", {}, words));
        });
      const name = won < 0 ? tr`no answer` : `${cut(glyphs(vote.answers[won]), 12)}${one.tied ? tr` (tie)` : ""}`;
      return [
        text(0, y + 11, `${row ? "" : "★ "}${one.rule}`),
        text(W, y + 11, `${name} ${number(one.confidence ?? 0)}`, { "text-anchor": "end" }),
        ...parts,
        ...running.map((of, n) =>
          svg(
            "rect",
            {
              x: n * cell,
              y: y + 33,
              width: Math.max(0.5, cell - 0.7),
              height: 5,
              style: `fill:${of < 0 ? "none" : colour(of)}`,
            },
            svg("title", {}, tr`after ${n + 1}: ${of < 0 ? tr`no answer` : glyphs(vote.answers[of])}`),
          ),
        ),
      ];
    }),
  );
}
