// Bytes of a step by purpose: an arena with its parts one behind the other, over the steps and at this one, with what
// stands beside it: a column for each group, and a limit as a line across.

import { bytes, number } from "../codec.js";
import { el, frame, pool, set, setText, svg } from "../dom.js";
import { tr, translated } from "../words.js";

export const view = { name: "Arena", title: "Bytes by purpose", place: 129, needs: ["intervals.group"] };

const WIDE = 560,
  HIGH = 190,
  LEFT = 66,
  HALF = 0.5, // a first part larger than this share of its column is cut off below
  FILLS = ["option3", "option0", "option1", "unreached", "option2", "option4", "option5", "option6"],
  INK = "--ink:var(--text)",
  fill = (i) => `var(--${FILLS[i % FILLS.length]}-fill)`;

/** Columns of a step's intervals in bytes: group -> its parts {name, start, end, measured}; and the limits. */
export function columns(intervals = []) {
  const groups = new Map(),
    limits = [];
  for (const { about, start, end, measured = true, unit } of intervals) {
    if (unit !== "bytes" || !about) continue;
    const { group, name, limit } = about;
    if (limit) limits.push(end);
    else groups.set(group, [...(groups.get(group) ?? []), { name, start, end, measured }]);
  }
  return { groups, limits };
}

/** Where the drawing begins: behind the first part of the first column if that is most of it. */
export function ground(parts = []) {
  const [first] = parts,
    top = Math.max(0, ...parts.map(({ end }) => end));
  return first && parts.length > 1 && first.end - first.start > HALF * top ? first.end : 0;
}

export class Arena {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context });
    this.say = el("p", "dx-readout");
    this.areas = svg("g");
    this.line = svg("path", { style: "stroke:var(--warn);stroke-width:2;stroke-dasharray:6 4;fill:none" });
    this.hand = svg("path", { style: "stroke:var(--text);stroke-width:1.5;fill:none" });
    this.words = svg("g", { style: INK });
    this.picture = svg(
      "svg",
      {
        class: "dx-tree",
        role: "img",
        onclick: (event) => {
          const box = this.picture.getBoundingClientRect(),
            at = ((event.clientX - box.left) / box.width) * WIDE;
          if (at > LEFT) context.seek(Math.min(run.length, Math.floor(((at - LEFT) / (WIDE - LEFT)) * run.length) + 1));
        },
      },
      this.areas,
      this.line,
      this.hand,
      this.words,
    );
    this.list = el("div", { style: "display:grid;gap:2px;font-size:13px;margin-top:6px;max-width:560px" });
    dom.append(
      this.say,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Bytes over the steps` }, this.picture),
      this.list,
    );
    frame(this.picture, WIDE, HIGH + 18);
    this.grow();
  }

  grow() {
    const found = this.run.steps.map((step) => columns(step.intervals));
    this.group = found.map(({ groups }) => [...groups.keys()][0]).find(Boolean);
    this.at = found.map(({ groups }) => groups.get(this.group) ?? []);
    this.limits = found.map(({ limits }) => limits[0] ?? null);
    this.base = Math.min(...this.at.filter(({ length }) => length).map(ground), Infinity);
    if (this.base === Infinity) this.base = 0;
    const tops = this.at.flatMap((parts) => parts.map(({ end }) => end)),
      top = Math.max(this.base + 1, ...tops),
      near = this.limits.filter((limit) => limit !== null && limit < this.base + 1.6 * (top - this.base));
    this.top = Math.max(top, ...near) + 0.04 * (top - this.base);
    this.names = [...new Set(this.at.flatMap((parts) => parts.map(({ name }) => name)))];
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !tops.length;
    this.#areas();
  }

  #y(value) {
    return HIGH - ((Math.max(value, this.base) - this.base) / (this.top - this.base)) * (HIGH - 8);
  }

  #areas() {
    const wide = (WIDE - LEFT) / Math.max(1, this.run.length),
      y = (value) => this.#y(value).toFixed(1),
      paths = this.names.map((name) =>
        this.at
          .map((parts, i) => {
            const part = parts.find((one) => one.name === name);
            return part && part.end > this.base
              ? `M${(LEFT + i * wide).toFixed(1)},${y(part.start)}V${y(part.end)}h${wide.toFixed(1)}V${y(part.start)}Z`
              : "";
          })
          .join(""),
      );
    pool(this.areas, paths.length, () => svg("path", {}, svg("title"))).forEach((path, i) => {
      set(path, { d: paths[i], style: `fill:${fill(i)};stroke:none` });
      setText(path.firstChild, translated(this.names[i]));
    });
    const limit = this.limits.map((one, i) =>
      one === null || one > this.top ? "" : `M${LEFT + i * wide},${y(one)}h${wide.toFixed(1)}`,
    );
    set(this.line, { d: limit.join("") });
    const words = [
      [0, this.#y(this.top) + 10, bytes(this.top)],
      [0, HIGH, bytes(this.base)],
      [LEFT, HIGH + 14, tr`step 1`],
      [WIDE - 60, HIGH + 14, tr`step ${this.run.length}`],
    ];
    pool(this.words, words.length, () => svg("text", "dx-small")).forEach((text, i) => {
      set(text, { x: words[i][0], y: words[i][1] });
      setText(text, words[i][2]);
    });
  }

  show(t, hurry) {
    const wide = (WIDE - LEFT) / Math.max(1, this.run.length);
    set(this.hand, { d: t ? `M${LEFT + (t - 0.5) * wide},2V${HIGH}` : "" });
    if (hurry) return;
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
    const { groups } = columns(this.run.steps[t - 1]?.intervals),
      rows = [...groups].flatMap(([group, parts]) => [
        ...(parts.length > 1 ? [{ group, size: parts.at(-1).end, head: true }] : []),
        ...parts.map((part) => ({ ...part, group, size: part.end - part.start, only: parts.length < 2 })),
      ]);
    pool(this.list, rows.length, () => el("div", {}, el("i", "dx-swatch"), el("span"), el("b"), el("span"))).forEach(
      (row, i) => {
        const { group, name, size, measured, head, only } = rows[i],
          [box, word, value, how] = row.childNodes;
        row.style.cssText = "display:grid;grid-template-columns:18px minmax(0,1fr) 84px 76px;gap:6px";
        box.style.cssText = `background:${group === this.group && !head ? fill(this.names.indexOf(name)) : "none"}`;
        setText(word, head ? translated(group) : only ? `${translated(group)}: ${translated(name)}` : translated(name));
        word.style.fontWeight = head || only ? 600 : 400;
        setText(value, bytes(size));
        setText(how, head ? tr`in all` : measured ? tr`measured` : tr`modelled`);
      },
    );
  }

  describe(t) {
    const { groups, limits } = columns(this.run.steps[t - 1]?.intervals),
      parts = groups.get(this.group);
    if (!parts) return t ? tr`No bytes were counted in this step.` : tr`Before the first step.`;
    const all = parts.at(-1).end,
      cut = this.base ? tr` The first ${bytes(this.base)}, ${translated(parts[0].name)}, are not drawn.` : "",
      share = limits.length
        ? tr` That is ${number((100 * all) / limits[0])} % of the budget of ${bytes(limits[0])}.`
        : "";
    return `${tr`${bytes(all)} are held.`}${share}${cut}`;
  }
}
