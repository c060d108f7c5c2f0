// Experts or layers used in this step: one row for each layer, one column for each unit, shade by summed weight.

import { unpack } from "../player/codec.js";
import { el, setText } from "../player/dom.js";
import { Parts } from "../player/drawing.js";
import { ramp } from "../player/theme.js";
import { number, tr } from "../player/words.js";

export const view = { title: "Routing", place: 200, needs: ["routing"] };

const MOST = 256; // units that a table can show

/** The step's records as a table: {layers, units: those that served, cells[layer][unit] = {weight, positions}}. */
function tally(entries) {
  const layers = [...new Set(entries.flatMap((e) => e.layers))].sort((a, b) => a - b),
    used = entries.map((e) => ({ ...e, chosen: unpack(e.chosen), weights: e.weights && unpack(e.weights).values }));
  const seen = new Set(used.flatMap((e) => [...new Set(e.chosen.values)]).filter((unit) => unit >= 0)),
    units = [...seen].sort((a, b) => a - b).slice(0, MOST);
  const cells = layers.map(() => units.map(() => ({ weight: 0, positions: [] })));
  for (const { chosen, weights, positions, layers: rows } of used) {
    const [, depth, k] = chosen.shape;
    chosen.values.forEach((unit, i) => {
      const row = layers.indexOf(rows[Math.floor(i / k) % depth]),
        cell = cells[row]?.[units.indexOf(unit)];
      if (!cell) return; // nothing served there, or more units than are shown
      cell.weight += Number.isFinite(weights?.[i]) ? weights[i] : 1;
      cell.positions.push(positions[Math.floor(i / (k * depth))]);
    });
  }
  return { layers, units, cells };
}

export class Routing extends Parts {
  say = this.below(el("p", "dx-readout"));
  table = el("table", "dx-grid");
  scroll = this.below(el("div", "dx-scroll", this.table));

  #entries(t) {
    return (this.run.steps[t - 1]?.routing ?? []).filter(({ kind }) => kind === "expert" || kind === "layer");
  }

  show(t) {
    setText(this.say, this.describe(t) || tr`No routing at this step.`);
    const { layers, units, cells } = tally(this.#entries(t));
    const top = Math.max(1e-9, ...cells.flat().map((c) => c.weight)),
      colours = ramp(this.context.theme, this.context.mode());
    const cell = ({ weight, positions }) => {
      const { fill, text } = colours[Math.round((weight / top) * (colours.length - 1))],
        title = positions.length ? tr`positions ${positions.join(", ")}` : tr`not used`;
      return el("td", { title, style: `background:${fill};color:${text}` }, weight ? number(weight) : "");
    };
    this.table.replaceChildren(
      el("tr", {}, el("th", {}, tr`layer`), ...units.map((unit) => el("th", {}, String(unit)))),
      ...layers.map((layer, i) => el("tr", {}, el("th", { scope: "row" }, String(layer)), ...cells[i].map(cell))),
    );
  }

  describe(t) {
    const entries = this.#entries(t),
      served = new Set(entries.flatMap((e) => e.positions)).size;
    return entries.length
      ? tr`${entries[0].kind} routing of ${served} positions in this step; shade: summed weight.`
      : "";
  }
}
