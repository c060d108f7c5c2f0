// A belt: the drafter's state goes right, and at each place the last guess drops into it before the next one is ranked.
// A second belt forks off with another first guess. Below them the same with the drop cut: heads that see no guess have
// one ranking for a place, whatever was guessed before it.

import { el } from "../player/dom.js";
import { comeIn } from "../player/drawing.js";
import { depthsOf, pathOf, rankedAt, rowsOf } from "../player/rounds.js";
import { many, percent, tr } from "../player/words.js";
import { Belts } from "./belts.js";

export const view = { title: "Each guess drops back in", place: 47, needs: ["rankings"] };

const NARROW = 720;

export class Conveyor extends Belts {
  firsts = this.below(el("div", { class: "dx-sliding", role: "group", "aria-label": tr`Another first guess` }));
  none = tr`No draft was made in this step.`;

  told({ rankings, tree }) {
    return tree && rankings?.rows.includes(0) ? rankings : null;
  }

  /** The path that was kept, or is best ranked, and the one over another first guess. */
  #paths({ rows }, tree) {
    const kept = pathOf(tree, rows),
      others = rows.filter((row) => row && tree.parents[row] === 0 && row !== kept[1]),
      other = others.find((row) => row === this.picked) ?? others[0];
    return { kept, others, other: other && pathOf(tree, rows, other) };
  }

  also(told, step) {
    const { others, other } = told?.linked ? this.#paths(told, step.tree) : { others: [] },
      choose = (row) => (this.picked = this.picked === row ? null : row),
      word = (row) => this.word(step.tree.tokens[row], 10),
      items = others.map((row) => [tr`if ‘${word(row)}’ drops in`, row === other[1], () => choose(row)]);
    this.buttons(this.firsts, items.length > 1 ? items : []);
  }

  /** The places of a path: at each the state, what drops into it, and what is ranked then. */
  #places({ rows, ranked }, tree, path) {
    const { rows: nodes } = rowsOf(tree),
      box = (row) => ({ token: tree.tokens[row], state: nodes[row].state });
    return path.map((row, i) => {
      const own = tree.accepted[row] ? (tree.emitted[i] ?? null) : null,
        items = rankedAt(ranked[rows.indexOf(row)], tree, nodes, row, own);
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
        ...{ token, chance: chances[rank], row: -1 },
        state: token === own ? "old" : "",
      }));
      return { row: -1, items, own, known: [], drops };
    });
  }

  #lanes(told, tree, narrow, { kept, other }) {
    // A narrow panel has one belt for both paths.
    const places = this.#places(told, tree, narrow && this.picked ? other : kept),
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
    const narrow = this.width < NARROW,
      paths = this.#paths(told, tree),
      deepest = this.most((step) => {
        const depths = depthsOf(step.tree?.parents ?? []);
        return Math.max(0, ...(this.told(step)?.rows ?? []).map((row) => depths[row] + 1));
      }),
      shown = new Set([...paths.kept, ...(paths.other ?? [])]),
      { beads } = this.lanes(this.#lanes(told, tree, narrow, paths), narrow, deepest, shown);
    if (next) comeIn(beads, { transform: "translateX(-60px)", opacity: 0 });
  }

  sentence(told, step) {
    if (!told.linked) return tr`No guess comes back: each place has one ranking, whatever was guessed before it.`;
    const { tree } = step,
      { kept, other } = this.#paths(told, tree),
      best = ({ tokens, chances }) => `‘${this.word(tokens[0], 10)}’ (${percent(chances[0])})`,
      after = (path) => tr`After ‘${this.word(tree.tokens[path[1]], 10)}’ the first choice is \
${best(told.ranked[told.rows.indexOf(path[1])])}.`;
    const says = [kept, other].filter((path) => path?.length > 1).map(after);
    if (says.length && told.control?.[1])
      says.push(tr`With the drop cut it is ${best(told.control[1])} after any guess.`);
    return [tr`${many(tree.tokens.length - 1, "drafted")}, ${rowsOf(tree).accepted} accepted.`, ...says].join(" ");
  }
}
