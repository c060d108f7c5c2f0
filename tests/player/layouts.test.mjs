// Where the marks of ten views stand: inside their drawing, none of a kind on another, one for each event and in the
// order of what they tell. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";

const box = ({ x, y, w, h, width = w, height = h }) => ({ x, y, right: x + width, foot: y + height });
const meet = (a, b) => a.x < b.right - 0.01 && b.x < a.right - 0.01 && a.y < b.foot - 0.01 && b.y < a.foot - 0.01;
const count = (all, yes = Boolean) => all.filter(yes).length;
const FRAMES = ["boxes", "nets", "odd", "tail", "slabs", "feet"]; // which words may stand in
const numbers = (path) => path.match(/-?[\d.]+/g).map(Number);
const said = (x, y, anchor, text) => {
  const w = 5 * text.length;
  return { x: x - w * { start: 0, middle: 0.5, end: 1 }[anchor], y: y - 11, w, h: 11, text };
};
const isNew = ({ state }) => state === "new";
const middle = (one, w, h) => ({ x: one.x - w / 2, y: one.y, w, h });

/** draw: of a record at a width what is asked of it: {height, labels, boxes: by kind, counts: by kind, rows: of places
 * in the order of what they tell, equal: pairs}. */
function laws(name, widths, records, draw) {
  test(`marks stand in the drawing, one for each event, and none on another: ${name}`, () => {
    for (const [which, record] of Object.entries(records))
      for (const width of widths) {
        const { height, labels, boxes, counts = {}, rows = [], equal = [] } = draw(record, width),
          at = `${which} at ${width}`,
          words = labels.map(([x, y, anchor, text]) => said(x, y, anchor, String(text)));
        assert.doesNotMatch(
          JSON.stringify([labels, boxes, rows], (_, v) => v ?? "?"),
          /NaN|undefined|"\?"/,
          at,
        );
        for (const [kind, all] of Object.entries({ words, ...boxes })) {
          assert.equal(all.length, counts[kind] ?? all.length, `${kind} of ${at}`);
          const seen = all.map(box);
          for (const [i, one] of seen.entries()) {
            const told = `${kind} ${i} of ${at}: ${JSON.stringify(all[i])}`;
            assert.ok(one.x >= 0 && one.x < one.right && one.right <= width + 0.01, told);
            assert.ok(one.y >= 0 && one.foot <= height, told);
            assert.ok(!seen.slice(i + 1).some((other) => meet(one, other)), told);
          }
        }
        const marks = Object.entries(boxes).flatMap(([kind, all]) => (FRAMES.includes(kind) ? [] : all.map(box)));
        for (const one of words) assert.ok(!marks.some((mark) => meet(mark, box(one))), `${one.text} at ${at}`);
        for (const [found, wanted] of equal) assert.deepEqual(found, wanted, at);
        for (const row of rows) assert.ok(!row.some((x, i) => x < row[i - 1]), `${at}: ${row}`);
      }
  });
}

