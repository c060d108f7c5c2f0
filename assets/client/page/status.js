// One line that says what is going on: {kind: "info" | "ok" | "error", text, go?}. Errors are announced at once. `go`
// is the id of what to scroll to unless it is in sight: a single player, or all of them ("stage"); where the controls
// stand beside those, only when they begin above the window, as after a recording far down in the gallery. The focus
// stays where it is.

import { announce, parsed } from "./dom.js";

const lead = (id) => {
  const node = document.getElementById(id);
  if (id.startsWith("panel-"))
    node?.querySelector(".dx-panel")?.dispatchEvent(new CustomEvent("dx-choose", { bubbles: true }));
  const top = node?.getBoundingClientRect().top;
  if (
    !node ||
    (top > 0 && top < innerHeight / 2) ||
    (id === "stage" && top > 0 && !matchMedia("(max-width: 700px)").matches)
  )
    return;
  node.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  announce("dx-moved");
};

export function mountStatus(element, props, watch) {
  const line = element.querySelector(".status");
  const draw = () => {
    const data = parsed(props);
    line.dataset.kind = data.kind ?? "info";
    line.setAttribute("role", data.kind === "error" ? "alert" : "status");
    line.textContent = data.text ?? "";
    if (data.go) setTimeout(() => lead(data.go), 100); // it may only now be shown
  };
  draw();
  watch("value", draw);
}
