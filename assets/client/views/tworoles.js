// One network in two roles. Above, as it drafts: a block of masks read in both directions, a guess for each, as high as
// its probability. Below, as it verifies: the filled block read from left to right, and what each row says comes next.
// Where the two agree the guess is kept; at the first place where they do not, the verdict is.

import { render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { many, tr } from "../player/words.js";
import { emitted, refused, shareIn, ways } from "./onepass.js";

export const view = { title: "One model in two roles", place: 64, needs: ["tworoles"] };

const WIDEST = 128, // of a place, in CSS pixels
  BARS = 64, // height of a probability of 1
  HEAD = 26, // of a role's name
  CHIP = 26;

const head = (x, y, dx) => `M${x - 6 * dx},${y - 5}L${x},${y}L${x - 6 * dx},${y + 5}`;

export class TwoRoles extends StepPicture {
  layers = ["boxes", "lines", "bars", "drafts", "verdicts", "ends", "cuts"];
  none = tr`No block was filled in this step.`;
  told = ({ tworoles, tree }) => tree && tworoles?.drafted.length > 1 && tworoles;

  draw(told, { tree }) {
    const { width } = this,
      B = told.drafted.length,
      w = Math.min(WIDEST, (width - 4) / (B + 1)), // the last column is the bonus token's
      draft = HEAD + 18 + BARS,
      way = draft + CHIP + 16,
      under = way + 16 + HEAD, // the second role
      verdict = under + 34,
      written = verdict + CHIP + 34;
    const at = { B, w, draft, way, under, verdict, written, labels: [], x: (i) => (i + 0.5) * w };
    const moving = [...this.#drafted(told, tree, at), ...this.#judged(told, tree, at)];
    this.#both(at);
    this.chips(
      this.ends,
      emitted(this, tree, (i) => at.x(i + 1), written),
      w - 4,
    );
    at.labels.push([2, written - 10, "start", tr`written`]);
    refused(this, tree, { left: 0, w, roof: draft + 4, foot: verdict + CHIP + 4 }); // where the two roles part
    this.frame(written + CHIP + 20, at.labels);
    return moving;
  }

  /** The guesses, each with its probability; the first place holds the text's last token. */
  #drafted({ drafted, chances }, tree, { w, draft, labels, x }) {
    const { rows } = rowsOf(tree),
      state = (i) => (i ? (rows[i]?.state ?? "unreached") : "old");
    labels.push([2, 16, "start", tr`drafts: reads the block both ways`]);
    const places = drafted.slice(1).map((_, j) => j + 1);
    render(this.bars, places, (i) => {
      const high = Math.max(2, BARS * chances[i]),
        box = { rx: 3, x: x(i) - w * 0.27, y: draft - 4 - high, width: w * 0.54, height: high };
      if (w > 34) labels.push([x(i), draft - 8 - high, "middle", shareIn(chances[i], w)]);
      return [{ "data-s": state(i) }, ["rect", box]];
    });
    const item = (token, i) => ({ x: x(i), y: draft, state: state(i), whole: this.word(token), sign: i > 0 });
    return this.chips(this.drafts, drafted.map(item), w - 4);
  }

  /** What each causal row says of the place after it. */
  #judged({ verdict, accepted }, tree, { w, verdict: row, under, labels, x }) {
    const broke = tree.why.includes("mismatch"),
      state = (i) => (i < accepted ? "accepted" : i === accepted ? (broke ? "correction" : "bonus") : "unreached");
    labels.push([2, under, "start", tr`verifies: reads it from left to right`]);
    const item = (token, i) => ({ x: x(i + 1), y: row, state: state(i), whole: this.word(token), sign: i <= accepted });
    return this.chips(this.verdicts, verdict.map(item), w - 4);
  }

  /** The two ways of attention: a line with two heads, and one with one. */
  #both({ B, w, draft, way, under, verdict, x }) {
    const last = x(B - 1),
      one = under + 18,
      paths = [
        [`M${x(0)},${way}H${last}${head(x(0) - 2, way, -1)}${head(last + 2, way, 1)}`, "dx-exit"],
        [`M${x(0)},${one}H${x(B)}${head(x(B) + 2, one, 1)}`, "dx-exit"],
      ];
    for (let i = 0; i < B; i++) {
      paths.push([`M${x(i)},${draft + CHIP + 2}V${way}`, "dx-blank"]);
      paths.push([`M${x(i + 1)},${one}V${verdict - 2}`, "dx-blank"]);
    }
    ways(this.lines, paths);
    const frames = [
      { y: HEAD, width: B * w, height: way + 12 - HEAD },
      { y: under + 8, width: (B + 1) * w, height: verdict + CHIP - under },
    ];
    render(this.boxes, frames, (box) => ["rect", { class: "dx-lift", rx: 10, x: 1, ...box }]);
  }

  sentence(told, step) {
    const { accepted } = rowsOf(step.tree),
      k = told.drafted.length - 1,
      calls = Math.max(...told.passes);
    return tr`The model fills ${k} masks in ${many(calls, "target")}, then reads the block from left to right in one \
more: ${accepted} accepted, ${many(step.tree.emitted.length, "token")} written.`;
  }
}
