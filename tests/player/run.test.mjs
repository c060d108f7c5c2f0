// A run against a replay of its commits, and its sums and scores in small cases. `node --test tests/player/`
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { chance, header, made } from "./made.mjs";

const { Run, checkHeader, order, parseTrace, written } = await asset("player/run.js");
const { pairOf } = await asset("player/field.js");
const { unpacked } = await asset("player/codec.js");

const [EOS, MASK] = [9, 8];
const RANDOM = ["noise", "renoised"];
const SHOWN = ["accepted", "bonus", "correction", "forced", "changed", "settled", ...RANDOM];

/** The board after each step by the rules of a trace, one place after the other: {id, token, cause, step, fresh}. */
function replay({ prompt, canvas = null, mask = null, steps }) {
  let ids = 0;
  const open = () => ({ id: ids++, token: null, step: -1 }),
    line = Array.from({ length: canvas ?? prompt.length }, (_, i) => ({ ...open(), token: prompt[i] ?? null })),
    boards = [line.map((cell) => ({ ...cell }))];
  steps.forEach(({ commits }, step) => {
    const { positions, tokens, causes, removed = [], inserted = [] } = commits;
    for (const position of removed.toReversed()) line.splice(position, 1);
    for (const position of inserted) line.splice(position, 0, open());
    positions.forEach((position, i) => {
      if (tokens[i] < 0) return void (line.length = Math.min(line.length, position));
      while (line.length <= position) line.push(open());
      const token = RANDOM.includes(causes[i]) || tokens[i] === mask ? null : tokens[i];
      Object.assign(line[position], { token, cause: causes[i], step, fresh: inserted.includes(position) });
    });
    boards.push(line.map((cell) => ({ ...cell })));
  });
  return boards;
}

/** Its states at cursor t. */
function states(board, t, { prompt }) {
  const end = board.findIndex(({ token }, at) => at >= prompt.length && token === EOS);
  return board.map(({ token, cause, step, fresh }, at) => {
    const now = step === t - 1 && step >= 0;
    if (token === null) {
      if (RANDOM.includes(cause)) return now ? cause : "noise";
      return now && !fresh ? "remasked" : "masked";
    }
    if (step < 0) return "prompt";
    if (now && cause !== "padding") return SHOWN.includes(cause) ? cause : "new";
    return cause === "forced" ? "forced" : end >= 0 && at >= end ? "eos" : "old";
  });
}

/** A made-up run: a masked board, a text that grows and is taken back, or one whose places come and go. */
function invented(seed, kind) {
  const next = chance(seed),
    prompt = [1, 2, 3].slice(0, 1 + next(3)),
    causes = ["", "accepted", "forced", "padding", "settled", "constructor", ...(kind === "growing" ? [] : RANDOM)];
  let width = kind === "growing" ? prompt.length : prompt.length + 6;
  const first = prompt.length,
    canvas = kind === "growing" ? null : width;
  const steps = Array.from({ length: 8 }, (_, index) => {
    const commits = { positions: [], tokens: [], causes: [] };
    const write = (position, token) => {
      if (commits.positions.includes(position)) return;
      commits.positions.push(position);
      commits.tokens.push(token);
      commits.causes.push(causes[next(causes.length)]);
    };
    if (kind === "moving" && index % 2) {
      const some = (most) =>
        [...new Set(Array.from({ length: next(3) }, () => first + next(most)))].sort((a, b) => a - b);
      commits.removed = some(width - first);
      width -= commits.removed.length;
      commits.inserted = some(width - first + 1);
      width += commits.inserted.length;
    }
    if (kind === "growing" && next(4) === 0 && width > first) {
      const back = first + next(width - first);
      write(back, -1);
      width = back;
    } else if (kind === "growing") for (let n = 1 + next(3); n > 0; n--) write(width++, next(10));
    else
      for (let n = next(4); n > 0 && width > first; n--) write(first + next(width - first), next(5) ? next(10) : MASK);
    return { index, commits };
  });
  return { prompt, canvas, mask: canvas === null ? null : MASK, eos: [EOS], steps };
}

