// Follows links between the texts without leaving the page, and the one that the page was opened with (?doc=NAME). The
// text that is shown stands in the address.

import { announce } from "./dom.js";

export function mountDocs(props, trigger) {
  let shown = null;
  const open = (name) => {
    shown = props.value = name;
    trigger("submit");
  };
  const say = (name) => announce("dx-at", { doc: name });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('#docs a[href*="?doc="]');
    if (!link) return;
    event.preventDefault();
    const name = new URL(link.href).searchParams.get("doc");
    open(name);
    say(name);
  });
  document.addEventListener("dx-chosen-doc", ({ detail }) => {
    shown = detail;
    say(detail);
  });
  // Back, or Forward; without a name the tab shows its first text
  document.addEventListener("dx-place", ({ detail: { name, tab } }) => {
    const text = name || props.first;
    if (tab === "docs" && text !== (shown ?? props.first)) open(text);
  });
  const wanted = new URLSearchParams(location.search).get("doc");
  if (wanted) open(wanted);
}
