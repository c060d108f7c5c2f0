// The field for a picture file, at home, where a chosen model reads pictures. The file is sent to the server of this
// page, which answers with the prompt that holds what the model gets of it.

import { el } from "../player/dom.js";
import { tr } from "../player/words.js";
import { parsed } from "./dom.js";
import { takeFile } from "./download.js";
import { knownForms } from "./forms.js";
import { own } from "./scene.js";
import { sentence } from "./sentences.js";

const TYPES = "image/png,image/jpeg,image/gif,image/webp,image/bmp",
  KINDS = ["scene", "word"]; // what a model may read, as the catalogue says its tasks

const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** props.most: bytes of a file. props.value: what is sent, or JSON of {said, bad} from the server; trigger sends it. */
export function mountUpload(element, props, watch, trigger) {
  const field = el("input", { type: "file", accept: TYPES, id: "upload-file" });
  const line = el("p", { class: "status", role: "status" });
  const label = el("label", {}, `${tr`A picture of your own`} \u2026`, field);
  const root = el("div", { class: "upload", hidden: true }, label, line);
  let count = 0; // sending the same file twice is a change
  element.replaceChildren(root);

  const say = (text, bad) => {
    line.textContent = sentence(text);
    line.dataset.kind = bad ? "error" : "info";
  };

  /** What the first chosen model that reads pictures reads. */
  const kind = () => {
    const { catalogue, values } = knownForms();
    for (const { model } of values) {
      const { tasks = [] } = catalogue.models.find(({ name }) => name === model) ?? {},
        found = KINDS.find((one) => tasks.includes(one));
      if (found) return found;
    }
    return "";
  };

  async function send(file) {
    field.value = "";
    if (!file) return;
    if (file.size > props.most) {
      const [bytes, most] = [file.size, Number(props.most)].map((n) => n.toLocaleString("en"));
      return say(tr`The file has ${bytes} bytes; at most ${most} are taken. Save the picture smaller.`, true);
    }
    say(tr`Reading ${file.name} …`);
    try {
      props.value = JSON.stringify({ kind: kind(), base64: await base64(file), n: count++ });
      trigger("submit");
    } catch {
      say(tr`${file.name} could not be read by the browser.`, true);
    }
  }

  const told = () => {
    const { said, bad } = parsed(props);
    if (said) say(said, bad);
  };
  const draw = () => {
    root.hidden = !kind();
  };
  document.addEventListener("dx-prompt", () => {
    const text = document.querySelector("#prompt textarea")?.value ?? "";
    if (own(text) === null && line.dataset.kind === "info") say("");
  });
  takeFile(element, field, send);
  document.addEventListener("dx-form", draw);
  watch("value", told);
  draw();
}
