// After a chip: the keyboard goes to the players, so that Space plays and does not press the chip again; and the page
// moves just so far that the view which shows the idea stands in the window with all that it will grow to.

import { groupNamed } from "../player/clock.js";
import { whenThere } from "./dom.js";

const CHIP = "#scenarios .scenario";
const FOLD = 0.62; // of the window's height: there, at the latest, the idea begins
const BAR = 70; // pixels that the bar of the players takes at the top of a scrolled page, below the voice of a scene
const EDGE = 10; // pixels that stay free at the foot
const SAMPLES = 9; // steps whose pictures are measured; the last is one of them
const SETTLED = 150; // milliseconds: the status line brings the players into sight before
const PATIENCE = 5000; // milliseconds in which the runs of a chip, their views and their legend come

export const mountChips = () =>
  whenThere(["#scenarios", "#players"], (chips, players) => {
    let fitted = 0; // until when what moves the views is followed; 0: they were not fitted yet
    document.addEventListener("dx-moved", () => performance.now() < fitted && fit(groupNamed("main")));
    chips.addEventListener("click", ({ target }) => {
      const chip = target.closest(CHIP);
      if (!chip) return;
      document.dispatchEvent(new CustomEvent("dx-at", { detail: { scene: chip.id.replace("scene-", "") } }));
      document.dispatchEvent(new Event("dx-chip"));
      const first = [...players.querySelectorAll(".dx-panel")].find((panel) => panel.getClientRects().length);
      first?.focus({ preventScroll: true });
      const group = groupNamed("main"),
        before = new Set(group.runners.map(({ run }) => run)),
        until = performance.now() + PATIENCE;
      fitted = 0;
      const settle = () => {
        fitted = performance.now() + PATIENCE;
        fit(group);
      };
      const look = () => {
        const { runners } = group,
          drawn =
            runners.length && runners.every(({ run, views }) => !before.has(run) && (!views.idea || ideaOf(views)));
        if (drawn) setTimeout(settle, SETTLED);
        else if (performance.now() < until) requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
  });

const ideaOf = ({ all, idea }) => all.find(({ entry }) => entry === idea);

/** The most that a view needs of height, over steps from first to last. */
function tallest({ run, t, views }) {
  const { view, frame } = ideaOf(views),
    steps = Array.from({ length: SAMPLES }, (_, i) => Math.round((i * run.length) / (SAMPLES - 1)));
  const heights = [...new Set(steps)].map((step) => {
    view.show?.(step);
    return frame.offsetHeight;
  });
  view.show?.(t);
  return Math.max(...heights);
}

/** Pixels at the top of a scrolled page that no view has. */
function bar() {
  const voice = document.querySelector("#scene"),
    sticks = voice && getComputedStyle(voice).position === "sticky";
  return BAR + (sticks ? voice.offsetHeight : 0);
}

/** Where the page has to stand, in pixels from its top; null where it stands well. */
function place(views) {
  const least = Math.min(...views.map(({ top }) => top)) - bar(),
    over = Math.max(...views.map(({ top, bottom }) => Math.max(top - FOLD * innerHeight, bottom + EDGE - innerHeight)));
  return over <= scrollY && scrollY <= least ? null : Math.ceil(Math.max(0, Math.min(over, least)));
}

/** All boards of a compact comparison, as one. */
function strips(runners) {
  const boxes = runners.map(({ root }) => root.getBoundingClientRect()).filter(({ height }) => height);
  return boxes.length
    ? [{ top: Math.min(...boxes.map((b) => b.top)), bottom: Math.max(...boxes.map((b) => b.bottom)) }]
    : [];
}

/** Where the views stand that show the idea, from the first step on as high as they get. */
function ideas(runners) {
  const room = innerHeight - bar() - EDGE,
    shown = runners.filter(({ views, root }) => ideaOf(views) && root.getClientRects().length);
  return shown.map((runner) => {
    const { frame, dom } = ideaOf(runner.views),
      most = tallest(runner),
      high = Math.min(most, room) - (frame.offsetHeight - dom.offsetHeight); // from the first step on: nothing moves
    dom.style.cssText = `min-height:${high}px;${most > room ? `max-height:${high}px;overflow-y:auto` : ""}`;
    const { top } = frame.getBoundingClientRect();
    return { top, bottom: top + Math.min(most, room) };
  });
}

function fit({ compact, runners }) {
  const views = (compact ? strips : ideas)(runners);
  if (!views.length) return;
  const to = place(views.map(({ top, bottom }) => ({ top: top + scrollY, bottom: bottom + scrollY })));
  if (to !== null) scrollTo({ top: to, behavior: "instant" });
}
