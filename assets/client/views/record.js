// What a method tells of its own, where no view is made for it: numbers with their course over the steps, lists as a
// table with bars, arrays as shades. Units come from the header; tokens are shown as their text.

import { unpack } from "../player/codec.js";
import { el, rowOf, set, svg } from "../player/dom.js";
import { bytes, glyphs, number, seconds, tr } from "../player/words.js";

const ROWS = 40, // of a table
  MOST = 12, // columns of a table
  TEXT = 120, // characters of a value
  SIDE = 256, // cells of a side of a picture of shades
  DEEP = 4, // objects within each other
  BARS = 64; // steps in a course

const scalar = (value) => value === null || typeof value !== "object",
  packed = (value) => Boolean(value?.dtype && Array.isArray(value.shape)),
  words = (name) => name.replaceAll("_", " ");

/** Parts of a long list, evenly spread. */
const some = (list, most) =>
  list.length <= most ? list : Array.from({ length: most }, (_, i) => list[Math.floor((i * list.length) / most)]);

export class RecordTable {
  load(run, dom) {
    this.run = run;
    this.units = run.header.records?.[this.record]?.units ?? {};
    this.meaning = el("p", "dx-readout", run.header.records?.[this.record]?.meaning ?? "");
    this.box = el("div", { class: "dx-scroll dx-record", tabindex: 0, "aria-label": words(this.record) });
    dom.append(this.meaning, this.box);
    this.meaning.hidden = !this.meaning.textContent;
  }

