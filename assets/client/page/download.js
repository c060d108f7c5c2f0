// Saves files, also those that the server composed: {files: [{name, type, text or base64}]}. The server keeps none.

import { el } from "../player/dom.js";
import { parsed } from "./dom.js";

export function download({ name, type, text, base64 }) {
  const data = base64 === undefined ? text : Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const href = URL.createObjectURL(new Blob([data], { type }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

export const mountDownload = (props, watch) => watch("value", () => parsed(props).files?.forEach(download));