const vote = await asset("views/vote.js");
const tally = (rule, shares, winner, more) => ({ rule, shares, winner, ...more });
const VOTE = {
  answers: ["12", "a long answer", "7"],
  of: [0, 1, 0, -1, 2],
  voters: [1, 2, 3, 4, 5],
  weights: [0.4, 0.1, 0.2, 0.3, 0.05],
  copies: [-1, -1, 0, -1, -1],
  tallies: [
    tally("RPC", [0.5, 0.2, 0, 0, 0], 0),
    tally("self-consistency", [1, 1, 1, 0, 1], 0, { tied: true }),
    tally("own rule", [0, 0.25, 0, 0, 0.25], 1),
  ],
};
const MANY = {
  answers: Array.from({ length: 9 }, (_, i) => `answer ${i}`),
  of: [0, 1, 2, 3, 4, 5, 6, 7, 8, 8],
  weights: Array(10).fill(0.1),
  voters: Array.from({ length: 10 }, (_, i) => i),
  removed: Array.from({ length: 10 }, (_, i) => i < 5),
  tallies: [tally("perplexity", Array(10).fill(0.1), 8), tally("RPC", [0, 0, 0, 0, 0, ...Array(5).fill(0.2)], -1)],
};
const votes = {
  three: VOTE,
  many: MANY,
  "without weights": { ...VOTE, weights: [0, 0, 0, 0, 0], copies: undefined },
  "none that can be read": { ...VOTE, of: [-1, -1, -1, -1, -1], tallies: [tally("RPC", [0, 0, 0, 0, 0])] },
  whole: { ...VOTE, whole: {} },
};
laws("a vote", [340, 521, 760, 1150], votes, (one, width) => {
  const { parts, height, labels } = vote.layout(one, width, 0),
    { boxes, blocks, strip, marks, feet } = parts,
    likely = strip.filter(({ x }) => !marks.length || x < marks[0].x);
  for (const block of blocks.map(box))
    assert.ok(boxes.map(box).some((rule) => block.x >= rule.x && block.right <= rule.right && meet(block, rule)));
  if (marks.length) assert.ok(Math.abs(box(marks[0]).right - box(strip.at(-1)).right) < 0.01, "below what was dropped");
  return {
    ...{ height, labels, boxes: { boxes, blocks, strip, marks, feet } },
    counts: {
      boxes: one.tallies.length,
      strip: !one.whole && one.weights.some(Boolean) ? count(one.of, (of) => of >= 0) : 0,
    },
    rows: [strip.map(({ x }) => x), likely.map(({ h }) => -h)],
  };
});
test("each answer stands once below each rule, and its verdict in its colour", () => {
  const { labels, parts } = vote.layout(VOTE, 1150, 0),
    verdicts = parts.feet.flatMap(({ state }) => state ?? []);
  for (const answer of ["12", "7"]) {
    const found = labels.filter(([, , , text]) => text === answer);
    assert.equal(found.length, 3, answer);
  }
  const others = vote.layout(MANY, 1150, 0).labels.filter(([, , , text]) => text === "others");
  assert.equal(others.length, 2, "a column for each of six answers, and one for all others");
  assert.deepEqual(verdicts.sort(), ["accepted", "accepted", "rejected"]);
});

const filter = await asset("views/filtering.js");
const cell = (token, step) => ({ token, entry: step === null ? undefined : { step } });
const ANSWER = [cell(1, null), cell(2, null), cell(3, 0), cell(4, 1), cell(null, 1), cell(5, 0), cell(6, 1)];
const FILTER = {
  masked: [true, true, false, true, true, true],
  confidence: [0.9, 0.5, 0.1, 0.796, 0.4, 0.85],
  filter: [0.7, 0.1, 0, 0.55, 0.5, 0.2],
  ...{ start: 3, length: 8, end: 8, end_confidence: 0.77 },
};
const filters = {
  six: FILTER,
  "an end mark": { ...FILTER, end: 5 },
  "no filter": { ...FILTER, filter: [] },
  "an oracle": { ...FILTER, filter: [], oracle: [true, false, true, true, false, false] },
  one: { ...FILTER, masked: [true], confidence: [0.3], filter: [0.2] },
  many: { ...FILTER, masked: Array(24).fill(true), confidence: Array(24).fill(0.3), filter: Array(24).fill(0.2) },
};
laws("a trained filter", [330, 640, 1150], filters, (told, width) => {
  const own = told.masked.map((open, i) => open && (told.filter[i] ?? Number(told.oracle?.[i] ?? i === 0)) > 0.5),
    plain = told.masked.map((open, i) => open && told.confidence[i] >= 0.8),
    asked = { width, theta: 0.8, tau: 0.5, plain, own, word: (i) => `w${i}` },
    made = filter.layout(told, { ...asked, answer: { board: ANSWER, t: 2, first: 2, all: 10 } }),
    readers = told.filter.length || told.oracle ? 2 : 1,
    written = count(plain) + (readers > 1 ? count(own) : 0);
  return {
    equal: [
      [count(made.marks, isNew), written],
      [made.scissors[1][1].d !== "", told.end < told.length], // where an end mark cut
    ],
    ...{ height: made.height, labels: made.labels },
    boxes: {
      cells: made.cells.map((one) => middle(one, 20, 10)),
      marks: made.marks.map(({ x, w, foot, value }) => middle({ x, y: foot - 56 * value }, w, 56 * value)),
      nets: made.net.map(([, , [, frame]]) => frame),
      odd: made.odd.map(([, frame]) => frame),
      strip: made.strip.map(([, frame]) => frame),
    },
    counts: {
      cells: 2 * own.length,
      marks: count(told.masked) * readers,
      odd: count(own, (yes, i) => yes !== plain[i]),
      strip: 10,
    },
    rows: [made.strip.map(([, { x }]) => x)],
  };
});

