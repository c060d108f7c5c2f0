// Small helpers for elements. Data becomes text or an attribute, never markup.

import { translated } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** attributes: by name, those that begin with "on" are listeners, null and false are left out; text is the class alone.
 * What stands already is not written again. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(typeof attributes === "string" ? { class: attributes } : attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value != null && value !== false && node.getAttribute(name) !== String(value))
      node.setAttribute(name, value === true ? "" : value);
  }
}

function fill(node, attributes, children) {
  if (node.tagName === "BUTTON") node.type = "button"; // it submits nothing unless it says so
  set(node, attributes);
  node.append(...children.filter((child) => child != null && child !== ""));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** A small drawing in the colour of the text: signs for media are missing from many fonts. */
export const icon = (d) =>
  svg(
    "svg",
    { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
    svg("path", { d, fill: "currentColor", "fill-rule": "evenodd" }),
  );

/** A text node that is there stays: a new one is laid out from nothing. */
export function setText(node, text) {
  const only = node.firstChild,
    at = text && only?.nodeType === 3 && !only.nextSibling ? only : node;
  if (at.textContent !== text) at.textContent = text;
}

/** The drawing area of a picture that scrolls in a narrow panel: its letters keep their size. */
export function frame(picture, w, h) {
  set(picture, { viewBox: `0 0 ${w} ${h}` });
  picture.style.cssText = `max-width:${w}px;min-width:${w}px`;
}

/** A canvas of w x h CSS pixels, sharp on dense screens. */
export function sizeCanvas(canvas, w, h, options) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(w * ratio));
  canvas.height = Math.max(1, Math.round(h * ratio));
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
  const context = canvas.getContext("2d", options);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Keeps exactly `n` children made by `make` in `parent` visible and returns them; spare ones are hidden, not
 * removed. */
export function pool(parent, n, make) {
  while (parent.childNodes.length < n) parent.append(make());
  const nodes = [...parent.childNodes];
  nodes.forEach((node, i) => (node.style.display = i < n ? "" : "none"));
  return nodes.slice(0, n);
}

/** A row of a table: its head and its cells. */
export const rowOf = (head, ...cells) =>
  el("tr", {}, el("th", { scope: "row" }, head), ...cells.map((cell) => el("td", {}, cell)));

/** A colour of a legend, with what it stands for. */
export const swatch = (style, ...words) => el("span", {}, el("i", { class: "dx-swatch", style }), ...words);

/** A labelled select; `choose` gets the chosen value. */
export function select(label, options, value, choose) {
  const listed = options.map(([key, text]) => el("option", { value: key }, text)),
    box = el("select", { onchange: () => choose(box.value) }, ...listed);
  box.value = value;
  return el("label", "dx-select", el("span", {}, label), box);
}

/** A curve over steps that breaks off where there is no value. */
export const curve = (values, y) =>
  values
    .map((v, i) => (v == null ? "" : `${values[i - 1] == null ? "M" : "L"}${i + 0.5},${y(v).toFixed(2)}h0.01`))
    .join("");

/** A state of the board as the legends show it. */
export const legend = ({ states }, state, text = translated(states[state].label)) =>
  el("span", {}, el("i", { class: "dx-cell", "data-s": state }, states[state].glyph), text);

/** How far along an element, from 0 to 1, a pointer is. */
export function along(node, event) {
  const box = node.getBoundingClientRect();
  return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
}

/** The part of a timeline that has not been played yet is covered by a veil which only moves. */
export function timeline(run, context, ...drawing) {
  const veil = el("div", "dx-veil"),
    hand = el("div", "dx-hand"),
    onclick = (event) => context.seek(Math.floor(along(node, event) * run.length) + 1),
    node = el("div", { class: "dx-timeline", onclick }, ...drawing, veil, hand);
  const show = (t) => (veil.style.transform = hand.style.transform = `translateX(${(100 * t) / run.length}%)`);
  return { node, show };
}
