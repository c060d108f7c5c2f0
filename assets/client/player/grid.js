// The boards of a group share one grid, so that a token stands at the same place in each; and where players stand side
// by side, their boards begin at one height.

const plans = new WeakMap(); // group -> {asked: player -> what its board asks for, said: the plan as text}
const waiting = new Set(); // groups whose boards are about to be levelled

const planOf = (group) => plans.get(group) ?? plans.set(group, { asked: new Map(), said: "" }).get(group);

/** What all boards of the group have in common. */
function common(group) {
  const asked = [...planOf(group).asked.values()],
    most = (name) => Math.max(...asked.map((need) => need[name]));
  return {
    width: Math.min(...asked.map(({ width }) => width)),
    typical: most("typical"),
    kinds: most("kinds"),
    count: most("count"),
    compact: Boolean(group.compact),
  };
}

/** A player's board asks for {width, typical, kinds, count} and gets the plan of its group; where the plan is a new
 * one, the other boards follow. */
export function agree(group, player, need) {
  planOf(group).asked.set(player, need);
  relay(group, player);
  return common(group);
}

/** Lays the boards of the group again if their plan has changed. */
export function relay(group, but = null) {
  const plan = planOf(group),
    said = plan.asked.size ? JSON.stringify(common(group)) : "";
  if (said === plan.said) return;
  plan.said = said;
  for (const player of plan.asked.keys()) if (player !== but) player.views.tell("relay");
}

/** A player shows no board any more. What takes its place may come at once: the others wait for that. */
export function leave(group, player) {
  if (planOf(group).asked.delete(player)) queueMicrotask(() => relay(group));
}

/** Boards side by side begin at one height, whatever stands above them. */
export function level(group) {
  if (waiting.has(group)) return;
  waiting.add(group);
  requestAnimationFrame(() => {
    waiting.delete(group);
    const found = [...group.members].flatMap(({ root }) => {
      const board = root.querySelector(".dx-board");
      if (!board?.offsetParent) return [];
      const { top } = root.getBoundingClientRect(),
        lift = parseFloat(root.style.getPropertyValue("--dx-lift")) || 0;
      return [{ root, lift, row: Math.round(top), above: board.getBoundingClientRect().top - top - lift }];
    });
    const beside = new Set(found.map(({ row }) => row)).size < found.length,
      high = Math.max(...found.map(({ above }) => above));
    for (const { root, lift, above } of found) {
      const to = beside ? high - above : 0;
      if (Math.abs(to - lift) > 0.01) root.style.setProperty("--dx-lift", `${to}px`);
    }
  });
}