for (const kind of ["masked", "growing", "moving"])
  test(`the board at any step is what a replay of the commits leaves: ${kind}`, () => {
    for (let seed = 0; seed < 60; seed++) {
      const given = invented(seed, kind),
        run = made(given),
        boards = replay(given);
      for (const t of [8, 3, 0, 1, 2, 4, 5, 6, 7]) {
        const cells = run.board(t),
          wanted = states(boards[t], t, given).map((state, position) => [position, boards[t][position].token, state]),
          found = cells.map(({ position, token, state }) => [position, token, state]);
        assert.deepEqual(found, wanted, `seed ${seed}, step ${t}`);
        assert.equal(run.widths[t], cells.length);
      }
      assert.equal(run.widest, Math.max(...run.widths));
    }
  });

const golden = new URL("../explorer/figures/commits.json", import.meta.url);
for (const { about, boards, prompt_ids: prompt, canvas, mask_id: mask, eos_ids: eos, steps } of JSON.parse(
  readFileSync(golden, "utf8"),
))
  test(`commits leave the boards of the golden file, as in Python: ${about}`, () => {
    const run = made({ prompt, canvas, mask, eos, steps: steps.map((commits) => ({ commits })) });
    const found = boards.map((_, t) => run.board(t).map(({ token }) => token));
    assert.deepEqual(found, boards);
  });

test("figures are those of a run that is over, or grow with one that is not", () => {
  const run = made({ canvas: 3, steps: [{}, {}] }),
    live = made({ canvas: 3 });
  assert.deepEqual([run.tokens(0), run.gained(1), run.figures.key], [null, null, undefined], "nothing was handed");
  const counts = { tokens: [0, 1, 3], masks: [3, 2, 0] },
    work = {
      a: [
        [0, 1],
        [2, 3],
      ],
    };
  run.hand({ key: "k", from: -1, counts, work, pairs: { "k m": { busy: true } }, verdict: { right: true } });
  live.hand({ from: -1, counts: { masks: [3] } });
  assert.deepEqual([live.tokens(0), live.count("masks", 0), live.tokens(1)], [0, 3, null]);
  const stops = [{ hops: { floor: { stops: [0, 0.25, 1], answers: [3, 2, 0] } } }];
  live.addSteps([{ ...made.step, index: 0 }]);
  live.hand({ from: 0, counts: { tokens: [1], masks: [2] }, work: { a: [[0, 1]] }, stops });
  live.addSteps([{ ...made.step, index: 1 }]);
  live.hand({ from: 1, counts: { tokens: [3] }, work: { a: [[2, 3]] }, gained: [0, 2, 5] });
  assert.deepEqual([live.figures.counts, live.figures.work], [run.figures.counts, run.figures.work]);
  const asked = [-1, 0.2, 0.25, 0.9, 5].map((value) => live.asked(1, "hops", "floor", value));
  assert.deepEqual(asked, [3, 3, 2, 2, 0], "an answer holds up to the next stop");
  assert.deepEqual([live.asked(2, "hops", "floor"), live.asked(1, "hops", "ceiling")], [null, null]);
  assert.deepEqual([live.gained(1), live.count("bonus", 1), run.verdict.right], [2, 0, true]);
  assert.deepEqual([pairOf(run, { figures: { key: "m" } }), pairOf(run, live)], [{ busy: true }, null]);
});

test("a place keeps its cell while others come and go, and is found on the board that a step read", () => {
  for (let seed = 0; seed < 60; seed++) {
    const given = invented(seed, "moving"),
      run = made(given),
      boards = replay(given),
      ids = boards.map((board) => board.map(({ id }) => id));
    for (let t = 0; t <= 8; t++) {
      const cells = ids[t].map((_, position) => run.cell(position, t));
      assert.equal(new Set(cells).size, cells.length, "no two places share a cell");
      for (let other = 0; other <= 8; other++)
        ids[t].forEach((id, position) =>
          assert.equal(run.place(cells[position], other), ids[other].indexOf(id), `seed ${seed}, ${t} to ${other}`),
        );
      for (let index = 0; index < t; index++)
        ids[t].forEach((id, position) => {
          const found = [run.found(index, position, t), t === index + 1 && run.found(index, position)],
            at = ids[index].indexOf(id);
          assert.deepEqual(found, [at, t === index + 1 && at], `${seed}: ${index} at ${t}`);
        });
    }
  }
});

