// The palette below the prompt, where a chosen model sees scenes: nine cells to fill with coloured shapes.
// It holds nothing of its own but what is put in next: the cells are read from the prompt, and written into it.

import { el, svg } from "../player/dom.js";
import { tr } from "../player/words.js";
import { parsed } from "./dom.js";
import { knownForms } from "./forms.js";
import { another, filled, named, numbered, own, ownPixels, place, read, SIDE, written } from "./scene.js";

const PAPER = 8, // pixels of a cell's side in the model's picture
  ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

const PARTS = { shape: tr`Shape`, colour: tr`Colour`, size: tr`Size` };

/** The pixels of a thing, as in the model's picture. */
function drawing({ shapes, colours, sizes }, { size, colour, shape }) {
  const rows = shapes[shape][sizes.indexOf(size)],
    from = Math.floor((PAPER - rows.length) / 2),
    runs = rows.flatMap((row, y) =>
      [...row.toString(2).padStart(rows.length, "0")].flatMap((bit, x) =>
        bit === "1" ? [`M${from + x} ${from + y}h1v1h-1z`] : [],
      ),
    );
  const path = svg("path", { d: runs.join(""), fill: rgb(colours[colour]) });
  return svg("svg", { viewBox: `0 0 ${PAPER} ${PAPER}`, "aria-hidden": "true" }, path);
}

const rgb = (parts) => `rgb(${parts.join(" ")})`;

/** props.value: JSON of {text, scene}: the description of the numbered scene that a prompt names, "" where it names
 * none; trigger asks for it. props.words: JSON of the vocabulary. */
