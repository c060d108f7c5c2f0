// A page that nobody has touched plays its recorded runs by itself, again and again with a pause at the end. Any touch
// of a key or the pointer ends that for good. Who asks for less motion sees a step from the middle. `?still` in the
// address keeps the page still, and so does a link that leads somewhere.

import { groupNamed } from "../player/clock.js";
import { Pace } from "./voice.js";

const STILL = ["still", "scene", "run", "gallery", "doc", "tab", "method", "paper", "lesson", "lecture"];
const BEGIN = 500; // milliseconds from the runs to the first movement
const FIRST = 1300; // for the first step: something moves two seconds after the runs are there
const OWN = "#toolbar, .dx-panel"; // what is touched there decides by itself whether the clock goes on

let begun = false;

export function opening() {
  if (begun) return;
  begun = true;
  const query = new URLSearchParams(location.search);
  if (STILL.some((name) => query.has(name))) return;
  const group = groupNamed("main"),
    pace = new Pace(group, FIRST),
    over = new AbortController();
  let timer = null;
  const touched = ({ target, key }) => {
    end();
    if (key !== " " && !target.closest?.(OWN)) group.pause();
  };
  const end = () => {
    clearTimeout(timer);
    group.listeners.delete(turn);
    over.abort();
    group.quiet = false;
    group.pace = undefined;
  };
  const begin = () => {
    timer = null;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      end();
      return group.seek(group.end / 2);
    }
    group.quiet = true;
    pace.step = -1;
    group.play();
    pace.turn();
  };
  const turn = () => {
    if (group.playing && group.quiet) pace.turn();
    if (!group.end || group.playing || timer) return;
    if (group.x > 0 && group.x < group.end) return end(); // stopped on the way
    timer = setTimeout(begin, group.x ? pace.time() : BEGIN);
  };
  for (const type of ["pointerdown", "keydown"])
    addEventListener(type, touched, { capture: true, signal: over.signal });
  group.listeners.add(turn);
  turn();
}
