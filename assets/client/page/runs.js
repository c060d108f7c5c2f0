// The list of kept runs: {rows, page, pages, note, broken, undo, said}. A button asks the server by writing {act, id,
// ...} into the value, and so does the tab when it is opened. One question at a time: an answer that came between a
// click and its sending would take the place of the question. Text only ever goes through textContent.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { announce, parsed } from "./dom.js";

const PATIENCE = 10_000; // milliseconds after which an answer is no longer waited for: the server may have gone
const button = (text, label, onclick, pressed = null) =>
  el("button", { "aria-label": label, title: label, "aria-pressed": pressed, onclick }, text);
const named = (text, onclick) => button(text, text, onclick);
const MARKS = { right: tr`✓ right`, wrong: tr`✗ wrong` };
const KEYS = /^(dx-|decoding-explorer-)/; // what our pages write into the browser's storage
const forget = () => {
  announce("dx-forget");
  try {
    for (const key of Object.keys(localStorage)) if (KEYS.test(key)) localStorage.removeItem(key);
  } catch {} // then nothing was kept
};

export function mountRuns(element, props, watch, trigger) {
  const root = element.querySelector(".runs");
  let state = {};
  let asking = 0; // the timer of the question that is out
  let waiting = [];
  const send = (act, more) => {
    asking = setTimeout(next, PATIENCE);
    props.value = JSON.stringify({ act, page: state.page ?? 0, ...more, asked: Date.now() });
    trigger("submit");
  };
  const next = () => {
    clearTimeout(asking);
    asking = 0;
    const [first, ...rest] = waiting;
    waiting = rest;
    if (first) send(...first);
  };
  const ask = (act, more = {}) => {
    if (asking) waiting.push([act, more]);
    else send(act, more);
  };
  const open = (id) => {
    ask("open", { id });
    announce("dx-at", { run: [id] });
  };
  const add = (id) => {
    ask("add", { id });
    announce("dx-adding"); // the address names all that stand beside each other then
  };
  const rename = (row, place) => {
    const field = el("input", { type: "text", maxlength: 120, "aria-label": tr`Label`, placeholder: tr`Label` });
    field.value = row.label;
    let left = false;
    const done = (save) => {
      if (left) return;
      left = true;
      if (save && field.value !== row.label) ask("rename", { id: row.id, label: field.value });
      else draw();
    };
    field.addEventListener("keydown", (event) =>
      event.key === "Enter" ? done(true) : event.key === "Escape" ? done(false) : null,
    );
    field.addEventListener("blur", () => done(true));
    place.replaceChildren(field);
    field.focus();
  };
  const entry = (row) => {
    const name = el("strong", { translate: "no" }, row.label || row.title);
    const head = el("div", "run-name", name);
    const when = new Date(row.when * 1000).toLocaleString(),
      about = [row.label ? row.title : "", row.models, when, row.cost, row.ending, row.size];
    return el(
      "li",
      { "data-id": row.id, "data-pinned": row.pinned ? "" : null },
      el(
        "div",
        "run-text",
        head,
        el("p", { class: "run-prompt", translate: "no" }, row.prompt),
        el("p", "quiet", about.filter(Boolean).join(" · ")),
        row.mark ? el("span", { "data-mark": row.mark }, MARKS[row.mark]) : "",
      ),
      el(
        "div",
        "run-acts",
        button(tr`Open`, tr`Open ${row.title} alone`, () => open(row.id)),
        button(tr`Add`, tr`Add ${row.title} next to what is shown`, () => add(row.id)),
        button(
          row.pinned ? tr`★ Pinned` : tr`☆ Pin`,
          row.pinned ? tr`Unpin: it may be cleaned up again` : tr`Pin: it is never cleaned up`,
          () => ask("pin", { id: row.id, on: !row.pinned }),
          String(row.pinned),
        ),
        button(tr`Rename`, tr`Rename ${row.title}`, () => rename(row, head)),
        button(tr`Delete`, tr`Delete ${row.title}`, () => ask("delete", { id: row.id })),
      ),
    );
  };
  let asked = false; // whether the button was pressed once
  const forgetter = () => {
    const press = (now) => {
      asked = now;
      draw();
      root.querySelector(".run-forget button").focus();
    };
    if (!asked)
      return el(
        "p",
        "run-forget",
        named(tr`Forget what this browser keeps`, () => press(true)),
      );
    const sure = () => {
      asked = false;
      forget();
      if (state.pages) ask("forget");
      else draw();
    };
    const words = state.pages
      ? tr`This forgets prompt, slots, parameters and what was seen here, and deletes all kept runs for good.`
      : tr`This forgets prompt, slots, parameters and what was seen here. This server keeps no runs of yours.`;
    const buttons = [" ", named(tr`Cancel`, () => press(false)), " ", named(tr`Forget all`, sure)];
    return el("p", "run-forget", words, ...buttons);
  };
  const draw = () => {
    const { rows = [], page = 0, pages = 0, note = "", broken = [], undo = "", said = "" } = state;
    const line = el(
      "p",
      { class: "run-said", role: "status" },
      said,
      undo ? button(tr`Undo`, tr`Bring the deleted run back`, () => ask("restore", { id: undo })) : "",
    );
    const turn = (text, to) => (to < 0 || to >= pages ? "" : named(text, () => ask("page", { page: to })));
    const pager =
      pages > 1
        ? el("p", "run-pager", turn(tr`Newer`, page - 1), tr`Page ${page + 1} of ${pages}`, turn(tr`Older`, page + 1))
        : "";
    root.replaceChildren(
      ...[
        said ? line : "",
        rows.length ? el("ol", {}, ...rows.map(entry)) : "",
        pager,
        el("p", "quiet", note),
        ...broken.map((text) => el("p", "run-broken", text)),
        forgetter(),
      ].filter(Boolean),
    );
    root.dataset.rows = rows.length;
  };
  const read = () => {
    const data = parsed(props);
    if (!Array.isArray(data.rows)) return; // what this list asks for passes here too
    state = data;
    draw();
    next();
  };
  watch("value", read);
  element.addEventListener("dx-opened", () => ask("page"));
  ask("page"); // it is made when its tab is opened for the first time
}
