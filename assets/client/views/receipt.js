// The box that a receipt stands in. A dialog of the browser: Escape closes it, and the focus goes back to the number.

import { dock } from "../player/dock.js";
import { el, set } from "../player/dom.js";
import { compose } from "../player/receipt.js";
import { tr, translated } from "../player/words.js";

/** Opens the receipt of a number; the focus goes back to the element that shows it. */
export function openReceipt(anchor, { title, kind, about, sections }) {
  const list = (rows) => el("dl", {}, ...rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  const shut = el("button", { "aria-label": tr`Close`, onclick: () => box.close() }, "✕");
  const box = el(
    "dialog",
    { class: "dx dx-receipt", "aria-label": tr`Receipt. ${title}` },
    el("header", {}, el("h2", {}, title), shut),
    el("p", {}, el("strong", {}, translated(kind)), `: ${about}.`),
    ...sections.flatMap(([heading, rows]) => [el("h4", {}, heading), list(rows)]),
  );
  set(box, {
    onkeydown: (event) => event.stopPropagation(),
    onclick: (event) => event.target === box && box.close(),
    onclose: () => {
      box.remove();
      anchor.focus();
    },
  });
  (anchor.closest(".gradio-container") ?? document.body).append(box);
  box.showModal();
  dock(box, 0.7);
}

/** The receipt that something outside the players asks for: {anchor, receipt, numbers, header}. */
export const showReceipt = ({ anchor, receipt, numbers, header }) =>
  openReceipt(anchor, compose(receipt, numbers, header));

const NUMBER = { class: "dx-number", title: tr`How was this obtained?`, "aria-haspopup": "dialog" };

/** A number that opens its receipt; `make` gives it when it is asked for. */
export const figure = (text, make, more = {}) =>
  el("button", { ...NUMBER, ...more, onclick: (event) => openReceipt(event.currentTarget, make()) }, text);
