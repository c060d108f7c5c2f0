// Shares in per cent.

/** In whole per cent, less than one said so. */
export const percent = (share) => `${share > 0 && share < 0.005 ? "<1" : Math.round(100 * share)} %`;

/** With two figures, down to a hundred-thousandth. */
export const fine = (share) => (share > 0 && share < 1e-5 ? "< 0.001 %" : `${Number((100 * share).toPrecision(2))} %`);

/** In as few figures as still say on which side of a threshold it is. */
export function against(share, limit) {
  const side = (value) => Math.sign(Number(value.toFixed(9)) - limit),
    digits = [0, 1, 2].find((n) => side(Number((100 * share).toFixed(n)) / 100) === side(share));
  return `${(100 * share).toFixed(digits ?? 3)} %`;
}
