// One clock for all players of a group: steps, model calls, measured seconds, or work. A shorter run stays at its end.

import { tr } from "./words.js";

export const UNITS = { steps: tr`Steps`, forwards: tr`Model calls`, seconds: tr`Seconds`, work: tr`Work` };
export const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8];
const RATES = { steps: 6, forwards: 6, seconds: 1 }; // units a second at speed 1; seconds run in real time
const WHOLE = 12; // seconds for all of the work, whose size differs a thousandfold from model to model
const LONGEST_FRAME = 1; // seconds that count when the page was held up or hidden
const NEXT = 50,
  WORDS = 150; // milliseconds: between two frames of one movement; between two tellings of words and numbers during one

/** How many steps are done at place `x` of a rising axis that starts at 0. */
export function cursor(axis, x) {
  let low = 0,
    high = axis.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (axis[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The nearest place before or after `x` at which one of the runs completes a step; `x` itself at either end. */
export function boundary(axes, x, direction) {
  const places = axes.flatMap((axis) => {
    const at = cursor(axis, x);
    return (direction > 0 ? axis[at + 1] : axis[at] < x ? axis[at] : axis[at - 1]) ?? [];
  });
  if (!places.length) return x;
  return direction > 0 ? Math.min(...places) : Math.max(...places);
}

export class Group {
  members = new Set();
  listeners = new Set();
  unit = "steps";
  x = 0;
  speed = 1;
  playing = false;
  follow = false;
  stood = false; // a person chose the place
  compact = false; // decided by views/compact.js
  told = 0;
  moved = 0;

  axes() {
    return [...this.members].map((member) => member.axis(this.unit)).filter((axis) => axis.length > 1);
  }

  get end() {
    return Math.max(0, ...this.axes().map((axis) => axis[axis.length - 1]));
  }

  /** Those that show a run, in the order of their places. */
  get runners() {
    return [...this.members].filter((member) => member.run).sort((a, b) => a.slot - b.slot);
  }

  add(member) {
    this.members.add(member);
    this.refresh();
  }

  remove(member) {
    this.members.delete(member);
    if (!this.members.size) this.pause();
    this.refresh();
  }

  /** Moves every player; a person who goes to the end of a live run follows it again. moving: as in refresh. */
  seek(x, moving) {
    this.x = Math.min(Math.max(0, x), this.end);
    this.stood = true;
    this.follow = this.x >= this.end;
    this.refresh(moving);
  }

  move(direction, moving) {
    this.pause();
    this.seek(boundary(this.axes(), this.x, direction), moving);
  }

  /** New steps arrived in a member. */
  grown() {
    if (this.follow && this.x < this.end) {
      this.x = this.end;
      this.stood = false;
    }
    this.refresh();
    for (const member of this.members) member.met?.();
  }

  setUnit(unit) {
    const lead = [...this.members].sort((a, b) => b.axis(this.unit).length - a.axis(this.unit).length)[0];
    const step = lead ? cursor(lead.axis(this.unit), this.x) : 0;
    this.unit = unit;
    this.x = lead ? lead.axis(unit)[step] : 0;
    this.refresh();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.refresh();
  }

  shiftSpeed(direction) {
    const at = SPEEDS.indexOf(this.speed);
    this.setSpeed(SPEEDS[Math.min(Math.max(at + direction, 0), SPEEDS.length - 1)]);
  }

  play() {
    if (this.x >= this.end) this.x = 0;
    this.playing = this.end > 0;
    this.follow = this.stood = false;
    start(this);
    this.refresh();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.refresh();
  }

  toggle() {
    this.stood = this.playing;
    if (this.playing) this.pause();
    else this.play();
  }

  tick(elapsed) {
    this.x += elapsed * (this.pace ?? RATES[this.unit] ?? this.end / WHOLE) * this.speed;
    if (this.x >= this.end) {
      this.x = this.end;
      this.playing = false;
      this.follow = true;
    }
    this.refresh(this.playing);
  }

  /** moving: played, dragged or scrubbed. Boards and hands move in each frame; what must be read is told now and then,
   * and when the clock rests. */
  refresh(moving = false) {
    const now = performance.now(),
      hurry = moving && now - this.moved < NEXT && now - this.told < WORDS;
    if (moving) this.moved = now;
    clearTimeout(this.rest);
    if (hurry) this.rest = setTimeout(() => this.refresh(), WORDS);
    else this.told = now;
    for (const member of this.members) member.at(cursor(member.axis(this.unit), this.x), this.playing, hurry);
    for (const listener of this.listeners) listener(hurry);
  }

  key(event) {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(tag)) return;
    if (event.key === " " && ["BUTTON", "SUMMARY", "A"].includes(tag)) return;
    const actions = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.move(-1, event.repeat),
      ArrowRight: () => this.move(1, event.repeat),
      Home: () => this.seek(0),
      End: () => this.seek(this.end),
      "[": () => this.shiftSpeed(-1),
      "]": () => this.shiftSpeed(1),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }
}

const groups = new Map();
const running = new Set();
let last = 0;

export function groupNamed(name) {
  if (!groups.has(name)) groups.set(name, new Group());
  return groups.get(name);
}

function start(group) {
  running.add(group);
  if (running.size === 1) {
    last = performance.now();
    requestAnimationFrame(frame);
  }
}

function frame(now) {
  const elapsed = Math.min(Math.max(0, now - last) / 1000, LONGEST_FRAME);
  last = now;
  for (const group of running) {
    if (group.playing) group.tick(elapsed);
    if (!group.playing) running.delete(group);
  }
  if (running.size) requestAnimationFrame(frame);
}
