// What a round drafted, copied and wrote, as views draw it.

const STATE = { root: "old", accepted: "accepted", mismatch: "rejected", unreached: "unreached" };

/** What the target's own token behind the rows that were accepted is: "correction" where a row below the last of them
 * was refused, "bonus" where none hangs there, "" where nothing was drafted. */
function behind({ parents, why }) {
  if (parents.length < 2) return "";
  const last = Math.max(0, why.lastIndexOf("accepted"));
  return parents.includes(last) ? "correction" : "bonus";
}

/** The rows of a tree with the target's own tokens behind the accepted path: a correction, a bonus token, or, where
 * nothing was drafted, what it says next. */
export function rowsOf(tree) {
  const rows = tree.tokens.map((token, i) => ({
    token,
    parent: tree.parents[i],
    why: tree.why[i],
    source: tree.sources?.[i],
    rank: tree.ranks?.[i],
    draft: tree.draft_logprobs?.[i] ?? null,
    target: tree.target_logprobs?.[i] ?? null,
    chance: tree.chances?.[i] ?? null,
    drawn: tree.uniforms?.[i] ?? null,
    value: tree.values?.[i] ?? null,
    name: tree.value_name,
    by: tree.value_kind,
    tail: tree.tails?.[i] ?? 0,
    state: STATE[tree.why[i]] ?? (tree.accepted[i] ? "accepted" : "drafted"),
  }));
  const path = rows.map((_, i) => i).filter((i) => tree.accepted[i] && rows[i].why !== "root");
  const own = behind(tree) || "new";
  let parent = path.at(-1) ?? 0;
  for (const token of tree.emitted.slice(path.length)) {
    rows.push({
      token,
      parent,
      why: own === "new" ? "" : own,
      source: tree.emitted_source ?? "argmax",
      draft: null,
      target: null,
      state: own,
    });
    parent = rows.length - 1;
  }
  return { rows, accepted: path.length };
}

/** How far below its root each row of a tree hangs. */
export function depthsOf(parents) {
  const depths = [];
  for (const parent of parents) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  return depths;
}

/** The rows of a tree that hang below one of them. */
export const below = ({ parents }, row) => parents.flatMap((parent, child) => (parent === row && child ? [child] : []));

/** What is ranked behind a row of a tree: {token, chance, row: that hangs there with it, state: what became of it, ""
 * where nothing did}. own: the target's token there; nodes: as in rowsOf. */
export const rankedAt = ({ tokens, chances }, tree, nodes, row, own) =>
  tokens.map((token, rank) => {
    const child = below(tree, row).find((one) => tree.tokens[one] === token),
      state = child ? nodes[child].state : token === own ? "correction" : "";
    return { token, chance: chances[rank], row: child ?? -1, state };
  });

/** Rows of a tree that the drafter went on from, from the root down: below the root over `first`, if that is one; else
 * over what was accepted, or is best ranked. */
export function pathOf({ parents, accepted }, rows, first) {
  const path = [0];
  for (;;) {
    const below = rows.filter((row) => row && parents[row] === path.at(-1)),
      next = below.find((row) => row === first) ?? below.find((row) => accepted[row]) ?? below[0];
    if (next === undefined) return path;
    path.push(next);
  }
}

/** What each of the first t steps copied: {step, from, pasted, to, kept, wrote, held}; from: a place on the board, to:
 * where it went, held: whether the token before it stands before the source, too. Forgotten is what was cut off. */
export function copies(run, t) {
  const made = [];
  let board = run.board(0).map(({ token }) => token);
  for (const { index, commits, spans = [] } of run.steps.slice(0, t)) {
    const source = board,
      to = commits?.positions.find((_, i) => commits.tokens[i] >= 0 && commits.causes[i] !== "forced") ?? board.length,
      cut = Math.min(...(commits?.positions.filter((_, i) => commits.tokens[i] < 0) ?? []));
    board = run.board(index + 1).map(({ token }) => token);
    while (made.length && made.at(-1).to + made.at(-1).wrote > cut) made.pop();
    const accepted = commits?.causes.filter((cause) => cause === "accepted").length ?? 0;
    const tried = spans
      .filter(({ kind }) => kind === "match")
      .map(({ start, end }) => {
        let kept = 0;
        while (kept < accepted && start + kept < end && source[start + kept] === board[to + kept]) kept++;
        return { from: start, pasted: end - start, kept };
      });
    const best = tried.sort((a, b) => b.kept - a.kept)[0] ?? { from: -1, pasted: 0, kept: 0 };
    const held = best.from > 0 && to > run.prompt.length && source[best.from - 1] === board[to - 1];
    made.push({ step: index, ...best, to, wrote: board.length - to, held });
  }
  return made;
}

/** Rounds as they stand in the text. Where a later one wrote in front of an earlier one (a board with masks), all are
 * cut into stretches of neighbours, by position, with a gap for what is still open between them. */
export function inOrder(rounds) {
  if (rounds.every(({ words }, i) => !i || words[0].at > rounds[i - 1].words.at(-1).at)) return rounds;
  const last = new Map(); // position -> [word, index of its round]; a place that was written again counts once
  for (const { index, words } of rounds) for (const word of words) last.set(word.at, [word, index]);
  const found = [];
  for (const at of [...last.keys()].sort((a, b) => a - b)) {
    const [word, index] = last.get(at),
      before = found.at(-1),
      end = before?.words.at(-1).at;
    if (before && end < at - 1) found.push({ index: -1, words: [{ at: end + 1, token: null }], refused: [] });
    if (before?.index === index && end === at - 1) before.words.push(word);
    else found.push({ index, words: [word], refused: [] });
  }
  return found;
}

/** Where a position of the board that a step found is on the one that it leaves; -1 where it is removed. */
export function moved(position, { removed = [], inserted = [] } = {}) {
  if (removed.includes(position)) return -1;
  let at = position - removed.filter((place) => place < position).length;
  for (const place of inserted) at += place <= at;
  return at;
}
