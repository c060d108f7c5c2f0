// Controls that stick to the top of the window are one row there; what stands below keeps its room: nothing moves.

/** Watches the controls `root`; a view below their first row has the class dx-below. Returns what ends it. */
export function stickSlim(root) {
  let held = null;
  const holder = () => {
    for (let node = root; node; node = node.parentElement)
      if (getComputedStyle(node).position === "sticky") return node;
    return null;
  };
  const release = () => {
    if (!held) return;
    held.style.marginBottom = "";
    root.removeAttribute("data-stuck");
    held = null;
  };
  const look = () => {
    const node = holder(),
      at = node ? parseFloat(getComputedStyle(node).top) : NaN,
      stuck = Number.isFinite(at) && scrollY > 0 && node.getBoundingClientRect().top <= at + 0.5;
    if (!stuck) return release();
    if (held || [...root.querySelectorAll(".dx-below")].some((view) => view.contains(document.activeElement))) return;
    const before = node.offsetHeight,
      margin = parseFloat(getComputedStyle(node).marginBottom) || 0;
    root.setAttribute("data-stuck", "");
    node.style.marginBottom = `${margin + before - node.offsetHeight}px`;
    held = node;
  };
  addEventListener("scroll", look, { passive: true });
  addEventListener("resize", release);
  return () => {
    release();
    removeEventListener("scroll", look);
    removeEventListener("resize", release);
  };
}
