// Scenes where no server is: on the static site and in a lecture that is one file. The runs are recorded ones; nothing
// runs live here.

import { groupNamed } from "../player/clock.js";
import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { address, lectureView, wanted } from "./lectureview.js";
import { Pace, voice } from "./voice.js";

const FIRST = 1300; // milliseconds of the first step

/** Plays as slowly as what is said is read, until something is touched. */
function playSlowly(group) {
  const pace = new Pace(group, FIRST),
    turn = () => group.playing && pace.turn();
  const over = new AbortController();
  const end = () => {
    group.listeners.delete(turn);
    group.pace = undefined;
    over.abort();
  };
  for (const type of ["pointerdown", "keydown"]) addEventListener(type, end, { capture: true, signal: over.signal });
  group.listeners.add(turn);
  group.play();
}

/** given: {known: scenes with a voice, scenes: those of the lecture, first: ids of the runs that are shown, before:
 * what the voice stands before, panels: where players stand, mount(slot): a player, source(id): a promise of
 * its trace}. Returns {players, play()}. */
export function offline({ known, scenes, first, before, panels, mount, source }) {
  const group = groupNamed("main"),
    players = [];
  let asked = 0;
  panels.id = "players";
  const show = async (ids, at = null) => {
    const mine = ++asked,
      found = await Promise.all(ids.map(source));
    if (mine !== asked) return;
    while (players.length < ids.length) players.push(mount(players.length));
    players.forEach((player, slot) => {
      if (!ids[slot]) player.clear();
      else if (at === null || player.id !== ids[slot]) player.load(found[slot]);
      player.id = ids[slot] ?? null;
    });
    group.pause();
    group.seek(at ?? 0);
    told.look(new Map(ids.map((id, slot) => [slot, id])));
  };
  const told = voice(known, ({ slot, stop }) => {
    const ids = players.map(({ id }) => id).filter(Boolean);
    ids[slot] = stop;
    show(ids, Number.POSITIVE_INFINITY); // a place of the lever shows the end, as on the page
  });
  told.root.id = "scene";
  before.before(told.root);
  document.addEventListener("dx-voice", ({ detail }) => told.use(detail));
  const view = lectureView({
    show: ({ voice: { traces } }) => show(traces),
    leave: () => {
      view.close();
      address(null);
      show(first);
    },
    moved: address,
    players: panels,
  });
  (panels.closest(".dx") ?? document.body).append(view.root); // where the colours are declared
  const open = (n = 0) => view.open(scenes, n);
  if (scenes.some(({ dead }) => !dead))
    panels.after(
      el(
        "button",
        {
          class: "lecture-door",
          onclick: () => {
            document.documentElement.requestFullscreen?.().catch(() => {});
            open();
          },
        },
        tr`Lecture`,
      ),
    );
  const begun = show(first);
  if (wanted() !== null) begun.then(() => open(wanted()));
  return { players, play: () => begun.then(() => wanted() === null && playSlowly(group)) };
}
