// Three floors of a guess: a bracket over the last tokens, guessed ones included, makes one vector of them; from there
// the encoder looks at the states of the whole text and predicts the state at its place; the head joins that with the
// last true state and ranks the next token. The bracket then slides on by one.

import { unpack } from "../player/codec.js";
import { el } from "../player/dom.js";
import { below, pathOf, rankedAt, rowsOf } from "../player/rounds.js";
import { Sliding } from "../player/sliding.js";
import { many, tr } from "../player/words.js";
import { Floors } from "./floors.js";

export const view = { title: "Tokens and states in one guess", place: 48, needs: ["fusing"] };

const NARROW = 980; // three rankings side by side need more

const known = (path) => path.filter(({ own }) => own !== null).length; // places of which the target's token is known

export class Fusion extends Floors {
  places = this.below(el("div", { class: "dx-sliding", role: "group", "aria-label": tr`Place of the bracket` }));
  sliding = new Sliding(this, null, "W", tr`Tokens in the window`, [1, 3, 1]);
  none = tr`No draft was made in this step.`;

  told({ fusing, tree }) {
    return tree && fusing?.rows.includes(0) && fusing.readings.length ? fusing : null;
  }

  /** The places of the path that was kept, or is best ranked: the row, its token, what the target writes there, the row
   * that comes of it, and the rankings with a window of W. */
  #path({ rows, readings, cosines }, tree, W) {
    const { rows: nodes } = rowsOf(tree);
    return pathOf(tree, rows).map((row, i, path) => {
      const index = rows.indexOf(row),
        own = tree.accepted[row] ? (tree.emitted[i] ?? null) : null,
        children = below(tree, row),
        next = path[i + 1] ?? children.find((child) => tree.accepted[child]) ?? children[0],
        [alone] = readings[0].rankings[index].tokens,
        items = rankedAt(readings[W - 1].rankings[index], tree, nodes, row, own);
      return {
        ...{ row, index, own, next, items, token: tree.tokens[row], state: nodes[row].state, cosine: cosines[index] },
        alone: { token: alone, chance: readings[0].rankings[index].chances[0] },
      };
    });
  }

  #window({ window, readings }) {
    return Math.min(readings.length, Math.max(1, this.sliding.at(window)));
  }

  /** At how many places of the path the first choice is what the target writes, with a window of W. */
  #right(path, { readings }, W) {
    return path.filter(({ own, index }) => readings[W - 1].rankings[index].tokens[0] === own).length;
  }

  also(told, step) {
    const path = told ? this.#path(told, step.tree, 1) : [];
    this.at = Math.min(this.picked ?? 0, Math.max(0, path.length - 1));
    const items = path.map(({ token }, i) => [
        tr`bracket at ‘${this.word(token, 8)}’`,
        i === this.at,
        () => (this.picked = i),
      ]),
      right = told && this.#right(path, told, this.#window(told)),
      said = told ? tr`first choice right at ${right} of ${known(path)} places` : "";
    this.buttons(this.places, items.length > 1 ? items : []);
    this.sliding.show(told?.window ?? 3, path.length > 0, said);
  }

  draw(told, { tree }) {
    const narrow = this.width < NARROW,
      W = this.#window(told),
      places = this.#path(told, tree, W),
      room = this.room(narrow, places.length),
      first = Math.max(0, tree.start - room + (tree.start > room - 1 ? 2 : 0)),
      { values, shape } = unpack(told.readings[W - 1].attention),
      look = (column) => values[places[this.at].index * shape[1] + column],
      looks = (column) => (Number.isNaN(look(column)) ? null : look(column));
    const tiles = [];
    if (first) {
      const earlier = Array.from({ length: first }, (_, at) => look(at));
      tiles.push({ earlier: first, state: "prompt", looks: earlier.reduce((sum, share) => sum + share, 0) });
    }
    for (let at = first; at < tree.start; at++) {
      const token = this.run.written(at, this.t - 1)?.token ?? this.run.prompt[at];
      tiles.push({ token, state: "old", looks: looks(at) });
    }
    const begin = tiles.length,
      { next: last } = places.at(-1);
    for (const [i, place] of places.entries()) {
      const cosine = W === told.window ? place.cosine : null; // it is known with the run's own window
      tiles.push({ ...place, cosine, looks: looks(tree.start + i) });
    }
    if (last !== undefined) tiles.push({ token: tree.tokens[last], state: rowsOf(tree).rows[last].state });
    this.floors({ tiles, places, begin, here: begin + this.at, W, narrow });
    return [...this.beams.childNodes].slice(0, begin + this.at + 1);
  }

  sentence(told, { tree }) {
    const path = this.#path(told, tree, 1),
      right = (W) => this.#right(path, told, W),
      W = told.window,
      drafted = tr`${many(tree.tokens.length - 1, "drafted")}, ${rowsOf(tree).accepted} accepted.`,
      alone = W > 1 ? tr`, with the last token alone at ${right(1)}` : "";
    return tr`${drafted} The first choice is right at ${right(W)} of ${known(path)} places${alone}. The bracket slides \
on over its own guesses.`;
  }
}
