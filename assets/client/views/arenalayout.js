// Where the areas, the boxes and the words of an arena stand, as plain data. The drawing is {at: parts of each step,
// limits, names, group, base, top: of its scale, width}.

import { bytes } from "../player/codec.js";
import { tr, translated } from "../player/words.js";

export const HIGH = 170;
export const FOOT = HIGH + 18; // of the areas, with their axis
export const ROW = 34;
const LEFT = 122,
  RIGHT = 190, // words beside the areas
  NARROW = 640,
  FILLS = ["option3", "option0", "option1", "unreached", "option2", "option4", "option5", "option6"];
export const fill = (i) => `var(--${FILLS[i % FILLS.length]}-fill)`;

export const leftOf = ({ width }) => (width < NARROW ? 90 : LEFT);
export const wideOf = (one) => one.width - leftOf(one) - (one.width < NARROW ? 8 : RIGHT);
const yOf = ({ base, top }, value) => HIGH - ((Math.max(value, base) - base) / (top - base)) * (HIGH - 8);

/** Each part over the steps, as a path, and the limit. */
export function areas(one) {
  const { at, base, limits, names, top } = one,
    left = leftOf(one),
    wide = wideOf(one) / Math.max(1, at.length),
    y = (value) => yOf(one, value).toFixed(1),
    paths = names.map((name) =>
      at
        .map((parts, i) => {
          const part = parts.find((other) => other.name === name);
          return part && part.end > base
            ? `M${(left + i * wide).toFixed(1)},${y(part.start)}V${y(part.end)}h${wide.toFixed(1)}V${y(part.start)}Z`
            : "";
        })
        .join(""),
    );
  const limit = limits.map((value, i) =>
    value === null || value > top ? "" : `M${left + i * wide},${y(value)}h${wide.toFixed(1)}`,
  );
  return { paths, limit: limit.join("") };
}

/** [x, y, anchor, text]: ends of the axes, the limit, each part beside its last place. */
function named(one) {
  const { at, base, limits, top, width } = one,
    left = leftOf(one),
    right = left + wideOf(one),
    last = at.findLast((parts) => parts.length) ?? [],
    limit = limits.findLast((value) => value !== null && value <= top),
    words = [
      [left - 8, yOf(one, top) + 12, "end", bytes(top)],
      [left - 8, HIGH, "end", bytes(base)],
      [left, HIGH + 15, "start", tr`step 1`],
      [right, HIGH + 15, "end", tr`step ${at.length}`],
    ];
  if (width < NARROW) return words;
  let above = HIGH + 16;
  for (const { name, start, end } of last) {
    if (end <= base) continue;
    above = Math.min(above - 14, (yOf(one, Math.max(start, base)) + yOf(one, end)) / 2 + 4);
    words.push([right + 8, above, "start", translated(name)]);
  }
  if (limit !== undefined) words.push([right + 8, Math.min(yOf(one, limit) + 4, above - 14), "start", tr`the budget`]);
  return words;
}

/** What all that begins with the arena's first part take beyond it. */
function beyond({ base, group: main }, groups) {
  const first = base ? groups.get(main)?.[0].name : null;
  return [...groups]
    .filter(([, parts]) => parts.length > 1 && (!first || parts[0].name === first))
    .map(([group, parts]) => ({ group, parts: first ? parts.slice(1) : parts, from: first ? parts[0].end : 0 }));
}

/** What stands at one step, below the areas: {height, boxes, words}. */
export function below(one, groups) {
  const { base, width } = one,
    left = leftOf(one),
    narrow = width < NARROW,
    all = beyond(one, groups),
    most = Math.max(1, ...all.map(({ parts, from }) => parts.at(-1).end - from)),
    wide = width - left - (narrow ? 70 : 110),
    y = (i) => FOOT + 30 + i * ROW,
    boxes = all.flatMap(({ group, parts, from }, i) =>
      parts.map((part) => ({
        ...part,
        x: left + ((part.start - from) / most) * wide,
        w: ((part.end - part.start) / most) * wide,
        y: y(i),
        own: group === one.group,
      })),
    );
  const names = all.flatMap(({ group, parts, from }, i) => [
    [left - 8, y(i) + 17, "end", group === one.group ? translated(group) : `○ ${translated(group)}`],
    [left + ((parts.at(-1).end - from) / most) * wide + 6, y(i) + 17, "start", bytes(parts.at(-1).end - from)],
  ]);
  const [head] = groups.get(one.group) ?? [],
    said = head && base ? tr`beyond ${bytes(base)} of ${translated(head.name)}, at this step` : tr`at this step`;
  const words = [...named(one), ...(all.length ? [[narrow ? 0 : left, FOOT + 20, "start", said]] : []), ...names];
  return { height: y(all.length) + 4, boxes, words };
}
