// What else is known of the run: where it comes from, what it promises, what differs from the paper, on what machine.

import { el } from "../player/dom.js";
import { ofModel } from "../player/receipt.js";
import { seconds, tr, translated } from "../player/words.js";

export const view = { title: "About this run", place: 220, needs: [] };

/** What a run promises of its text, from its header; "" where nothing. */
export function promise({ lossless, models }) {
  if (!lossless) return "";
  if (models?.[0]?.options?.row_invariant) return tr`lossless against a control that is row-invariant, too`;
  return models?.every(({ dtype }) => dtype === "float32")
    ? tr`lossless`
    : tr`lossless in float32; near-ties may flip here`;
}

export class About {
  load(run, dom) {
    const { header } = run,
      { missing = [] } = header,
      own = header.imported_from || header.method === "watched";
    const rows = [
      [tr`family`, translated(header.family)],
      [tr`promise`, promise(header)],
      [tr`rests on`, header.own && translated(header.own)],
      ...(header.models ?? []).map((model) => [translated(model.role), ofModel(model)]),
      [tr`machine`, header.machine],
      [tr`warm-up`, header.warmup_seconds ? tr`${seconds(header.warmup_seconds)}, not counted` : ""],
      [tr`seed`, run.missing.has("seed") ? "" : String(header.seed)],
      [tr`imported`, header.imported_from],
      [tr`not recorded`, missing.join(", ").replaceAll("_", " ")],
      [own ? tr`this record` : tr`differs from the paper`, translated(header.departures)],
    ];
    dom.append(
      el("dl", "dx-about", ...rows.flatMap(([name, text]) => (text ? [el("dt", {}, name), el("dd", {}, text)] : []))),
    );
  }
}
