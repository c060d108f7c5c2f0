// Floors of a guess, from below: tokens with a bracket over a run of them, the vector of that run, what the encoder
// looks at from there, and the ranking that comes of the state that it predicts.

import { CHIP, LETTER, MIDDLE, render, StepPicture, widthOf } from "../player/drawing.js";
import { many, percent, tr } from "../player/words.js";

const LINE = 26, // of a ranking
  SHOWN = 3,
  LISTS = LINE * SHOWN + 26, // heights from the top
  STATES = 178,
  VECTOR = 274,
  TILES = 322,
  HIGH = TILES + CHIP + 36,
  LEFT = 116,
  LIST = 204, // widths
  GAP = 148, // from the first token of the path to the next one
  TILE = 64,
  NARROW_TILE = 44,
  R = 15; // of a state

export class Floors extends StepPicture {
  layers = ["beams", "ways", "states", "bars", "cells", "brackets"];

  /** How many tokens of the text have a place of their own beside a path of `guesses` places. */
  room(narrow, guesses) {
    const { width } = this,
      left = narrow ? width - guesses * NARROW_TILE : width - LEFT - GAP - guesses * LIST + 20 + TILE / 2;
    return Math.max(1, Math.floor(left / (narrow ? NARROW_TILE : TILE)));
  }

  /** tiles: {token, state, looks}, or {earlier, looks} for all that came before the first; from `begin` on those of the
   * path, of which the bracket is at `here`; places: of the path, with their rankings. */
  floors({ tiles, places, begin, here, W, narrow }) {
    const { width } = this,
      w = narrow ? NARROW_TILE : TILE,
      left = narrow ? 0 : LEFT,
      list = narrow ? width : LIST,
      x = (i) =>
        i <= begin || narrow ? left + (i + 0.5) * w : left + (begin + 0.5) * w + GAP + (i - begin - 1) * LIST;
    Object.assign(this, { x, w, narrow, labels: [], boxes: [] });
    tiles.forEach(({ token, earlier, state }, i) => {
      const most = Math.floor(((i > begin && !narrow ? Math.min(list, 110) : w) - 10) / LETTER),
        text = earlier ? `+${earlier}` : this.word(token, Math.max(1, most));
      this.boxes.push({ x: x(i), y: TILES, state, text });
    });
    this.#states(tiles, begin, here);
    this.#brackets(tiles, begin, here, W);
    this.#lists(places, begin, here, W, list);
    if (!narrow) this.#names(W);
    this.chips(this.cells, this.boxes, 999);
    this.frame(HIGH, this.labels);
  }