test("steps that come one by one make the run that comes whole", () => {
  const given = invented(4, "moving"),
    whole = made(given),
    live = made({ ...given, steps: [] });
  for (const [i, step] of given.steps.entries()) {
    live.addSteps([{ ...made.step, ...step }]);
    assert.deepEqual(live.board(i + 1), whole.board(i + 1));
  }
  assert.deepEqual([live.sums, live.widths, live.axes], [whole.sums, whole.widths, whole.axes]);
  assert.throws(() => live.addSteps([{ index: 9 }]), /Step 8 is missing: step 9 came instead/);
});

test("a live board is drawn again when the run has grown", () => {
  const run = made({ prompt: [1], steps: [{ commits: { positions: [1], tokens: [2], causes: [""] } }] });
  run.end = { output_ids: [2, 3, EOS, 4, -1] };
  run.eos.add(EOS);
  const cells = run.board(1);
  assert.equal(run.board(1), cells, "the same step is the same board");
  run.addSteps([{ ...made.step, index: 1, commits: { positions: [2], tokens: [5], causes: [""] } }]);
  assert.notEqual(run.board(1), cells);
});

test("sums are sums, and every clock rises", () => {
  const more = [
    { model_seconds: 0.5, method_seconds: 0.25 },
    { model_seconds: 1, method_seconds: 2 },
  ];
  const steps = [
    { forwards: { target: 2, draft: 5 }, work: { target: 10 }, tokens_fed: 3, ...more[0] },
    { forwards: { draft: 1 }, work: { target: 7, draft: 2 }, tokens_fed: 4, ...more[1] },
    { forwards: {}, tokens_fed: 0 },
  ];
  const run = made({ steps, models: [{ role: "target" }] });
  assert.deepEqual(run.sums.at(-1), {
    ...{ forwards: 2, others: 6, roles: { target: 2, draft: 6 } },
    ...{ work: 19, layers: { target: 17, draft: 2 }, fed: 7, model: 1.5, method: 2.25 },
  });
  const clocks = { steps: [0, 1, 2, 3], forwards: [0, 2, 2, 2], seconds: [0, 0.75, 3.75, 3.75], work: [0, 10, 19, 19] };
  for (const [unit, places] of Object.entries(clocks))
    run.axes[unit].forEach((x, t, all) => {
      assert.ok(Math.abs(x - places[t]) < 1e-6, `${unit} ${x}`);
      assert.ok(!t || x > all[t - 1], unit);
    });
  assert.equal(made({ steps }).sums.at(-1).forwards, 8, "without a model that was picked all calls count");
  const blind = made({ steps, missing: ["model_seconds", "work"] });
  assert.deepEqual([blind.axes.seconds, blind.axes.work, blind.axes.forwards.length], [[0], [0], 4]);
});

test("what a run has is what its steps fill", () => {
  const run = made({
    prompt: [1],
    steps: [
      { spans: [{ kind: "fed" }, { kind: "fed" }], records: { hops: { floor: 1 } }, facts: {}, note: "words" },
      { spans: [{ kind: "block" }], intervals: [{ kind: "bytes" }], routing: [{ kind: "expert" }], vote: null },
    ],
  });
  const names = [
    "spans",
    "spans.fed",
    "spans.block",
    "hops",
    "records",
    "intervals",
    "intervals.bytes",
    "routing.expert",
    "growing",
  ];
  for (const name of names) assert.ok(run.has(name), name);
  for (const name of ["facts", "note", "vote", "masked", "end", "commits", "constructor"])
    assert.ok(!run.has(name), name);
  assert.deepEqual([run.spanKinds, [...run.records], run.steps[0].hops], [["fed", "block"], ["hops"], { floor: 1 }]);
  run.end = {};
  const board = made({ canvas: 3, mask: 8 });
  assert.deepEqual([run.has("end"), board.has("masked"), board.has("growing")], [true, true, false]);
  assert.deepEqual([...board.states].sort(), ["masked", "new", "old", "prompt"]);
  assert.deepEqual([...run.states].sort(), ["new", "old", "prompt"]);
});

