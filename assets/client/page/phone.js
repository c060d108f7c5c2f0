// On a narrow screen: one run at a time with a switch between them, and the controls as a sheet at the foot, of which
// the first line (the prompt and Run) is always there.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { whenThere } from "./dom.js";

/** The switch: a button for each player that shows a run, or is about to. */
function switcher(players) {
  const row = el("div", { class: "switcher", role: "group", "aria-label": tr`Which run is shown` });
  const filled = () => [...players.querySelectorAll(".dx-panel")].filter((panel) => panel.dataset.state !== "empty");
  const choose = (panel) => {
    for (const one of players.children) one.toggleAttribute("data-chosen", one.contains(panel));
    draw();
  };
  const draw = () => {
    const panels = filled(),
      chosen = panels.find((panel) => panel.closest("[data-chosen]"));
    if (panels.length && !chosen) return choose(panels[0]);
    const names = panels.map(
        (panel, i) =>
          `${i + 1} ${(panel.querySelector(".scene-role") ?? panel.querySelector("h2 > span")).textContent}`,
      ),
      drawn = [names.join("|"), panels.indexOf(chosen)].join();
    if (drawn === row.dataset.drawn) return;
    row.dataset.drawn = drawn;
    row.hidden = panels.length < 2;
    row.replaceChildren(
      ...panels.map((panel, i) =>
        el("button", { "aria-pressed": String(panel === chosen), onclick: () => choose(panel) }, names[i]),
      ),
    );
  };
  players.addEventListener("dx-choose", ({ target }) => choose(target.closest(".dx-panel")));
  new MutationObserver(draw).observe(players, {
    subtree: true,
    childList: true,
    characterData: true,
    attributeFilter: ["data-state"],
  });
  draw();
  return row;
}

/** The handle of the sheet. */
function handle(controls) {
  const button = el("button", { class: "sheet-handle", onclick: () => turn() });
  const turn = (open = !controls.hasAttribute("data-sheet")) => {
    controls.toggleAttribute("data-sheet", open);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? tr`Close` : tr`Prompt and methods`;
  };
  for (const event of ["dx-asked", "dx-chip"]) document.addEventListener(event, () => turn(false));
  controls.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !controls.hasAttribute("data-sheet")) return;
    turn(false);
    button.focus();
  });
  turn(false);
  return button;
}

export const mountPhone = () =>
  whenThere(["#controls", "#players"], (controls, players) => {
    players.before(switcher(players));
    controls.prepend(handle(controls));
  });
