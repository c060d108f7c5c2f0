// Lecture mode, as a presenter uses it: the scene alone in large type, the next one by one key, and a bar that says
// which scene this is and which key does what. The page has it, and so have the static site and pages that are saved;
// what differs between them comes from outside.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr, translated } from "../player/words.js";
import { announce } from "./dom.js";
import { drawn, ideaOf, inside, unclip } from "./fitting.js";
import { Pace } from "./voice.js";

const FIRST = 900; // milliseconds of the first step while a scene plays
const ZOOMS = [2.2, 2, 1.8, 1.6, 1.45, 1.3, 1.2, 1.1, 1]; // of the players: the largest that fits into the window
const NARROW = 700; // pixels of a window in which nothing can be enlarged
const LEAST = 520; // pixels of a player, before it is enlarged
const PATIENCE = 5000; // milliseconds in which the views of a run come
const SAMPLES = 3; // steps whose pictures are measured
const EDGE = 4; // pixels that stay free above the bar
const SCROLL = 0.3; // of the window, for one press
const FIELD = "input, select, textarea, [contenteditable]";
const PRESSED = "button, a, summary";
const KEYS = {
  ArrowRight: "next",
  PageDown: "next",
  " ": "next",
  ArrowLeft: "back",
  PageUp: "back",
  p: "play",
  ".": "step",
  ",": "unstep",
  ArrowUp: "more",
  ArrowDown: "less",
  l: "live",
  f: "full",
  s: "list",
  Escape: "leave",
};

const OF_RUNS = ["play", "step", "unstep", "more", "less"]; // acts that wait until the runs of a scene have come

/** The scene, from 0, that the address opens: ?lecture, or ?lecture=3 for the third one; null where it opens none. */
export const wanted = () => {
  const given = new URLSearchParams(location.search).get("lecture");
  return given === null ? null : Math.max(0, (Number.parseInt(given, 10) || 1) - 1);
};

/** Writes ?lecture=N, or takes it out (null). fresh: a new place in the history. */
export function address(n, fresh = false) {
  const next = new URL(location.href);
  if (n === null) next.searchParams.delete("lecture");
  else next.searchParams.set("lecture", n + 1);
  if (next.href === location.href) return;
  try {
    history[fresh ? "pushState" : "replaceState"](null, "", next);
  } catch {
    // a frame without a history of its own, or a file whose address cannot change
  }
}

/** What a key asks for: an act of KEYS, the number of a scene, or null where the key belongs to something else. */
export function meant({ key, ctrlKey, metaKey, altKey, target }) {
  if (ctrlKey || metaKey || altKey || !key) return null;
  if (target?.closest?.(FIELD) && key !== "Escape") return null;
  if ((key === " " || key === "Enter") && target?.closest?.(PRESSED)) return null;
  if (/^[1-9]$/.test(key)) return Number(key);
  return KEYS[key] ?? KEYS[key.toLowerCase()] ?? null;
}

/** The scenes that can be shown, and the sentences about those that cannot. */
export const sorted = (scenes) => ({
  scenes: scenes.filter(({ dead }) => !dead),
  dead: scenes.map(({ dead }) => dead).filter(Boolean),
});

const named = ({ title, minutes }) =>
  [translated(title), minutes ? tr`${minutes} min` : ""].filter(Boolean).join(" · ");

/** given: {show(scene), leave(), live: () => void or null, files: what stands below the list of scenes, players: what
 * is enlarged}. Returns {open(scenes, number), close(), say(text), live(words), on, number}. */
