// The heads of a table sort its rows, on the page and on the site: numbers by size, all else by letters, what is empty
// last. The second press turns the order round.
const sortKey = (text) => {
  const number = /^\d{4}-\d\d/.test(text) ? null : text.match(/^-?\d[\d,]*(\.\d+)?/); // not a date
  return number ? Number(number[0].replaceAll(",", "")) : text.toLowerCase();
};
const inOrder = (a, b) => {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return typeof a === "number" ? a - b : a.localeCompare(b);
};
const sortBy = (table, column, turned) => {
  const body = table.tBodies[0],
    rows = [...body.rows].map((row) => ({ row, text: row.cells[column].textContent.trim() })),
    empty = ({ text }) => /^[–-]?$/.test(text);
  const told = rows.filter((one) => !empty(one)).sort((a, b) => inOrder(sortKey(a.text), sortKey(b.text)));
  body.append(...[...(turned ? told.reverse() : told), ...rows.filter(empty)].map(({ row }) => row));
};
const sortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  for (const [column, head] of heads.entries()) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "sorts" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      sortBy(table, column, turned);
    });
  }
};
