// Two models at work at once, the newest iterations over time: the drafter writes a block while the target tests the
// last one; tokens stand on the bars, so that a block is seen to move from one to the other. Below it, on the same
// axis, the same calls in turns, which is derived from their times.

import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { cut, many, tr } from "../player/words.js";

export const view = { title: "Both models at work", place: 50, needs: ["at_once"] };

const TOP = 24,
  ROW = 44,
  H = 30,
  LEFT = 122,
  RIGHT = 128,
  BEFORE = 2; // iterations in front of this one

const MODELLED = { draft: "draft on its own device", target: "target on its own device" };

/** Milliseconds of an iteration: when each model's calls begin and end from the beginning of it, as laid out on two
 * devices, or as they ran where they ran at once; none of a model that waited. */
export function lasted({ intervals = [] }) {
  const laid = intervals.some(({ measured }) => measured === false),
    of = (role) =>
      intervals
        .filter(({ track }) => track === (laid ? MODELLED[role] : role))
        .map(({ start, end }) => ({ start: 1e3 * start, end: 1e3 * end })),
    draft = of("draft"),
    target = of("target"),
    all = [...draft, ...target],
    start = Math.min(...all.map((call) => call.start)),
    moved = (calls) => calls.map((call) => ({ start: call.start - start, end: call.end - start })),
    end = Math.max(...all.map((call) => call.end)),
    work = busy(all);
  return { laid, draft: moved(draft), target: moved(target), long: end - start, work };
}

const busy = (calls) => calls.reduce((sum, { start, end }) => sum + end - start, 0);

/** What became of each token of a block by the iteration after it: next is that one, null where it is not over. */
export function fates({ block, tested, kept, discarded }, next) {
  if (discarded) return block.map(() => "unreached");
  const looked = tested.length && kept === tested.length && tested.at(-1) === block[0] ? 1 : 0;
  return block.map((_, i) => {
    if (i < looked) return "accepted";
    const at = i - looked;
    if (!next || at >= next.tested.length) return "drafted";
    return at < next.kept ? "accepted" : at === next.kept ? "rejected" : "unreached";
  });
}

const ms = (value) => `${Number(value.toPrecision(2))} ms`;

export class AtOnce extends StepPicture {
  layers = ["back", "links", "cells"];
  none = tr`Nothing was drafted in this step.`;

  draw() {
    const { run, width, t, context } = this,
      narrow = width < 640,
      left = narrow ? 62 : LEFT,
      first = Math.max(0, t - 1 - (narrow ? 1 : BEFORE)),
      shown = run.steps.slice(first, t).map((step) => ({ step, made: step.at_once, ...lasted(step) })),
      span = Math.max(...[shown.reduce((n, { work }) => n + work, 0), 1e-9]),
      unit = (width - left - (narrow ? 8 : RIGHT)) / span,
      bars = [],
      cells = [],
      links = [];
    let at = 0,
      turns = 0;
    shown.forEach(({ made, draft, target, long }, k) => {
      if (!made) return;
      const now = first + k === t - 1,
        x = (time) => left + (at + time) * unit;
      const fate = fates(made, shown[k + 1]?.made ?? null);
      draft.forEach((call, i) => {
        const w = (call.end - call.start) * unit;
        cells.push({ x: x(call.start), w, row: 0, token: made.block[i], state: fate[i], now });
      });
      for (const call of target) {
        const w = (call.end - call.start) * unit,
          n = made.tested.length || 1;
        bars.push({ x: x(call.start), w, row: 1, now });
        made.tested.forEach((token, i) => {
          const state = i < made.kept ? "accepted" : i === made.kept ? "rejected" : "unreached";
          cells.push({ x: x(call.start) + 3 + (i * (w - 6)) / n, w: (w - 6) / n, row: 1, token, state, now });
        });
        const before = k ? shown[k - 1] : null;
        if (before?.made && made.mode === "post" && before.draft.length) {
          const from = left + (at - before.long + before.draft.at(-1).end) * unit,
            [a, b, c] = [from, x(call.start), x(call.start) + 12].map((place) => place.toFixed(1));
          links.push(`M${a},${TOP + H}C${a},${TOP + ROW} ${b},${TOP + H} ${c},${TOP + ROW}`);
        }
      }
      for (const [kind, calls] of Object.entries({ draft, target })) {
        const w = busy(calls);
        if (w) bars.push({ x: left + turns * unit, w: w * unit, row: 2, kind, now });
        turns += w;
      }
      at += long;
    });
    const names = { draft: tr`drafter`, target: tr`target` };
    render(this.back, bars, ({ x, w, row, kind, now }) => {
      const faint = now ? "" : `opacity:${row === 2 ? 0.4 : 0.08}`,
        look = { class: row === 2 ? "dx-round dx-alone" : "dx-lift", style: faint },
        said = kind && w > 8 * names[kind].length + 8 ? names[kind] : "";
      return [
        {},
        ["rect", { rx: 5, x: x + 1, y: TOP + row * ROW, width: Math.max(1, w - 2), height: H, ...look }],
        ["text", { ...MIDDLE, x: x + w / 2, y: TOP + row * ROW + 20 }, said],
      ];
    });
    render(this.links, links, (d) => ["path", { class: "dx-arc", d }]);
    const drawn = render(this.cells, cells, ({ x, w, row, token, state, now }) => {
      const whole = token === undefined ? "?" : this.word(token),
        most = Math.floor((w - 6) / 7.4),
        text = most > 1 ? cut(whole, most) : most === 1 ? context.theme.states[state].glyph : "";
      return [
        { "data-s": state, style: `opacity:${now ? 1 : 0.7}` },
        ["title", {}, `${row ? tr`tested` : tr`drafted`}: ${whole}`],
        ["rect", { rx: 4, x: x + 1, y: TOP + row * ROW + 3, width: Math.max(1, w - 2), height: H - 6 }],
        ["text", { ...MIDDLE, x: x + w / 2, y: TOP + row * ROW + 19 }, text],
      ];
    });
    const end = (time) => left + time * unit + 6,
      how = this.#how(shown),
      labels = [
        [left, 12, "start", narrow ? how : tr`the newest iterations, time to the right; ${how}`],
        [left - 8, TOP + 20, "end", narrow ? tr`draft` : tr`drafter`],
        [left - 8, TOP + ROW + 20, "end", tr`target`],
        [left - 8, TOP + 2 * ROW + 20, "end", narrow ? tr`○ turns` : tr`○ in turns`],
      ];
    if (!narrow)
      labels.push(
        [end(at), TOP + ROW + 20, "start", tr`${ms(at)} for these`],
        [end(turns), TOP + 2 * ROW + 20, "start", tr`${ms(turns)} in turns`],
      );
    this.frame(TOP + 3 * ROW + 6, labels);
    return drawn.filter((_, i) => cells[i].now);
  }

  #how(shown) {
    return shown.some(({ laid }) => laid) ? tr`two devices, modelled` : tr`measured`;
  }

  sentence(made, _, t) {
    const all = this.run.steps
        .slice(0, t)
        .filter(({ at_once: one }) => one)
        .map(lasted),
      at = all.reduce((n, { long }) => n + long, 0),
      turns = all.reduce((n, { work }) => n + work, 0),
      wrote = many(made.block.length, "drafted"),
      how = this.#how(all);
    const meanwhile = made.tested.length
      ? tr`${wrote} while the target tests ${made.tested.length}: ${made.kept} accepted.`
      : tr`${wrote} while the target waits.`;
    return tr`${meanwhile} Of the whole run so far ${ms(at)} (${how}); its calls in turns, derived: ${ms(turns)}.`;
  }
}
