// The same tokens twice: above with experts in order and tokens in turn, below as they were placed. Devices are boxes
// with their tokens above and their experts below; a line from a token to each of its experts is thick where it leaves
// its device.

import { bytes, cut, glyphs } from "../player/codec.js";
import { el, pool, select, set, setText, svg } from "../player/dom.js";
import { comeIn } from "../player/motion.js";
import { percent } from "../player/shares.js";
import { StepPicture } from "../player/steppicture.js";
import { tr } from "../player/words.js";
import { embolden } from "./dial.js";
import { counted, gathered, ordinary, placed } from "./places.js";

export const view = { name: "Exchange", title: "Tokens and experts on devices", place: 116, needs: ["routing.device"] };

const HEAD = 24, // of a panel
  CHIP = 24,
  SPACE = 66, // between tokens and experts
  CELL = 18,
  GAP = 22;
const MIDDLE = { "text-anchor": "middle" };

export class Exchange extends StepPicture {
  load(run, dom, context) {
    this.layer = null;
    this.dom = dom;
    this.bar = el("span");
    this.button = el("button", { onclick: () => this.#regroup() }, tr`regroup`);
    const parts = ["walls", "stay", "away", "cells", "chips"];
    this.begin(run, dom, context, parts, el("p", "dx-sliding", this.button, this.bar));
    this.grow();
  }

  grow() {
    const entries = this.run.steps.flatMap((step) => step.routing ?? []).filter(({ kind }) => kind === "device"),
      layers = [...new Set(entries.flatMap((entry) => entry.layers))].sort((a, b) => a - b);
    if (layers.join() === this.layers?.join()) return;
    this.layers = layers;
    if (!layers.includes(this.layer)) this.layer = this.#telling();
    const options = layers.map((layer) => [String(layer), String(layer)]);
    this.bar.replaceChildren(
      select(tr`Layer`, options, String(this.layer), (value) => {
        this.layer = Number(value);
        this.show(this.t);
      }),
    );
  }

  /** The layer in which the places gain most in the first step that says where things are. */
  #telling() {
    const { steps } = this.run,
      t = 1 + steps.findIndex((step) => step.routing?.some(({ kind }) => kind === "device")),
      gain = (layer) => {
        const found = placed(steps, t, layer);
        return counted(found).local - counted(ordinary(found)).local;
      };
    return this.layers.reduce((best, layer) => (gain(layer) > gain(best) ? layer : best), this.layers[0]);
  }

  /** Bytes of one journey, there and back: what a step moved by how often its tokens travelled. */
  #journey() {
    const { steps } = this.run;
    for (let t = 1; t <= steps.length; t++) {
      const visits = this.layers.reduce((sum, layer) => sum + counted(placed(steps, t, layer)).visits, 0);
      if (visits && steps[t - 1].facts?.bytes_moved) return steps[t - 1].facts.bytes_moved / visits;
    }
    return 0;
  }

  told() {
    return placed(this.run.steps, this.t, this.layer).tokens.length || null;
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
        name = same && wide ? tr`This run, ordinary: experts in order, tokens in turn` : names[i];
      return [
        0,
        top + 15,
        "start",
        tr`${name}: ${all - local} of ${all} ${wide ? tr`lines leave their device,` : tr`leave,`} \
${bytes(visits * size)}`,
        true,
      ];
    });
    this.panels = panels;
    this.button.disabled = same;
    this.#paint(panels, labels);
    this.frame(panels.at(-1).top + panels.at(-1).high);
    this.label(labels);
    embolden(this.words, labels);
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
    for (const [key, style] of [
      ["stay", "stroke:var(--accepted-line);stroke-width:1.6;opacity:.8"],
      ["away", "stroke:var(--warn);stroke-width:1.3;opacity:.7"],
    ])
      pool(this[key], 1, () => svg("path", { style: `fill:none;${style}` })).forEach((path) =>
        set(path, { d: lines[key] }),
      );
    pool(this.walls, walls.length, () => svg("rect", { rx: 8 })).forEach((box, i) => {
      const [x, y, width, height] = walls[i];
      set(box, { x, y, width, height });
      box.style.cssText = "fill:var(--muted);fill-opacity:.07;stroke:var(--line)";
    });
    pool(this.cells, cells.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 3 }), svg("text", MIDDLE)),
    ).forEach((group, i) => {
      const { x, y, side, expert, lit } = cells[i],
        [title, box, word] = group.childNodes;
      set(group, { transform: `translate(${x},${y})` });
      set(box, { x: -side / 2, width: side, height: CELL });
      box.style.cssText = `fill:var(--${lit ? "accepted" : "unreached"}-fill);stroke:var(--line)`;
      set(word, { y: 13.5 });
      word.style.fill = `var(--${lit ? "accepted" : "unreached"}-text)`;
      setText(word, side > 16 ? expert : "");
      setText(title, tr`expert ${expert}`);
    });
    pool(this.chips, chips.length, () =>
      svg("g", {}, svg("title"), svg("rect", { rx: 6, height: CHIP }), svg("text", { ...MIDDLE, y: 16.5 })),
    ).forEach((group, i) => {
      const { x, y, wide, position } = chips[i],
        [title, box, word] = group.childNodes,
        token = board[position]?.token,
        text = token == null ? String(position) : glyphs(this.run.piece(token).text);
      set(group, { transform: `translate(${x},${y})` });
      set(box, { x: 2 - wide / 2, width: wide - 4 });
      box.style.cssText = "fill:var(--panel);stroke:var(--text)";
      word.style.fill = "var(--text)";
      setText(word, cut(text, Math.max(1, Math.floor((wide - 8) / 7.4))));
      setText(title, text);
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

  describe(t) {
    const found = placed(this.run.steps, t, this.layer),
      { all, local, load } = counted(found),
      { lar, lar_ordinary: usual } = this.run.steps[t - 1]?.facts ?? {};
    if (!all) return t ? tr`Nothing is placed at this step.` : tr`Before the first step.`;
    const busiest = Number(((Math.max(...load) * load.length) / all).toPrecision(2)),
      over =
        usual === undefined ? "" : tr` Over all layers ${percent(lar)} stay, ${percent(usual)} in ordinary places.`;
    return tr`This step alone, layer ${this.layer}: ${local} of ${all} expert calls stay on the token's device \
(${percent(local / all)}); the busiest device computes ${busiest} times the mean.${over}`;
  }
}
