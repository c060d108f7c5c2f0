// Painting of a grid of picture tokens on a canvas. A frame says how: {size: of a cell, columns, rows, surface: its
// colours}.

/** fill: the colour of a cell, if it has one; inset: how much of it stays free on each side. */
export function cells(pen, { size, columns, rows, surface }, fill, inset = () => 0) {
  for (let i = 0; i < rows * columns; i++) {
    const x = (i % columns) * size,
      y = Math.floor(i / columns) * size,
      free = Math.round(inset(i) * size),
      colour = fill(i);
    pen.fillStyle = surface.line;
    pen.fillRect(x, y, size - 1, size - 1);
    if (!colour) continue;
    pen.fillStyle = colour;
    pen.fillRect(x + free, y + free, size - 1 - 2 * free, size - 1 - 2 * free);
  }
}

/** One line round all of some cells. */
export function outline(pen, { size, columns, surface }, some) {
  const inside = new Set(some),
    edge = (open, x1, y1, x2, y2) => {
      if (!open) return;
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
    };
  Object.assign(pen, { strokeStyle: surface.accent, lineWidth: 3 });
  pen.beginPath();
  for (const cell of some) {
    const x = (cell % columns) * size,
      y = Math.floor(cell / columns) * size;
    edge(!inside.has(cell - columns), x, y, x + size, y);
    edge(!inside.has(cell + columns), x, y + size, x + size, y + size);
    edge(cell % columns === 0 || !inside.has(cell - 1), x, y, x, y + size);
    edge((cell + 1) % columns === 0 || !inside.has(cell + 1), x + size, y, x + size, y + size);
  }
  pen.stroke();
}

/** A filled corner of a cell. */
export function corner(pen, { size, columns }, cell, colour) {
  const x = (cell % columns) * size,
    y = Math.floor(cell / columns) * size;
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x + size, y);
  pen.lineTo(x + size, y + 0.6 * size);
  pen.lineTo(x + 0.4 * size, y);
  pen.fill();
}

/** Boxes with their labels. */
export function boxes(pen, some, { size, surface: { accent, panel } }) {
  Object.assign(pen, { lineWidth: 2, font: "12px sans-serif" });
  for (const { row, column, width, height, label } of some) {
    pen.strokeStyle = pen.fillStyle = accent;
    pen.strokeRect(column * size + 1, row * size + 1, width * size - 2, height * size - 2);
    if (!label) continue;
    pen.fillRect(column * size, row * size, pen.measureText(label.slice(0, 24)).width + 8, 16);
    pen.fillStyle = panel;
    pen.fillText(label.slice(0, 24), column * size + 4, row * size + 12);
  }
}
