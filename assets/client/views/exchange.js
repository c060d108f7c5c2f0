// The same tokens twice: above with experts in order and tokens in turn, below as they were placed. Devices are boxes
// with their tokens above and their experts below; a line from a token to each of its experts is thick where it leaves
// its device.

import { el } from "../player/dom.js";
import { comeIn, MIDDLE, StepPicture } from "../player/drawing.js";
import { LayerChoice } from "../player/sliding.js";
import { bytes, cut, percent, tr } from "../player/words.js";
import { counted, gathered, ordinary, placed } from "./routed.js";

export const view = { title: "Tokens and experts on devices", place: 116, needs: ["routing.device"] };

const HEAD = 24, // of a panel
  CHIP = 24,
  SPACE = 66, // between tokens and experts
  CELL = 18,
  GAP = 22;

export class Exchange extends StepPicture {
  layers = ["walls", "stay", "away", "cells", "chips"];
  button = el("button", { onclick: () => this.#regroup() }, tr`regroup`);
  choice = new LayerChoice(() => this.show(this.t));
  row = this.below(el("p", "dx-sliding", this.button, this.choice.dom));
  none = tr`Nothing is placed at this step.`;

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
    return placed(this.run.steps, step.index + 1, this.choice.layer).tokens.length || null;
  }

  draw(_told, _step, next) {
    const wide = this.width >= 760,
      grouped = gathered(this.run.steps, this.t, this.choice.layer, wide ? 12 : 8),
      plain = ordinary(grouped),
      same = JSON.stringify([plain.tokens, plain.devices]) === JSON.stringify([grouped.tokens, grouped.devices]),
      size = this.#journey(),
      panels = [this.#laid(plain, 0)];
    if (!same) panels.push(this.#laid(grouped, panels[0].high + GAP));
    const leave = wide ? tr`lines leave their device,` : tr`leave,`,
      names = wide
        ? [
            same
              ? tr`This run, ordinary: experts in order, tokens in turn`
              : tr`Ordinary: experts in order, tokens in turn (derived)`,
            tr`Grouped: experts that serve the same tokens together, each token sent to them`,
          ]
        : [tr`Ordinary (derived)`, tr`Grouped`];
    const labels = panels.map(({ placing, top }, i) => {
      const { all, local, visits } = counted(placing);
      return [0, top + 15, "start", tr`${names[i]}: ${all - local} of ${all} ${leave} ${bytes(visits * size)}`, true];
    });
    Object.assign(this, { panels, drawn: this.#paint(panels, labels) });
    this.button.disabled = same;
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
      wide = (w - 16) / row,
      chips = tokens.map(({ device }) => {
        const i = seats[device]++,
          y = top + HEAD + 20 + Math.floor(i / row) * (CHIP + 4);
        return { x: device * w + 8 + ((i % row) + 0.5) * wide, y, wide };
      }),
      cells = devices.map((device) => ({ x: device * w + 8 + (held[device]++ + 0.5) * step, y: foot, side }));
    return { placing, top, w, chips, cells, high: foot + CELL + 8 - top };
  }

  #paint(panels, labels) {
    const board = this.run.board(this.t),
      lines = { stay: "", away: "" },
      walls = [],
      cells = [],
      chips = [],
      wall = { rx: 8, style: "fill:var(--muted);fill-opacity:.07;stroke:var(--line)" };
    for (const { placing, top, w, high, ...at } of panels) {
      const used = new Set(placing.tokens.flatMap(({ experts }) => experts));
      for (let g = 0; g < placing.G; g++) {
        walls.push(["rect", { ...wall, x: g * w + 2, y: top + HEAD, width: w - 4, height: high - HEAD }]);
        labels.push([g * w + 8, top + HEAD + 15, "start", tr`device ${g}`]);
      }
      placing.tokens.forEach(({ device, experts, position }, i) => {
        const { x, y } = at.chips[i];
        chips.push(this.#chip(at.chips[i], board[position]?.token ?? null, position));
        for (const expert of experts) {
          const to = at.cells[expert];
          lines[placing.devices[expert] === device ? "stay" : "away"] += `M${x},${y + CHIP}L${to.x},${to.y}`;
        }
      });
      at.cells.forEach(({ x, y, side }, expert) => {
        const look = used.has(expert) ? "accepted" : "unreached",
          box = { rx: 3, x: -side / 2, width: side, height: CELL };
        cells.push([
          { transform: `translate(${x},${y})` },
          ["title", {}, tr`expert ${expert}`],
          ["rect", { ...box, style: `fill:var(--${look}-fill);stroke:var(--line)` }],
          ["text", { ...MIDDLE, y: 13.5, style: `fill:var(--${look}-text)` }, side > 16 ? expert : ""],
        ]);
      });
    }
    const way = (d, style) => [["path", { d, style: `fill:none;${style}` }]],
      stay = way(lines.stay, "stroke:var(--accepted-line);stroke-width:1.6;opacity:.8"),
      away = way(lines.away, "stroke:var(--warn);stroke-width:1.3;opacity:.7");
    return this.paint(panels.at(-1).top + panels.at(-1).high, labels, { walls, stay, away, cells, chips });
  }

  #chip({ x, y, wide }, token, position) {
    const text = token === null ? String(position) : this.word(token),
      box = { rx: 6, height: CHIP, x: 2 - wide / 2, width: wide - 4, style: "fill:var(--panel);stroke:var(--text)" };
    return [
      { transform: `translate(${x},${y})` },
      ["title", {}, text],
      ["rect", box],
      ["text", { ...MIDDLE, y: 16.5, style: "fill:var(--text)" }, cut(text, Math.max(1, Math.floor((wide - 8) / 7.4)))],
    ];
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
    move(this.drawn.chips, from.chips, to.chips);
    move(this.drawn.cells, from.cells, to.cells);
    comeIn([this.stay, this.away], { opacity: 0 });
  }

  sentence(_told, { facts }, t) {
    const { all, local, load } = counted(placed(this.run.steps, t, this.choice.layer)),
      { lar, lar_ordinary: usual } = facts ?? {};
    const busiest = Number(((Math.max(...load) * load.length) / all).toPrecision(2)),
      over =
        usual === undefined ? "" : tr` Over all layers ${percent(lar)} stay, ${percent(usual)} in ordinary places.`;
    return tr`This step alone, layer ${this.choice.layer}: ${local} of ${all} expert calls stay on the token's device \
(${percent(local / all)}); the busiest device computes ${busiest} times the mean.${over}`;
  }
}
