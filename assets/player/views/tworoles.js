// One network in two roles. Above, as it drafts: a block of masks read in both directions, a guess for each, as high as
// its probability. Below, as it verifies: the filled block read from left to right, and what each row says comes next.
// Where the two agree the guess is kept; at the first place where they do not, the verdict is.

import { chips } from "../chips.js";
import { many } from "../counted.js";
import { pool, set, svg } from "../dom.js";
import { comeIn } from "../motion.js";
import { rowsOf } from "../rounds.js";
import { percent } from "../shares.js";
import { StepPicture } from "../steppicture.js";
import { tr } from "../words.js";

export const view = { name: "TwoRoles", title: "One model in two roles", place: 64, needs: ["tworoles"] };

const WIDEST = 128, // of a place, in CSS pixels
  BARS = 64, // height of a probability of 1
  HEAD = 26, // of a role's name
  CHIP = 26;

const head = (x, y, dx) => `M${x - 6 * dx},${y - 5}L${x},${y}L${x - 6 * dx},${y + 5}`;

export class TwoRoles extends StepPicture {
  load(run, dom, context) {
    this.begin(run, dom, context, ["boxes", "lines", "bars", "drafts", "verdicts", "ends", "cuts"]);
  }

  told({ tworoles, tree }) {
    return tree && tworoles?.drafted.length > 1 ? tworoles : null;
  }

  draw(told, { tree }, next) {
    const { width } = this,
      B = told.drafted.length,
      w = Math.min(WIDEST, (width - 4) / (B + 1)), // the last column is the bonus token's
      draft = HEAD + 18 + BARS,
      way = draft + CHIP + 16,
      under = way + 16 + HEAD, // the second role
      verdict = under + 34,
      written = verdict + CHIP + 34;
    const at = { B, w, draft, way, under, verdict, written, labels: [], x: (i) => (i + 0.5) * w };
    this.frame(written + CHIP + 20);
    const moving = this.#drafted(told, tree, at);
    moving.push(...this.#judged(told, tree, at));
    this.#both(at);
    this.#written(tree, at);
    this.label(at.labels);
    if (next) comeIn(moving, { opacity: 0 });
  }

  /** The guesses, each with its probability; the first place holds the text's last token. */
  #drafted({ drafted, chances }, tree, { w, draft, labels, x }) {
    const { rows } = rowsOf(tree),
      state = (i) => (i ? (rows[i]?.state ?? "unreached") : "old");
    labels.push([2, 16, "start", tr`drafts: reads the block both ways`]);
    pool(this.bars, drafted.length - 1, () => svg("g", {}, svg("rect", { rx: 3 }))).forEach((group, j) => {
      const i = j + 1,
        high = Math.max(2, BARS * chances[i]),
        share = percent(chances[i]);
      set(group, { "data-s": state(i) });
      set(group.firstChild, { x: x(i) - w * 0.27, y: draft - 4 - high, width: w * 0.54, height: high });
      if (w > 34) labels.push([x(i), draft - 8 - high, "middle", w < 48 ? share.replace(" %", "") : share]);
    });
    const items = drafted.map((token, i) => ({
      ...{ x: x(i), y: draft, state: state(i), whole: this.word(token), sign: i > 0 },
    }));
    return chips(this.drafts, items, this.context.theme, w - 4);
  }

  /** What each causal row says of the place after it. */
  #judged({ verdict, accepted }, tree, { w, verdict: row, under, labels, x }) {
    const broke = tree.why.includes("mismatch"),
      state = (i) => (i < accepted ? "accepted" : i === accepted ? (broke ? "correction" : "bonus") : "unreached");
    labels.push([2, under, "start", tr`verifies: reads it from left to right`]);
    const items = verdict.map((token, i) => ({
      ...{ x: x(i + 1), y: row, state: state(i), whole: this.word(token), sign: i <= accepted },
    }));
    return chips(this.verdicts, items, this.context.theme, w - 4);
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
    pool(this.lines, paths.length, () => svg("path", { fill: "none" })).forEach((line, i) =>
      set(line, { d: paths[i][0], class: paths[i][1] }),
    );
    const frames = [
      [HEAD, way + 12],
      [under + 8, verdict + CHIP + 8],
    ];
    pool(this.boxes, 2, () => svg("rect", { class: "dx-lift", rx: 10 })).forEach((box, i) => {
      const [top, end] = frames[i];
      set(box, { x: 1, y: top, width: (B + i) * w, height: end - top });
    });
  }

  /** What the round wrote, under the verdicts, and where the two roles part. */
  #written(tree, { w, draft, verdict, written, labels, x }) {
    const { rows, accepted } = rowsOf(tree),
      own = rows.slice(tree.tokens.length),
      items = tree.emitted.map((token, i) => ({
        ...{ x: x(i + 1), y: written, whole: this.word(token), sign: true },
        state: i < accepted ? "accepted" : (own[i - accepted]?.state ?? "old"),
      }));
    chips(this.ends, items, this.context.theme, w - 4);
    labels.push([2, written - 10, "start", tr`written`]);
    const broke = tree.why.includes("mismatch"),
      line = (accepted + 1) * w;
    pool(this.cuts, broke ? 1 : 0, () => svg("path", { class: "dx-cut" })).forEach((path) =>
      set(path, { d: `M${line},${draft - 6}V${verdict + CHIP + 4}` }),
    );
  }

  describe(t) {
    const step = this.run.steps[t - 1],
      told = step && this.told(step);
    if (!told) return t ? tr`No block was filled in this step.` : tr`Before the first step.`;
    const { accepted } = rowsOf(step.tree),
      k = told.drafted.length - 1,
      calls = Math.max(...told.passes);
    return tr`The model fills ${k} masks in ${many(calls, "target")}, then reads the block from left to right in one \
more: ${accepted} accepted, ${many(step.tree.emitted.length, "token")} written.`;
  }
}
