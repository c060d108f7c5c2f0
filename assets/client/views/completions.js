// Text with a list at the caret: what a helper says may stand there, what the model gave that, and what else it wanted.

import { el, setText } from "../player/dom.js";
import { Parts, render } from "../player/drawing.js";
import { fine, glyphs, number, prose, tr } from "../player/words.js";

export const view = { title: "Code and completions", place: 156, needs: ["completions"] };

const SHOWN = 8, // names in the list
  LOOKS = {
    code:
      "font:13px/1.55 var(--mono);white-space:pre-wrap;overflow-wrap:anywhere;overflow:auto;height:172px;margin:0;" +
      "padding:8px 10px;border:1px solid var(--line);border-radius:6px;unicode-bidi:plaintext",
    box:
      "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(260px,100%),1fr));gap:8px;margin-top:8px;" +
      "align-items:start",
    part:
      "border:1px solid var(--line);border-radius:6px;padding:6px 8px;font-size:12px;min-height:208px;min-width:0;" +
      "overflow:hidden",
    row:
      "font-family:var(--mono);white-space:pre;overflow:hidden;text-overflow:ellipsis;padding:1px 4px;" +
      "border-radius:4px",
    bar:
      "height:10px;margin:4px 0 8px;border:1px solid var(--line);border-radius:5px;overflow:hidden;" +
      "background:var(--raised)",
    fill: "display:block;height:100%;background:var(--accent)",
    caret: "border-left:2px solid var(--accent);margin-left:1px",
    new: "background:var(--raised);outline:1px solid var(--line);border-radius:3px",
    exists: "text-decoration:underline 2px var(--accent);text-underline-offset:4px",
    missing: "text-decoration:underline wavy var(--warn);text-underline-offset:4px;color:var(--warn)",
  },
  STATES = {
    idle: tr`No question here.`,
    unknown: tr`The analyser does not know: nothing is held to a list.`,
    astray: tr`What is begun is none of what is possible.`,
  };

const styled = (tag, look, ...children) => el(tag, { style: LOOKS[look] }, ...children);

export class Completions extends Parts {
  code = this.below(el("pre", { style: LOOKS.code, tabindex: 0, "aria-label": tr`Code so far` }));
  head = this.below(el("p", "dx-readout"));
  title = el("strong");
  names = el("div");
  share = el("span");
  fill = styled("i", "fill");
  ghosts = el("div");
  wanted = styled(
    "div",
    "part",
    el("strong", {}, tr`Legal share of the model's probability`),
    el("div", {}, this.share),
    styled("div", "bar", this.fill),
    el("strong", {}, tr`Wanted, and not possible`),
    this.ghosts,
  );
  box = this.below(styled("div", "box", styled("div", "part", this.title, this.names), this.wanted));