const left = await asset("views/leftalone.js");
const WRITTEN = { texts: ["so ", "it is", " 4", ""], starts: [0, 1, 2], kinds: ["thought", "doubt", "answer"] };
const OWN = { ...WRITTEN, sign: "(5)" };
const BARELY = { texts: ["perhaps it is 4 or ", "5, no, it is 4"], starts: [0, 1], kinds: ["again", "odd"] };
const ALONE = { ...BARELY, sign: "" };
const put = (at, drawn, is, before = 0.5, after = 0.25) => ({ at, drawn, put: is, before, after });
const CHAIN = {
  ...{ own: OWN, alone: ALONE, longest: 33, over: false, stop: null },
  done: [put(1, "Wait", true), put(2, null, false)],
};
const NOTHING = { ...OWN, texts: [], starts: [], kinds: [] };
const chains = {
  "on the way": CHAIN,
  over: { ...CHAIN, over: true },
  "cut off": { ...CHAIN, over: true, stop: { value: 0.93, threshold: 0.9 } },
  "nothing yet": {
    ...{ ...CHAIN, own: NOTHING, alone: NOTHING, longest: 0 },
    done: [put(0, null, true), put(0, "x", false, 0.3, 0.296)],
  },
};
laws("a chain of thought left alone", [340, 420, 700, 1150], chains, (one, width) => {
  const { height, labels, own, alone, ...made } = left.layout({ ...one, width }),
    placed = ([{ transform }, ...parts]) => {
      const [x, y] = numbers(transform);
      return { x, y, w: parts.find(([tag]) => tag === "rect")[1].width, h: left.CARD };
    },
    cards = { own: own.map(placed), alone: alone.map(placed) },
    tail = made.tail.map(([, frame]) => frame),
    end = (all) => all.at(-1).x + all.at(-1).w;
  for (const one of tail.map(box)) {
    assert.ok(Math.abs(one.x - end(cards.own)) < 12 && Math.abs(one.right - end(cards.alone)) < 12, "what was saved");
    assert.ok(own[0] && box(cards.alone[0]).foot < one.foot && cards.alone[0].y > one.y);
  }
  for (const { x, w } of made.tabs.map(placed)) {
    const wide = cards.own.find((card) => card.x === x)?.w ?? 0;
    assert.equal(Math.round(w), Math.round(Math.max(60, wide)), "as much room as its card");
  }
  return {
    equal: [[made.tabs.length, count(one.done, ({ put, before, after }) => put || before - after > 0.005)]],
    ...{ height, labels },
    boxes: { ...cards, tail },
    counts: { own: one.own.starts.length, alone: one.alone.starts.length, tail: Number(one.over) },
    rows: [cards.own, cards.alone].map((all) => all.map(({ x }) => x)),
  };
});
test("cards lie side by side in the order of their text", () => {
  const [one, two, three] = left.cards(OWN.texts, OWN);
  assert.deepEqual([one.from, one.to, two.from, two.to, three.from, three.to], [0, 3, 3, 8, 8, 10]);
  assert.deepEqual([one.text, three.text], ["so ", " 4"]);
});

const pauses = await asset("views/pauses.js");
const words = (...texts) =>
  texts.map((text, i) => ({ text, H: i % 3 ? 0.5 * i : null, paused: i === 2, overruled: i === 4 }));
