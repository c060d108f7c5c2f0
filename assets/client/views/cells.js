// The cells of the token board, how they look: their token or the model's best guess, their colour, and end marks
// folded to one word; and what stands around them: brackets for blocks and windows, controls and legend.

import { unpack } from "../player/codec.js";
import { el, select, setText, legend as stateOf, swatch } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { segments } from "../player/layout.js";
import { levelOf, OPTIONS, spanColour } from "../player/theme.js";
import { glyphs, number, tr, translated } from "../player/words.js";
import { alike } from "./sheet.js";

const FEW = 32; // cells out of sight that are drawn at once
const REST = 150; // milliseconds without another step, after which all are
export const AUTHOR = "@author"; // among the names of scores: colour by who wrote a token
const LINES = ["solid", "dashed", "dotted", "double"];

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

export class Brackets {
  constructor(run, context) {
    Object.assign(this, { run, context });
    this.root = el("div", { class: "dx-brackets", "aria-hidden": "true" });
  }

  /** spans: of the step shown. board: gives the grid, the height of a track and the mode. */
  show(spans, { grid: g, track: high, mode }) {
    const { theme } = this.context;
    const pieces = spans.flatMap((span) =>
      segments(g, span.start, Math.min(span.end, this.run.widest)).map((part) => ({ ...part, span })),
    );
    render(this.root, pieces, ({ span: { kind, start, end, label }, row, column, cells, first, last }) => {
      const track = this.run.spanKinds.indexOf(kind),
        title = `${kind} ${start}–${end - 1}${label ? `: ${label}` : ""}`,
        style =
          `left:${g.gutter + column * (g.w + g.gap)}px;top:${row * g.rowHeight + g.h + 3 + track * high}px;` +
          `width:${cells * (g.w + g.gap) - g.gap}px;border-color:${spanColour(theme, mode, kind)};` +
          `border-bottom-style:${LINES[track % LINES.length]};` +
          `border-left-width:${first ? 2 : 0}px;border-right-width:${last ? 2 : 0}px`;
      return ["b", { style, title }];
    });
  }
}

/** What a person can choose: whether the prompt is shown, the score that colours open cells, the best guesses, and, of
 * a high board, whether all of its rows are. */
export function controls(run, context, high) {
  const lanes = [...run.lanes.keys()],
    masked = run.canvas !== null,
    colours = [
      ...(masked ? lanes.map((name) => [name, translated(name)]) : []),
      ...(run.authors.size > 1 ? [[AUTHOR, tr`who wrote it`]] : []),
    ],
    chosen = colours.some(([key]) => key === context.lane) ? context.lane : "",
    n = run.prompt.length;
  const toggle = (text, on, act, more) =>
    el("button", { class: "dx-toggle", onclick: act, ...more, "aria-pressed": more ? null : String(on) }, text);
  const prompt = tr`Prompt, ${n} token${n === 1 ? "" : "s"}`,
    folds = { class: "dx-toggle dx-chip", "aria-expanded": String(context.unfolded) };
  return [
    n ? toggle(prompt, context.unfolded, () => context.setPrompt(!context.unfolded), folds) : el("span"),
    colours.length
      ? select(tr`Colour by`, [...colours, ["", tr`nothing`]], chosen, (name) => context.setLane(name))
      : null,
    run.has("candidates") && masked
      ? toggle(tr`Best guesses`, context.peek, () => context.setPeek(!context.peek))
      : null,
    high ? toggle(tr`All rows`, context.whole, () => context.setWhole(!context.whole)) : null,
  ].filter(Boolean);
}

/** The states and spans that a run shows, and the range of the score that colours its open cells. */
export function legend(run, context) {
  const { states } = context.theme;
  const lane = run.canvas !== null && context.lane && run.lanes.get(context.lane),
    highest = lane && number(lane.hi, lane.unit),
    bracket = (kind, i) =>
      `border-bottom:2px ${LINES[i % LINES.length]} ${spanColour(context.theme, context.mode(), kind)}`;
  return [
    ...Object.keys(states)
      .filter((state) => run.states.has(state) && (state !== "prompt" || context.unfolded))
      .map((state) => stateOf(context.theme, state)),
    ...(lane ? [el("span", {}, `${translated(context.lane)} ${number(lane.lo)}`, el("i", "dx-ramp"), highest)] : []),
    ...(context.lane === AUTHOR
      ? [...run.authors].map((author, i) => swatch(`background:var(--option${i % OPTIONS}-fill)`, author))
      : []),
    ...run.spanKinds.map((kind, i) =>
      el("span", {}, el("i", { class: "dx-line", style: bracket(kind, i) }), translated(kind)),
    ),
  ];
}
