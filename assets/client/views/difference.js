// One line: whether this run's output is that of an earlier player on the same prompt, and where they part; the place
// is marked in text and board.

import { el, setText } from "../player/dom.js";
import { pairOf } from "../player/field.js";
import { COUNTED, glyphs, many, tr } from "../player/words.js";

export const view = { title: "", place: 45, needs: [] };

const quoted = (text) => `‘${glyphs(text, 24)}’`;

/** The line in words. `other`: the number of the player compared with. */
export function tell({ unit, at, count, ours, theirs, limited, respelled }, other) {
  const far = limited ? tr` as far as both runs go` : "";
  if (at === null) return tr`Same text as player ${other}${far} (${many(count, unit)}).`;
  const start =
    at === 0
      ? tr`Differs from player ${other} from the first ${COUNTED[unit][0]}`
      : tr`Same text as player ${other} up to ${COUNTED[unit][0]} ${at}`;
  if (respelled)
    return tr`Same text as player ${other}, in other tokens from token ${at + 1}: \
${quoted(ours)} instead of ${quoted(theirs)}.`;
  if (!ours) return tr`${start}; then it ends where the other has ${quoted(theirs)}.`;
  return tr`${start}; then ${quoted(ours)} ${theirs ? tr`instead of ${quoted(theirs)}` : tr`where the other ends`}.`;
}

export class Difference {
  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.line = el("p", { class: "dx-differ", hidden: true });
    dom.append(this.line);
    this.met();
  }

  /** Runs of the group came, grew or went. */
  met() {
    const { run, context } = this,
      on = context.peers().filter((peer) => peer.run.header.prompt && peer.run.header.prompt === run.header.prompt);
    const known = on.flatMap((peer) => [peer.slot, peer.run, peer.run.end, peer.seen, pairOf(run, peer.run)]);
    if (this.known?.length === known.length && known.every((part, i) => part === this.known[i])) return;
    this.known = known;
    const first = on[0],
      ready = on.length > 1 && first.run !== run && first.run.end && run.end;
    const found = ready ? (pairOf(run, first.run)?.difference ?? null) : null,
      same = found?.at === null || Boolean(found?.respelled);
    const both = found ? on.filter((peer) => peer.run === first.run || peer.run === run) : [],
      shown = found && both.every((peer) => peer.seen);
    const certified =
      found && !same && run.header.lossless ? tr` On the page, the certificate under Results has both logits.` : "";
    const said = shown
      ? tell(found, first.slot + 1) + certified
      : on.length > 1 && first.run !== run
        ? tr`To be compared with player ${first.slot + 1} once both \
${found ? tr`were shown to their end` : tr`runs are over`}. `
        : "";
    this.line.hidden = !said;
    this.line.dataset.same = shown ? String(same) : "";
    setText(this.line, said);
    const reveal = () => both.forEach((peer) => peer.reveal()),
      look = { class: "dx-reveal", title: tr`Or play both to the end`, onclick: reveal };
    if (found && !shown) this.line.append(el("button", look, tr`Show now`));
    const mark = { position: found?.position, glyph: "≠", title: said, kind: "difference" };
    context.mark("difference", shown && found.position != null ? [mark] : []);
  }

  /** The line is about the finished outputs; their words are not told before both players have shown them. */
  show() {}

  describe(t) {
    return t === this.run.length && this.line.dataset.same ? this.line.textContent : "";
  }
}