const FUTURES = [
  { tokens: [1, 2, 3], p: 0.5, mean: 0.4, won: false },
  { tokens: [4], p: 0.3, mean: 0.6, won: true },
  { tokens: [5, 6, 7, 8, 9, 10, 11, 12], p: 0.004, mean: 0, won: false },
];
const PAUSE = { written: words("def", " f", "(x):\n", "  return", " x"), line: 1.2, rows: FUTURES, at: 5, now: true };
const paused = {
  now: PAUSE,
  before: { ...PAUSE, now: false },
  "no code": { ...PAUSE, written: [], rows: [], at: 0, now: false },
  "many lines": { ...PAUSE, written: words(..."a\nb\nc\nd\ne\nf\ng\nh".split(/(?<=\n)/)), line: 0 },
  certain: { ...PAUSE, rows: FUTURES.map((row) => ({ ...row, mean: 0 })) },
};
laws("pauses", [340, 600, 760, 1150], paused, (one, width) => {
  const over = ({ H }) => H >= one.line,
    made = pauses.layout({ ...one, width, word: (token) => `word${token}`, pauses: over });
  for (const { class: look, ...bar } of made.bars) {
    const crossed = made.dashed.some((d) => numbers(d)[1] >= bar.y - 0.01 && numbers(d)[1] <= box(bar).foot);
    assert.equal(look === "dx-over", crossed, "a bar of a pause crosses the dashed line");
  }
  assert.ok(made.code.every(({ y, box }) => box.y < y && y < box.y + 20));
  return {
    equal: [
      [count(made.tokens, isNew), count(one.rows, ({ won }) => won)],
      [made.dashed.length, one.written.length ? new Set(made.code.map(({ y }) => y)).size : 1],
      [made.arcs.length, one.now && width >= 760 ? one.rows.length : 0],
    ],
    ...{ height: made.height, labels: made.labels },
    boxes: {
      bars: made.bars,
      code: made.code.map(({ box: { x, y, width } }) => ({ x: x + 1, y, w: width - 2, h: 16 })),
      tokens: made.tokens.map((token) => middle(token, token.wide, 20)),
      scores: made.scores.map((score) => ({ ...score, height: 12 })),
    },
    counts: { scores: one.rows.length },
    rows: [made.scores.map(({ y }) => y)],
  };
});

const arena = await asset("views/arena.js");
const part = (name, start, end) => ({ name, start, end, measured: true });
const FULL = [part("weights", 0, 1000), part("cache", 1000, 1300), part("rest", 1300, 1310)];
const ARENA = {
  ...{ group: "arena", base: 1000, top: 1500, limits: [1400, null, 2000], names: ["weights", "cache", "rest"] },
  at: [[part("weights", 0, 1000), part("cache", 1000, 1100)], [], FULL],
};
const GROUPS = [
  ["arena", FULL],
  ["other", [part("weights", 0, 1000), part("cache", 1000, 1500)]],
  ["odd", [part("x", 0, 5), part("y", 5, 9)]],
  ["one", [part("z", 0, 9)]],
];
const arenas = {
  "from the first part on": [ARENA, new Map(GROUPS)],
  "from nothing on": [{ ...ARENA, base: 0 }, new Map(GROUPS)],
  empty: [{ ...ARENA, at: [], limits: [], names: [], base: 0, top: 1 }, new Map()],
};
laws("an arena", [340, 640, 1150], arenas, ([one, groups], width) => {
  const drawing = { ...one, width },
    { boxes, words, height } = arena.below(drawing, groups),
    { paths } = arena.areas(drawing),
    like = [...groups.values()].filter((parts) => parts.length > 1 && (!one.base || parts[0].name === "weights")),
    ends = boxes.map(({ x, w }) => x + w - arena.leftOf(drawing));
  const told = one.names.map((name) => count(one.at.flat(), (part) => part.name === name && part.end > one.base));
  const tops = paths.join("").matchAll(/V([\d.]+)h/g);
  for (const [, y] of tops) assert.ok(y >= 8 && y <= arena.HIGH, `an area up to ${y}`);
  const room = width - arena.leftOf(drawing) - (width < 640 ? 70 : 110);
  if (boxes.length) assert.ok(Math.abs(Math.max(...ends) - room) < 0.01, "the largest fills the room");
  return {
    equal: [[paths.map((path) => path.split("M").length - 1), told]],
    ...{ height, labels: words, boxes: { boxes: boxes.map((part) => ({ ...part, h: arena.ROW - 8 })) } },
    counts: { boxes: like.flatMap((parts) => parts.slice(one.base ? 1 : 0)).length },
  };
});
test("fills of parts come again after the last", () => {
  assert.equal(arena.fill(0), arena.fill(8));
  assert.notEqual(arena.fill(0), arena.fill(1));
});

