// What pictures of drafting work out from a record, against the trace that it stands in. `node --test tests/player/`
import assert from "node:assert/strict";
import { test } from "node:test";
import { asset } from "./assets.mjs";
import { made, recorded } from "./made.mjs";

const { copies, pathOf } = await asset("player/rounds.js");
const { shares } = await asset("player/firstguesses.js");
const { fates, lasted } = await asset("views/atonce.js");
const { shownRanks } = await asset("views/belts.js");
const { firstGuesses } = await asset("views/fused.js");
const { rightSoFar } = await asset("views/sharedstate.js");
const { bands } = await asset("views/samplebands.js");
const { DraftTree } = await asset("views/tree.js");
const { floors, tally } = await asset("views/transferred.js");
const { broke } = await asset("views/unrolled.js");

const count = (all, what) => all.filter((one) => one === what).length;

/** What these steps copied, each written as {at, tokens, causes, spans: [[start, end]]}. */
function copied(...given) {
  const steps = given.map(({ at, positions, tokens, causes, spans = [] }) => ({
    commits: { positions: positions ?? tokens.map((_, i) => at + i), tokens, causes },
    spans: spans.map(([start, end]) => ({ kind: "match", start, end })),
  }));
  return copies(made({ prompt: [3, 4, 5, 6, 7], steps }), steps.length);
}

const PASTE = { at: 5, tokens: [3, 4, 9], causes: ["accepted", "accepted", "bonus"], spans: [[0, 5]] };

test("a ribbon is as wide as what was kept of the place that was taken", () => {
  assert.deepEqual(copied(PASTE, { at: 8, tokens: [6], causes: ["bonus"] }), [
    { step: 0, from: 0, pasted: 5, to: 5, kept: 2, wrote: 3, held: false },
    { step: 1, from: -1, pasted: 0, to: 8, kept: 0, wrote: 1, held: false },
  ]);
});

test("of several places the one of which most was kept is the source", () => {
  const spans = [
    [1, 3],
    [4, 5],
  ];
  const [{ from, kept }] = copied({ at: 5, tokens: [7, 3], causes: ["accepted", "bonus"], spans });
  assert.deepEqual([from, kept], [4, 1]);
});

test("what the target said by itself is no copy, though it is the same token", () => {
  const [{ pasted, kept }] = copied({ ...PASTE, tokens: [3, 4, 5], causes: ["accepted", "accepted", "correction"] });
  assert.deepEqual([pasted, kept], [5, 2]);
});

test("what was withdrawn is no copy any more", () => {
  const back = { positions: [5, 5], tokens: [-1, 8], causes: ["withdrawn", "forced"] },
    left = copied({ ...PASTE, tokens: [3, 4], causes: ["accepted", "bonus"] }, back, {
      at: 6,
      tokens: [6],
      causes: ["bonus"],
    });
  assert.ok(left.every(({ kept }) => !kept));
});

test("the first refusal of a chain is found", () => {
  const tokens = [1, 2, 3];
  for (const [accepted, kept, at] of [
    [[true, true, true], 2, 0],
    [[true, true, false], 1, 2],
    [[true, false, false], 0, 1],
  ])
    assert.deepEqual(broke({ tokens, accepted }), { kept, at });
});

/** The likeliest row below each row of the accepted path against what was written there, from the tree alone. `on`: the
 * path goes on below a guess that was refused, too. */
function likeliest(steps, on) {
  const counts = [];
  for (const { index, tree } of steps) {
    let row = 0;
    for (const [i, token] of (index ? tree.emitted : []).entries()) {
      const children = tree.parents.flatMap((parent, child) => (parent === row ? [child] : []));
      if (!children.length) break;
      const value = (child) => tree.values?.[child] ?? 0,
        best = children.reduce((a, b) => (value(b) > value(a) ? b : a));
      counts[i] ??= [0, 0];
      counts[i][0] += tree.tokens[best] === token;
      counts[i][1]++;
      row = children.find((child) => tree.accepted[child]) ?? (on ? best : -1);
    }
  }
  return counts;
}

