// Experts, layers or memory slots used in this step: one row for each layer, one column for each unit, shade by summed weight.

import { number } from "../codec.js";
import { el, setText } from "../dom.js";
import { ramp } from "../theme.js";

export class Routing {
  static title = "Routing";
  static group = "routing";

  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.say = el("p", "dx-readout");
    this.table = el("table", "dx-grid");
    dom.append(this.say, el("div", "dx-scroll", this.table));
  }

  show(t) {
    const entries = this.run.steps[t - 1]?.routing ?? [];
    setText(this.say, this.describe(t) || "No routing at this step.");
    const layers = [...new Set(entries.map((e) => e.layer))].sort((a, b) => a - b), columns = Math.max(-1, ...entries.flatMap((e) => e.chosen)) + 1;
    const cells = layers.map(() => Array.from({ length: columns }, () => ({ weight: 0, positions: [] })));
    for (const e of entries) e.chosen.forEach((unit, i) => {
      const cell = cells[layers.indexOf(e.layer)][unit];
      cell.weight += e.weights?.[i] ?? 1;
      cell.positions.push(e.position);
    });
    const top = Math.max(1e-9, ...cells.flat().map((c) => c.weight)), colours = ramp(this.context.theme, this.context.mode());
    this.table.replaceChildren(
      el("tr", {}, el("th", {}, "layer"), ...Array.from({ length: columns }, (_, i) => el("th", {}, String(i)))),
      ...layers.map((layer, i) => el("tr", {}, el("th", { scope: "row" }, String(layer)), ...cells[i].map(({ weight, positions }) => {
        const shade = colours[Math.round((weight / top) * (colours.length - 1))], cell = el("td", { title: positions.length ? `positions ${positions.join(", ")}` : "not used" }, weight ? number(weight) : "");
        cell.style.background = shade.fill;
        cell.style.color = shade.text;
        return cell;
      }))));
  }

  describe(t) {
    const entries = this.run.steps[t - 1]?.routing ?? [];
    return entries.length ? `${entries[0].kind} routing of ${new Set(entries.map((e) => e.position)).size} positions in this step; shade: summed weight.` : "";
  }
}
