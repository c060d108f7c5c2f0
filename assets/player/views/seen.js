// A picture that a language model sees, what of it reaches the draft, and the text in the rounds in which it came.

import { glyphs, number, unpack } from "../codec.js";
import { el, pool, set, setText, svg } from "../dom.js";
import { CLASSES } from "../firstguesses.js";
import { paint } from "../pixels.js";
import { inOrder } from "../rounds.js";
import { tr } from "../words.js";

export const view = { name: "Seen", title: "The scene and what is said of it", place: 18, needs: ["vision+growing"] };

const GAP = "▢",
  VEIL = 0.82, // over a patch from which nothing was taken
  LOOKERS = { draft: tr`draft`, "compact token": tr`compact token`, "global vector": tr`global vector` },
  OURS = ["forced", "withdrawn"]; // not a step's own

const own = ({ commits }, part) => (commits?.[part] ?? []).filter((_, i) => !OURS.includes(commits.causes[i]));

/** Of the words that rounds with a draft wrote: {class: [guessed by the draft, all]}. */
export function shares(steps) {
  const found = { attribute: [0, 0], place: [0, 0], function: [0, 0] };
  for (const step of steps.filter(({ vision }) => vision?.entries?.text)) {
    const causes = own(step, "causes");
    step.vision.kinds.forEach((kind, i) => {
      if (!found[kind]) return;
      found[kind][0] += causes[i] === "accepted";
      found[kind][1]++;
    });
  }
  return found;
}

export class Seen {
  load(run, dom) {
    Object.assign(this, { run, t: 0, reader: 0 });
    [this.say, this.bytes, this.share, this.key] = Array.from({ length: 4 }, () => el("p", "dx-readout"));
    this.canvas = el("canvas", "dx-seen-over");
    this.veil = svg("g");
    this.lines = svg("path");
    this.svg = svg("svg", { role: "img", class: "dx-seen-over", preserveAspectRatio: "none" }, this.veil, this.lines);
    this.frame = el("div", "dx-seen-frame", this.canvas, this.svg);
    this.buttons = el("p", "dx-seen-buttons");
    this.strip = svg("svg", { "aria-hidden": "true", class: "dx-seen-strip" });
    this.text = el("p", "dx-seen-text");
    const side = el("div", "dx-seen-side", this.text, this.strip, this.bytes, this.share);
    dom.append(this.say, el("div", "dx-seen", el("div", "dx-seen-left", this.frame, this.buttons), side), this.key);
  }