test("the legend has the states that the run has", () => {
  for (const [commits, ...added] of [
    [{ tokens: [2], causes: ["accepted"] }, "accepted"],
    [{ tokens: [2], causes: ["made up"] }],
    [{ tokens: [MASK], causes: [""] }, "remasked"],
    [{ tokens: [MASK], causes: [""], inserted: [1] }],
    [{ tokens: [-1], causes: [""] }, "remasked"],
    [{ tokens: [EOS], causes: [""] }, "eos"],
  ]) {
    const steps = [{ commits: { positions: [1], ...commits } }],
      run = made({ prompt: [1], canvas: 3, mask: MASK, eos: [EOS], steps }),
      own = [...run.states].filter((one) => !["prompt", "masked", "new", "old"].includes(one));
    assert.deepEqual(own, added, JSON.stringify(commits));
  }
});

test("an entry says who wrote it and how likely it was, where the run tells", () => {
  const commits = { positions: [1, 2, 3], tokens: [2, 3, -1], causes: ["", "", ""] };
  const told = made({
    prompt: [1],
    steps: [{ commits: { ...commits, authors: ["big", "", "small"], probabilities: [0.5] } }],
  });
  assert.deepEqual([...told.authors], ["big"]);
  assert.deepEqual([told.written(1, 1).author, told.written(1, 1).probability], ["big", 0.5]);
  assert.deepEqual([told.written(2, 1).author, told.written(2, 1).probability], ["", null]);
  assert.deepEqual([told.written(1, 0), told.written(9, 1)], [null, null]);
  assert.equal(written({ tokens: [4, 5], causes: ["noise", ""] }, 0), null);
  assert.equal(written({ tokens: [4, 5], causes: ["noise", ""] }, 1), 5);
});

test("a score stands in the range of all that its lane has shown", () => {
  const lane = (name, values, more = {}) => ({ name, start: 1, values: unpacked(values, [values.length]), ...more });
  const run = made({
    prompt: [1],
    canvas: 4,
    steps: [
      { scores: [lane("gap", [3, NaN, 1]), lane("confidence", [0.5, 0.75], { unit: "probability", threshold: 0.6 })] },
      { scores: [lane("gap", [5]), lane("odd", [2])] },
      { scores: [{ name: "bytes", start: 0, values: { dtype: "u1", shape: [2], data: "AP4=", lo: -1, hi: 4 } }] },
    ],
  });
  const { lo, hi, threshold } = run.lanes.get("confidence"),
    bytes = run.lanes.get("bytes");
  assert.deepEqual([lo, hi, threshold, bytes.lo, bytes.hi, bytes.threshold], [0, 1, 0.6, -1, 4, null]);
  const x = made({ steps: [{ scores: [lane("x", [3, 1, 2])] }, { scores: [lane("x", [5, 4])] }] }).lanes.get("x");
  assert.deepEqual([x.lo, x.hi], [1, 5]);
  const levels = [-2, -1, 1.5, 4, 6].map((v) => run.level("bytes", v));
  assert.deepEqual(levels, [0, 0, 0.5, 1, 1]);
  assert.ok(Number.isNaN(run.level("confidence", NaN)));
  assert.equal(run.level("odd", 2), 0.5, "one value alone stands in the middle");
  assert.deepEqual([run.score(0, "gap", 1), run.score(0, "gap", 3), run.score(1, "gap", 1)], [3, 1, 5]);
  const unknown = [run.score(0, "gap", 0), run.score(0, "gap", 4), run.score(2, "gap", 1), run.score(9, "gap", 1)];
  assert.deepEqual(unknown, [NaN, NaN, NaN, NaN]);
  assert.equal(run.deciding, "confidence", "the last with a threshold");
  const named = (...names) => made({ steps: [{ scores: names.map((name) => lane(name, [1])) }] }).deciding;
  assert.deepEqual([named("a", "confidence"), named("a", "b"), named()], ["confidence", "a", null]);
  const lines = [lane("confidence", [1]), lane("b", [1], { threshold: 0 }), lane("c", [1], { threshold: null })];
  assert.equal(made({ steps: [{ scores: lines }] }).deciding, "b", "a threshold of 0 is one, null is none");
});

