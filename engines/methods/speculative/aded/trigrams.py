"""ADED's table of three-token runs, which learns while the text is written, and the game-tree search for drafts in it
(arXiv 2407.12021, sections 3.2 and 3.3). Letters as in `aded.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Table:
    """Tri-gram weights: pair (a, b) -> successor c -> weight. The successors of a pair are replaced where they change,
    never written to, so that a copy of `weights` keeps what the table was."""

    def __init__(self, weights: Mapping[tuple[int, int], dict[int, float]] | None = None) -> None:
        self.weights: dict[tuple[int, int], dict[int, float]] = {**(weights or {})}

    @classmethod
    def of(cls, corpus: Sequence[Sequence[int]], keep: int) -> Table:
        """Relative frequencies of (a, b) -> c over token sequences; of every pair the `keep` heaviest successors, equal
        ones by rising id."""
        counts: dict[tuple[int, int], dict[int, float]] = {}
        for sequence in corpus:
            for a, b, c in zip(sequence, sequence[1:], sequence[2:], strict=False):
                successors = counts.setdefault((a, b), {})
                successors[c] = successors.get(c, 0.0) + 1.0
        for pair, successors in counts.items():
            total = sum(successors.values())
            counts[pair] = {c: w / total for c, w in heaviest(successors)[:keep]}
        return cls(counts)

    @property
    def size(self) -> int:
        """Tri-grams known."""
        return sum(len(successors) for successors in self.weights.values())

    def learn(self, tokens: Sequence[int], increment: float, cap: float, keep: int | None = None) -> float:
        """Each tri-gram of the tokens gains `increment`, up to `cap`; keep: successors that stay per pair, None for
        all. Returns the weight gained."""
        gained = 0.0
        if increment == 0:
            return gained
        for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
            successors = self.weights.get((a, b), {})
            before = successors.get(c, 0.0)
            after = max(before, min(cap, before + increment))
            gained += after - before
            successors = {**successors, c: after}
            if keep is not None and len(successors) > keep:
                successors = dict(heaviest(successors)[:keep])
            self.weights[a, b] = successors
        return gained

    def weight(self, a: int, b: int, c: int) -> float:
        """Of c after (a, b); 0 where it is not known."""
        return self.weights.get((a, b), {}).get(c, 0.0)

    def successors(self, text: Sequence[int]) -> list[tuple[int, float]]:
        """(token, weight) that may follow the last pair of the text, heaviest first, then by rising id."""
        return heaviest(self.weights.get((text[-2], text[-1]), {})) if len(text) > 1 else []


def heaviest(successors: dict[int, float]) -> list[tuple[int, float]]:
    """Entries by falling weight, then by rising id."""
    return sorted(successors.items(), key=lambda entry: (-entry[1], entry[0]))


@dataclass
class Node:
    """A node of the search: the tokens that lead to it from the root, its weight in the table, its visits and the sum
    of their scores."""

    path: list[int]
    prior: float = 0.0
    visits: int = 0
    score: float = 0.0
    children: list[Node] = field(default_factory=list)


class Iteration(NamedTuple):
    """One iteration of a search: the node that it stepped to last, the tokens rolled out below it, and the score that
    all nodes on the way gained."""

    node: Node
    rollout: list[int]
    score: float


def exploration(node: Node, N: int, c1: float, c2: float) -> float:
    """What draws the search to a node for its weight and few visits: (c1 + ln((N + c2 + 1) / c2)) w sqrt(N) / (1 + n),
    N visits of the parent."""
    return (c1 + math.log((N + c2 + 1) / c2)) * node.prior * math.sqrt(N) / (1 + node.visits)


def puct(node: Node, N: int, c1: float, c2: float) -> float:
    """Q + exploration; infinite for a node that was never visited."""
    return node.score / node.visits + exploration(node, N, c1, c2) if node.visits else math.inf


def search(
    table: Table,
    root: Sequence[int],
    iterations: int,
    depth: int,
    uniforms: Iterator[float],
    *,
    reward: str = "intended",
    c1: float = 32.0,
    c2: float = 8.0,
    done: list[Iteration] | None = None,
) -> list[Node]:
    """Select, expand, roll out and score, `iterations` times from the pair `root`; all nodes in the order they were
    made, the root first.

    uniforms: one is taken for every token of a rollout. done: each iteration is appended to it.
    """
    nodes = [Node([])]
    if not table.successors(root):
        return nodes
    for _ in range(iterations):
        node, trail = nodes[0], [nodes[0]]
        while node.children:
            N = node.visits
            node = max(node.children, key=lambda child: puct(child, N, c1, c2))  # the first of equals
            trail.append(node)
        if len(node.path) < depth:
            node.children = [Node([*node.path, c], prior=w) for c, w in table.successors([*root, *node.path])]
            nodes += node.children
            trail += node.children[:1]
        path = [*root, *trail[-1].path]
        text = rollout(table, path, depth + len(root), uniforms)
        gained = 1 + score(table, text, reward)
        if done is not None:
            done.append(Iteration(trail[-1], text[len(path) :], gained))
        for passed in trail:
            passed.visits += 1
            passed.score += gained
    return nodes


def rollout(table: Table, text: list[int], length: int, uniforms: Iterator[float]) -> list[int]:
    """The text continued to `length` tokens by drawing successors in proportion to their weights; shorter where none is
    known."""
    while len(text) < length and (successors := table.successors(text)):
        left = next(uniforms) * sum(w for _, w in successors)
        token = successors[-1][0]
        for c, w in successors:
            left -= w
            if left < 0:
                token = c
                break
        text = [*text, token]
    return text


def score(table: Table, text: Sequence[int], reward: str) -> float:
    """Sum of the weights of all transitions behind the first pair; "released" looks up the token before the new one."""
    return sum(
        table.weight(a, b, c if reward == "intended" else b) for a, b, c in zip(text, text[1:], text[2:], strict=False)
    )


def drafts(table: Table, nodes: Sequence[Node], root: Sequence[int], paths: int) -> list[list[int]]:
    """The `paths` most visited nodes without the root, each with its heaviest successor."""
    return [
        [*node.path, *(c for c, _ in table.successors([*root, *node.path])[:1])] for node in most_visited(nodes, paths)
    ]


def most_visited(nodes: Sequence[Node], paths: int) -> list[Node]:
    """The `paths` most visited nodes, shorter paths and smaller ids first among equals; the root is dropped."""
    chosen = sorted(nodes, key=lambda node: (-node.visits, len(node.path), node.path))[:paths]
    return [node for node in chosen if node.path]


def trim(paths: Sequence[list[int]], limit: int) -> list[list[int]]:
    """Without duplicates; while the distinct tokens of all paths, summed, exceed `limit`, the path with most goes, of
    equals the least visited."""
    left = [list(path) for path in dict.fromkeys(map(tuple, paths))]
    sizes = [len(set(path)) for path in left]
    while sum(sizes) > limit:
        longest = max(range(len(left)), key=lambda i: (sizes[i], i))
        del left[longest], sizes[longest]
    return left