  show(t, hurry) {
    if (hurry) return;
    const found = this.run.steps[t - 1]?.[this.record];
    this.t = t;
    this.box.replaceChildren(...(found ? this.#object(found, "", 0) : [el("p", "dx-none", this.describe(t))]));
  }

  describe(t) {
    if (!t) return tr`Before the first step.`;
    return this.run.steps[t - 1]?.[this.record] ? "" : tr`This step has no record “${words(this.record)}”.`;
  }

  /** The parts of an object: its single values first, lists of equal length together, then what is within. */
  #object(object, path, deep) {
    const entries = Object.entries(object).map(([name, value]) => [name, value, path ? `${path}.${name}` : name]),
      single = entries.filter(([, value]) => scalar(value)),
      lists = new Map(),
      others = entries.filter(([, value]) => !scalar(value) && !this.#flat(value)),
      parts = single.length ? [el("table", {}, ...single.map((entry) => this.#row(entry)))] : [];
    for (const entry of entries.filter(([, value]) => this.#flat(value)))
      lists.set(entry[1].length, [...(lists.get(entry[1].length) ?? []), entry]);
    for (const group of lists.values()) parts.push(this.#columns(group.slice(0, MOST)));
    for (const [name, value, at] of others) parts.push(...this.#within(name, value, at, deep));
    return parts;
  }

  #flat = (value) => Array.isArray(value) && value.length > 0 && value.every(scalar);

  #within(name, value, path, deep) {
    const head = el("h4", {}, words(name));
    if (packed(value)) return [head, this.#array(value, path)];
    if (Array.isArray(value)) {
      if (!value.length) return [];
      const columns = [...new Set(value.flatMap((one) => (scalar(one) ? [] : Object.keys(one))))].slice(0, MOST);
      const group = columns.map((column) => [column, value.map((one) => one?.[column]), `${path}.${column}`]);
      return [head, this.#columns(group)];
    }
    if (deep >= DEEP || !Object.keys(value).length) return [];
    const keys = ["", Object.keys(value), ""],
      named = Object.keys(this.units).some((one) => one.startsWith(`${path}.`)); // a struct, not a mapping
    if (!named && Object.values(value).every((one) => typeof one === "number"))
      return [head, this.#columns([keys, [name, Object.values(value), path]])];
    return [head, ...this.#object(value, path, deep + 1)];
  }

  /** A value in words, in the unit of its field. */
  #said(value, path) {
    const unit = this.units[path];
    if (value === null || value === undefined) return "–";
    if (packed(value)) return value.shape.join(" × ");
    if (Array.isArray(value)) {
      const shown = value.slice(0, ROWS).map((one) => this.#said(one, path));
      return glyphs(shown.join(unit === "token" ? "" : ", "), TEXT) + (value.length > ROWS ? " …" : "");
    }
    if (typeof value === "object") return glyphs(JSON.stringify(value), TEXT);
    if (typeof value !== "number") return glyphs(String(value), TEXT);
    if (unit === "token") return value < 0 ? "–" : glyphs(this.run.piece(value).text, TEXT);
    if (unit === "seconds") return seconds(value);
    if (unit === "bytes") return bytes(value);
    return number(value, unit === "position" ? "" : unit);
  }

  /** Name, value, and for a number its course over the steps. */
  #row([name, value, path]) {
    const counts = typeof value === "number" && !["token", "position"].includes(this.units[path]);
    return rowOf(words(name), this.#said(value, path), counts ? this.#course(path) : "");
  }

  #course(path) {
    const at = path.split("."),
      all = this.run.steps.map((step, i) => [i, at.reduce((inner, name) => inner?.[name], step[this.record])]),
      known = all.filter(([, value]) => typeof value === "number");
    if (known.length < 2) return "";
    const bars = some(known, BARS),
      top = Math.max(...known.map(([, value]) => Math.abs(value))) || 1;
    const drawn = bars.map(([i, value], n) => {
      const height = Math.max(1, (Math.abs(value) / top) * 22),
        fill = i === this.t - 1 ? "var(--accent)" : "var(--muted)";
      return svg("rect", { x: n * 4, y: 24 - height, width: 3, height, fill, "fill-opacity": i < this.t ? 1 : 0.35 });
    });
    const w = bars.length * 4,
      name = tr`over the steps, at most ${number(top)}`;
    return svg("svg", { viewBox: `0 0 ${w} 24`, width: w, height: 24, role: "img", "aria-label": name }, ...drawn);
  }

  /** Lists side by side, a row for each place; a bar behind a number, as long as its part of the largest. */
  #columns(group) {
    const length = Math.max(...group.map(([, values]) => values.length)),
      tops = group.map(([, values, path]) =>
        ["token", "position"].includes(this.units[path]) ? 0 : Math.max(0, ...values.filter(Number.isFinite)),
      );
    const head = el("tr", {}, ...group.map(([name]) => el("th", { scope: "col" }, words(name)))),
      cell = (value, path, top) => {
        const bar = typeof value === "number" && value > 0 && top > 0,
          style = `background:linear-gradient(to right, var(--line) ${(100 * value) / top}%, transparent 0)`;
        return el("td", bar ? { style } : {}, this.#said(value, path));
      };
    const rows = Array.from({ length: Math.min(length, ROWS) }, (_, i) =>
      el("tr", {}, ...group.map(([, values, path], n) => cell(values[i], path, tops[n]))),
    );
    const more = length > ROWS ? el("p", "dx-readout", tr`… and ${length - ROWS} more`) : null;
    return el("div", {}, el("table", {}, head, ...rows), more);
  }

  /** An array of numbers: one row of them as a table, else shades from the least to the largest. */
  #array(value, path) {
    const { values, shape } = unpack(value);
    if (shape.length < 2) return this.#columns([["", [...values], path]]);
    const columns = shape.at(-1),
      rows = values.length / columns || 0,
      canvas = el("canvas", { role: "img" }),
      known = [...values].filter(Number.isFinite),
      [lo, hi] = known.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
    const size = `${shape.join(" × ")}: ${known.length ? tr`${number(lo)} to ${number(hi)}` : "–"}`;
    const [down, across] = [rows, columns].map((n) => some([...Array(Math.min(n, 2 ** 16)).keys()], SIDE));
    Object.assign(canvas, { width: across.length || 1, height: down.length || 1 });
    set(canvas, { "aria-label": size });
    canvas.style.cssText = `width:${Math.min(480, across.length * 8)}px;max-width:100%;image-rendering:pixelated`;
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(this.box).getPropertyValue("--accent");
    down.forEach((row, y) =>
      across.forEach((column, x) => {
        const one = values[row * columns + column];
        if (!Number.isFinite(one)) return;
        pen.globalAlpha = hi > lo ? (one - lo) / (hi - lo) : 0.5;
        pen.fillRect(x, y, 1, 1);
      }),
    );
    return el("figure", {}, canvas, el("figcaption", "dx-readout", size));
  }
}
