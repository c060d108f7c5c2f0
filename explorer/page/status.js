// One line that says what is going on: {kind: "info" | "ok" | "error", text}. Errors are announced at once.
const line = element.querySelector(".status");
const draw = () => {
  let data;
  try { data = JSON.parse(props.value || "{}"); } catch { data = {}; }
  line.dataset.kind = data.kind ?? "info";
  line.setAttribute("role", data.kind === "error" ? "alert" : "status");
  line.textContent = data.text ?? "";
};
draw();
watch("value", draw);
