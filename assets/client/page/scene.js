// A scene in words and as things in cells, without a document. The text is the truth: what is drawn is read from it,
// and what a person draws is written as text. `words` are {asked, sizes, colours, shapes, rows, columns, fewest, most}
// of the models that see scenes; a thing is {size, colour, shape}, its cell a number from 0 in reading order.

/** The names of a cell, such as "top left". */
export const place = ({ rows, columns }, cell) =>
  `${rows[Math.floor(cell / columns.length)]} ${columns[cell % columns.length]}`;

/** A thing in words. */
export const named = ({ size, colour, shape }) => `${size} ${colour} ${shape}`;

const patterns = new WeakMap();

function pattern(words) {
  const anyOf = (names) => `(${[...names].join("|")})`,
    { sizes, colours, shapes, rows, columns } = words,
    thing = [anyOf(sizes), anyOf(Object.keys(colours)), anyOf(Object.keys(shapes))].join(" ");
  if (!patterns.has(words))
    patterns.set(words, new RegExp(`^${thing} (?:at )?(?:the )?${anyOf(rows)} ${anyOf(columns)}$`));
  return patterns.get(words);
}

/** {asked, things: Map of cells}, in reading order; null where a text describes nothing of the kind. A scene that is
    being made may have fewer things than one that can be asked. */
export function read(text, words) {
  const [, verb, said] = /^(?:([^:]*):)?([^:]*)$/.exec(text.toLowerCase()) ?? [],
    asked = verb === undefined ? words.asked[0] : verb.trim();
  if (said === undefined || !words.asked.includes(asked)) return null;
  const found = new Map();
  for (const part of said.trim() ? said.split(",") : []) {
    const told = pattern(words).exec(part.split(/\s+/).filter(Boolean).join(" "));
    if (!told) return null;
    const [, size, colour, shape, row, column] = told,
      cell = words.rows.indexOf(row) * words.columns.length + words.columns.indexOf(column);
    if (found.has(cell)) return null;
    found.set(cell, { size, colour, shape });
  }
  return { asked, things: inOrder(found) };
}

const inOrder = (things) => new Map([...things].sort(([a], [b]) => a - b));

/** The text of {asked, things}. */
export function written({ asked, things }, words) {
  const said = [...inOrder(things)].map(([cell, thing]) => `${named(thing)} ${place(words, cell)}`).join(", ");
  return asked === words.asked[0] ? said : `${asked}: ${said}`;
}

/** The things after a cell was filled with one, or emptied where the same stands there; null where no more fit. */
export function filled(things, cell, thing, { most }) {
  const there = things.get(cell),
    next = new Map(things);
  if (there && named(there) === named(thing)) next.delete(cell);
  else if (!there && things.size >= most) return null;
  else next.set(cell, { ...thing });
  return next;
}

// A picture of a person's own, as engines/tasks/blocks.py writes it: 36 blocks of 4 x 4 pixels, each a bit for every
// pixel and two colours of 3 x 6 bits, in nine digits.
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  [BLOCK, ACROSS, LENGTH, LEVEL] = [4, 6, 9, 6];
export const SIDE = BLOCK * ACROSS; // pixels of a picture

/** What stands behind `picture:` in a text; null for any other. */
export const own = (text) => /^(?:[^:]*:)?\s*picture\s*:([^:]*)$/i.exec(text)?.[1].replace(/\s+/g, "") ?? null;

/** Its pixels, red, green, blue and opacity of each; null where a text holds no picture of a scene's size. */
export function ownPixels(text) {
  const said = own(text);
  if (said?.length !== ACROSS ** 2 * LENGTH || /[^\w-]/.test(said)) return null;
  const found = new Uint8ClampedArray(4 * SIDE ** 2);
  for (let n = 0; n < ACROSS ** 2; n++) {
    const digits = [...said.slice(LENGTH * n, LENGTH * (n + 1))],
      bits = digits.map((one) => DIGITS.indexOf(one).toString(2).padStart(6, "0")).join(""),
      parts = bits.slice(-6 * LEVEL).match(/.{6}/g),
      colours = parts.map((part) => Math.round((parseInt(part, 2) * 255) / 63));
    [...bits.slice(2, 2 + BLOCK ** 2)].forEach((bit, i) => {
      const y = BLOCK * Math.floor(n / ACROSS) + Math.floor(i / BLOCK),
        x = BLOCK * (n % ACROSS) + (i % BLOCK);
      found.set([...colours.slice(3 * bit, 3 * bit + 3), 255], 4 * (SIDE * y + x));
    });
  }
  return found;
}

/** The numbered scene that a text names, {asked, number}; null where it names none. */
export function numbered(text, words) {
  const [, verb, number] = /^(?:([^:]*):)?\s*scene\s+(\d{1,3})\s*$/.exec(text.toLowerCase()) ?? [],
    asked = verb === undefined ? words.asked[0] : verb.trim();
  return number && words.asked.includes(asked) ? { asked, number: Number(number) } : null;
}

/** The text of the numbered scene behind the one that a text names, after the last one the first. */
export function another(text, words) {
  const { asked, number } = numbered(text, words) ?? { asked: read(text, words)?.asked ?? words.asked[0], number: 0 },
    next = `scene ${(number % words.numbered) + 1}`;
  return asked === words.asked[0] ? next : `${asked}: ${next}`;
}
