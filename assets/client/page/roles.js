// What part each run plays in a scene, above the name of its method: "One at a time", then "LLaDA base · tiny-dlm".

import { el } from "../player/dom.js";
import { translated } from "../player/words.js";

/** Names the boards of the group's players by slot; a player without a role keeps the name of its method alone. */
export function showRoles(group, roles = []) {
  for (const { slot, root } of group.members) {
    const head = root.querySelector("h2"),
      there = head.querySelector(".scene-role"),
      role = translated(roles[slot] ?? "");
    if ((there?.textContent ?? "") === role) continue;
    if (!role) there.remove();
    else if (there) there.textContent = role;
    else head.prepend(el("em", { class: "scene-role" }, role));
  }
}
