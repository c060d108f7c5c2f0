// A belt: the drafter's state goes right, and at each place the last guess drops into it before the next one is ranked.
// A second belt forks off with another first guess. Below them the same with the drop cut: heads that see no guess have
// one ranking for a place, whatever was guessed before it.

import { many } from "../player/counted.js";
import { el } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { pathOf, rowsOf } from "../player/rounds.js";
import { percent } from "../player/shares.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { Belts } from "./belts.js";

export const view = { title: "Each guess drops back in", place: 47, needs: ["rankings"] };

const NARROW = 720;

const depthOf = (parents, row) => (row > 0 ? 1 + depthOf(parents, parents[row]) : 1);

export class Conveyor extends StepPicture {
  none = tr`No draft was made in this step.`;

  load(run, dom, context) {
    this.firsts = el("div", { class: "dx-sliding", role: "group", "aria-label": tr`Another first guess` });
    this.belts = new Belts(run, context.theme);
    this.begin(run, dom, context, this.belts.layers, this.firsts);
  }

  show(t, hurry) {
    if (t !== this.t) this.chosen = null; // the first guess that a person chose
    super.show(t, hurry);
  }

  told({ rankings, tree }) {
    return tree && rankings?.rows.includes(0) ? rankings : null;
  }

  /** The path that was kept, or is best ranked, and the one over another first guess. */
  #paths({ rows }, tree) {
    const kept = pathOf(tree, rows),
      others = rows.filter((row) => row && tree.parents[row] === 0 && row !== kept[1]),
      other = others.find((row) => row === this.chosen) ?? others[0];
    return { kept, others, other: other && pathOf(tree, rows, other) };
  }

  also(told, step) {
    const { others, other } = told?.linked ? this.#paths(told, step.tree) : { others: [] },
      choose = (row) => (this.chosen = this.chosen === row ? null : row),
      word = (row) => this.belts.word(step.tree.tokens[row]),
      items = others.map((row) => [tr`if ‘${word(row)}’ drops in`, row === other[1], () => choose(row)]);
    this.buttons(this.firsts, items.length > 1 ? items : []);
  }

  /** The places of a path: at each the state, what drops into it, and what is ranked then. */
  #places({ rows, ranked }, tree, path) {
    const { rows: nodes } = rowsOf(tree),
      box = (row) => ({ token: tree.tokens[row], state: nodes[row].state });
    return path.map((row, i) => {
      const { tokens, chances } = ranked[rows.indexOf(row)],
        own = tree.accepted[row] ? (tree.emitted[i] ?? null) : null;
      const items = tokens.map((token, rank) => {
        const at = tree.parents.findIndex((parent, child) => parent === row && tree.tokens[child] === token),
          state = at > 0 ? nodes[at].state : token === own ? "correction" : "";
        return { token, rank, chance: chances[rank], state, row: at };
      });
      return { row, items, own, known: path.slice(0, i + 1).map(box), drops: [box(row)] };
    });
  }

  /** The same places with the drop cut, where no path matters. */
  #blind({ control }, tree, paths) {
    return (control ?? []).map(({ tokens, chances }, i) => {
      const own = tree.emitted[i] ?? null,
        above = paths.flatMap((path) => path?.slice(i, i + 1) ?? []),
        drops = [...new Set(above.map((row) => tree.tokens[row]))].map((token) => ({ token }));
      const items = tokens.map((token, rank) => ({
        ...{ token, rank, chance: chances[rank], row: -1 },
        state: token === own ? "old" : "",
      }));
      return { row: -1, items, own, known: [], drops };
    });
  }

  #lanes(told, tree, narrow, { kept, other }) {
    // A narrow panel has one belt for both paths.
    const places = this.#places(told, tree, narrow && this.chosen ? other : kept),
      cut = { from: 0, blind: true, says: [tr`one ranking`, tr`for any guess`, tr`✓: was written`] };
    if (!told.linked)
      return [{ ...cut, places: places.map((place) => ({ ...place, known: [] })), name: [tr`this run`, tr`drop cut`] }];
    const lanes = [{ places, from: 0, name: ["Clover", tr`guess drops in`], says: [tr`ranks the`, tr`next guess`] }],
      blind = this.#blind(told, tree, [kept, other]);
    if (other && !narrow) lanes.push({ places: this.#places(told, tree, other), from: 1, name: [], says: [] });
    if (blind.length) lanes.push({ ...cut, places: blind, name: [tr`control`, tr`drop cut`] });
    return lanes;
  }

  draw(told, { tree }, next) {
    const { width } = this,
      narrow = width < NARROW,
      paths = this.#paths(told, tree),
      depths = (step) => (this.told(step)?.rows ?? []).map((row) => depthOf(step.tree.parents, row)),
      deepest = this.most((step) => Math.max(0, ...depths(step))),
      shown = new Set([...paths.kept, ...(paths.other ?? [])]),
      at = { width, narrow, deepest, shown },
      { high, labels, beads } = this.belts.draw(this.#lanes(told, tree, narrow, paths), at);
    this.frame(high, labels);
    if (next) comeIn(beads, { transform: "translateX(-60px)", opacity: 0 });
  }

  sentence(told, step) {
    if (!told.linked) return tr`No guess comes back: each place has one ranking, whatever was guessed before it.`;
    const { tree } = step,
      { kept, other } = this.#paths(told, tree),
      best = ({ tokens, chances }) => `‘${this.belts.word(tokens[0])}’ (${percent(chances[0])})`,
      after = (path) => tr`After ‘${this.belts.word(tree.tokens[path[1]])}’ the first choice is \
${best(told.ranked[told.rows.indexOf(path[1])])}.`;
    const says = [kept, other].filter((path) => path?.length > 1).map(after);
    if (says.length && told.control?.[1])
      says.push(tr`With the drop cut it is ${best(told.control[1])} after any guess.`);
    return [tr`${many(tree.tokens.length - 1, "drafted")}, ${rowsOf(tree).accepted} accepted.`, ...says].join(" ");
  }
}
