// Belts of a conveyor: at each place what drops in, the state as what it knows, and the ranking that comes of it.

import { CHIP, LETTER, StepPicture, widthOf } from "../player/drawing.js";
import { percent, tr } from "../player/words.js";

const BELT = CHIP + 16, // of a lane, from its top: the drop, the state on its belt, the list
  STATE = CHIP + 8,
  LIST = BELT + STATE + 7,
  LINE = 27, // of a list
  SHOWN = 3,
  LANE = LIST + SHOWN * LINE + 18,
  LEFT = 116,
  NAMES = 40; // height of the lanes' names where they stand above

const DOWN = "v13m-5,-6l5,6l5,-6",
  arrow = (d, state) => ["path", { class: "dx-arc", d, "data-s": state }];

/** The ranks that a list shows: the first ones, and in place of the last of them those that it must show. */
export function shownRanks(n, must) {
  const ranks = [...new Set(must)].slice(0, SHOWN);
  for (let rank = 0; rank < n && ranks.length < SHOWN; rank++) if (!ranks.includes(rank)) ranks.push(rank);
  return ranks.sort((a, b) => a - b);
}

export class Belts extends StepPicture {
  layers = ["belts", "arrows", "beads", "lists", "cells"];

  /** Lanes one below the other, or in a narrow panel side by side; returns the nodes by layer. shown: rows of the tree
   * that lists must show. */
  lanes(lanes, narrow, deepest, shown) {
    const { width } = this,
      w = narrow ? width / lanes.length : (width - LEFT) / Math.max(2, deepest),
      parts = { belts: [], beads: [], lists: [], boxes: [], arrows: [], labels: [] };
    Object.assign(this, { w, narrow, shown, parts });
    lanes.forEach((lane, k) => {
      lane.places.forEach((place, i) =>
        Object.assign(place, narrow ? { x: k * w, y: NAMES + i * LANE } : { x: LEFT + i * w, y: k * LANE }),
      );
      this.#lane(lane, lanes[0].places);
    });
    const { boxes, labels, ...layers } = parts;
    this.chips(this.cells, boxes, 999);
    return this.paint(narrow ? NAMES + deepest * LANE : lanes.length * LANE, labels, layers);
  }

  #lane({ places, from, name, says, blind }, main) {
    const { narrow, w, parts } = this,
      { y } = places[0],
      middle = y + BELT + STATE / 2,
      begin = from ? places[from].x - 16 : LEFT - 58,
      left = narrow ? places[0].x + 4 : 0;
    const lines = (words, x, top) => words.forEach((line, i) => parts.labels.push([x, top + i * 16, "start", line]));
    lines(name, left, narrow ? 12 : y + 12);
    if (!narrow) {
      lines(says, 0, y + LIST + 16);
      const belt = { x: begin, y: middle - 5, width: places.at(-1).x + w - 12 - begin, height: 10 };
      parts.belts.push(["rect", { class: "dx-lift dx-plain", rx: 5, ...belt }]);
      if (from) parts.labels.push([begin - 10, middle + 4, "end", tr`another first guess`]);
      else parts.boxes.push({ x: begin, y: middle - CHIP / 2, text: tr`text`, state: "prompt" });
    }
    places.slice(from).forEach((place, j) => {
      const i = j + from,
        line = (i > from ? places : main)[i - 1]?.lines?.get(place.row);
      this.#state(place, blind);
      this.#list(place);
      if (line && !blind) this.#back(line, place);
    });
  }

  /** The state, as what it knows, and the guess that drops into it, or does not. */
  #state(place, blind) {
    const { w, narrow, parts } = this,
      left = place.x + 4,
      y = place.y + BELT,
      { drops } = place,
      known = narrow ? place.known.slice(-2) : place.known, // the older ones are text, too
      most = Math.min(10, Math.floor((w - 18 - widthOf(tr`text`)) / Math.max(1, known.length) / LETTER - 2)),
      wagons = [{ text: tr`text`, state: "prompt" }];
    for (const { token, state } of known) wagons.push({ text: this.word(token, Math.max(2, most)), state });
    let x = left + 5;
    for (const wagon of wagons) {
      place.middle = x + widthOf(wagon.text) / 2;
      parts.boxes.push({ ...wagon, x: place.middle, y: y + 4 });
      x += widthOf(wagon.text) + 2;
    }
    parts.beads.push(["rect", { class: "dx-slab", rx: 16, x: left, y, width: x - left + 3, height: STATE }]);
    const text = drops.map(({ token }) => this.word(token, blind ? 7 : Math.max(2, most))).join(" / ") || "…",
      state = blind ? "unreached" : drops[0].state;
    place.middle = Math.max(place.middle, left + widthOf(text) / 2);
    place.edge = place.middle - widthOf(text) / 2;
    parts.boxes.push({ text, state, x: place.middle, y: place.y });
    const begin = `M${place.middle},${place.y + CHIP}`;
    parts.arrows.push(blind ? arrow(`${begin}v6m-14,0h28`, "rejected") : arrow(begin + DOWN, state));
  }

  /** The ranking of a place; a token that the target wrote stands there with its sign. */
  #list(place) {
    const { w, narrow, parts } = this,
      { items, own } = place,
      left = place.x + 4,
      column = Math.min(112, 0.52 * w),
      most = w - column - (narrow ? 52 : 104),
      must = [...items.keys()].filter((rank) => this.shown.has(items[rank].row) || items[rank].token === own);
    place.lines = new Map();
    shownRanks(items.length, must).forEach((rank, i) => {
      const { token, chance, state, row } = items[rank],
        y = place.y + LIST + i * LINE,
        sign = state ? `${state === "old" ? "✓" : this.context.theme.states[state].glyph} ` : "",
        text = sign + this.word(token, Math.max(2, Math.floor((column - 18) / LETTER) - sign.length)),
        bar = Math.max(1, chance * most),
        end = left + column + bar;
      if (state) parts.boxes.push({ state, x: left + widthOf(text) / 2, y, text });
      else parts.labels.push([left + 6, y + 16.5, "start", text]);
      const box = { rx: 3, x: left + column, y: y + 5, width: bar, height: CHIP - 10 };
      parts.lists.push([{ "data-s": "q" }, ["rect", box]]);
      parts.labels.push([end + 5, y + 16.5, "start", percent(chance)]);
      place.lines.set(row, { x: end + 46, y: y + CHIP / 2, state });
    });
    if (own === null || items.some(({ token }) => token === own)) return;
    const missed = narrow
      ? `${this.context.theme.states.correction.glyph} ${this.word(own, 10)}`
      : tr`the target: ${this.word(own, 10)}`;
    parts.labels.push([left + 6, place.y + LANE - 8, "start", missed]);
  }

  /** The guess that goes on comes back to the top of the next place. */
  #back({ x, y, state }, { edge, middle, y: top }) {
    if (this.narrow) return this.parts.arrows.push(arrow(`M${middle},${top - 15}${DOWN}`, state));
    const right = edge - 3,
      reach = Math.max(20, 0.6 * (right - x)),
      foot = top + CHIP / 2,
      d = `M${x},${y}C${x + reach},${y} ${right - reach},${foot} ${right},${foot}m-6,-5l6,5l-6,5`;
    return this.parts.arrows.push(arrow(d, state));
  }
}