const tree = await asset("views/tree.js");
const row = (parent, why = "accepted", value = null) => ({ parent, why, value });
const TREE = { tails: false, all: 3, wide: 800, byPass: false, aligned: false, least: 0, plan: () => ({ w: 0, h: 0 }) };
const beside = { least: 200, plan: (width) => ({ w: Math.min(width, 250), h: 120 }) };
const BARE = [row(-1, "root"), row(0)];
const MANY_ROWS = Array.from({ length: 206 }, (_, i) => (i < 10 ? row(0) : row(1 + (i % 10), "unreached")));
const EXACT = { least: 800 - 64 - 308, plan: (w) => ({ w: w / 2, h: 20 }) };
const trees = {
  tails: [false, { tails: true, rows: [...BARE, row(0, "mismatch"), row(1)] }],
  passes: [false, { byPass: true, rows: [...BARE, row(1, "accepted", 1), row(0, "mismatch", 2)] }],
  sources: [false, { ...beside, rows: [...BARE, row(0), row(2)] }],
  "sources above": [true, { ...beside, aligned: true, rows: [...BARE, row(0, "unreached")] }],
  "sources that have no room beside": [true, { ...beside, wide: 340, rows: BARE }],
  "sources that fit exactly": [false, { ...EXACT, rows: BARE }],
  folded: [false, { rows: [row(-1, "root"), ...MANY_ROWS] }],
};
laws("a draft tree", [800], trees, ([over, more]) => {
  const one = { ...TREE, ...more },
    rows = one.rows.map((each) => ({ ...each })),
    made = tree.layout({ ...one, rows }),
    { w, h } = one.plan(over ? 800 : 250),
    sources = w ? [{ x: 0, y: made.top, w: Math.min(w, 190), h }] : [],
    folded = rows.reduce((sum, each) => sum + (each.folded ?? 0), 0);
  const { length: kept } = made.kept;
  for (const i of made.kept.slice(1)) {
    const [from, to] = [rows[i].parent, i].map((each) => made.at[made.number.get(each)]);
    assert.ok(from.x + from.w < to.x, "children stand behind their parents");
  }
  return {
    equal: [
      [
        [made.over, made.edges.length, folded],
        [over, kept - 1, rows.length - kept],
      ],
      [
        [kept <= 200, folded > 0],
        [true, rows.length > 200],
      ],
    ],
    height: made.h,
    labels: made.slabs.map(({ name, text }) => [name.x, name.y, "start", text]),
    boxes: { at: [...sources, ...made.at], slabs: made.slabs.map(({ box }) => ({ ...box, y: 1 })) },
    counts: { slabs: one.byPass ? 2 : 0 },
  };
});

const origins = await asset("views/origins.js");
// biome-ignore format: a table
const SOURCES = [{ kind: "text", links: [[0, 0], [1, 2], [9, 0]] }, { kind: "model", links: [[1, -1], [0, 3]] }];
const NODES = [300, 420].map((x, i) => ({ x, y: 4 + 56 * i, w: 80, h: 24 }));
const THREADS = {
  ...{ sources: SOURCES, states: ["accepted", "rejected"], at: (row) => NODES[row] },
  ...{ x: 0, y: 20, left: 100, w: 26, pitch: 29, cells: 3, above: false, over: false },
};
test("threads go from their source to their node", () => {
  for (const more of [{}, { over: true }, { above: true, over: true }, { y: 4 }, { sources: [] }]) {
    const given = { ...THREADS, ...more },
      made = origins.threads(given),
      seen = ([row, cell]) => NODES[row] && (!given.above || (cell >= 0 && cell < given.cells)),
      links = given.sources.flatMap((one) => one.links.filter(seen));
    assert.equal(made.length, links.length);
    for (const { d, "data-row": row, "data-cell": cell, "data-line": line } of made) {
      const [x, y, ...rest] = numbers(d),
        node = NODES[row],
        top = given.y + line * origins.LINE,
        end = given.over ? [node.x + node.w / 2, node.y] : [node.x, node.y + node.h / 2],
        from = cell < 0 ? given.left : given.left + 6 + cell * given.pitch + given.w / 2;
      assert.deepEqual([x, ...rest.slice(-2)], [from, ...end]);
      assert.equal(y, cell < 0 ? top + 12 : end[1] >= top + 12 ? top + origins.H : top);
    }
  }
});