  #names(W) {
    const lines = (y, ...words) => words.forEach((line, i) => this.labels.push([0, y + 16 * i, "start", line]));
    lines(20, tr`guess`, tr`and its chance`);
    lines(STATES - 2, tr`all states:`, tr`attention, %`);
    lines(VECTOR - 4, many(W, "token"), tr`→ one vector`);
    lines(TILES + 17, tr`text, guesses`);
  }

  /** The states of the text and those predicted on the path, each with the share of attention that it gets. */
  #states(tiles, begin, here) {
    const shown = tiles.slice(0, here + 1),
      middle = this.x(here),
      top = STATES + R,
      r = Math.min(R, this.w / 2 - 4);
    render(this.beams, shown, ({ looks }, i) => {
      const x = this.x(i),
        foot = i === here ? VECTOR - 40 : top + 48,
        d = `M${middle},${VECTOR - 12}C${middle},${top + 30} ${x},${foot} ${x},${top}`,
        style = `stroke-width:${1 + 22 * (looks ?? 0)}px;opacity:${looks === null ? 0 : 0.4}`;
      return ["path", { class: "dx-exit", d, style }];
    });
    render(this.states, shown, ({ looks, cosine }, i) => {
      const foreseen = i >= begin,
        dial = i === here && cosine != null,
        angle = dial ? Math.acos(Math.max(-1, Math.min(1, cosine))) : 0,
        style = `fill:var(--fill);stroke:var(--edge);stroke-width:2;${foreseen ? "stroke-dasharray:4 3" : ""}`,
        needles = dial ? `M0,${3 - r}V0L${(r - 3) * Math.sin(angle)},${(3 - r) * Math.cos(angle)}` : "",
        share = dial || looks === null ? "" : looks < 0.005 ? "<1" : Math.round(100 * looks);
      return [
        { transform: `translate(${this.x(i).toFixed(1)},${STATES})`, "data-s": foreseen ? "drafted" : "old" },
        ["title", {}, `${foreseen ? tr`predicted` : tr`true state`}: ${looks === null ? "–" : percent(looks)}`],
        ["circle", { r, style }],
        ["path", { class: "dx-arc", d: needles }],
        ["text", { ...MIDDLE, y: 4 }, share],
      ];
    });
    const { cosine } = tiles[here];
    const words = this.narrow ? [] : [tr`predicted state`];
    if (cosine != null) words.push(`cos ${cosine.toFixed(2)}`, ...(this.narrow ? [] : [tr`to the true one`]));
    words.forEach((line, i) => this.labels.push([middle + r + 5, STATES + 4 + 16 * i, "start", line]));
    if (begin && !this.narrow)
      this.labels.push([this.x(begin - 1) - 6, STATES - R - 10, "end", tr`Medusa's heads see only this state`]);
  }

  /** The bracket over the run of tokens, and below where it stands at the other places of the path. */
  #brackets(tiles, begin, here, W) {
    const marks = [];
    for (let i = begin; i < tiles.length && tiles[i].row !== undefined; i++) {
      const from = Math.max(tiles[0].earlier ? 1 : 0, i - W + 1),
        [a, b] = [this.x(from) - this.w / 2 + 4, this.x(i) + this.w / 2 - 4],
        y = TILES + CHIP + 6 + 8 * (i - begin);
      const foot = TILES - 11,
        vector = `M${this.x(i)},${foot}V${VECTOR + 12}m-10,0v-24h20v24Z`;
      if (i === here) marks.unshift(`M${a},${foot + 8}V${foot}H${b}v8${vector}`);
      else {
        marks.push(`M${a},${y - 4}V${y}H${b}V${y - 4}`);
        if (i === here + 1 && !this.narrow) this.labels.push([a - 6, y + 4, "end", tr`then`]);
      }
    }
    render(this.brackets, marks, (d, i) => {
      const look = i ? "dx-arc" : "dx-exit";
      return ["path", { d, class: look, "data-s": i ? "unreached" : "" }];
    });
    this.labels.push([this.x(here), VECTOR + 4, "middle", "g"]);
  }

  /** The ranking of each place above the token that comes of it, and what the last token alone has first. */
  #lists(places, begin, here, W, width) {
    const bars = [],
      ways = [],
      column = 88,
      most = width - column - 62;
    places.forEach(({ items, own, alone, next }, k) => {
      const i = begin + k;
      if (this.narrow && i !== here) return;
      const start = this.narrow ? 0 : this.x(i + 1) - 20,
        must = items.findIndex(({ token }) => token === own),
        shown = [...items.slice(0, must < SHOWN ? SHOWN : SHOWN - 1), ...(must < SHOWN ? [] : [items[must]])];
      shown.forEach(({ token, chance, state }, line) => {
        const y = LINE * line,
          sign = state ? `${this.context.theme.states[state].glyph} ` : "",
          text = sign + this.word(token, Math.floor((column - 18) / LETTER) - sign.length),
          bar = Math.max(1, chance * most);
        if (state) this.boxes.push({ x: start + widthOf(text) / 2, y, state, text });
        else this.labels.push([start + 6, y + 16.5, "start", text]);
        bars.push({ x: start + column, y: y + 5, width: bar, height: CHIP - 10 });
        this.labels.push([start + column + bar + 4, y + 16.5, "start", percent(chance)]);
      });
      const mark = own === null ? "" : alone.token === own ? "✓ " : "✕ ";
      const first = tr`1 token: ${mark + this.word(alone.token, 7)} ${percent(alone.chance)}`;
      if (W > 1) this.labels.push([start + 6, LINE * SHOWN + 14, "start", first]);
      const [got] = items.filter(({ row }) => row === next);
      if (!this.narrow && got && i >= here)
        ways.push({ d: `M${this.x(i + 1)},${LISTS - 8}V${TILES - 4}m-4,-5l4,5l4,-5`, state: got.state, thin: true });
      if (i === here) {
        const to = start + (this.narrow ? column : -12),
          end = this.narrow ? "m-5,6l5,-6l5,6" : `V${LINE / 2}h8m-5,-5l5,5l-5,5`;
        const way = (from, state) => {
          const d = `M${from},${STATES - R}C${from},${LISTS + 12} ${to},${LISTS + 50} ${to},${LISTS}${end}`;
          ways.push({ d, state });
        };
        if (begin) way(this.x(begin - 1), "old");
        way(this.x(i), "drafted");
      }
    });
    render(this.bars, bars, (bar) => [{ "data-s": "q" }, ["rect", { rx: 3, ...bar }]]);
    render(this.ways, ways, ({ d, state, thin }) => {
      const style = thin ? "stroke-width:1.5px" : "";
      return ["path", { class: "dx-arc", d, "data-s": state, style }];
    });
  }
}
