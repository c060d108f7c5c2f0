// The window of a call over picture tokens: what was guessed one call ago, the test of each guess, what goes into the
// picture, and the guesses for the next call.

import { unpack } from "../player/codec.js";
import { MIDDLE, render, StepPicture } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { percent, tr } from "../player/words.js";

const LEFT = 262, // of the columns
  TILE = 24,
  PITCH = 62, // of its columns, if they fit
  ROWS = [24, 60, 94, 134]; // guessed, tested, in the picture, guessed next
const FIRST = {
  random: tr`first guesses: noise`,
  left: tr`first guesses: copied from the left`,
  above: tr`first guesses: copied from above`,
};

export class GuessWindow extends StepPicture {
  layers = ["tiles", "flows"];

  /** What a step tested, if that was recorded. */
  told = ({ tree, media, commits }) =>
    media?.colours && commits?.tokens.length && tree?.tokens.length > 1 ? rowsOf(tree) : null;

  draw({ rows, accepted }, { media, commits }) {
    const narrow = this.width < 760,
      left = narrow ? 2 : LEFT,
      codes = unpack(media.codes).values,
      start = commits.positions[0] - this.run.prompt.length,
      shift = commits.tokens[0] - codes[start], // of tokens against codes
      drafts = rows.filter(({ why }) => ["accepted", "mismatch", "unreached"].includes(why)),
      own = rows.find(({ state }) => ["correction", "bonus"].includes(state)),
      pitch = Math.max(TILE + 2, Math.min(PITCH, (this.width - left) / (drafts.length + 1))),
      n = Math.floor((this.width - left) / pitch), // columns that there is room for
      x = (i) => left + (i + 0.5) * pitch,
      y = ROWS.map((high, row) => high + (narrow ? 20 * row : 0)),
      tiles = [];
    const put = (i, row, code, state) =>
      i < n && tiles.push({ x: x(i), y: y[row], fill: media.colours[code] ?? "none", state });
    drafts.forEach(({ token, state }, i) => put(i, 0, token - shift, state));
    for (let i = 0; i < accepted; i++) put(i, 2, codes[start + i], "accepted");
    if (own) put(accepted, 2, codes[start + accepted], own.state);
    for (const cell of media.guesses ?? []) put(cell - start, 3, codes[cell], "drafted");
    const drawn = render(this.tiles, tiles, ({ x, y, fill, state }) => {
      const style = `fill:${fill};stroke:var(--edge);stroke-width:3`;
      return ["rect", { width: TILE, height: TILE, rx: 4, x: x - TILE / 2, y, "data-s": state, style }];
    });
    this.frame(y[3] + TILE + 8, this.#tests(drafts, accepted, own, { x, y, n, pitch, left, narrow }));
    return drawn.slice(Math.min(n, drafts.length));
  }

  /** The tests, with the lines along which an accepted guess goes, and the names of the rows. */
  #tests(drafts, accepted, own, { x, y, n, pitch, left, narrow }) {
    const t = this.t,
      names = [
        tr`guesses`,
        this.run.header.params?.criterion === "jacobi"
          ? tr`call ${t}: the same token again?`
          : tr`call ${t} tests them: min(1, p/q)`,
        tr`into the picture: ${accepted} + ${own ? 1 : 0}`,
        tr`it draws guesses for call ${t + 1}`,
      ],
      labels = names.map((name, row) =>
        narrow ? [left, y[row] - 6, "start", name] : [left - 14, y[row] + 17, "end", name],
      ),
      tests = drafts.slice(0, n);
    render(this.flows, tests, ({ state, chance }, i) => {
      const sign = { accepted: "✓", rejected: "✕" }[state] ?? "–",
        share = chance == null || pitch < 44 ? "" : `${percent(chance)} `,
        on = state === "accepted" && !narrow,
        d = on ? `M${x(i)},${y[0] + TILE}V${y[1] - 2}M${x(i)},${y[1] + 22}V${y[2]}` : "";
      return [
        { "data-s": state },
        ["path", { d, style: "stroke:var(--edge);stroke-width:2.5;opacity:1" }],
        ["text", { ...MIDDLE, x: x(i), y: y[1] + 15 }, share + sign],
      ];
    });
    const first = drafts.findIndex(({ source }) => source && source !== "carried"),
      carried = first < 0 ? n : first,
      above = (i, words) => labels.push([x(i) - TILE / 2, y[0] - 8, "start", words]);
    if (!narrow && carried * pitch > 150) above(0, tr`drawn by call ${t - 1}`);
    if (!narrow && first >= 0 && first < n - 3) above(first, FIRST[drafts[first].source] ?? tr`first guesses`);
    const instead = own?.state === "bonus" ? tr`one more token` : tr`drawn instead of the refused guess`;
    if (!narrow && own && accepted + 1 < n) labels.push([x(accepted) + TILE, y[2] + 17, "start", instead]);
    return labels;
  }
}
