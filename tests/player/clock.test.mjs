// The clock of a group: what each event makes of each state, in all short sequences of them. `node --test tests/player/`
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { asset } from "./assets.mjs";

const { boundary, cursor, Group, groupNamed } = await asset("player/clock.js");

let now = 0;
const frames = [];
performance.now = () => now;
globalThis.requestAnimationFrame = (act) => frames.push(act);
mock.timers.enable({ apis: ["setTimeout"] });
const wait = (milliseconds) => {
  now += milliseconds;
  mock.timers.tick(milliseconds);
};
/** All frames that are due, `milliseconds` later. */
const frame = (milliseconds) => {
  now += milliseconds;
  for (const act of frames.splice(0)) act(now);
};
const rest = (...all) => {
  for (const one of all) one.pause();
  frame(0);
};

/** A player of the group: its steps end at these places of the clock. */
function player(axes, slot = 0) {
  const all = Array.isArray(axes) ? { steps: axes, forwards: axes, seconds: axes, work: axes } : axes,
    told = [];
  return { slot, run: {}, told, axis: (unit) => all[unit], at: (...given) => told.push(given) };
}

const group = (...axes) => {
  const made = new Group();
  for (const [slot, axis] of axes.entries()) made.add(player(axis, slot));
  return made;
};

const LONG = [0, 1, 2.5, 4],
  SHORT = [0, 2, 3],
  LATE = player([0, 6], 2);
/** What can happen to a group: [act, what holds after it, of the state before and the one after]. */
const EVENTS = {
  play: [
    (one) => one.play(),
    (was, is) => is.playing === was.end > 0 && is.x === (was.x >= was.end ? 0 : was.x) && !is.follow && !is.stood,
  ],
  pause: [(one) => one.pause(), (was, is) => !is.playing && same(was, is, "x", "follow", "stood")],
  toggle: [
    (one) => one.toggle(),
    (was, is) =>
      is.playing === (!was.playing && was.end > 0) && is.stood === was.playing && (!was.playing || is.x === was.x),
  ],
  "seek to the middle": [
    (one) => one.seek(2),
    (was, is) => is.x === Math.min(2, was.end) && is.stood && is.follow === was.end <= 2 && same(was, is, "playing"),
  ],
  "seek to the end": [(one) => one.seek(99), (was, is) => is.x === was.end && is.follow && is.stood],
  "seek before the beginning": [(one) => one.seek(-5), (was, is) => is.x === 0 && is.follow === (was.end === 0)],
  "seek to the beginning": [(one) => one.seek(0), (was, is) => is.x === 0 && same(was, is, "playing")],
  forward: [(one) => one.move(1), (was, is) => !is.playing && is.x >= Math.min(was.x, was.end) && is.stood],
  back: [(one) => one.move(-1), (was, is) => !is.playing && (is.x < was.x || was.x === 0 || was.end === 0)],
  "a frame": [
    (one) => one.playing && one.tick(0.25),
    (was, is) =>
      !was.playing
        ? same(was, is, "x", "playing", "follow")
        : is.x === Math.min(was.x + 1.5, was.end) &&
          is.playing === was.x + 1.5 < was.end &&
          is.follow === (was.follow || !is.playing),
  ],
  "a run comes": [
    (one) => one.add(LATE),
    (was, is) => is.end === Math.max(was.end, 6) && same(was, is, "x", "playing"),
  ],
  "it goes": [
    (one) => one.remove(LATE),
    (was, is) => same(was, is, "x") && (is.members ? is.playing === was.playing : !is.playing),
  ],
  "new steps": [
    (one) => one.grown(),
    (was, is) =>
      was.follow && was.x < was.end ? is.x === was.end && !is.stood : same(was, is, "x", "stood", "playing"),
  ],
};
const same = (was, is, ...names) => names.every((name) => was[name] === is[name]);
const seen = ({ x, end, playing, follow, stood, members: { size: members } }) => {
  return { x, end, playing, follow, stood, members };
};

for (const runs of [[], [LONG], [LONG, SHORT]])
  test(`any four events leave the clock of ${runs.length} runs in order`, () => {
    const names = Object.keys(EVENTS);
    for (let n = 0; n < names.length ** 4; n += runs.length ? 1 : 7) {
      const one = group(...runs),
        way = [0, 1, 2, 3].map((i) => names[Math.floor(n / names.length ** i) % names.length]);
      for (const name of way) {
        const [act, holds] = EVENTS[name],
          was = seen(one);
        act(one);
        const is = seen(one);
        if (!holds(was, is))
          assert.fail(`${way.join(", ")}: at ${name} ${JSON.stringify(was)} became ${JSON.stringify(is)}`);
        for (const { told, axis } of one.members)
          if (told.at(-1)?.[0] !== cursor(axis("steps"), is.x) || told.at(-1)?.[1] !== is.playing)
            assert.fail(way.join(", "));
      }
      rest(one);
    }
  });

test("frames play a group at its speed, however late they come, until it ends", () => {
  const one = group([0, 3, 12]);
  one.play();
  assert.equal(frames.length, 1);
  frame(500);
  assert.equal(one.x, 3);
  frame(-20);
  assert.equal(one.x, 3, "time does not go back");
  frame(5000);
  assert.equal(one.x, 9, "a page that was hidden goes on where it was");
  one.pause();
  frame(500);
  assert.deepEqual([one.x, frames.length], [9, 0]);
  const other = group([0, 100]);
  one.play();
  other.play();
  assert.equal(frames.length, 1, "groups share the frames");
  frame(1000);
  assert.deepEqual([one.x, one.playing, other.x, frames.length], [12, false, 6, 1]);
  rest(one, other);
  assert.equal(frames.length, 0, "a clock that rests asks for no frame");
});

