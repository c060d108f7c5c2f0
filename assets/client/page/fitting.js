// The view that shows the idea of a run, whole in the room that there is: never clipped where a smaller one would do.

const SAMPLES = 9; // steps whose pictures are measured; the last is one of them
const SCALES = [0.9, 0.8, 0.75, 0.7]; // of a picture that is laid out in the whole width once more
const NARROWEST = 0.8; // of the width that a smaller picture leaves: below, another form is sought
const SMALLEST = 0.6; // of a picture's size: below, its words cannot be read, and it is scrolled

/** The view that shows the idea; undefined where there is none, or where its module is not here yet. */
export const ideaOf = ({ all, idea }) => all.find(({ entry }) => entry === idea);

/** Whether the views of a run are those of the run, with the one that shows the idea. */
export const drawn = ({ run, views }) => views.run === run && (!views.idea || Boolean(ideaOf(views)));

/** Lets the view take the height that it needs in its step. */
export function unclip({ views }) {
  const dom = ideaOf(views)?.dom;
  dom?.removeAttribute("style");
  for (const box of dom?.querySelectorAll(".dx-scroll") ?? []) box.style.maxHeight = "none";
}

/** The most that the view needs of height, in pixels, over steps from first to last, with nothing of it clipped. */
export const tallest = (runner) => measured(runner).most;

/** {most: that height; cut: whether in one of these steps something goes on beyond the right edge}. style: of the
 * view. */
function measured(runner, style = "") {
  const { run, t, views } = runner,
    { view, frame, dom } = ideaOf(views),
    steps = Array.from({ length: SAMPLES }, (_, i) => Math.round((i * run.length) / (SAMPLES - 1))),
    before = dom.style.width;
  unclip(runner);
  if (style) dom.style.cssText = style;
  if (style || before) views.resize();
  let cut = false;
  const heights = [...new Set(steps)].map((step) => {
    view.show?.(step);
    cut ||= [...dom.querySelectorAll(".dx-scroll")].some((box) => box.scrollWidth > box.clientWidth);
    return frame.getBoundingClientRect().height;
  });
  view.show?.(t);
  return { most: Math.max(...heights), cut };
}

/** Gives the view a height for all steps, so that nothing moves: what it needs at most, smaller where that is more than
 * `room` pixels. What would be too small to read, or cut off, is laid out in the whole width if it has a form that fits
 * then, and else scrolled. */
export function inside(runner, room) {
  const { frame, dom } = ideaOf(runner.views),
    { most, cut } = measured(runner),
    wide = dom.clientWidth, // kept: a picture that is laid out anew has another height; what is cut off is only shown
    head = frame.getBoundingClientRect().height - dom.getBoundingClientRect().height, // its title
    wanted = (room - head) / (most - head),
    scale = Math.min(1, Math.max(SMALLEST, wanted)),
    high = Math.max(0, Math.min(scale * (most - head), room - head)) / scale;
  if (wanted < NARROWEST && relaid(runner, room)) return;
  dom.style.cssText = `min-height:${high}px;`;
  if (scale < 1) dom.style.cssText += `zoom:${scale};width:${cut ? wide / scale : wide}px;`;
  if (high < most - head - 1) dom.style.cssText += `max-height:${high}px;overflow-y:auto;`;
}

/** Lays the view out in the whole width at the largest of SCALES that fits. False, and as it was, where none does. */
function relaid(runner, room) {
  const { frame, dom } = ideaOf(runner.views),
    wide = dom.clientWidth;
  for (const scale of SCALES) {
    const style = `zoom:${scale};width:${wide / scale}px;`,
      { most, cut } = measured(runner, style);
    if (most <= room && !cut) {
      const head = frame.getBoundingClientRect().height - dom.getBoundingClientRect().height;
      dom.style.cssText = `${style}min-height:${(most - head) / scale}px;`;
      return true;
    }
  }
  unclip(runner);
  runner.views.resize();
  return false;
}
