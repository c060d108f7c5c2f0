// Devices as columns: the tokens of a step where they are, the experts below where those are, a line from each token
// to each of its experts, drawn apart where it leaves the column.

import { glyphs, number, unpack } from "../codec.js";
import { el, frame, pool, select, set, setText, svg } from "../dom.js";
import { tr } from "../words.js";

export const view = { name: "Exchange", title: "Tokens and experts on devices", place: 116, needs: ["routing"] };

const WIDE = 150, // of a column
  DOT = 13,
  ROW = 9, // tokens of a row
  CELL = 17,
  HEAD = 18,
  SPACE = 74, // between tokens and experts
  MOST = 36; // tokens that are drawn, the last ones

const column = (packed, row) => {
  const { values, shape } = unpack(packed),
    [n, depth, k] = shape;
  return Array.from({ length: n }, (_, i) =>
    [...values.slice((i * depth + row) * k, (i * depth + row + 1) * k)].filter((unit) => unit >= 0),
  );
};

/** Of one layer at a step: tokens [{position, device, experts}], and the device of each expert. None where it is not
 * said where things are. */
export function placed(steps, t, layer) {
  const at = (entry) => entry.layers.indexOf(layer),
    is = (kind, role) => (entry) => entry.kind === kind && (entry.role === "experts") === role && at(entry) >= 0,
    now = steps[t - 1]?.routing ?? [],
    homes = now.find(is("device", false)),
    routed = now.find(is("expert", false));
  let experts = null;
  for (let i = t - 1; i >= 0 && !experts; i--) experts = (steps[i].routing ?? []).find(is("device", true)) ?? null;
  if (!homes || !routed || !experts) return { tokens: [], devices: [], G: 0 };
  const where = column(homes.chosen, at(homes)),
    used = column(routed.chosen, at(routed)),
    devices = column(experts.chosen, at(experts)).map(([device]) => device);
  const tokens = routed.positions.map((position, i) => ({ position, device: where[i][0], experts: used[i] }));
  return { tokens, devices, G: 1 + Math.max(...devices, ...where.map(([device]) => device)) };
}

/** How many lines stay in their column, how many there are, and what each device computes. */
export function counted({ tokens, devices, G }) {
  const load = Array(G).fill(0);
  let all = 0,
    local = 0;
  for (const { device, experts } of tokens)
    for (const expert of experts) {
      all++;
      load[devices[expert]]++;
      if (devices[expert] === device) local++;
    }
  return { all, local, load };
}

export class Exchange {
  load(run, dom, context) {
    Object.assign(this, { run, dom, context, layer: null });
    this.say = el("p", "dx-readout");
    this.bar = el("span");
    this.away = svg("path", { style: "fill:none;stroke:var(--warn);stroke-width:1.2;opacity:.75" });
    this.stay = svg("path", { style: "fill:none;stroke:var(--muted);stroke-width:1;opacity:.45" });
    this.walls = svg("g");
    this.cells = svg("g");
    this.dots = svg("g");
    const parts = [this.walls, this.stay, this.away, this.cells, this.dots];
    this.picture = svg("svg", { class: "dx-tree", role: "img" }, ...parts);
    const what = tr`Above the tokens of this step, below the experts. A line in the colour of warnings leaves its \
device: that token's numbers travel there and back.`;
    dom.append(
      this.say,
      this.bar,
      el("div", { class: "dx-scroll", tabindex: 0, "aria-label": tr`Tokens and experts on devices` }, this.picture),
      el("p", "dx-readout", what),
    );
    this.grow();
  }

  grow() {
    const entries = this.run.steps.flatMap((step) => step.routing ?? []).filter(({ kind }) => kind === "device"),
      layers = [...new Set(entries.flatMap((entry) => entry.layers))].sort((a, b) => a - b);
    if (this.dom.parentElement) this.dom.parentElement.hidden = this.run.length > 0 && !layers.length;
    if (layers.join() === this.layers?.join()) return;
    this.layers = layers;
    this.layer = layers.includes(this.layer) ? this.layer : layers[layers.length >> 1];
    const options = layers.map((layer) => [String(layer), String(layer)]);
    this.bar.replaceChildren(
      select(tr`Layer`, options, String(this.layer), (value) => {
        this.layer = Number(value);
        this.show(this.t);
      }),
    );
  }

