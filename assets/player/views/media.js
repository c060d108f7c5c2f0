// The grid of picture tokens as it fills in, with boxes on it. The shade is the code's number, not a colour of the
// picture.

import { number, unpack } from "../codec.js";
import { el, setText, sizeCanvas } from "../dom.js";
import { ramp } from "../theme.js";
import { tr } from "../words.js";

export const view = { name: "Media", title: "Picture tokens", place: 25, needs: ["media"] };

export class Media {
  load(run, dom, context) {
    Object.assign(this, { run, context });
    this.canvas = el("canvas", { role: "img", "aria-label": tr`Grid of picture tokens` });
    this.say = el("p", "dx-readout");
    dom.append(this.say, this.canvas);
    this.grow();
  }

  grow() {
    this.top = Math.max(
      1,
      ...this.run.steps.map((step) =>
        step.media ? unpack(step.media.codes).values.reduce((a, b) => Math.max(a, b), 0) : 0,
      ),
    );
  }

  #latest(t) {
    return this.run.steps.slice(0, t).findLast((step) => step.media)?.media;
  }

  show(t) {
    const media = this.#latest(t);
    setText(this.say, this.describe(t));
    this.canvas.hidden = !media;
    if (!media) return;
    const {
        values,
        shape: [rows, columns],
      } = unpack(media.codes),
      size = Math.max(6, Math.min(24, Math.floor(280 / columns)));
    const pen = sizeCanvas(this.canvas, columns * size, rows * size),
      mode = this.context.mode(),
      colours = ramp(this.context.theme, mode),
      { line, accent, panel } = this.context.theme.surface[mode];
    values.forEach((code, i) => {
      const x = (i % columns) * size,
        y = Math.floor(i / columns) * size;
      pen.strokeStyle = line;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      if (code < 0) return;
      pen.fillStyle = colours[Math.round((code / this.top) * (colours.length - 1))].fill;
      pen.fillRect(x, y, size - 1, size - 1);
    });
    pen.strokeStyle = pen.fillStyle = accent;
    pen.lineWidth = 2;
    pen.font = "11px sans-serif";
    for (const box of media.boxes ?? []) {
      pen.strokeRect(box.column * size + 1, box.row * size + 1, box.width * size - 2, box.height * size - 2);
      if (!box.label) continue;
      pen.fillRect(box.column * size, box.row * size, pen.measureText(box.label.slice(0, 24)).width + 8, 16);
      pen.fillStyle = panel;
      pen.fillText(box.label.slice(0, 24), box.column * size + 4, box.row * size + 12);
      pen.fillStyle = accent;
    }
  }

  describe(t) {
    const media = this.#latest(t);
    if (!media) return tr`No picture yet.`;
    const { values } = unpack(media.codes),
      known = values.filter((code) => code >= 0).length;
    return tr`${known} of ${values.length} picture tokens known; shade: code number, 0 to ${number(this.top)}.`;
  }
}
