// Files: saved, also those that the server composed, {files: [{name, type, text or base64}]}, of which it keeps none;
// and read, where a person brings one.

import { el } from "../player/dom.js";
import { parsed } from "./dom.js";

export function download({ name, type, text, base64 }) {
  const data = base64 === undefined ? text : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const href = URL.createObjectURL(new Blob([data], { type }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

const WIDE = { "255,254": "utf-16le", "254,255": "utf-16be" };

/** The text of a file: UTF-8, or UTF-16 where Windows wrote it. A mark in front says which, and the decoder leaves it
 * out. */
export const textOf = (bytes) => new TextDecoder(WIDE[bytes.subarray(0, 2).join()] ?? "utf-8").decode(bytes);

/** Calls `read` with a file that is chosen in the field, or dropped into the element. */
export function takeFile(element, field, read) {
  field.addEventListener("change", () => read(field.files[0]));
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
}

export const mountDownload = (props, watch) => watch("value", () => parsed(props).files?.forEach(download));
