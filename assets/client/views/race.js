// The race: one lane for each run on the common clock, and, frozen at a budget, a table of what each run has by then.

import { UNITS } from "../player/clock.js";
import { along, el, pool, set, setText, svg } from "../player/dom.js";
import { nameOf } from "../player/field.js";
import { remember, remembered } from "../player/remember.js";
import { many, tr, translated } from "../player/words.js";
import { amount, below, NOT, SLACK, standings, untimed, WORDS } from "./standings.js";

export const view = { title: "Race", place: "toolbar", needs: [] };

const PAUSE = 250; // milliseconds between two tables while the runs play

/** Tokens after 0, 1, ... steps. */
const growth = (run) => Array.from({ length: run.length + 1 }, (_, t) => run.tokens(t) ?? 0);

export class Race {
  constructor(group) {
    Object.assign(this, { group, frozen: false, drawn: "", said: 0 });
    const go = (event) => {
      group.pause();
      group.seek(along(this.rows[0].track, event) * group.end, true);
    };
    this.lanes = el("div", {
      class: "dx-lanes",
      onpointerdown: (event) => {
        if (!event.target.closest(".dx-track")) return;
        this.lanes.setPointerCapture(event.pointerId);
        event.preventDefault();
        go(event);
      },
      onpointermove: (event) => this.lanes.hasPointerCapture(event.pointerId) && go(event),
    });
    this.budget = el("input", {
      ...{ type: "number", min: 0, step: "any", "aria-label": tr`Freeze at` },
      oninput: () => group.pause(),
      onchange: () => this.frozen && this.#freeze(),
      onkeydown: (event) => event.key === "Enter" && this.#freeze(),
    });
    const clock = { "aria-label": tr`Clock of the budget`, onchange: () => group.setUnit(this.unit.value) },
      turn = () => (this.frozen ? this.#thaw() : this.#freeze()),
      fold = () => {
        this.open = !this.open;
        remember("race", this.open);
        this.update();
      };
    this.unit = el("select", clock, ...Object.keys(UNITS).map((unit) => el("option", { value: unit }, WORDS[unit])));
    this.button = el("button", { class: "dx-toggle", "aria-pressed": "false", onclick: turn }, tr`Freeze`);
    this.say = el("p", { class: "dx-none", role: "status" });
    this.table = el("table", { class: "dx-standing", hidden: true });
    this.toggle = el("button", { class: "dx-toggle dx-racer", hidden: true, onclick: fold }, tr`Race`);
    this.open = remembered("race") ?? !group.slim;
    const at = el("span", {}, tr`Freeze at`),
      controls = el("div", "dx-controls", at, this.budget, this.unit, this.button, this.say),
      look = { class: "dx-race dx-below", role: "region", "aria-label": tr`Race`, hidden: true };
    this.root = el("div", look, this.lanes, controls, el("div", "dx-scroll", this.table));
  }

  /** Called after every move of the clock. */
  update(hurry) {
    const { group } = this,
      { unit, x, end, runners } = group,
      runs = runners.map(({ run }) => run);
    this.toggle.hidden = !runners.length;
    this.root.hidden = !runners.length || !this.open;
    set(this.toggle, { "aria-expanded": String(this.open) });
    if (this.root.hidden) return;
    const known = ({ header, length, end: over }) => [header.started_at, length, over?.reason],
      drawn = JSON.stringify([
        [unit, end, ...runs.map((run) => nameOf(run, runs))],
        ...runners.map(({ run, slot, context }) => [slot, context.id, ...known(run)]),
      ]);
    if (drawn !== this.drawn) this.#draw(runners);
    this.drawn = drawn;
    runners.forEach(({ run, t }, i) => {
      const { hand, veil, count } = this.rows[i],
        over = x + SLACK >= run.axes[unit].at(-1);
      hand.style.transform = veil.style.transform = `translateX(${end ? (100 * x) / end : 0}%)`;
      if (!hurry)
        setText(count, untimed(run, unit) ? NOT : `${many(run.tokens(t), "token")}${over && run.end ? " ■" : ""}`);
    });
    if (hurry) return;
    if (document.activeElement !== this.budget)
      this.budget.value = unit === "seconds" ? x.toFixed(3) : Math.floor(x + SLACK);
    this.unit.value = unit;
    clearTimeout(this.later);
    if (this.frozen && (!group.playing || performance.now() - this.said > PAUSE)) this.#tabulate();
    else if (this.frozen) this.later = setTimeout(() => this.#tabulate(), PAUSE);
  }

  #draw(runners) {
    const { unit, end } = this.group,
      most = Math.max(1, ...runners.map(({ run }) => Math.max(...growth(run))));
    const make = () => {
      const picture = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path"), svg("path")),
        track = el("div", "dx-track", picture, el("i"), el("div", "dx-veil"), el("div", "dx-hand"));
      return el("div", "dx-lane", el("span", "dx-runner", el("span"), el("small")), track, el("span", "dx-count"));
    };
    this.rows = pool(this.lanes, runners.length, make).map((row, i) => {
      const [name, track, count] = row.childNodes,
        [picture, stop, veil, hand] = track.childNodes,
        { run, slot } = runners[i],
        axis = run.axes[unit],
        points = growth(run),
        title = nameOf(
          run,
          runners.map((other) => other.run),
        ),
        last = axis.at(-1),
        over = untimed(run, unit)
          ? tr`no place on this clock was recorded:`
          : run.end
            ? tr`${run.end.reason === "complete" ? tr`ends` : translated(run.end.reason)} after ${amount(unit, last)}`
            : tr`still running`;
      const strips = untimed(run, unit) ? [] : below(run, unit),
        y = (i) => most * (1.1 + 0.6 * i);
      setText(name.firstChild, `${slot + 1} ${title}`);
      setText(name.lastChild, strips.map(({ said }) => said).join("\n"));
      track.style.height = `${20 + 12 * strips.length}px`;
      name.title = title;
      set(picture, { viewBox: `0 0 ${end || 1} ${y(strips.length) - most / 10}` });
      const grown = points.slice(0, axis.length).map((n, t) => `H${axis[t]}V${most - n}`),
        spell = (i, [a, b, part = 1]) => `M${a},${y(i + 0.8)}H${b}V${y(i + 0.8 - 0.8 * part)}H${a}Z`,
        worked = strips.flatMap(({ spells }, i) => spells.map((one) => spell(i, one))),
        words = tr`${title}: ${points.at(-1)} tokens, ${over} ${unit === "seconds" ? "" : WORDS[unit]}`.trim();
      set(picture.firstChild, { d: `M0,${most}${grown.join("")}V${most}Z` });
      set(picture.lastChild, { d: worked.join("") });
      set(track, { role: "img", "aria-label": [words, ...strips.map(({ said }) => said)].join("; ") });
      setText(stop, run.end ? "■" : "▸");
      stop.title = `${over}${unit === "seconds" ? "" : ` ${WORDS[unit]}`}`;
      stop.style.left = `${end ? (100 * last) / end : 0}%`;
      return { track, veil, hand, count };
    });
  }

  /** All players go to the typed budget and stay there; the table says what each has. */
  #freeze() {
    const { group, budget } = this,
      { unit, end } = group,
      wanted = budget.valueAsNumber;
    if (!(wanted >= 0)) return setText(this.say, tr`Type a number of ${WORDS[unit]} from 0 to ${amount(unit, end)}.`);
    this.frozen = true;
    this.button.setAttribute("aria-pressed", "true");
    this.table.hidden = false;
    group.pause();
    group.seek(wanted + SLACK);
  }

  #thaw() {
    this.frozen = false;
    this.button.setAttribute("aria-pressed", "false");
    this.table.hidden = true;
    setText(this.say, "");
  }

  #tabulate() {
    if (!this.frozen) return;
    const { unit, x } = this.group;
    this.said = performance.now();
    const place = unit === "seconds" ? "" : ` ${WORDS[unit]}`;
    setText(this.say, tr`Each run at ${amount(unit, x)}${place}; a step counts when it is over.`);
    this.table.replaceChildren(...standings(this.group));
  }
}
