// A picture that a language model sees, what of it reaches the draft, and the text in the rounds in which it came.

import { el, setText } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { CLASSES, counted } from "../player/firstguesses.js";
import { inOrder } from "../player/rounds.js";
import { bytes, glyphs, tr } from "../player/words.js";
import { SeenByDraft } from "./seendraft.js";

export const view = { title: "The scene and what is said of it", place: 18, needs: ["vision+growing"] };

const GAP = "▢",
  OURS = ["forced", "withdrawn"]; // not a step's own

const own = ({ commits }, part) => (commits?.[part] ?? []).filter((_, i) => !OURS.includes(commits.causes[i]));

/** Of the words that rounds with a draft wrote: {class: [guessed by the draft, all]}. */
export const shares = (steps) =>
  counted(
    steps
      .filter(({ vision }) => vision?.entries?.text)
      .flatMap((step) => {
        const causes = own(step, "causes");
        return step.vision.kinds.map((kind, i) => ({ kind, right: causes[i] === "accepted" }));
      }),
  );

export class Seen extends SeenByDraft {
  wrote = el("p", "dx-seen-text");
  bytes = el("p", "dx-readout");
  share = el("p", "dx-readout");
  side = this.below(el("div", "dx-seen-side", this.wrote, this.bytes, this.share));
  key = this.below(el("p", "dx-readout"));

  /** The latest group after t steps, the first step's before any, that has a part. */
  #latest(t, has) {
    return this.run.steps.slice(0, Math.max(1, t)).findLast(({ vision }) => vision && has(vision))?.vision;
  }

  show(t, hurry) {
    if (hurry) return;
    const kept = t ? this.#latest(t, ({ entries }) => entries?.text) : null;
    super.show(t, {
      scene: this.#latest(t, ({ pixels }) => pixels),
      seen: t ? this.#latest(t, ({ looks }) => looks) : null,
      entries: kept?.entries,
      recalled: this.run.steps.slice(0, t).some(({ facts }) => "global_norm" in (facts ?? {})),
    });
    this.#words(t);
    this.#entries(kept);
    const counted = Object.entries(shares(this.run.steps.slice(0, t))).filter(([, [, all]]) => all),
      listed = counted.map(([kind, [guessed, all]]) => `${CLASSES[kind]} ${guessed} / ${all}`).join(", ");
    setText(this.share, listed && tr`Guessed by the draft: ${listed}.`);
    setText(this.key, tr`A frame: one round. Underlined: what the picture decides, dotted for places.`);
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
    const word = ({ token, kind = "" }) => ["span", { "data-kind": kind }, token === null ? GAP : this.#word(token)];
    render(this.wrote, inOrder(rounds.filter(({ words }) => words.length)), ({ words, refused, index }) => [
      "span",
      { class: "dx-seen-round", "data-now": String(index === t - 1) },
      ["span", {}, ...words.map(word)],
      ["s", {}, refused.map((token) => this.#word(token)).join(", ")],
    ]);
  }

  #entries(vision) {
    const { picture = 0, text = 0 } = vision?.entries ?? {},
      kept = bytes(picture * (vision?.entry_bytes ?? 0)),
      n = this.#latest(1, ({ grid }) => grid?.length)?.grid.reduce((a, b) => a * b, 1) ?? 0,
      whole = n > picture ? tr` All ${n} would take ${bytes(n * (vision?.entry_bytes ?? 0))} (derived).` : "",
      said = tr`Positions that the draft keeps: ${picture} of the picture (${kept}), ${text} of text.`;
    setText(this.bytes, vision ? said + whole : "");
  }

  describe(t) {
    if (!t) return tr`The picture that is looked at.`;
    const done = this.run.steps.slice(0, t),
      passes = done.reduce((sum, { forwards }) => sum + (forwards.target ?? forwards.model ?? 0), 0),
      written = done.reduce((sum, step) => sum + own(step, "tokens").length, 0);
    return tr`${written} tokens after ${passes} forwards of the model.`;
  }
}
