// The same tokens twice: above with experts in order and tokens in turn, below as they were placed. Devices are boxes
// with their tokens above and their experts below; a line from a token to each of its experts is thick where it leaves
// its device.

import { bytes, cut } from "../player/codec.js";
import { el } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { MIDDLE, render } from "../player/render.js";
import { percent } from "../player/shares.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { LayerChoice } from "./dial.js";
import { counted, gathered, ordinary, placed } from "./places.js";

export const view = { title: "Tokens and experts on devices", place: 116, needs: ["routing.device"] };

const HEAD = 24, // of a panel
  CHIP = 24,
  SPACE = 66, // between tokens and experts
  CELL = 18,
  GAP = 22;

export class Exchange extends StepPicture {
  layers = ["walls", "stay", "away", "cells", "chips"];
  none = tr`Nothing is placed at this step.`;

  load(run, dom, context) {
    this.choice = new LayerChoice(() => this.show(this.t));
    this.button = el("button", { onclick: () => this.#regroup() }, tr`regroup`);
    this.begin(run, dom, context, this.layers, el("p", "dx-sliding", this.button, this.choice.dom));
    this.grow();
  }

  get layer() {
    return this.choice.layer;
  }

  grow() {
    const entries = this.run.steps.flatMap((step) => step.routing ?? []).filter(({ kind }) => kind === "device");
    this.choice.offer(entries, (numbers) => this.#telling(numbers));
  }

  /** The layer in which the places gain most in the first step that says where things are. */
  #telling(numbers) {
    const { steps } = this.run,
      t = 1 + steps.findIndex((step) => step.routing?.some(({ kind }) => kind === "device")),
      gain = (layer) => {
        const found = placed(steps, t, layer);
        return counted(found).local - counted(ordinary(found)).local;
      };
    return numbers.reduce((best, layer) => (gain(layer) > gain(best) ? layer : best), numbers[0]);
  }

  /** Bytes of one journey, there and back: what a step moved by how often its tokens travelled. */
  #journey() {
    const { steps } = this.run;
    for (let t = 1; t <= steps.length; t++) {
      const visits = this.choice.numbers.reduce((sum, layer) => sum + counted(placed(steps, t, layer)).visits, 0);
      if (visits && steps[t - 1].facts?.bytes_moved) return steps[t - 1].facts.bytes_moved / visits;
    }
    return 0;
  }

  told(step) {
    return placed(this.run.steps, step.index + 1, this.layer).tokens.length || null;
  }

  draw(_told, _step, next) {
    const wide = this.width >= 760,
      found = gathered(this.run.steps, this.t, this.layer, wide ? 12 : 8),
      plain = ordinary(found),
      same = JSON.stringify([plain.tokens, plain.devices]) === JSON.stringify([found.tokens, found.devices]),
      size = this.#journey(),
      panels = [this.#laid(plain, 0)];
    if (!same) panels.push(this.#laid(found, panels[0].high + GAP));
    const names = [
      wide ? tr`Ordinary: experts in order, tokens in turn (derived)` : tr`Ordinary (derived)`,
      wide ? tr`Grouped: experts that serve the same tokens together, each token sent to them` : tr`Grouped`,
    ];
    const labels = panels.map(({ placing, top }, i) => {
      const { all, local, visits } = counted(placing),
        name = same && wide ? tr`This run, ordinary: experts in order, tokens in turn` : names[i],
        leave = wide ? tr`lines leave their device,` : tr`leave,`;
      return [0, top + 15, "start", tr`${name}: ${all - local} of ${all} ${leave} ${bytes(visits * size)}`, true];
    });
    this.panels = panels;
    this.button.disabled = same;
    this.#paint(panels, labels);
    this.frame(panels.at(-1).top + panels.at(-1).high, labels);
    if (next) this.#regroup();
  }

  /** Where everything of a panel stands. */
  #laid(placing, top) {
    const { tokens, devices, G } = placing,
      w = this.width / G,
      most = (list, of) =>
        Math.max(1, ...Array.from({ length: G }, (_, g) => list.filter((one) => of(one) === g).length)),
      row = Math.max(1, Math.floor((w - 16) / (this.width >= 760 ? 66 : 36))), // tokens beside each other
      rows = Math.ceil(most(tokens, ({ device }) => device) / row),
      step = Math.min(40, (w - 16) / most(devices, (device) => device)),
      side = Math.min(CELL, step - 2),
      foot = top + HEAD + 22 + rows * (CHIP + 4) + SPACE,
      seats = Array(G).fill(0),
      held = Array(G).fill(0),
      chips = tokens.map(({ device }) => {
        const i = seats[device]++,
          wide = (w - 16) / row;
        return {
          x: device * w + 8 + ((i % row) + 0.5) * wide,
          y: top + HEAD + 20 + Math.floor(i / row) * (CHIP + 4),
          wide,
        };
      }),
      cells = devices.map((device) => ({ x: device * w + 8 + (held[device]++ + 0.5) * step, y: foot, side }));
    return { placing, top, w, chips, cells, high: foot + CELL + 8 - top };
  }

  #paint(panels, labels) {
    const board = this.run.board(this.t),
      lines = { stay: "", away: "" },
      walls = [],
      cells = [],
      chips = [];
    for (const { placing, top, w, high, ...at } of panels) {
      const used = new Set(placing.tokens.flatMap(({ experts }) => experts));
      for (let g = 0; g < placing.G; g++) {
        walls.push([g * w + 2, top + HEAD, w - 4, high - HEAD]);
        labels.push([g * w + 8, top + HEAD + 15, "start", tr`device ${g}`]);
      }
      placing.tokens.forEach(({ device, experts, position }, i) => {
        const { x, y } = at.chips[i];
        chips.push({ ...at.chips[i], position });
        for (const expert of experts) {
          const to = at.cells[expert];
          lines[placing.devices[expert] === device ? "stay" : "away"] += `M${x},${y + CHIP}L${to.x},${to.y}`;
        }
      });
      at.cells.forEach((cell, expert) => cells.push({ ...cell, expert, lit: used.has(expert) }));
    }
    const ways = { stay: "stroke:var(--accepted-line);stroke-width:1.6;opacity:.8" };
    ways.away = "stroke:var(--warn);stroke-width:1.3;opacity:.7";
    for (const [key, style] of Object.entries(ways))
      render(this[key], [lines[key]], (d) => ["path", { d, style: `fill:none;${style}` }]);
    const wall = { rx: 8, style: "fill:var(--muted);fill-opacity:.07;stroke:var(--line)" };
    render(this.walls, walls, ([x, y, width, height]) => ["rect", { ...wall, x, y, width, height }]);
    render(this.cells, cells, ({ x, y, side, expert, lit }) => {
      const look = lit ? "accepted" : "unreached",
        box = { rx: 3, x: -side / 2, width: side, height: CELL };
      return [
        { transform: `translate(${x},${y})` },
        ["title", {}, tr`expert ${expert}`],
        ["rect", { ...box, style: `fill:var(--${look}-fill);stroke:var(--line)` }],
        ["text", { ...MIDDLE, y: 13.5, style: `fill:var(--${look}-text)` }, side > 16 ? expert : ""],
      ];
    });
    render(this.chips, chips, ({ x, y, wide, position }) => {
      const token = board[position]?.token,
        text = token == null ? String(position) : this.word(token),
        box = { rx: 6, height: CHIP, x: 2 - wide / 2, width: wide - 4, style: "fill:var(--panel);stroke:var(--text)" },
        said = cut(text, Math.max(1, Math.floor((wide - 8) / 7.4)));
      return [
        { transform: `translate(${x},${y})` },
        ["title", {}, text],
        ["rect", box],
        ["text", { ...MIDDLE, y: 16.5, style: "fill:var(--text)" }, said],
      ];
    });
  }

  /** Lets tokens and experts of the lower panel come from where they were in the upper one. */
  #regroup() {
    const [from, to] = this.panels ?? [];
    if (!to) return;
    const move = (nodes, old, now) =>
      now.forEach((at, i) => {
        const [x, y] = [old[i].x - at.x, old[i].y - from.top - at.y + to.top];
        comeIn([nodes[now.length + i]], { transform: `translate(${x}px,${y}px)` });
      });
    move(this.chips.childNodes, from.chips, to.chips);
    move(this.cells.childNodes, from.cells, to.cells);
    comeIn([this.stay, this.away], { opacity: 0 });
  }

  sentence(_told, { facts }, t) {
    const { all, local, load } = counted(placed(this.run.steps, t, this.layer)),
      { lar, lar_ordinary: usual } = facts ?? {};
    const busiest = Number(((Math.max(...load) * load.length) / all).toPrecision(2)),
      over =
        usual === undefined ? "" : tr` Over all layers ${percent(lar)} stay, ${percent(usual)} in ordinary places.`;
    return tr`This step alone, layer ${this.layer}: ${local} of ${all} expert calls stay on the token's device \
(${percent(local / all)}); the busiest device computes ${busiest} times the mean.${over}`;
  }
}
