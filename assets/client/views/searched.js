// A recorded search for drafts: what stood after any of its iterations, what became of drafts; and the weights that it
// began with.

import { LETTER, render } from "../player/drawing.js";
import { rowsOf } from "../player/rounds.js";
import { short } from "../player/sliding.js";
import { tr } from "../player/words.js";

export const LINE = 22; // of bars that stand above what they lead to

/** The nodes from below the root down to `node`. */
export function trail({ parents }, node) {
  const nodes = [];
  for (let at = node; at > 0; at = parents[at]) nodes.unshift(at);
  return nodes;
}

/** Visits of all nodes after k iterations. */
export function after({ parents, ends }, k) {
  const visits = parents.map(() => 0);
  for (const end of ends.slice(0, k)) for (const node of [0, ...trail({ parents }, end)]) visits[node]++;
  return visits;
}

/** Tokens from below the root down to a node. */
export const path = (search, node) => trail(search, node).map((at) => search.tokens[at]);

/** The drafts through some nodes: each ends in the heaviest successor. */
export const drafts = (search, nodes) =>
  nodes.map((node) => [...path(search, node), ...[search.heaviest[node]].filter((token) => token !== null)]);

const STATES = { a: "accepted", r: "rejected", "-": "unreached" };

/** What becomes of each token of some drafts, by its path, as the method answers: a sign for each, and what the
 * target's own token behind the `kept` ones of `emitted` is. */
export function fates(paths, [signs, own, , kept], emitted) {
  const states = new Map();
  for (const [k, tokens] of paths.entries())
    for (const [i, sign] of [...signs[k]].entries()) states.set(String(tokens.slice(0, i + 1)), STATES[sign]);
  if (own) states.set(String(emitted.slice(0, kept + 1)), own);
  return states;
}

const SENT = { accepted: "accepted", mismatch: "rejected", unreached: "unreached" };

/** What is drawn of a step: the nodes of its search and the tokens that were only drafted, with what became of each, as
 * many as have room in `leaves` rows, those first that were drafted, then the most visited ones. {list: [{tokens, node,
 * n, state, parent}], parents in front of children, hidden: the visited ones that are left out}. */
export function shown(search, { tree, commits }, leaves) {
  const items = new Map(),
    visits = after(search, search.ends.length);
  search.parents.forEach((_, node) => {
    const tokens = path(search, node);
    items.set(String(tokens), { tokens, node, n: visits[node], rank: 0 });
  });
  const { rows, accepted } = rowsOf(tree),
    wrote = commits?.tokens.filter((token) => token >= 0).length ?? Infinity,
    paths = [];
  rows.slice(0, wrote > accepted ? rows.length : tree.tokens.length).forEach((row, i) => {
    paths.push(i ? [...paths[row.parent], row.token] : []);
    const name = String(paths[i]),
      state = i ? (SENT[row.why] ?? row.state) : "",
      rank = !i || i >= tree.tokens.length || row.why === "accepted" ? 2 : 1;
    items.set(name, { tokens: paths[i], node: -1, n: 0, ...items.get(name), state, rank });
  });
  const chosen = new Set();
  let room = leaves;
  for (const item of [...items.values()].sort((a, b) => b.rank - a.rank || b.n - a.n)) {
    const fresh = [];
    for (let { tokens } = item; !chosen.has(items.get(String(tokens))); tokens = tokens.slice(0, -1)) {
      fresh.unshift(items.get(String(tokens)));
      if (!tokens.length) break;
    }
    const above = fresh.length && items.get(String(fresh[0].tokens.slice(0, -1))),
      longer = above && ![...chosen].some(({ tokens }) => tokens.length && child(tokens, above.tokens));
    if (!fresh.length || !(item.n || item.rank) || (!longer && room === 0)) continue;
    room -= longer ? 0 : 1;
    for (const part of fresh) chosen.add(part);
  }
  const sorted = [...chosen].sort((a, b) => b.n - a.n || b.rank - a.rank),
    list = [];
  const lay = (item, parent) => {
    const at = list.push({ ...item, parent }) - 1;
    for (const below of sorted) if (below.tokens.length && child(below.tokens, item.tokens)) lay(below, at);
  };
  lay(items.get(""), -1);
  return { list, hidden: visits.filter(Boolean).length - list.filter(({ n }) => n).length };
}

const child = (tokens, above) => tokens.length === above.length + 1 && above.every((token, i) => token === tokens[i]);

const begins = (longer, tokens) => longer.length > tokens.length && tokens.every((token, i) => token === longer[i]);

/** The longest of some drafts as lines of {token, state}; the rest as `fates`. */
export function lines(paths, came, emitted) {
  const cut = paths.map((tokens, k) => tokens.slice(0, came[0][k].length)),
    ends = cut.filter((tokens, i) => tokens.length && !cut.some((other, j) => j !== i && begins(other, tokens))),
    states = fates(paths, came, emitted);
  return ends.map((tokens) => tokens.map((token, i) => ({ token, state: states.get(String(tokens.slice(0, i + 1))) })));
}

/** Why an iteration went to a node, by the terms of its rule. */
export const why = (terms) =>
  terms === null ? tr`never tried before` : tr`Q ${short(terms[0])} + exploration ${short(terms[1])}, the largest sum`;

const two = (value) => String(Number(value.toPrecision(2)));

/** The successors of a pair of tokens with their weights in a table, what it held before and what a text has taught: a
 * bar for each of some nodes below the root of a search, [{node, tokens, y}], each at its y, or above all of them
 * where the panel is narrow; a node is told where its line may begin. Returns the labels. */
export function successors(parent, { weights, loaded, pair }, heads, word, { narrow, width, top }) {
  const [a, b] = pair.map((token) => word(token, 10)),
    largest = Math.max(...heads.map(({ node }) => weights[node])),
    x = narrow ? 76 : 8,
    names = {
      text: narrow ? tr`learned` : tr`learned from this text`,
      store: narrow ? tr`before` : tr`in the table before`,
    },
    unit = (width - x - (narrow ? 172 : 250)) / (largest || 1),
    labels = [
      [8, top - 14, "start", heads.length ? tr`weight of what follows ${a} ${b}` : tr`no entry for ${a} ${b} yet`],
    ];
  const bars = heads.flatMap((item, i) => {
    const y = narrow ? top + i * LINE : item.y - 8,
      old = Math.min(loaded[item.node], weights[item.node]),
      gained = weights[item.node] - old,
      name = gained > 0 ? "text" : "store",
      figures = gained > 0 ? `${old ? `${two(old)} + ` : "+"}${two(gained)}` : two(old),
      told = names[name] ? `${figures} ${names[name]}` : figures;
    names[name] = ""; // only the first of a kind says what it is
    labels.push([x + unit * weights[item.node] + 6, y + 12, "start", told]);
    if (narrow) labels.push([x - 6, y + 12, "end", word(item.tokens[0], 8)]);
    else item.from = x + unit * weights[item.node] + 12 + LETTER * [...told].length;
    return [
      { x, y, width: unit * old, "data-source": "store" },
      { x: x + unit * old, y, width: unit * gained, "data-source": "text" },
    ];
  });
  render(parent, bars, (bar) => ["rect", { class: "dx-stripe", height: 16, ...bar }]);
  return labels;
}