export function lectureView({ show, leave, live = null, files = null, players, moved = () => {} }) {
  const group = groupNamed("main"),
    pace = new Pace(group, FIRST);
  let all = [],
    at = -1,
    due = [], // acts asked for before the runs of the scene had come
    closing = null, // what ends listening
    byKey = false, // whether F, and not Esc, ended the full screen
    wasFull = false;
  const count = el("output", "lecture-count"),
    name = el("span", "lecture-name"),
    said = el("div", { class: "lecture-said", role: "status" }),
    asked = el("p", "lecture-prompt"),
    list = el("ol", {}),
    jump = el("p", "lecture-jump", el("kbd", {}, "1–9"), tr`the scene of that number`),
    box = el("section", { class: "lecture-list", hidden: true, "aria-label": tr`Scenes` }, jump, list, files);
  const acts = {
    next: () => go(at + 1),
    back: () => go(at - 1),
    play: () => group.toggle(),
    step: () => group.move(1),
    unstep: () => group.move(-1),
    more: () => pull(1),
    less: () => pull(-1),
    live:
      live ?? (() => say(tr`This page holds recorded runs only; open the page of the program to run a scene live.`)),
    full: () => {
      byKey = true;
      if (document.fullscreenElement) document.exitFullscreen();
      else document.documentElement.requestFullscreen?.().catch(() => {});
    },
    list: () => {
      box.hidden = !box.hidden;
    },
    leave: () => {
      if (!box.hidden) box.hidden = true;
      else leave();
    },
  };
  const hint = (key, words, act) =>
    el("button", { "data-act": act, onclick: acts[act] }, el("kbd", {}, key), el("span", {}, words));
  const lever = el("span", "lecture-tip", el("kbd", {}, "↑"), el("kbd", {}, "↓"), tr`slider`);
  const bar = el(
    "div",
    "lecture-bar",
    count,
    name,
    el(
      "span",
      "lecture-keys",
      hint("←", tr`back`, "back"),
      hint("→", tr`next`, "next"),
      hint("P", tr`play`, "play"),
      hint(",", tr`step back`, "unstep"),
      hint(".", tr`step`, "step"),
      lever,
      hint("L", tr`live`, "live"),
      hint("F", tr`full screen`, "full"),
      hint("S", tr`scenes`, "list"),
      hint("Esc", tr`leave`, "leave"),
    ),
  );
  const root = el("section", { class: "lecture", hidden: true, "aria-label": tr`Lecture` }, said, box, asked, bar);
  const liveButton = bar.querySelector('[data-act="live"]');
  liveButton.hidden = !live;
  document.body.append(root);

  function say(...texts) {
    said.replaceChildren(...texts.filter(Boolean).map((text) => el("p", {}, text)));
  }
  /** Moves the lever; in a scene without one, the page. */
  function pull(by) {
    const lever = document.querySelector("#scene-lever");
    if (!lever?.checkVisibility()) return scrollBy({ top: -by * SCROLL * innerHeight, behavior: "instant" });
    lever.value = Number(lever.value) + by;
    lever.dispatchEvent(new Event("input", { bubbles: true }));
  }
  function draw() {
    count.textContent = all.length ? tr`${at + 1} of ${all.length}` : "";
    const { voice, prompt = "" } = all[at] ?? {};
    asked.hidden = !prompt;
    asked.replaceChildren(el("b", {}, tr`Prompt`), " ", prompt);
    lever.hidden = !voice?.lever;
    name.textContent = all[at] ? named(all[at]) : "";
    for (const [n, item] of [...list.querySelectorAll("button")].entries())
      item.setAttribute("aria-current", String(n === at));
    bar.querySelector('[data-act="back"]').disabled = at <= 0;
    bar.querySelector('[data-act="next"]').disabled = at >= all.length - 1;
  }
  function go(n) {
    if (!all[n] || n === at) return;
    at = n;
    due = [];
    box.hidden = true;
    say();
    standing("");
    draw();
    group.pause();
    pace.restart();
    settle.wait();
    show(all[n]);
    moved(n);
  }
  function standing(words) {
    root.toggleAttribute("data-live", Boolean(words));
    liveButton.setAttribute("aria-pressed", String(Boolean(words)));
    announce("dx-voice", { scenes: all[at]?.voice ? [all[at].voice] : [], live: words });
  }
  const keys = (event) => {
    const act = meant(event);
    if (act === null) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (typeof act === "number") go(act - 1);
    else if (settle.coming() && OF_RUNS.includes(act)) due.push(act);
    else acts[act]();
  };
  const come = () => due.splice(0).forEach((act) => acts[act]());
  const clicked = ({ target, detail }) => {
    if (detail && target.closest?.(".lecture-bar, .lecture-list ol")) document.activeElement?.blur();
  }; // else Space would press the button again
  const lifted = ({ target }) => target.matches?.('input[type="range"]') && target.blur(); // the clicker goes on
  const turn = () => group.playing && !group.quiet && pace.turn();
  const screen = () => {
    const full = Boolean(document.fullscreenElement);
    if (wasFull && !full && !byKey) leave();
    wasFull = full;
    byKey = false;
  };
  const settle = fitting(group, players, root, come);
  return {
    root,
    say,
    live: standing,
    get on() {
      return !root.hidden;
    },
    get number() {
      return at;
    },
    open(given, number = 0) {
      const { scenes, dead } = sorted(given);
      all = scenes;
      at = -1;
      list.replaceChildren(
        ...all.map((scene, n) => el("li", {}, el("button", { onclick: () => go(n) }, named(scene)))),
      );
      if (root.hidden) {
        root.hidden = false;
        document.documentElement.dataset.lecture = "";
        closing = new AbortController();
        const { signal } = closing;
        addEventListener("keydown", keys, { capture: true, signal });
        addEventListener("pointerup", lifted, { capture: true, signal });
        addEventListener("click", clicked, { signal });
        document.addEventListener("fullscreenchange", screen, { signal });
        group.listeners.add(turn);
        settle.begin();
        wasFull = Boolean(document.fullscreenElement);
      }
      group.quiet = false;
      go(Math.min(Math.max(0, number), all.length - 1));
      draw();
      say(...dead, all.length ? "" : tr`No scene of this list can be shown here.`);
      globalThis.dxKeys?.forEach(keys);
      globalThis.dxKeys = null;
    },
    close() {
      if (root.hidden) return;
      root.hidden = true;
      delete document.documentElement.dataset.lecture;
      closing.abort();
      group.listeners.delete(turn);
      group.pace = undefined;
      settle.end();
      if (document.fullscreenElement) document.exitFullscreen();
      announce("dx-voice", { scenes: null });
      at = -1;
    },
  };
}

