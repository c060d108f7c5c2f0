/** Round numbers from 0 to `end`, at most `most` of them behind 0; least: the smallest step between them, if any. */
export function ticks(end, most, least = 0) {
  const power = 10 ** Math.floor(Math.log10(Math.max(end / most, least))),
    step = [1, 2, 5, 10].map((n) => n * power).find((n) => end / n <= most) ?? 10 * power;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step);
}
