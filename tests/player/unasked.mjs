// What a view draws of each step of a run, as lines of text, with the sliders where a test wants them.
import { Element, page } from "./page.mjs";

const { use } = dxModules;
const CONTROLS = ["input", "button", "output"];
const round = (text) => text.replace(/-?\d+(\.\d+)?/g, (number) => Number(number).toFixed(1));

/** Of everything that is seen below a node: its tag, its attributes, those that it takes its look from, its text. */
function lines(node, look = "") {
  if (node.nodeType === 3) return node.textContent ? [`${look} ${node.textContent}`] : [];
  if (node.style.display === "none" || node.matches(".dx-sliding") || CONTROLS.includes(node.tagName)) return [];
  const state = node.getAttribute("data-s") ?? look,
    attributes = [...node.attributes].map(([name, value]) => `${name}=${round(value)}`).join(" "),
    empty = node.childNodes.length || ["g", "span", "p", "i"].includes(node.tagName),
    own = empty ? [] : [`${node.tagName} ${state} ${attributes} ${node.style.cssText ?? ""}`];
  return [...own, ...node.childNodes.flatMap((one) => lines(one, state))];
}

/** moved: "kept" puts every slider where it stands, so that the method's answer is drawn there; "least" puts it at its
 * end. asked: whether the run has answers; over: whether it has ended. */
export function drawn(theme, { file, name, needs }, text, { moved = null, asked = true, over = true } = {}) {
  page();
  Object.assign(Element.prototype, {
    getContext: () => ({ putImageData() {}, createImageData: (w, h) => ({ data: new Uint8ClampedArray(4 * w * h) }) }),
    toDataURL: () => "",
  });
  globalThis.matchMedia = () => ({ matches: true }); // nothing moves
  const run = use("player/run.js").Run.from(text),
    view = Object.assign(new (use(`views/${file}.js`)[name])(), { record: needs[0] }),
    dom = document.createElement("div");
  if (!asked) run.figures.stops = [];
  if (!over) run.end = null;
  view.load(run, dom, { theme, marks: {}, seek: () => {}, mark: () => {} });
  view.resize?.(1150);
  const sliders = Object.values(view).filter((one) => one instanceof use("player/sliding.js").Sliding);
  return Array.from({ length: run.length }, (_, i) => {
    for (const one of sliders) one.moved = null;
    view.show(i + 1);
    for (const one of sliders)
      if (moved) one.moved = Number(moved === "kept" ? one.slider.value : one.slider.getAttribute("min"));
    if (moved) view.show(i + 1);
    const said = sliders.map(({ derived }) => derived.textContent);
    return { lines: lines(dom), told: dom.textContent, said, still: sliders.every(({ slider }) => slider.disabled) };
  });
}