// biome-ignore format: a table
for (const [unit, pace, speed, x] of [
  ["steps", undefined, 1, 3], ["forwards", undefined, 2, 6], ["seconds", undefined, 1, 0.5],
  ["work", undefined, 1, 1], ["work", undefined, 0.5, 0.5], ["steps", 0.5, 2, 0.5],
])
  test(`half a second of ${unit} at speed ${speed}`, () => {
    const one = Object.assign(group([0, 24]), { unit, pace, speed });
    one.tick(0.5);
    assert.equal(one.x, x);
  });

test("another clock shows the same step of the run with the most steps", () => {
  const one = group({ steps: [0, 1, 2], seconds: [0, 9, 10] }, { steps: [0, 1, 2, 3], seconds: [0, 0.5, 4, 5] });
  one.seek(2);
  one.setUnit("seconds");
  assert.deepEqual([one.unit, one.x, one.end], ["seconds", 4, 10]);
  const none = new Group();
  none.setUnit("work");
  assert.deepEqual([none.unit, none.x], ["work", 0]);
});

test("a member without steps on this clock has no place on its axis", () => {
  const one = group([0], LONG);
  assert.deepEqual([one.axes(), one.end], [[LONG], 4]);
  assert.equal(group([0, 1], [0, 2], [0, 1.5]).end, 2);
  for (const member of [player(LONG, 2), { ...player(LONG, 0), run: null }, player(LONG, 1)]) one.add(member);
  const slots = one.runners.map(({ slot }) => slot);
  assert.deepEqual(slots, [0, 1, 1, 2], "one without a run is none of them");
});

test("words wait while things move fast, and come when they rest", () => {
  const one = group(LONG),
    [{ told }] = one.members,
    heard = [];
  one.listeners.add((hurry) => heard.push(hurry));
  // biome-ignore format: a table
  for (const [pause, to, hurries, why] of [
    [1000, 1, [false], "the first move after a rest is told"], [40, 2, [true]], [40, 2, [true]], [40, 2, [true]],
    [40, 3, [false], "now and then words are told, too"], [20, 4, [true]], [149, null, []],
    [1, null, [false], "at rest"], [1000, 1, [false]], [50, 2, [false], "slow moves are told"], [20, 3, [true]],
  ]) {
    wait(pause);
    if (pause === 1000) told.length = 0;
    if (to !== null) one.seek(to, true);
    const found = told.splice(0).map(([, , hurry]) => Boolean(hurry));
    assert.deepEqual(found, hurries, why ?? `${pause} ms later`);
  }
  one.seek(3);
  assert.equal(Boolean(told.at(-1)[2]), false, "what is chosen is told at once");
  told.length = 0;
  wait(1000);
  assert.deepEqual(told, [], "and not again");
  assert.deepEqual(heard.slice(-3).map(Boolean), [false, true, false]);
});

const press = (one, key, more = {}, tagName = "DIV") => {
  let kept = true;
  const event = { key, target: { tagName }, preventDefault: () => (kept = false), stopPropagation() {}, ...more };
  one.key(event);
  return !kept;
};
// biome-ignore format: a table
for (const [key, made, after = {}] of [
  [" ", true, { playing: true }], ["ArrowLeft", true, { x: 1 }], ["ArrowRight", true, { x: 4 }],
  ["Home", true, { x: 0 }], ["End", true, { x: 4 }], ["[", true, { speed: 0.5 }], ["]", true, { speed: 2 }],
  ["a", false], ["toString", false],
])
  test(`the key ${key === " " ? "Space" : key}`, () => {
    const state = (one) => Object.fromEntries(["x", "speed", "playing"].map((name) => [name, one[name]])),
      at = (...more) => {
        const one = group(LONG);
        one.seek(2.5);
        const found = [press(one, key, ...more), state(one)];
        rest(one);
        return found;
      };
    const still = { x: 2.5, speed: 1, playing: false };
    assert.deepEqual(at(), [made, { ...still, ...after }]);
    for (const held of ["ctrlKey", "metaKey", "altKey"]) assert.deepEqual(at({ [held]: true }), [false, still], held);
    for (const tag of ["INPUT", "SELECT", "TEXTAREA"]) assert.deepEqual(at({}, tag), [false, still], tag);
    const own = key === " "; // which a button takes for itself
    for (const tag of ["BUTTON", "SUMMARY", "A"])
      assert.deepEqual(at({}, tag), own ? [false, still] : [made, { ...still, ...after }], tag);
  });

test("the next place is the nearest of all runs; at an end it is where it was", () => {
  const axes = [LONG, SHORT];
  const all = [...new Set(axes.flat())].sort((a, b) => a - b);
  for (let x = 0; x <= 5; x += 0.25) {
    assert.equal(boundary(axes, x, 1), all.find((one) => one > x) ?? x, `after ${x}`);
    assert.equal(boundary(axes, x, -1), all.findLast((one) => one < x) ?? x, `before ${x}`);
    for (const axis of axes) assert.equal(cursor(axis, x), axis.filter((one) => one <= x).length - 1);
  }
  assert.equal(boundary([], 3, 1), 3);
  assert.equal(groupNamed("a"), groupNamed("a"));
});
