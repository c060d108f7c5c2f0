// Shares in per cent.

/** In whole per cent, less than one said so. */
export const percent = (share) => `${share > 0 && share < 0.005 ? "<1" : Math.round(100 * share)} %`;

/** With two figures, down to a hundred-thousandth. */
export const fine = (share) => (share > 0 && share < 1e-5 ? "< 0.001 %" : `${Number((100 * share).toPrecision(2))} %`);
