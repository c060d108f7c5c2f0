// A page that nobody has touched plays its recorded runs by itself, again and again with a pause at the end. Any touch
// of a key or the pointer ends that for good. Who asks for less motion sees a step from the middle. `?still` in the
// address keeps the page still, and so does a link that leads somewhere.

import { groupNamed } from "../player/clock.js";

const STILL = ["still", "run", "gallery", "doc", "tab", "method", "paper", "lesson"];
const BEGIN = 500; // milliseconds from the runs to the first movement
const PAUSE = 3000; // milliseconds between the end and the next beginning
const SPEED = 0.5;
const OWN = "#toolbar, .dx-panel"; // what is touched there decides by itself whether the clock goes on

export function opening() {
  const query = new URLSearchParams(location.search);
  if (STILL.some((name) => query.has(name))) return;
  const group = groupNamed("main");
  let timer = null;
  const touched = ({ target, key }) => {
    end();
    if (key !== " " && !target.closest?.(OWN)) group.pause();
  };
  const end = () => {
    clearTimeout(timer);
    group.listeners.delete(turn);
    removeEventListener("pointerdown", touched, true);
    removeEventListener("keydown", touched, true);
    group.quiet = false;
    if (group.speed === SPEED) group.setSpeed(1);
  };
  const begin = () => {
    timer = null;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      end();
      return group.seek(group.end / 2);
    }
    group.quiet = true;
    group.play();
    if (group.speed !== SPEED) group.setSpeed(SPEED);
  };
  const turn = () => {
    if (!group.end || group.playing || timer) return;
    if (group.x > 0 && group.x < group.end) return end(); // stopped on the way
    timer = setTimeout(begin, group.x ? PAUSE : BEGIN);
  };
  addEventListener("pointerdown", touched, true);
  addEventListener("keydown", touched, true);
  group.listeners.add(turn);
  turn();
}