  show(t, hurry) {
    this.t = t;
    if (hurry) return;
    const found = placed(this.run.steps, t, this.layer),
      { devices, G } = found,
      tokens = found.tokens.slice(-MOST),
      taken = Array(G).fill(0),
      dots = tokens.map(({ device }) => {
        const i = taken[device]++;
        return [device * WIDE + 14 + (i % ROW) * (DOT + 1), HEAD + 8 + Math.floor(i / ROW) * (DOT + 1)];
      }),
      deep = HEAD + 8 + Math.ceil(Math.max(1, ...taken) / ROW) * (DOT + 1) + SPACE,
      held = Array(G).fill(0),
      cells = devices.map((device) => {
        const i = held[device]++;
        return [device * WIDE + 8 + (i % 8) * CELL, deep + Math.floor(i / 8) * CELL];
      }),
      high = deep + Math.ceil(Math.max(1, ...held) / 8) * CELL + 8,
      lines = { stay: [], away: [] };
    tokens.forEach(({ device, experts }, i) => {
      for (const expert of experts) {
        const [x, y] = dots[i],
          [u, v] = cells[expert],
          half = CELL / 2 - 1;
        lines[devices[expert] === device ? "stay" : "away"].push(`M${x},${y + 5}L${u + half},${v}`);
      }
    });
    set(this.stay, { d: lines.stay.join("") });
    set(this.away, { d: lines.away.join("") });
    pool(this.walls, G, () =>
      svg("g", {}, svg("rect", { rx: 6, y: 1 }), svg("text", { class: "dx-small", y: 14 })),
    ).forEach((group, g) => {
      const [rect, text] = group.childNodes;
      set(rect, { x: g * WIDE + 1, width: WIDE - 4, height: high });
      rect.style.cssText = "fill:none;stroke:var(--line);opacity:.6";
      set(text, { x: g * WIDE + 8 });
      setText(text, tr`device ${g}`);
    });
    const busy = new Set(tokens.flatMap(({ experts }) => experts));
    pool(this.cells, cells.length, () =>
      svg("rect", { width: CELL - 3, height: CELL - 3, rx: 3 }, svg("title")),
    ).forEach((rect, expert) => {
      set(rect, { x: cells[expert][0], y: cells[expert][1] });
      const look = busy.has(expert) ? "accepted" : "unreached";
      rect.style.cssText = `stroke:var(--text);stroke-width:.6;fill:var(--${look}-fill)`;
      setText(rect.firstChild, tr`expert ${expert}`);
    });
    const board = this.run.board(t);
    pool(this.dots, dots.length, () => svg("circle", { r: DOT / 2 - 1 }, svg("title"))).forEach((dot, i) => {
      const token = board[tokens[i].position]?.token;
      set(dot, { cx: dots[i][0], cy: dots[i][1] });
      dot.style.cssText = "stroke:var(--text);stroke-width:.8;fill:var(--option0-fill)";
      setText(dot.firstChild, token == null ? String(tokens[i].position) : glyphs(this.run.piece(token).text));
    });
    frame(this.picture, Math.max(1, G) * WIDE, high + 3);
    setText(this.say, this.describe(t));
    set(this.picture, { "aria-label": this.describe(t) });
  }

  describe(t) {
    const found = placed(this.run.steps, t, this.layer),
      { all, local, load } = counted(found);
    if (!all) return t ? tr`Nothing is placed at this step.` : tr`Before the first step.`;
    const busiest = (Math.max(...load) * load.length) / all;
    return tr`Layer ${this.layer}: ${local} of ${all} expert calls stay on the token's device (${number(
      (100 * local) / all,
    )} %); the busiest device computes ${number(busiest)} times the mean.`;
  }
}
