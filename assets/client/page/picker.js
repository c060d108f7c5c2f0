// Reads a trace file in the browser (plain or gzipped JSON) and hands its text over; the file itself is never uploaded.

import { tr } from "../player/words.js";
import { takeFile, textOf } from "./download.js";

export function mountPicker(element, props, trigger) {
  const input = element.querySelector("input");
  const limit = Number(props.limit);
  const report = (text) => {
    element.querySelector("output").textContent = text;
  };
  const read = async (file) => {
    if (!file) return;
    try {
      if (file.size > limit)
        throw new Error(
          tr`it has ${file.size.toLocaleString("en")} bytes; at most ${limit.toLocaleString("en")} are taken here`,
        );
      const packed = file.name.endsWith(".gz");
      const stream = packed ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
      const text = textOf(new Uint8Array(await new Response(stream).arrayBuffer()));
      report(tr`${file.name}: ${text.length.toLocaleString("en")} characters read.`);
      props.value = text;
      trigger("submit");
    } catch (error) {
      report(tr`${file.name} could not be read: ${error.message}.`);
    }
    input.value = "";
  };
  takeFile(element, input, read);
}