const bars = await asset("views/bars.js");
const BOARD = { columns: 4, w: 50, gap: 3, gutter: 30, first: 2 };
const SCORES = [NaN, NaN, 0.5, 0.9, 0, NaN, 0.3, 1, 0.7, 0.2];
const SAME = { value: (p) => SCORES[p] };
test("a bar stands at the foot of its cell, and its line over the whole row", () => {
  const g = bars.gridOf(BOARD, 3, 10),
    on = { g, start: 3, widest: 10, y: (v) => g.h - g.h * v, written: new Set([3, 8]), inside: (p) => p < 9 },
    lifted = (base) => bars.layout({ ...on, ...SAME, base }).lift.length,
    made = bars.layout({ ...on, ...SAME, base: null });
  for (const kind of ["now", "rest", "out"]) {
    const places = [3, 4, 6, 7, 8, 9].filter((p) => (p === 3 || p === 8 ? "now" : p < 9 ? "rest" : "out") === kind),
      found = made[kind].map((path) => numbers(path).slice(0, 2));
    const corners = places.map((p) => [37 + ((p - 2) % 4) * 53, g.h + g.rowHeight * (p > 5)]);
    assert.deepEqual(found, corners);
  }
  assert.deepEqual([null, (p) => SCORES[p] - 0.2, SAME.value, () => NaN].map(lifted), [0, 5, 0, 0]);
  assert.deepEqual(bars.layout({ ...on, value: null, base: null }).rest, []);
  const level = [...bars.lineOf({ ...on, threshold: 0.6 }).matchAll(/M[\d.]+,([\d.]+)/g)].map(([, y]) => Number(y)),
    high = [0, 1].map((row) => Number((0.4 * g.h + row * g.rowHeight).toFixed(1)));
  assert.deepEqual(level, high);
  assert.equal(
    count([...bars.lineOf({ ...on, lines: (p) => (p === 7 ? NaN : SCORES[p]) })], (c) => c === "h"),
    5,
  );
  assert.equal(bars.lineOf(on), "");
});
test("rows of bars are as high as there is room", () => {
  const rows = [1, 5, 40].map((widest) => bars.gridOf(BOARD, 2, widest)),
    high = rows.map(({ rows, h }) => `${rows} of ${h}`);
  assert.deepEqual(high, ["1 of 96", "1 of 96", "10 of 28"]);
});

const operators = await asset("views/operatormaps.js");
test("the prompt's step and the last ones are shown, as many as have room", () => {
  for (const t of [0, 1, 5, 6, 40]) {
    const { steps, pitch } = operators.columnsOf(t, 560);
    assert.deepEqual([steps[0] ?? 1, steps.at(-1) ?? 0], [1, t]);
    assert.ok(steps.length <= Math.max(2, Math.floor(560 / 66)) && pitch >= 66);
    assert.ok(steps.slice(2).every((step, i) => step - steps[i + 1] === 1));
  }
});

const tokens = await asset("views/tokens.js");
test("a board that scrolls shows what was written last, from its first place on", () => {
  const grid = { columns: 4, w: 50, gap: 3, gutter: 0, rowHeight: 40, height: 400, first: 2 };
  // biome-ignore format: a table
  for (const [top, written, most, stands] of [
    [0, [4], 3, 0], [0, [14], 3, 40], [0, [18], 3, 80], [200, [18], 3, 160], [200, [4, 5], 3, 0],
    [80, [14, 40], 3, 120], [120, [], 3, 0], [70, [3], 10, 70], [70, [3], Infinity, 70], [70, [3], 9, 0],
  ])
    assert.equal(tokens.scrolledTo(grid, { top, written, most }), stands, `${top}: ${written}`);
  const seen = Array.from({ length: 24 }, (_, i) => i).filter((i) => tokens.inSight(grid, i, { top: 50, most: 3 }));
  assert.deepEqual([seen[0], seen.at(-1), seen.length], [4, 19, 16]);
  assert.equal(tokens.inSight(grid, 0, { top: 40, most: 3 }), false);
  assert.equal(tokens.inSight(grid, 12, { top: 0, most: 3 }), false);
});

test("cells are as wide as most words need, and rows as many as have room", () => {
  const lengths = [[], [1], [9, 1, 5, 5], [40, 50, 60, 70], [1, 2, 3, 4, 5, 6, 7, 8]];
  assert.deepEqual(lengths.map(tokens.typicalOf), [5, 2.4, 9, 9, 7]);
  const rows = [tokens.rowsSeen(null, 900), tokens.rowsSeen(64, 559), tokens.rowsSeen(64, 560)];
  assert.deepEqual(rows, [3, 3, 4]);
});