  /** The latest group after t steps, the first step's before any, that has a part. */
  #latest(t, has) {
    return this.run.steps.slice(0, Math.max(1, t)).findLast(({ vision }) => vision && has(vision))?.vision;
  }

  show(t, hurry) {
    if (hurry) return;
    this.t = t;
    const drawn = this.#latest(t, ({ pixels }) => pixels),
      seen = t ? this.#latest(t, ({ looks }) => looks) : null,
      words = this.describe(t);
    this.#picture(drawn);
    this.#heat(drawn?.grid ?? [1, 1], seen);
    this.#words(t);
    this.#entries(t ? this.#latest(t, ({ entries }) => entries?.text) : null);
    setText(this.say, words);
    set(this.svg, { "aria-label": words });
    const counted = Object.entries(shares(this.run.steps.slice(0, t))).filter(([, [, all]]) => all),
      listed = counted.map(([kind, [guessed, all]]) => `${CLASSES[kind]} ${guessed} / ${all}`).join(", ");
    setText(this.share, listed && tr`Guessed by the draft: ${listed}.`);
    setText(
      this.key,
      [
        seen && tr`Lit: patches looked at.`,
        tr`A frame: one round. Underlined: what the picture decides, dotted for places.`,
      ]
        .filter(Boolean)
        .join(" "),
    );
  }

  #picture(vision) {
    this.frame.hidden = !vision;
    if (!vision || this.drawn === vision.pixels) return;
    this.drawn = vision.pixels;
    paint(this.canvas, vision.pixels);
    this.frame.style.aspectRatio = `${this.canvas.width} / ${this.canvas.height}`;
  }

  /** A veil over each patch, thinner where more was taken from it; none where nobody looked. */
  #heat([rows, columns], seen) {
    const names = seen?.readers ?? [],
      n = rows * columns;
    this.reader = Math.min(this.reader, Math.max(0, names.length - 1));
    const values = seen ? unpack(seen.looks).values.slice(this.reader * n, (this.reader + 1) * n) : [],
      most = Math.max(...values, 1e-9);
    set(this.svg, { viewBox: `0 0 ${columns} ${rows}` });
    const across = Array.from({ length: rows }, (_, i) => `M0,${i}H${columns}`),
      down = Array.from({ length: columns }, (_, i) => `M${i},0V${rows}`);
    set(this.lines, { d: [...across, ...down].join("") });
    pool(this.veil, values.length, () => svg("rect", { width: 1, height: 1 })).forEach((cell, i) =>
      set(cell, {
        x: i % columns,
        y: Math.floor(i / columns),
        "fill-opacity": (VEIL * (1 - Math.sqrt(values[i] / most))).toFixed(3),
      }),
    );
    const make = () => el("button", "dx-toggle");
    pool(this.buttons, names.length > 1 ? names.length : 0, make).forEach((button, i) => {
      setText(button, LOOKERS[names[i]] ?? glyphs(names[i], 20));
      button.setAttribute("aria-pressed", String(i === this.reader));
      button.onclick = () => {
        this.reader = i;
        this.show(this.t);
      };
    });
  }

  #word(token) {
    const piece = this.run.piece(token);
    return piece.kind === "special" ? tr`end` : glyphs(piece.text.trim(), 14);
  }

  /** The text so far, a frame for each round; below it what the draft had guessed where the model refused. */
  #words(t) {
    const rounds = this.run.steps.slice(0, t).map((step, index) => {
      const at = own(step, "positions"),
        words = own(step, "tokens").map((token, i) => ({ at: at[i], token, kind: step.vision?.kinds?.[i] })),
        refused = (step.tree?.tokens ?? []).filter((_, i) => step.tree.why[i] === "mismatch");
      return { index, words: words.sort((a, b) => a.at - b.at), refused: refused.slice(0, 2) };
    });
    const some = inOrder(rounds.filter(({ words }) => words.length)),
      make = () => el("span", "dx-seen-round", el("span"), el("s"));
    pool(this.text, some.length, make).forEach((node, i) => {
      const { words, refused, index } = some[i],
        [line, guess] = node.childNodes;
      node.dataset.now = String(index === t - 1);
      pool(line, words.length, () => el("span")).forEach((word, j) => {
        setText(word, words[j].token === null ? GAP : this.#word(words[j].token));
        word.dataset.kind = words[j].kind ?? "";
      });
      setText(guess, refused.map((token) => this.#word(token)).join(", "));
    });
  }

  /** What the draft keeps: a square for each position, full ones for the picture. */
  #entries(vision) {
    const { picture = 0, text = 0 } = vision?.entries ?? {},
      all = Math.min(picture + text, 160),
      row = 40;
    set(this.strip, { viewBox: `0 0 ${row * 12} ${Math.max(1, Math.ceil(all / row)) * 12}` });
    pool(this.strip, all, () => svg("rect", { width: 9, height: 9, rx: 2 })).forEach((cell, i) =>
      set(cell, {
        x: (i % row) * 12 + 1,
        y: Math.floor(i / row) * 12 + 1,
        class: i < picture ? "dx-seen-patch" : "",
      }),
    );
    const kept = number((picture * (vision?.entry_bytes ?? 0)) / 1000);
    setText(
      this.bytes,
      vision ? tr`Positions that the draft keeps: ${picture} of the picture (${kept} kB), ${text} of text.` : "",
    );
  }

  describe(t) {
    const done = this.run.steps.slice(0, t),
      passes = done.reduce((sum, { forwards }) => sum + (forwards.target ?? forwards.model ?? 0), 0),
      written = done.reduce((sum, step) => sum + own(step, "tokens").length, 0);
    return t ? tr`${written} tokens after ${passes} forwards of the model.` : tr`The picture that is looked at.`;
  }
}
