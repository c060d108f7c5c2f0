// How the cells of the token board look: their token or the model's best guess, their colour, and end marks folded to
// one word.

import { unpack } from "../player/codec.js";
import { el, setText } from "../player/dom.js";
import { levelOf, OPTIONS } from "../player/theme.js";
import { glyphs, tr } from "../player/words.js";
import { AUTHOR } from "./board.js";
import { alike } from "./sheet.js";

const FEW = 32; // cells out of sight that are drawn at once
const REST = 150; // milliseconds without another step, after which all are

/** End marks that follow each other: position of the first one -> how many. */
function ends(run, cells) {
  const found = new Map();
  let from = -1;
  for (const { position, token } of cells) {
    if (position < run.prompt.length || !run.eos.has(token)) from = -1;
    else if (from >= 0) found.set(from, found.get(from) + 1);
    else found.set((from = position), 1);
  }
  return found;
}

const OPEN = ["masked", "remasked", "noise", "renoised"];

/** The model's best guess at each position of which a step recorded candidates: position -> token. */
function guesses(group) {
  if (!group) return new Map();
  const { values, shape } = unpack(group.tokens);
  return new Map(group.positions.map((position, row) => [position, values[row * (shape[1] ?? 1)]]));
}

export class Looks {
  constructor(run, context) {
    Object.assign(this, { run, context, ramp: [] });
  }

  /** Goes to cursor t; cells: of the board there. Returns look(position): {shown: its token or the best guess, state,
   * level of its colour, end: how many end marks begin here, 0 for a further one, null for what is none, author}, or
   * null where there is no cell. */
  at(t, cells) {
    const { run, context } = this,
      name = context.lane,
      lane = run.lane(t - 1, name),
      scores = lane && unpack(lane.values).values,
      best = context.peek ? guesses(run.steps[t - 1]?.candidates) : new Map(),
      marks = ends(run, cells),
      authors = name === AUTHOR ? [...run.authors] : null;
    return (position) => {
      if (!cells[position]) return null;
      const { token, state, entry } = cells[position],
        open = token === null,
        told = run.found(t - 1, position), // where the step's scores and guesses speak of it
        noise = state === "noise" || state === "renoised", // it is read by the model, but nothing is written yet
        shown = token ?? (noise ? entry.drawn : best.get(told)) ?? null,
        end = position >= run.prompt.length && run.eos.has(shown) ? (open ? 1 : (marks.get(position) ?? 0)) : null,
        heat = scores && state === "masked" && end === null;
      return {
        shown,
        state,
        level: heat ? levelOf(run.level(name, scores[told - lane.start] ?? NaN)) : -1,
        end,
        author: authors && entry && !open ? authors.indexOf(entry.author) : -1,
      };
    };
  }

  /** {text, kind} of a look. */
  spell({ shown, state, end }) {
    if (shown === null) return { text: this.context.theme.states[state].glyph, kind: "mark" };
    if (end !== null) return { text: end > 1 ? tr`end ×${end}` : end ? tr`end` : "·", kind: "end" };
    const { text, kind } = this.run.piece(shown);
    return { text: glyphs(text, 24), kind: OPEN.includes(state) ? "peek" : kind };
  }

  /** Makes an element look like that. */
  dress(node, look) {
    node.style.visibility = look ? "" : "hidden";
    if (!look) return void setText(node, "");
    const { text, kind } = this.spell(look);
    node.dataset.s = look.state;
    node.dataset.k = kind;
    const option = look.author < 0 ? null : `--option${look.author % OPTIONS}`,
      colour = option ? { fill: `var(${option}-fill)`, text: `var(${option}-text)` } : this.ramp[look.level];
    node.style.background = colour?.fill ?? "";
    node.style.color = colour?.text ?? "";
    const space = /^[␣↵→]+(?=.)/.exec(text)?.[0];
    if (space) node.replaceChildren(el("i", {}, space), text.slice(space.length));
    else setText(node, text);
  }
}

/** The elements of a board's cells. Those out of sight wait for the scrubbing to rest where many of them change. */
export class Elements {
  constructor(looks) {
    this.looks = looks;
    this.forget();
  }

  /** What stands is not known any more. */
  forget() {
    clearTimeout(this.rest);
    Object.assign(this, { nodes: [], drawn: [], late: [] });
  }

  /** Makes the i-th node look like `look(i)`; `seen(i)`: whether it is in sight. */
  dress(nodes, look, seen) {
    Object.assign(this, { nodes, late: [] });
    nodes.forEach((_, i) => {
      const found = look(i);
      if (alike(found, this.drawn[i])) return;
      if (seen(i)) this.#put(i, found);
      else this.late.push([i, found]);
    });
    clearTimeout(this.rest);
    if (this.late.length > FEW) this.rest = setTimeout(() => this.finish(), REST);
    else this.finish();
  }

  /** Dresses those that wait. */
  finish() {
    for (const cell of this.late.splice(0)) this.#put(...cell);
  }

  #put(i, found) {
    this.looks.dress(this.nodes[i], found);
    this.drawn[i] = found;
  }
}