test("candidates are those of their position", () => {
  const candidates = {
    positions: [2, 1],
    tokens: unpacked([1, 2, 3, 4], [2, 2]),
    probabilities: unpacked([0.4, 0.3, 0.2, 0.1], [2, 2]),
  };
  const run = made({ prompt: [0], canvas: 3, steps: [{ candidates }, {}] });
  assert.deepEqual(run.candidates(0, 1), [
    { token: 3, probability: 0.2 },
    { token: 4, probability: 0.1 },
  ]);
  assert.deepEqual(
    [run.candidates(0, 2)[0].token, run.candidates(0, 0), run.candidates(1, 1), run.candidates(7, 1)],
    [1, null, null, null],
  );
});

test("a further text of an id is an entry of its own that names the id", () => {
  const run = made({
    pieces: [
      { id: 6, text: "a" },
      { id: 16777216, text: "b", token: 6 },
    ],
  });
  assert.deepEqual(
    [6, 16777216, 7].map((id) => [run.piece(id).text, run.piece(id).token]),
    [
      ["a", 6],
      ["b", 6],
      ["‹token 7›", undefined],
    ],
  );
});

test("the wrong word stands from the step behind the one that wrote it", () => {
  const run = made({ steps: [] });

  const places = [
      [2, 3],
      [3, 3],
      [4, 3],
      [1, 3],
      [5, 3],
      [3, 2],
    ],
    wrong = () => places.map(([position, t]) => run.wrong(position, t));
  for (const [verdict, told] of [
    [undefined, Array(6).fill(false)],
    [{ first: 2, last: 4, step: 2 }, [true, true, true, false, false, false]],
    [{ first: 2, last: 4, step: null }, Array(6).fill(false)],
  ]) {
    if (verdict) run.verdict = verdict;
    assert.deepEqual(wrong(), told);
  }
});

test("a piece that is not known, and an end mark, say so", () => {
  const pieces = [
      { id: 1, text: "a" },
      { id: 2, text: 5, kind: "byte" },
      { id: EOS, text: "x" },
    ],
    run = made({ eos: [EOS], pieces }),
    said = [1, 2, EOS, 4].map((id) => `${run.piece(id).kind} ${run.piece(id).text}`);
  assert.deepEqual(said, ["text a", "byte 5", "special end", "special ‹token 4›"]);
});

test("a header is an object of this version; what a trace lacks is empty", () => {
  for (const bad of [null, undefined, 0, "text", 3, {}, { schema: 2 }])
    assert.throws(() => checkHeader(bad), Error, String(bad));
  assert.throws(() => checkHeader({}), /\(none\)/);
  const bare = new Run({ schema: 3 });
  assert.deepEqual(
    [bare.prompt, bare.mask, bare.canvas, bare.target, bare.widest, bare.end],
    [[], null, null, null, 0, null],
  );
  const whole = Run.from(
    JSON.stringify({ header: header({ prompt: [4], models: [{ role: "big" }] }), end: { reason: "complete" } }),
  );
  assert.deepEqual([whole.prompt, whole.target, whole.length, whole.end.reason], [[4], "big", 0, "complete"]);
  assert.deepEqual(parseTrace({ a: 1 }), { a: 1 });
});

test("a batch starts a run, goes on, comes late or leaves a gap", () => {
  const last = { run: "a", seq: 2 };
  for (const [before, batch, place] of [
    [null, { run: "a", seq: 0 }, "start"],
    [null, { run: "a", seq: 2 }, "gap"],
    [null, { run: "a", seq: 2, state: "queued" }, "start"],
    [last, { run: "a", seq: 2, header: {} }, "old"],
    [last, { run: "a", seq: 1 }, "old"],
    [last, { run: "a", seq: 4, state: "queued" }, "gap"],
    [last, { run: "b", seq: 3, state: "queued" }, "start"],
  ])
    assert.equal(order(before, batch), place, JSON.stringify(batch));
});
