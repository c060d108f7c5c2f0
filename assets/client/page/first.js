// What stands before Gradio's page is there, which asks for eighty files: the scene, the bar and the boards of the
// opening, drawn from the configuration that the document holds. They stand where the page will have them, and move
// into it when it is there.

import { remembered } from "../player/remember.js";
import { named, settle } from "./language.js";

const PLAIN = ["still", "__theme", "lang"]; // what an address may say without leading somewhere
const COMING = ["scene", "gallery", "run"]; // runs that the server will send; until then the players keep their place
const LATE = 5000; // milliseconds after which a page without those places is taken as it is
const asked = [...new URLSearchParams(location.search).keys()];
const leads = asked.some((name) => !PLAIN.includes(name));

/** Done when all modules are here, and Gradio's page has what was drawn before. */
export async function begin() {
  const { dataset } = document.documentElement;
  // A page that this browser has not used shows the scene, the prompt and little more.
  if (leads || remembered("touched")) dataset.touched = "";
  if (asked.some((name) => COMING.includes(name))) dataset.coming = "";
  if (asked.includes("lecture")) keepKeys();
  await settle();
  const { el } = await import("../player/dom.js");
  const opening = leads ? null : await drawn(el).catch(leftToGradio);
  if (globalThis.dxGradio)
    document.head.append(el("script", { type: "module", crossorigin: "", src: globalThis.dxGradio }));
  const rest = dxModules.script("rest.js").catch(console.error), // then each module comes by itself
    [places] = await Promise.all([there([...(opening?.places.keys() ?? ["bus"])]), rest]);
  await restyled();
  named();
  if (opening) move(opening, places);
}

/** What cannot be drawn early comes with Gradio's page. */
function leftToGradio(error) {
  console.error(error);
  document.querySelector(".first")?.remove();
  return null;
}

/** The keys of a lecture that are pressed before its view is there wait for it in `dxKeys`. */
function keepKeys() {
  globalThis.dxKeys = [];
  addEventListener("keydown", (event) => globalThis.dxKeys?.push(event), true);
}

/** {root, places: Map of elements by the id of their component}; null where the document shows no runs. */
async function drawn(el) {
  const given = new Map(globalThis.gradio_config.components.map(({ props }) => [props.elem_id, props])),
    { batches = [] } = JSON.parse(given.get("bus").value);
  if (!batches.length) return null;
  const [{ bus, mountPanel }, { mountStage }, { mountBar }, { opening }] = await Promise.all([
    import("../player/gradio.js"),
    import("./stage.js"),
    import("./toolbar.js"),
    import("./opening.js"),
  ]);
  const place = (id) => el("div", { id, class: id.startsWith("panel") ? "block panel" : "block" }, el("div")),
    places = new Map(["scene", "toolbar", ...batches.map(({ slot }) => `panel-${slot}`)].map((id) => [id, place(id)])),
    [scene, bar, ...boards] = places.values();
  boards[0].toggleAttribute("data-chosen", true); // the one that a phone shows
  const [title, lead] = given.get("title").value.replace("# ", "").split("\n");
  const root = el(
    "div",
    "first gradio-container",
    el(
      "div",
      "main app",
      el("div", { id: "title" }, el("div", "prose", el("h1", {}, title), el("p", {}, lead))),
      el("div", "first-tabs"),
      el(
        "div",
        { id: "explore-main" },
        el("div", { id: "controls", "aria-hidden": "true" }, el("p", {}, given.get("prompt").value), el("p", {})),
        el("div", { id: "stage" }, scene, bar, el("div", { id: "players" }, ...boards)),
      ),
    ),
  );
  const mode = new URLSearchParams(location.search).get("__theme");
  document.body.classList.toggle("dark", mode ? mode === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  document.body.prepend(root);
  mountStage(scene.firstChild, given.get("scene").props);
  mountBar(bar.firstChild);
  for (const [slot, board] of boards.entries()) mountPanel(board.firstChild, { slot: batches[slot].slot });
  bus(null, { ...given.get("bus").props, value: given.get("bus").value }, () => {});
  opening();
  await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
  return { root, places };
}

/** The page's own places by the ids of their components, once Gradio has them all; those that a page lacks are null
 * when it is late. */
function there(ids) {
  const page = document.querySelector("gradio-app"),
    place = (id) => page.querySelector(`#${id} .mount`)?.parentElement ?? null;
  return new Promise((resolve) => {
    let late = null;
    const end = (places) => {
      clearTimeout(late);
      watch.disconnect();
      resolve(places);
    };
    const look = () => {
      const places = ids.map(place);
      if (!places.includes(null)) end(places);
      else if (places.some(Boolean)) late ??= setTimeout(() => end(ids.map(place)), LATE);
    };
    const watch = new MutationObserver(look);
    watch.observe(page, { childList: true, subtree: true });
    look();
  });
}

/** Our rules stand behind Gradio's, which come with its page. */
async function restyled() {
  const before = document.querySelector('link[href$="all.css"]'),
    after = before.cloneNode();
  await new Promise((resolve) => {
    Object.assign(after, { onload: resolve, onerror: resolve });
    document.head.append(after);
  });
  before.remove();
}

/** Moves what was drawn to these places of the page. */
function move({ root, places }, targets) {
  [...places.values()].forEach((place, i) => targets[i]?.replaceChildren(...place.firstChild.childNodes));
  const [legend, before] = [".scene-legend", "#players"].map((name) => root.querySelector(name)),
    players = document.querySelector("gradio-app #players");
  if (legend) players?.before(legend);
  players?.toggleAttribute("data-one-legend", before.hasAttribute("data-one-legend"));
  root.remove();
}