for (const [name, counted, on] of [
  ["280-eagle3-sum", firstGuesses, false],
  ["281-eagle3-words", firstGuesses, false],
  ["288-p-eagle-words", rightSoFar, true],
  ["289-p-eagle-sum", rightSoFar, true],
])
  test(`first guesses are counted as the trace has them: ${name}`, () => {
    const { steps } = recorded(name),
      found = counted(steps);
    assert.deepEqual(found, likeliest(steps, on));
    assert.ok(found.reduce((sum, [right]) => sum + right, 0) > 5);
    assert.deepEqual(counted([{}]), []);
  });

test("a path goes over what was accepted, else over the best ranked", () => {
  const T = true,
    F = false,
    tree = { parents: [-1, 0, 0, 0, 1, 2, 2, 6], accepted: [T, F, T, F, F, F, T, F] };
  for (const [given, rows, first, path] of [
    [tree, [0, 1, 2, 6], null, [0, 2, 6]],
    [tree, [0, 1, 2, 6], 1, [0, 1]],
    [tree, [0], 1, [0]],
    [{ ...tree, accepted: tree.accepted.map((_, row) => !row) }, [0, 1, 2, 6], null, [0, 1]],
  ])
    assert.deepEqual(pathOf(given, rows, first), path);
});

test("a list shows the first ranks, and those that it must", () => {
  for (const [n, must, ranks] of [
    [10, [], [0, 1, 2]],
    [10, [7], [0, 1, 7]],
    [10, [9, 1, 9], [0, 1, 9]],
    [10, [9, 8, 7, 6], [7, 8, 9]],
    [2, [1], [0, 1]],
  ])
    assert.deepEqual(shownRanks(n, must), ranks);
});

test("of many layers some are read, with both ends", () => {
  for (const layers of [1, 2, 9, 11, 81]) {
    const read = floors(layers);
    assert.deepEqual([read[0], read.at(-1), read.length], [0, layers - 1, Math.min(layers, 9)]);
    assert.ok(read.every((row, i) => !i || row > read[i - 1]));
  }
});

test("a token of a block has the fate that the next iteration gives it", () => {
  const block = [1, 2, 3, 4],
    of = (now, next) =>
      fates({ block, tested: [], discarded: 0, ...now }, next)
        .map((fate) => fate[0])
        .join("");
  for (const [now, next, wanted] of [
    [{ discarded: 2 }, { tested: [1, 2, 3, 4], kept: 4 }, "uuuu"],
    [{}, null, "dddd"],
    [{}, { tested: [1, 2, 3, 4], kept: 4 }, "aaaa"],
    [{}, { tested: [1, 2, 3, 4], kept: 1 }, "aruu"],
    [{}, { tested: [1, 2], kept: 0 }, "rudd"],
    [{ tested: [9, 1], kept: 2 }, null, "addd"], // its first token was tested with the block before
    [{ tested: [9, 1], kept: 1 }, null, "dddd"], // and refused, or behind one that was
    [{ tested: [9, 1], kept: 2 }, { tested: [2, 3], kept: 1 }, "aard"],
    [{ tested: [1, 9] }, { tested: [1, 2], kept: 2 }, "aadd"],
  ])
    assert.equal(of(now, next), wanted, JSON.stringify([now, next]));
  assert.deepEqual(fates({ block: [], tested: [1], discarded: 0 }, null), []);
});

for (const name of ["29-pearl-story", "37-pearl-threads"])
  test(`accepted tokens of all blocks are those of the text that were drafted: ${name}`, () => {
    const { steps } = recorded(name);
    let accepted = 0;
    steps.forEach(({ at_once: now, facts }, i) => {
      const fate = fates(now, steps[i + 1]?.at_once ?? null);
      assert.deepEqual([fate.length, now.block.length], [facts.drafted, facts.drafted]);
      accepted += count(fate, "accepted");
      if (facts.discarded) assert.ok(!fate.includes("accepted") && !fate.includes("drafted"));
    });
    const kept = steps.reduce((sum, { facts }) => sum + facts.accepted, 0),
      stands = steps.reduce((sum, { commits }) => sum + count(commits?.causes ?? [], "accepted"), 0);
    assert.deepEqual([accepted, stands], [kept, kept]);
  });

