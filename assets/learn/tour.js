// A guided tour of the page: small notes that point at its parts, one after the other. Keyboard: arrows or the buttons,
// Escape ends.

const KEY = "decoding-explorer-tour"; // localStorage: "seen" once the tour was offered and answered

const STEPS = [
  ["#prompt", "Prompt", "What is to be decoded. The task examples below it have answers that can be checked exactly."],
  [
    "#method-0",
    "Methods",
    "Each slot is one decoding method on one model. Up to four run on the same prompt; open a slot for its parameters.",
  ],
  [
    "#run",
    "Run",
    "Decodes now, with a real model, one slot after the other. " +
      "Every step appears as soon as it is made; Stop keeps what there is.",
  ],
  [
    "#panel-0",
    "Players",
    "Each run has a player. Nothing in it is drawn from a formula: it shows the steps that the run left.",
  ],
  [
    "#toolbar .dx-units, #toolbar [data-folded] .more",
    "One clock for all",
    "The same runs by steps, by target calls, in measured seconds, or by work. Space plays, the arrow keys step.",
  ],
  [
    "#panel-0 .dx-board",
    "Tokens",
    "Every position in every step. Point at one for its candidates and scores, also while it is still masked.",
  ],
  [
    "#results",
    "Results",
    "What came out, whether it is right, and what it cost. Each number says how it was obtained.",
  ],
  [
    "[role=tab][data-tab-id=gallery]",
    "Gallery",
    "Recorded runs that play at once. Learn, the next tab, explains each method on one of them.",
  ],
];

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    name.startsWith("on") ? node.addEventListener(name.slice(2), value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const remembered = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return "seen"; /* no storage: never offer, the button is there */
  }
};
const remember = () => {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {
    /* then it is offered again */
  }
};
const shown = (selector) =>
  [...document.querySelectorAll(selector)].find((node) => node.getClientRects().length) ?? null;

/** Pixels to leave free above a part that is scrolled to the top: the toolbar stays there on a wide screen. */
function room() {
  const bar = document.querySelector("#toolbar");
  return bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight + 24 : 60;
}

