// What the chooser finds, without a document: which methods fit four answers, and what a search means. An entry is what
// explorer/page/chooser.py says of a method, or of a paper that is a study.

export const ANY = Object.freeze({ order: "any", train: "any", draft: "any", same: "any" });

const trained = ({ parts = [], trains = "" }) => parts.length > 0 || trains !== "";
const second = ({ beside = [] }) => beside.length > 0;

/** Whether a method can be used under these answers: {order: any|left|masked, train, draft, same: any|no|yes}. What
 * may be trained, or is there, need not be used. */
export function fits(entry, { order, train, draft, same }) {
  if (!entry.method) return [order, train, draft, same].every((answer) => answer === "any");
  return (
    (order === "any" || entry.order === order) &&
    !(train === "no" && trained(entry)) &&
    !(draft === "no" && second(entry)) &&
    !(same === "yes" && !entry.same)
  );
}

/** How many of the answers a method makes use of: what may be trained, is there, or has to be the same. */
export function uses(entry, { train, draft, same }) {
  return (
    Number(train === "yes" && trained(entry)) +
    Number(draft === "yes" && second(entry)) +
    Number(same === "yes" && entry.same === 2) +
    Number(same === "no" && entry.same === 0)
  );
}

// Words

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const wordsOf = (text) => plain(text).match(/[\p{L}\p{N}]+/gu) ?? [];
const tight = (text) => wordsOf(text).join("");
const begun = (wanted, words, least = 1) =>
  wanted.every((one) => words.some((word) => (one.length < least ? word === one : word.startsWith(one))));

/** Words without the endings that English bends them by, and without those that only join others. */
const JOINING = new Set("and are for from how into its that the then this what when which with".split(" "));
const bent = (text) =>
  wordsOf(text)
    .filter((word) => word.length > 2 && !JOINING.has(word))
    .map((word) => (word.length > 4 ? word.replace(/(?<=..)(?:ing|ed|es|s)$/u, "") : word));

/** What an entry is called: its title, its name in addresses, its paper's name. */
const names = ({ id, title, paper }) => [title, id, ...(paper ? [paper.name] : [])];

/** How well an entry fits a search, 0 the best; Infinity where it does not. */
export function distanceTo(entry, text) {
  const wanted = wordsOf(text),
    whole = tight(text),
    number = /(?<!\d)\d{4}\.\d{4,5}(?!\d)/.exec(text);
  if (!wanted.length) return 0;
  if (number) return entry.paper?.arxiv === number[0] ? 0 : Number.POSITIVE_INFINITY;
  const called = names(entry),
    same = [...called, entry.paper?.title ?? ""].findIndex((name) => tight(name) === whole);
  if (same >= 0) return same / 10;
  if (called.some((name) => tight(name).startsWith(whole) || begun(wanted, wordsOf(name)))) return 1;
  const paper = wordsOf(entry.paper?.title ?? "");
  if (begun(wanted, paper, 3)) return 2;
  if (entry.words.some((word) => tight(word) === whole)) return 3;
  if (entry.words.some((word) => begun(wanted, wordsOf(word), 3))) return 3.5;
  const summary = wordsOf(entry.summary);
  if (begun(wanted, summary, 3)) return 4;
  const all = [...called.flatMap(wordsOf), ...paper, ...entry.words.flatMap(wordsOf), ...summary];
  if (begun(wanted, all, 3)) return 5;
  const meant = bent(text);
  return meant.length && begun(meant, every(entry)) ? 6 : Number.POSITIVE_INFINITY;
}

/** All words of an entry, those of its lesson included; kept, since each key that is typed asks for them. */
const known = new WeakMap();
function every(entry) {
  const texts = [...names(entry), entry.paper?.title ?? "", ...entry.words, entry.summary, entry.read ?? ""];
  if (!known.has(entry)) known.set(entry, bent(texts.join(" ")));
  return known.get(entry);
}

/** Those that have at least half the words of a search of several, the best first; a rare word counts for more. */
function partly(entries, text) {
  const wanted = [...new Set(bent(text))],
    having = entries.map((entry) => {
      const words = every(entry);
      return wanted.map((one) => begun([one], words));
    }),
    weights = wanted.map((_, i) => Math.log(1 + entries.length / having.filter((has) => has[i]).length)),
    sum = (has) => has.reduce((total, own, i) => total + (own ? weights[i] : 0), 0);
  const good = entries
    .map((entry, i) => ({ entry, has: having[i], share: sum(having[i]) }))
    .filter(({ has }) => wanted.length > 1 && 2 * has.filter(Boolean).length >= wanted.length);
  good.sort((a, b) => b.share - a.share || rank(a.entry) - rank(b.entry));
  return good.map(({ entry }) => entry);
}

/** Letters to change, insert, leave out or swap with the next one to make one word of the other; at most `most`. */
export function edits(a, b, most) {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before = [],
    last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + Number(a[i - 1] !== b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        row[j] = Math.min(row[j], before[j - 2] + 1);
    }
    [before, last] = [last, row];
  }
  return last[b.length];
}

/** The entries whose names, or else words, come closest to a misspelt search, and the title or word that was meant;
 * none where nothing comes close. */
function nearest(entries, text) {
  const wanted = tight(text),
    most = wanted.length < 4 ? 0 : wanted.length < 9 ? 2 : 3;
  const near = entries.flatMap((entry) => {
    const called = names(entry),
      own = [...called, ...called.flatMap(wordsOf).filter((word) => word.length > 3)].map((term) => [
        term,
        entry.title,
      ]);
    const [away, name] = [...own, ...entry.words.map((word) => [word, word])]
      .map(([term, meant], i) => [edits(wanted, tight(term), most) + i / 1000, meant])
      .reduce((best, one) => (one[0] < best[0] ? one : best));
    return Math.floor(away) <= most && most ? [{ entry, away, name }] : [];
  });
  near.sort((a, b) => a.away - b.away);
  const closest = near.filter(({ away }) => Math.floor(away) === Math.floor(near[0].away));
  return { found: closest.map(({ entry }) => entry), near: closest[0]?.name ?? null };
}

/** What a search finds, the best first: {found, near, part}. near: the word that was meant where nothing has the one
 * that was typed; part: nothing has all the words, these have most of them. */
export function find(entries, text) {
  const hits = entries
    .map((entry, place) => ({ entry, place, away: distanceTo(entry, text) }))
    .filter(({ away }) => away < Number.POSITIVE_INFINITY);
  if (!hits.length) {
    const close = nearest(entries, text),
      some = close.found.length ? [] : partly(entries, text);
    return some.length ? { found: some, near: null, part: true } : close;
  }
  hits.sort((a, b) => a.away - b.away || rank(a.entry) - rank(b.entry) || a.place - b.place);
  return { found: hits.map(({ entry }) => entry), near: null };
}

const rank = (entry) => entry.rank ?? Number.MAX_SAFE_INTEGER;

/** What the chooser shows: {found, near, part, hidden}; hidden: how many more the search finds that the answers rule
 * out. */
export function choose(entries, answers, text) {
  if (text.trim()) {
    const { found, near, part = false } = find(entries, text),
      left = found.filter((entry) => fits(entry, answers));
    return { found: left, near, part, hidden: found.length - left.length };
  }
  const left = entries.map((entry, place) => ({ entry, place })).filter(({ entry }) => fits(entry, answers));
  left.sort(
    (a, b) => uses(b.entry, answers) - uses(a.entry, answers) || rank(a.entry) - rank(b.entry) || a.place - b.place,
  );
  return { found: left.map(({ entry }) => entry), near: null, hidden: 0 };
}
