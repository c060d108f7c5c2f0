// A table or a set of facts from JSON: {caption, columns, rows: [[cell]], empty}. A cell is text or {text, href, mark: "right" | "wrong", quiet, long}.
// Text only ever goes through textContent.
const make = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const MARKS = { right: "✓ ", wrong: "✗ " };
const cellOf = (cell) => {
  const { text = "", href = null, mark = null, quiet = false, long = false } = typeof cell === "object" && cell ? cell : { text: String(cell ?? "") };
  const shown = (MARKS[mark] ?? "") + text;
  const inner = href && /^https:\/\//.test(href) ? make("a", { href, target: "_blank", rel: "noopener noreferrer" }, shown) : document.createTextNode(shown);
  return [inner, { "data-mark": mark, "data-quiet": quiet ? "" : null, "data-long": long ? "" : null }];
};
const draw = () => {
  let data;
  try { data = JSON.parse(props.value || "{}"); } catch { data = {}; }
  const { caption = "", columns = [], rows = [], empty = "" } = data;
  const root = element.querySelector(".facts");
  if (!rows.length) return root.replaceChildren(make("p", { class: "quiet" }, empty));
  const head = columns.length ? make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)))) : "";
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, i) => {
    const [inner, attributes] = cellOf(cell);
    return i ? make("td", { ...attributes, "data-label": columns[i] ?? "" }, inner) : make("th", { scope: "row", ...attributes }, inner);
  }))));
  root.replaceChildren(make("table", {}, make("caption", {}, caption), head, body));
  root.dataset.rows = rows.length;
};
draw();
watch("value", draw);
