// What stands around the cells of the token board: brackets for blocks and windows, controls and legend.

import { number } from "../codec.js";
import { el, pool, select, set, legend as stateOf } from "../dom.js";
import { segments } from "../layout.js";
import { spanColour } from "../theme.js";

const LINES = ["solid", "dashed", "dotted", "double"];

/** Names a bracket that is pointed at. */
function entitle(node) {
  const { kind, start, end, label } = node.span;
  node.title = `${kind} ${start}–${end - 1}${label ? `: ${label}` : ""}`;
}

export class Brackets {
  constructor(run, context) {
    Object.assign(this, { run, context });
    this.root = el("div", {
      class: "dx-brackets",
      "aria-hidden": "true",
      onpointerover: ({ target }) => entitle(target),
    });
  }

  /** spans: of the step shown. board: gives the grid, the height of a track and the mode. */
  show(spans, { grid: g, track: high, mode }) {
    const { theme } = this.context;
    const pieces = spans.flatMap((span) =>
      segments(g, span.start, Math.min(span.end, this.run.widest)).map((part) => ({ ...part, span })),
    );
    pool(this.root, pieces.length, () => el("b")).forEach((node, i) => {
      const { span, row, column, cells, first, last } = pieces[i],
        track = this.run.spanKinds.indexOf(span.kind);
      node.span = span;
      if (node.title) entitle(node);
      set(node, {
        style:
          `left:${g.gutter + column * (g.w + g.gap)}px;top:${row * g.rowHeight + g.h + 3 + track * high}px;` +
          `width:${cells * (g.w + g.gap) - g.gap}px;border-color:${spanColour(theme, mode, span.kind)};` +
          `border-bottom-style:${LINES[track % LINES.length]};` +
          `border-left-width:${first ? 2 : 0}px;border-right-width:${last ? 2 : 0}px`,
      });
    });
  }
}

/** What a person can choose: the score that colours open cells, and a peek at the best guesses. */
export function controls(run, context) {
  const lanes = [...run.lanes.keys()];
  return [
    ...(lanes.length
      ? [
          select(
            "Colour masked cells by",
            [...lanes.map((name) => [name, name]), ["", "nothing"]],
            context.lane ?? "",
            (name) => context.setLane(name),
          ),
        ]
      : []),
    ...(run.has("candidates") && run.canvas !== null
      ? [
          el(
            "button",
            {
              class: "dx-toggle",
              "aria-pressed": String(context.peek),
              onclick: () => context.setPeek(!context.peek),
            },
            "Peek at best guesses",
          ),
        ]
      : []),
  ];
}

/** The states and spans that a run shows, and the range of the score that colours its open cells. */
export function legend(run, context) {
  const { states } = context.theme;
  const lane = run.canvas !== null && context.lane && run.lanes.get(context.lane);
  return [
    ...Object.keys(states)
      .filter((state) => run.states.has(state))
      .map((state) => stateOf(context.theme, state)),
    ...(lane
      ? [el("span", {}, `${context.lane} ${number(lane.lo)}`, el("i", "dx-ramp"), number(lane.hi, lane.unit))]
      : []),
    ...run.spanKinds.map((kind, i) =>
      el(
        "span",
        {},
        el("i", {
          class: "dx-line",
          style: `border-bottom:2px ${LINES[i % LINES.length]} ${spanColour(context.theme, context.mode(), kind)}`,
        }),
        kind,
      ),
    ),
  ];
}
