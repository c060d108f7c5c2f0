// How fast two estimates of one probability come to rest: the share of samples that give an answer, and the sum of the
// probabilities of the different texts that gave it, which with those of all other answers leaves a band.

import { render } from "../player/drawing.js";
import { glyphs, percent, tr } from "../player/words.js";

const TOP = 34,
  TALL = 200,
  LEFT = 56;

/** After the first 1 .. n paths, for the answer `of`: {count, low, high}. The probability of the answer lies between
 * `low`, the sum over the texts that gave it, and `high`, what the texts of the other answers leave. */
export function estimates({ of, weights, copies = [] }, answer) {
  let hits = 0,
    low = 0,
    high = 1;
  return of.map((given, i) => {
    const fresh = given >= 0 && (copies[i] ?? -1) < 0;
    hits += given === answer;
    if (fresh && given === answer) low += weights[i];
    if (fresh && given !== answer) high -= weights[i];
    return { count: hits / (i + 1), low: Math.min(low, 1), high: Math.max(high, low) };
  });
}

/** Draws them for the right answer, or where that is not known the one most often given; returns the labels. */
export function converging(layer, vote, right, width) {
  const counts = vote.answers.map((_, i) => vote.of.filter((of) => of === i).length),
    answer = right !== null && right >= 0 ? right : counts.indexOf(Math.max(...counts)),
    made = estimates(vote, answer),
    n = made.length,
    side = width > 760 ? 420 : 0,
    w = (width - LEFT - side - 8) / n,
    x = (i) => LEFT + i * w,
    y = (share) => TOP + (1 - share) * TALL,
    steps = (values) =>
      values.map((value, i) => `${i ? "V" : `M${x(0)},`}${y(value).toFixed(1)}H${x(i + 1).toFixed(1)}`).join(""),
    low = made.map((one) => one.low),
    high = made.map((one) => one.high),
    area = `${steps(high)}${[...low]
      .reverse()
      .map((value, i) => `V${y(value).toFixed(1)}H${x(n - 1 - i).toFixed(1)}`)
      .join("")}Z`,
    last = made.at(-1),
    spread = Math.sqrt((last.count * (1 - last.count)) / n),
    name = glyphs(vote.answers[answer], 12),
    ticks = [0, 0.5, 1],
    counted = steps(made.map(({ count }) => count));
  const paths = [
    ...ticks.map((tick) => ({ d: `M${LEFT},${y(tick)}H${x(n)}`, style: "stroke:var(--line);fill:none" })),
    { d: area, style: "fill:var(--accent);fill-opacity:.3;stroke:var(--accent);stroke-width:1.5;opacity:1" },
    { d: counted, style: "fill:none;stroke:var(--warn);stroke-width:2.5;stroke-dasharray:6 3;opacity:1" },
  ];
  const gap = `M${x(n) + 2},${y(1)}h6V${y(last.high) - 1}h-6`;
  if (side && last.high < 0.97) paths.push({ d: gap, style: "fill:none;stroke:var(--muted);stroke-width:2;opacity:1" });
  render(layer, paths, (path) => ["path", path]);
  const title = side
      ? tr`How surely do ${n} samples tell the chance of the answer ${name}?`
      : tr`Chance of the answer ${name}`,
    labels = [
      [4, 16, "start", title],
      ...ticks.map((tick) => [LEFT - 8, y(tick) + 4, "end", percent(tick)]),
      [x(n), TOP + TALL + 18, "end", tr`${n} samples`],
      [LEFT, TOP + TALL + 18, "start", "1"],
    ],
    put = (top, words) => labels.push([side ? x(n) + 14 : LEFT, top, "start", words]);
  if (side) {
    const middle = y((last.low + last.high) / 2),
      own = y(last.count),
      at = Math.abs(middle - own) >= 44 ? own : middle + (own > middle ? 44 : -46);
    put(middle - 6, tr`adding up the paths' probabilities (band):`);
    put(middle + 12, tr`surely ${percent(last.low)} to ${percent(last.high)}; each new path narrows it`);
    put(at - 4, tr`counting the answers (dashed):`);
    put(at + 14, tr`${percent(last.count)}, give or take ${percent(spread)}`);
    put(Math.min(TOP + 12, middle - 66), tr`up to 100 %: the model's own error,`);
    put(Math.min(TOP + 30, middle - 48), tr`which no further sample shrinks`);
  } else {
    put(TOP + TALL + 36, tr`band: added up, ${percent(last.low)} to ${percent(last.high)}`);
    put(TOP + TALL + 53, tr`dashed: counting, ${percent(last.count)} ± ${percent(spread)}`);
  }
  return labels;
}
