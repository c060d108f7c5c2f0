// Searching and sorting, on the page and on the site. The heads of a table sort its rows: numbers by size, all else by
// letters, what is empty last. The second press turns the order round.

/** Whether an element has all words of a search. */
export const matching = (search) => {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return ({ textContent }) => {
    const text = textContent.toLowerCase();
    return words.every((word) => text.includes(word));
  };
};

const sortKey = (text) => {
  const number = /^\d{4}-\d\d/.test(text) ? null : text.match(/^-?\d[\d,]*(\.\d+)?/); // not a date
  return [number ? Number(number[0].replaceAll(",", "")) : Number.POSITIVE_INFINITY, text];
};
const sortBy = (body, column, turned) => {
  const keys = new Map([...body.rows].map((row) => [row, sortKey(row.cells[column].textContent.trim())]));
  const empty = (row) => /^[–-]?$/.test(keys.get(row)[1]);
  const order = (a, b) => (a[0] === b[0] ? a[1].localeCompare(b[1]) : a[0] - b[0]);
  const rows = [...keys.keys()].filter((row) => !empty(row)).sort((a, b) => order(keys.get(a), keys.get(b)));
  body.prepend(...(turned ? rows.reverse() : rows));
};
export const sortable = ({ tHead, tBodies: [body] }) => {
  const heads = [...tHead.rows[0].cells];
  for (const [column, head] of heads.entries()) {
    const button = Object.assign(document.createElement("button"), { className: "sorts" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      sortBy(body, column, turned);
    });
  }
};