/** Enlarges the players as far as they fit above the bar: for each scene, and when the window changes. Within a scene
 * the size stays, whatever its lever or a live run brings. come: called once the runs of a scene stand. */
function fitting(group, players, bar, come) {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  let before = null, // when the scene was asked for: the runs that were there, and how many have come since
    [coming, turn] = [false, 0];
  /** The most height that the players need, over steps from first to last. */
  const tallest = () => {
    const { runners } = group,
      heights = Array.from({ length: SAMPLES }, (_, n) => {
        for (const { run, views } of runners) views.tell("show", Math.round((n * run.length) / (SAMPLES - 1)));
        return players.getBoundingClientRect().height;
      });
    for (const { t, views } of runners) views.tell("show", t);
    return Math.max(...heights);
  };
  /** Makes the pictures so small that they stand above the bar, too. */
  const tighten = () => {
    for (const runner of group.runners.filter(({ views }) => ideaOf(views))) {
      unclip(runner);
      const { top, bottom } = ideaOf(runner.views).frame.getBoundingClientRect(),
        under = runner.root.getBoundingClientRect().bottom - bottom;
      inside(runner, innerHeight - bar.offsetHeight - EDGE - under - top);
    }
  };
  const fit = async (asked = null) => {
    const mine = ++turn;
    scrollTo({ top: 0, behavior: "instant" });
    players.toggleAttribute("data-fitting", true);
    const across = group.compact ? 1 : group.runners.length,
      zoomed = innerWidth < NARROW ? 1 : Math.max(1, innerWidth / Math.max(1, across) / LEAST);
    document.documentElement.removeAttribute("data-tight");
    group.runners.forEach(unclip);
    let over = null; // pixels that are missing
    const zooms = ZOOMS.filter((one) => one <= zoomed),
      set = async (zoom) => {
        players.style.setProperty("--lecture-zoom", zoom);
        await frame();
        over = tallest() - (innerHeight - bar.offsetHeight - players.getBoundingClientRect().top);
      };
    let [low, high] = [0, zooms.length - 1]; // the largest that fits is between these
    while (low < high && mine === turn) {
      const middle = (low + high) >> 1;
      await set(zooms[middle]);
      if (over > 0) low = middle + 1;
      else high = middle;
    }
    if (mine === turn) await set(zooms[low]);
    if (mine !== turn) return;
    document.documentElement.toggleAttribute("data-tight", over > 0);
    if (over > 0 && innerWidth >= NARROW) tighten();
    players.toggleAttribute("data-fitting", false);
    if (!coming || asked !== before) return;
    coming = false;
    come();
  };
  /** Once the runs are there with the views that show their idea; again where another one comes after them. */
  const look = () => {
    const { runners } = group,
      asked = before;
    if (!asked || asked.count === runners.length || runners.some(({ run }) => asked.runs.has(run))) return;
    asked.count = runners.length;
    const wait = () => {
      if (bar.hidden || before !== asked || asked.count !== group.runners.length) return;
      if (group.runners.every(drawn) || performance.now() > asked.until) fit(asked);
      else requestAnimationFrame(wait);
    };
    wait();
  };
  const again = () => fit();
  return {
    coming: () => coming,
    /** Other runs are on their way. */
    wait() {
      coming = true;
      before = { runs: new Set(group.runners.map(({ run }) => run)), count: 0, until: performance.now() + PATIENCE };
    },
    begin() {
      group.listeners.add(look);
      addEventListener("resize", again);
    },
    end() {
      turn++;
      before = null;
      document.documentElement.removeAttribute("data-tight");
      group.listeners.delete(look);
      removeEventListener("resize", again);
      players.style.removeProperty("--lecture-zoom");
      players.toggleAttribute("data-fitting", false);
    },
  };
}
