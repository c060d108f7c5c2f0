// After a chip: the keyboard goes to the players, so that Space plays and does not press the chip again; and the page
// moves just so far that the view which shows the idea stands in the window with all that it will grow to.

import { groupNamed } from "../player/clock.js";
import { announce, whenThere } from "./dom.js";
import { drawn, ideaOf, inside, tallest } from "./fitting.js";

const CHIP = "#scenarios .scenario";
const FOLD = 0.62; // of the window's height: there, at the latest, the idea begins
const BAR = 70; // pixels that the bar of the players takes at the top of a scrolled page, below the voice of a scene
const EDGE = 10; // pixels that stay free at the foot
const BESIDE = 0.75; // a picture may be that small for the board to stay in sight above it
const SETTLED = 150; // milliseconds: the status line brings the players into sight before
const PATIENCE = 5000; // milliseconds in which views and their legend find their heights
const COMING = 30000; // milliseconds in which the runs of a chip come, on a busy machine, if nobody scrolls

export const mountChips = () =>
  whenThere(["#scenarios", "#players"], (chips, players) => {
    let fitted = 0; // until when what moves the views is followed; 0: they were not fitted yet
    const again = () => performance.now() < fitted && fit(groupNamed("main"));
    document.addEventListener("dx-moved", again);
    const sizes = new ResizeObserver(() => requestAnimationFrame(again)); // heads of unlike height, late pictures
    chips.addEventListener("click", ({ target }) => {
      const chip = target.closest(CHIP);
      if (!chip) return;
      announce("dx-at", { scene: chip.id.replace("scene-", "") });
      announce("dx-chip");
      const first = [...players.querySelectorAll(".dx-panel")].find((panel) => panel.getClientRects().length);
      first?.focus({ preventScroll: true });
      const group = groupNamed("main"),
        before = new Set(group.runners.map(({ run }) => run));
      let until = performance.now() + COMING;
      for (const way of ["wheel", "touchmove"]) addEventListener(way, () => (until = 0), { once: true, passive: true });
      fitted = 0;
      const settle = () => {
        fitted = performance.now() + PATIENCE;
        const { style } = document.documentElement;
        style.overflowAnchor = "none"; // else the browser moves the page, too, by as much as a view has grown
        setTimeout(() => performance.now() >= fitted && style.removeProperty("overflow-anchor"), PATIENCE + EDGE);
        fit(group);
        const scrolled = () => (fitted = 0); // by a person
        addEventListener("wheel", scrolled, { once: true, passive: true });
        sizes.disconnect();
        for (const panel of players.querySelectorAll(".dx-panel > *, #toolbar, #scene")) sizes.observe(panel);
      };
      const look = () => {
        const { runners } = group,
          there = runners.length && runners.every((runner) => !before.has(runner.run) && drawn(runner));
        if (there) setTimeout(settle, SETTLED);
        else if (performance.now() < until) requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    });
  });

/** Pixels at the top of a scrolled page that no view has. */
function bar() {
  const voice = document.querySelector("#scene"),
    sticks = voice && getComputedStyle(voice).position === "sticky";
  return BAR + (sticks ? voice.offsetHeight : 0);
}

/** Where the page has to stand, in pixels from its top; null where it stands well. */
function place(views) {
  const least = Math.min(...views.map(({ top }) => top)) - bar(),
    over = Math.max(
      ...views.map(({ idea, bottom }) => Math.max(idea - FOLD * innerHeight, bottom + EDGE - innerHeight)),
    );
  return over <= scrollY && scrollY <= least ? null : Math.ceil(Math.max(0, Math.min(over, least)));
}

/** All boards of a compact comparison, as one. */
function strips(runners) {
  const boxes = runners.map(({ root }) => root.getBoundingClientRect()).filter(({ height }) => height);
  const [top, bottom] = [Math.min(...boxes.map((b) => b.top)), Math.max(...boxes.map((b) => b.bottom))];
  return boxes.length ? [{ top, idea: top, bottom }] : [];
}

/** Where the views stand that show the idea, each whole in the window from the first step on: between board and answer
 * where there is room for all three, else below the board, else alone. */
function ideas(runners) {
  const room = innerHeight - bar() - EDGE,
    shown = runners.filter(({ views, root }) => ideaOf(views) && root.getClientRects().length);
  const found = shown.map((runner) => {
    const most = tallest(runner),
      { top, bottom } = ideaOf(runner.views).frame.getBoundingClientRect(),
      edge = (name, side, other) =>
        runner.views.all.find(({ entry }) => entry.name === name)?.frame.getBoundingClientRect()[side] ?? other;
    return { runner, most, above: top - edge("Tokens", "top", top), below: edge("Text", "bottom", bottom) - bottom };
  });
  const all = (free) => found.every((one) => one.above >= 0 && free(one) >= BESIDE * one.most),
    low = found.some(({ above }) => bar() + above > FOLD * innerHeight), // with the board in sight
    two = !low && all(({ above }) => room - above),
    three = two && all(({ above, below }) => room - above - below);
  for (const { runner, above, below } of found) inside(runner, room - (two ? above : 0) - (three ? below : 0));
  return found.map(({ runner, above, below }) => {
    const { top, bottom } = ideaOf(runner.views).frame.getBoundingClientRect();
    return { idea: top, top: two ? top - above : top, bottom: three ? bottom + below : bottom };
  });
}

function fit({ compact, runners }) {
  const views = (compact ? strips : ideas)(runners);
  if (!views.length) return;
  const to = place(
    views.map(({ top, idea, bottom }) => ({ top: top + scrollY, idea: idea + scrollY, bottom: bottom + scrollY })),
  );
  if (to !== null) scrollTo({ top: to, behavior: "instant" });
}
