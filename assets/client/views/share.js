// The buttons that copy: a link, made here; a Python script, asked from the server, which answers with {text} or
// {said}.

import { tr } from "../player/words.js";

/** A text to the clipboard; where the browser forbids it the field with the text is selected instead. Says what it
 * did. */
async function copy(text, field, say) {
  field.value = text;
  field.hidden = false;
  try {
    await navigator.clipboard.writeText(text);
    say(tr`Copied.`);
  } catch {
    field.focus();
    field.select();
    say(tr`Press Ctrl+C (or ⌘C) to copy it.`);
  }
}

/** link: gives {text} with the whole address, {without: [names]} or null. */
export function share(element, props, watch, trigger, link) {
  const [linkButton, pythonButton] = element.querySelectorAll("button"),
    field = element.querySelector("textarea");
  const say = (text) => (element.querySelector("output").textContent = text);
  linkButton.addEventListener("click", () => {
    const made = link();
    if (made?.text) return copy(made.text, field, say);
    say(
      made
        ? tr`There is no link to ${made.without.join(tr` and `)}: that run is not kept. ` +
            tr`Keep it under “Save and open”, or save it as a file.`
        : tr`Nothing is shown that a link could lead to.`,
    );
  });
  pythonButton.addEventListener("click", () => {
    props.value = JSON.stringify({ ask: Date.now() });
    trigger("submit");
  });
  watch("value", () => {
    const { text, said } = props.value ? JSON.parse(props.value) : {};
    if (text) copy(text, field, say);
    else if (said) say(said);
  });
}
