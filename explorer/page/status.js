// One line that says what is going on: {kind: "info" | "ok" | "error", text, go?}. Errors are announced at once. `go` is the id of what a narrow
// screen, where the controls stand above the players, scrolls to; the focus stays where it is.
const line = element.querySelector(".status");
const draw = () => {
  let data;
  try { data = JSON.parse(props.value || "{}"); } catch { data = {}; }
  line.dataset.kind = data.kind ?? "info";
  line.setAttribute("role", data.kind === "error" ? "alert" : "status");
  line.textContent = data.text ?? "";
  if (data.go && matchMedia("(max-width: 700px)").matches) {
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    setTimeout(() => document.getElementById(data.go)?.scrollIntoView({ behavior }), 100); // its tab or its player may only now be shown
  }
};
draw();
watch("value", draw);
