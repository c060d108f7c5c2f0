// Where the inspector stands, so that it covers no cell: over the foot of the controls, where a wide page has them
// beside the players, else as a sheet at the foot of the window.

export const WIDE = 1280; // pixels from which there is a side
export const SHEET = 0.42; // the part of the window that a sheet at its foot may take
const EDGE = 8;

/** Puts a fixed element there. high: the part of the window that it may take at the side. */
export function dock(box, high = 0.5) {
  const side = innerWidth >= WIDE ? document.querySelector("#controls")?.getBoundingClientRect() : null,
    at = side?.width
      ? { left: side.left, width: side.width, high }
      : { left: EDGE, width: Math.min(innerWidth - 2 * EDGE, 640), high: Math.min(high, SHEET) };
  if (!side?.width) at.left = (innerWidth - at.width) / 2;
  box.style.cssText =
    `position:fixed;inset:auto auto ${EDGE}px ${at.left}px;width:${at.width}px;` +
    `max-height:${Math.round(innerHeight * at.high)}px;margin:0;overflow:auto`;
}
