// What stands around the cells of the token board: brackets for blocks and windows, controls and legend.

import { el, select, legend as stateOf, swatch } from "../player/dom.js";
import { render } from "../player/drawing.js";
import { segments } from "../player/layout.js";
import { OPTIONS, spanColour } from "../player/theme.js";
import { number, tr, translated } from "../player/words.js";

export const AUTHOR = "@author"; // among the names of scores: colour by who wrote a token
const LINES = ["solid", "dashed", "dotted", "double"];

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