export function mountPalette(element, props, watch, trigger) {
  const words = JSON.parse(props.words);
  const box = () => document.querySelector("#prompt textarea");
  const brush = { size: words.sizes[1], colour: Object.keys(words.colours)[0], shape: Object.keys(words.shapes)[0] };
  let at = 0, // the cell that the Tab key comes to
    waiting = "", // the text that the server was asked about
    refused = null, // the text that has no room for a further thing: late news of a prompt that stays wipe no message
    shown = { asked: words.asked[0], things: new Map() };

  const cells = Array.from({ length: words.rows.length * words.columns.length }, (_, cell) =>
    el("button", { class: "scene-cell", onclick: () => fill(cell), onkeydown: (e) => key(e, cell) }),
  );
  const canvas = el("canvas", { width: SIDE, height: SIDE, "aria-hidden": "true" }); // a picture of one's own
  const grid = el(
    "div",
    { class: "scene-cells", role: "group", "aria-label": tr`Cells of the scene` },
    canvas,
    ...cells,
  );
  const line = el("p", { class: "scene-line", role: "status" });
  const parts = [part("shape", Object.keys(words.shapes)), part("colour", Object.keys(words.colours))];
  parts.push(part("size", words.sizes));
  const button = (said, onclick) => el("button", { onclick }, said);
  const clear = button(tr`Empty all`, () => write({ ...shown, things: new Map() }));
  const buttons = el(
    "div",
    "scene-buttons",
    button(tr`Another scene`, () => put(another(box().value, words))),
  );
  buttons.append(clear);
  const side = el("div", "scene-side", ...parts.map(({ node }) => node), buttons);
  const body = el("div", "scene-body", grid, side);
  const root = el("div", { class: "scene", role: "group", "aria-label": tr`Draw the scene`, hidden: true }, body, line);
  element.replaceChildren(root);

  function part(name, values) {
    const paint = (input, value) => input.nextSibling.replaceChildren(sample(name, value));
    const inputs = values.map((value) => {
      const attributes = { type: "radio", name: `scene-${name}`, value, "aria-label": value };
      return el("input", { ...attributes, onchange: () => choose(name, value) });
    });
    const labels = inputs.map((input) =>
      el("label", { title: input.value, "data-part": name }, input, el("span", { translate: "no" })),
    );
    const node = el("div", { class: "scene-part", role: "radiogroup", "aria-label": PARTS[name] }, ...labels);
    const show = () => {
      for (const input of inputs) {
        input.checked = brush[name] === input.value;
        paint(input, input.value);
      }
    };
    return { node, show };
  }

  /** A value of a part, with the rest of the brush. */
  function sample(name, value) {
    if (name === "size") return value;
    if (name === "shape") return drawing(words, { ...brush, shape: value });
    return el("i", { style: `background:${rgb(words.colours[value])}` });
  }

  function choose(name, value) {
    brush[name] = value;
    refused = null;
    draw();
  }

  function fill(cell) {
    at = cell;
    const things = filled(shown.things, cell, brush, words);
    if (things) return write({ ...shown, things });
    refused = box().value;
    draw();
  }

  function key(event, cell) {
    const width = words.columns.length,
      [down, along] = ARROWS[event.key] ?? [],
      next = [Math.floor(cell / width) + down, (cell % width) + along];
    if (event.key === "Delete" || event.key === "Backspace") {
      const things = new Map(shown.things);
      if (things.delete(cell)) write({ ...shown, things });
    } else if (down === undefined) return;
    else if (words.rows[next[0]] && words.columns[next[1]]) {
      at = next[0] * width + next[1];
      draw();
      cells[at].focus();
    }
    event.preventDefault(); // nor does the page scroll, or a player step
    event.stopPropagation();
  }

  const write = (scene) => put(written(scene, words));

  function put(text) {
    const field = box();
    refused = null;
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    draw();
  }

  /** Which scene a number stands for is drawn by the server, which is asked for no other text. */
  function ask(text) {
    if (text === waiting) return;
    waiting = text;
    props.value = JSON.stringify({ text });
    trigger("submit");
  }

  function draw() {
    const text = box()?.value ?? "";
    if (refused !== text) refused = null;
    const told = parsed(props),
      { catalogue, values } = knownForms();
    const sees = ({ model }) => catalogue.models.find(({ name }) => name === model)?.tasks.includes("scene");
    root.hidden = !values.some(sees);
    if (root.hidden) return;
    const given = numbered(text, words),
      number = given && told.text === text && "scene" in told && read(told.scene, words),
      found = number ? { ...number, asked: given.asked } : read(text, words);
    if (given && !number) return ask(text);
    shown = found ?? { asked: words.asked[0], things: new Map() };
    for (const one of parts) one.show();
    const pixels = ownPixels(text);
    canvas.hidden = !pixels;
    if (pixels) canvas.getContext("2d").putImageData(new ImageData(pixels, SIDE), 0, 0);
    cells.forEach((node, cell) => {
      const thing = shown.things.get(cell),
        name = place(words, cell);
      node.replaceChildren(...(thing ? [drawing(words, thing)] : []));
      node.setAttribute("aria-label", thing ? `${name}: ${named(thing)}` : tr`${name}, empty`);
      node.tabIndex = cell === at ? 0 : -1;
    });
    const { size } = shown.things;
    clear.hidden = !size;
    line.textContent = hint(text, found, size);
  }

  function hint(text, found, size) {
    if (!found)
      return own(text) === null
        ? tr`The prompt describes no scene; filling a cell begins one in its place.`
        : tr`The prompt holds a picture of your own; filling a cell begins a scene in its place.`;
    if (refused !== null) return tr`A scene has at most ${words.most} objects; empty a cell first.`;
    return size && size < words.fewest ? few(size) : tr`A click puts in a ${named(brush)}, a second one takes it out.`;
  }

  const few = (now) => tr`A scene has ${words.fewest} or ${words.most} objects; here are ${now}.`;
  document.addEventListener("dx-form", draw);
  document.addEventListener("dx-prompt", draw); // by whomever: a link, a lesson or a picture file changes it, too
  watch("value", draw);
  draw();
}