function styles() {
  const href = new URL("tour.css", import.meta.url).href;
  if (!document.querySelector(`link[href="${href}"]`))
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

/** Where Space plays: the first player, or the button where no player is in sight. */
const rest = (button) => (shown("#panel-0 .dx-panel") ?? button).focus({ preventScroll: true });

class Tour {
  constructor(button) {
    this.button = button;
    this.title = make("h2", { id: "tour-title" });
    this.text = make("p", { id: "tour-text" });
    this.count = make("span", { class: "tour-count" });
    this.back = make("button", { type: "button", onclick: () => this.go(-1) }, "Back");
    this.next = make("button", { type: "button", class: "tour-next", onclick: () => this.go(1) }, "Next");
    this.close = make("button", { type: "button", onclick: () => this.end() }, "End");
    this.ring = make("div", { class: "tour-ring", "aria-hidden": "true" });
    this.box = make(
      "div",
      {
        class: "tour-box",
        role: "dialog",
        "aria-modal": "true",
        "aria-labelledby": "tour-title",
        "aria-describedby": "tour-text",
        tabindex: "-1",
      },
      this.title,
      this.text,
      make("div", { class: "tour-buttons" }, this.count, this.close, this.back, this.next),
    );
    this.keys = (event) => this.#key(event);
    this.left = (event) => event.target.closest("[role=tab]") && this.end(false); // what it points at is put away
    this.place = () => this.#place();
  }

  start() {
    if (this.steps) return;
    remember();
    this.steps = STEPS.filter(([selector]) => shown(selector)); // a part that is not on the page now is left out
    this.at = 0;
    document.body.append(this.ring, this.box);
    document.addEventListener("keydown", this.keys, true);
    document.addEventListener("click", this.left, true);
    for (const event of ["resize", "scroll"]) addEventListener(event, this.place, { passive: true, capture: true });
    this.#show();
  }

  /** back: the focus goes to the player. */
  end(back = true) {
    if (!this.steps) return;
    this.steps = null;
    document.removeEventListener("keydown", this.keys, true);
    document.removeEventListener("click", this.left, true);
    for (const event of ["resize", "scroll"]) removeEventListener(event, this.place, { capture: true });
    this.ring.remove();
    this.box.remove();
    if (back) rest(this.button);
  }

  go(direction) {
    this.at += direction;
    if (this.at >= this.steps.length) return this.end();
    this.at = Math.max(0, this.at);
    this.#show();
  }

  #show() {
    const [selector, title, text] = this.steps[this.at];
    this.title.textContent = title;
    this.text.textContent = text;
    this.count.textContent = `${this.at + 1} of ${this.steps.length}`;
    this.back.disabled = this.at === 0;
    this.next.textContent = this.at === this.steps.length - 1 ? "Done" : "Next";
    const target = shown(selector),
      tall = (target?.getBoundingClientRect().height ?? 0) > innerHeight * 0.6;
    const high = tall || innerWidth <= 560; // so that the note at the foot covers no more than it must
    target?.scrollIntoView({ block: high ? "start" : "center", behavior: "instant" });
    if (high) scrollBy({ top: -room(), behavior: "instant" });
    this.#place();
    this.next.focus({ preventScroll: true });
  }

  /** The ring around the part, and the note beside it where there is room: below, above, to the right, else at the foot
   * of the screen. */
  #place() {
    const target = this.steps && shown(this.steps[this.at][0]),
      EDGE = 10;
    this.ring.hidden = !target;
    if (!target) return void (this.box.style.cssText = "");
    const r = target.getBoundingClientRect(),
      { offsetWidth: w, offsetHeight: h } = this.box;
    this.ring.style.cssText =
      `left:${r.left - 5}px;top:${r.top - 5}px;` + `width:${r.width + 10}px;height:${r.height + 10}px`;
    if (innerWidth <= 560) return void (this.box.style.cssText = "");
    const left = Math.min(Math.max(EDGE, r.left), innerWidth - w - EDGE);
    const spot =
      r.bottom + h + 2 * EDGE < innerHeight
        ? [left, r.bottom + EDGE + 4]
        : r.top - h - 2 * EDGE > 0
          ? [left, r.top - h - EDGE - 4]
          : r.left - w - 2 * EDGE > 0
            ? [r.left - w - EDGE - 4, Math.max(EDGE, r.top)]
            : [innerWidth - w - 2 * EDGE, innerHeight - h - 2 * EDGE];
    this.box.style.cssText = `left:${spot[0]}px;top:${spot[1]}px;right:auto;bottom:auto`;
  }

  /** Focus stays in the note while it is open. */
  #key(event) {
    const act = { Escape: () => this.end(), ArrowRight: () => this.go(1), ArrowLeft: () => this.go(-1) }[event.key];
    if (!act && event.key !== "Tab") return;
    event.stopPropagation();
    event.preventDefault();
    if (act) return act();
    const nodes = [this.close, this.back, this.next].filter((node) => !node.disabled),
      here = nodes.indexOf(document.activeElement);
    nodes[(here + (event.shiftKey ? -1 : 1) + nodes.length) % nodes.length].focus();
  }
}

/** The button, and on the first visit the offer beside it. */
export function mountTour(element) {
  styles();
  let offer = null;
  const start = () => {
    offer?.remove();
    tour.start();
  };
  const decline = () => {
    remember();
    offer.remove();
    rest(button);
  };
  const button = make("button", { type: "button", class: "tour-start", onclick: start }, "Tour");
  const tour = new Tour(button);
  if (!remembered()) {
    offer = make(
      "div",
      { class: "tour-offer", role: "region", "aria-label": "First visit" },
      make("span", {}, "New here? The tour shows the parts of this page in a minute."),
      make("button", { type: "button", onclick: start }, "Start the tour"),
      make("button", { type: "button", onclick: decline }, "Not now"),
    );
  }
  element.replaceChildren(...(offer ? [offer] : []), button);
  return tour;
}