test("iterations that are laid out on two devices last as long as the whole layout, their calls longer", () => {
  const { steps } = recorded("29-pearl-story"),
    laid = steps.map(lasted),
    calls = steps.flatMap(({ intervals }) => intervals).filter(({ measured }) => measured === false),
    end = Math.max(...calls.map((call) => call.end)),
    long = laid.reduce((sum, one) => sum + one.long, 0);
  assert.ok(Math.abs(long - 1e3 * end) < 1e-6 * long);
  assert.ok(laid.every((one) => one.laid && one.work >= one.long - 1e-9));
});

for (const name of ["114-hidden-transfer-sum", "115-hidden-transfer-last", "116-hidden-transfer-story"])
  test(`the shares of layers count what a call could check: ${name}`, () => {
    const told = recorded(name).steps.filter(({ transfer }) => transfer?.tokens),
      rows = told[0].transfer.tokens.length;
    for (let row = 0; row < rows; row++) {
      const pairs = told.flatMap(({ transfer, tree }) =>
        tree.emitted.flatMap((token, i) =>
          i < transfer.tokens[row].length ? [transfer.tokens[row][i] === token] : [],
        ),
      );
      assert.deepEqual(tally(told, row), [count(pairs, true), pairs.length]);
    }
  });

for (const name of ["33-stand-python", "233-stand-side-by-side", "235-stand-story"])
  test(`bands hold what their samples wrote, and the calls that it took: ${name}`, () => {
    const { steps, length } = recorded(name),
      texts = new Map(),
      calls = [];
    for (const { branches, suffixes } of steps) {
      for (const { id, length: long, tokens } of branches ?? [])
        texts.set(id, [...(texts.get(id) ?? []).slice(0, long - tokens.length), ...tokens]);
      for (const { sample } of suffixes.samples) calls[sample] = (calls[sample] ?? 0) + 1;
    }
    const found = bands(steps, length),
      sorted = [...texts].sort(([a], [b]) => a - b).map(([, text]) => text);
    assert.deepEqual(
      found.map(({ cells }) => cells.map(({ token }) => token)),
      sorted,
    );
    assert.deepEqual(
      found.map((band) => band.calls),
      calls,
    );
  });

test("places of a band that a person wrote are empty", () => {
  const steps = [1, 4].map((length) => ({ suffixes: { samples: [{ sample: 0, length, tokens: [7], suffix: [0] }] } })),
    [{ cells }] = bands(steps, 2);
  assert.deepEqual(
    Array.from(cells, (cell) => cell?.token),
    [7, undefined, undefined, 7],
  );
});

for (const name of ["200-msd-scene", "201-msd-text-only", "202-msd-own-scene"])
  test(`the words of each class that a draft says first: ${name}`, () => {
    const { steps } = recorded(name);
    for (const draft of [0, 1, 2, 3]) {
      const wanted = { attribute: [0, 0], place: [0, 0], function: [0, 0] };
      for (const { inputs, vision, tree } of steps)
        vision.kinds.forEach((kind, i) => {
          wanted[kind][0] += tree.emitted[i] === inputs.first[draft][i];
          wanted[kind][1]++;
        });
      assert.deepEqual(shares(steps, draft), wanted);
    }
  });

test("a word without a state before it has no first guess", () => {
  const inputs = { first: [[7]] },
    bare = [{}, { inputs }, { inputs, vision: { kinds: ["place", "place"] } }];
  assert.deepEqual(shares(bare, 0).place, [0, 1]);
  const late = { inputs, vision: { kinds: ["place", "attribute"] }, tree: { emitted: [1, 7] } };
  assert.deepEqual(shares([late], 0), { attribute: [1, 1], place: [0, 0], function: [0, 0] });
});

test("drafts that fill the answer leave no room for the target's own token, and an end mark is none", () => {
  const run = recorded("12-recycling-chat"),
    view = Object.assign(new DraftTree(), { run }),
    last = run.length;
  assert.deepEqual(run.steps.at(-1).commits.causes, ["accepted", "accepted", "accepted"]);
  assert.match(view.describe(last), /^16 drafted, 3 accepted; the maximum length left no room after them\./);
  assert.match(view.describe(last - 2), /then the target's/);
});