  /** The text at cursor t as parts: what this step wrote, and the names judged so far. */
  #parts(t) {
    const { run } = this,
      plain = (id) => (id === null || run.piece(id).kind !== "text" ? "" : run.piece(id).text),
      starts = [],
      cells = run.board(t);
    let text = "";
    for (const { position, token } of cells) {
      starts[position] = text.length;
      text += plain(token);
    }
    const marks = [];
    for (const { completions: one } of run.steps.slice(0, t))
      if (one?.name && one.position in starts) {
        const start = starts[one.position] - (one.written ?? "").length;
        if (text.startsWith(one.name, start))
          marks.push({ start, end: start + one.name.length, look: one.exists ? "exists" : "missing" });
      }
    const last = cells.at(-1);
    const fresh = last?.entry && last.entry.step === t - 1 ? starts[last.position] : text.length;
    const cuts = [...new Set([0, fresh, text.length, ...marks.flatMap(({ start, end }) => [start, end])])];
    cuts.sort((a, b) => a - b);
    return cuts.slice(1).map((end, i) => ({
      text: text.slice(cuts[i], end),
      look: marks.find((mark) => mark.start <= cuts[i] && end <= mark.end)?.look ?? "",
      now: cuts[i] >= fresh,
    }));
  }

  show(t, hurry) {
    if (hurry) return;
    const titles = { exists: tr`exists`, missing: tr`does not exist` };
    render(this.code, [...this.#parts(t), { text: "", look: "caret" }], ({ text, look, now }) => {
      const style = `${LOOKS[look] ?? ""};${now ? LOOKS.new : ""}`;
      return ["span", { style, title: titles[look] ?? "" }, look === "missing" ? `${text}✕` : text];
    });
    this.code.scrollTop = this.code.scrollHeight;
    const step = this.run.steps[t - 1],
      now = step?.completions ?? null;
    setText(this.head, this.describe(t));
    this.#list(now, step);
    this.#wants(now);
  }

  #list(now, step) {
    const { names = [], total = 0, call, written = "", details = [] } = now ?? {},
      typed = (step?.commits?.tokens ?? []).reduce((text, id) => text + this.run.piece(id).text, written),
      stays = (name) =>
        call || name.startsWith(typed) || (typed.startsWith(name) && !/[\p{L}\p{N}_]/u.test(typed[name.length])),
      row = (title, words, look = "color:var(--muted)") => ["div", { title, style: `${LOOKS.row};${look}` }, words],
      shown = [...names.filter(stays), ...names.filter((name) => !stays(name))].slice(0, SHOWN);
    setText(this.title, call ? tr`Free parameters` : tr`Valid completions`);
    const rows = shown.map((name) => {
      const title = details[names.indexOf(name)] ?? "",
        words = `${glyphs(name)}${title ? `   ${prose(title)}` : ""}`;
      return stays(name)
        ? row(title, `▸ ${words}`, "background:var(--raised);font-weight:700")
        : row(title, `  ${words}`);
    });
    if (!shown.length) rows.push(row("", "–"));
    else if (total > shown.length) rows.push(row("", tr`and ${total - shown.length} more`));
    render(this.names, rows);
  }

  #wants(now) {
    const { mass = null, allowed, refused = [], refused_probabilities: chances, held } = now ?? {},
      style = `text-decoration:${held ? "line-through" : "none"}`,
      row = (ghost, chance) => ["div", { style: LOOKS.row }, ["s", { style }, ghost], ["span", {}, chance]],
      ghosts = refused.map((token, i) => row(glyphs(this.run.piece(token).text), `  ${fine(chances[i])}`));
    setText(this.share, mass === null ? "–" : tr`${fine(mass)}, in ${allowed} tokens`);
    this.fill.style.width = `${100 * (mass ?? 0)}%`;
    render(this.ghosts, ghosts.length ? ghosts : [row("–", "")]);
  }

  describe(t) {
    const now = this.run.steps[t - 1]?.completions;
    if (!now) return tr`Before the first step.`;
    const questions = this.run.steps.slice(0, t).flatMap(({ completions: one, intervals = [] }) => {
        return intervals.filter(({ track }) => one?.source && track === one.source);
      }),
      times = questions.map(({ start, end }) => 1000 * (end - start)).sort((a, b) => a - b), // milliseconds
      many = times.length > 1 ? "s" : "",
      middle = number(times[times.length >> 1]),
      median = times.length ? tr` ${times.length} question${many} so far, median ${middle} ms.` : "";
    const { state, call, total = 0, name = "", exists, held, line = 0 } = now,
      inside = call ? tr`Inside a call` : tr`Inside a name`,
      where = state === "asked" ? tr`Asked at line ${line}` : inside,
      asked = call ? tr`${where}: ${total} free, ` : tr`${where}: ${total} possible, `,
      said = STATES[state] ?? `${asked}${held ? tr`what cannot be is masked out.` : tr`nothing is masked.`}`;
    return `${said}${name ? ` ${glyphs(name)} ${exists ? tr`exists` : tr`does not exist`}.` : ""}${median}`;
  }
}
