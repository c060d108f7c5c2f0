"""What the search for drafts looked at: its tree, iteration by iteration, and what of each weight the text has taught.

Beside it the drafts that the same search would have found in the table as it was loaded, with the same random
numbers."""

from collections.abc import Sequence
from typing import Any

from engines.kit import Alternatives, Params, Record, Stops, TokenId, Tree
from engines.methods.speculative.aded import trigrams

DIGITS = 4  # of recorded weights and scores


class TableSearch(Record):
    """The search for drafts in the table, from the newest pair of the text: its nodes in the order they were made, and
    where each iteration ended. weights: of each node's token after its pair; loaded: of that, what the table held
    before the text. heaviest: the token that a draft through the node ends with. scores, rollouts: of each iteration.
    fixed: the drafts of the same search in the table as it was loaded. room: tokens that may still be accepted."""

    pair: list[TokenId]
    parents: list[int]  # -1 of the root
    tokens: list[TokenId]
    weights: list[float]
    loaded: list[float]
    heaviest: list[TokenId | None]
    ends: list[int]
    scores: list[float]
    rollouts: list[list[TokenId]]
    fixed: list[list[TokenId]]
    paths: int
    node_limit: int
    room: int
    c1: float
    c2: float

    def alternatives(self, run: Alternatives) -> dict[str, Stops]:
        """After another number of iterations the nodes that drafts end in, before their heaviest successors, what comes
        of those drafts (`fates`), and of the last iteration the value and the exploration of its first node, none where
        that had no visits; and what would have come of the drafts without learning."""
        if (tree := run.steps[-1].tree) is None:
            return {}
        nodes, below = [trigrams.Node([])], [list[int]()]
        for parent, token, w in zip(self.parents[1:], self.tokens[1:], self.weights[1:], strict=True):
            below[parent].append(len(nodes))
            nodes.append(trigrams.Node([*nodes[parent].path, token], prior=w))
            below.append([])
        there, answers = {0}, list[Any]([([], fates([], tree, self.room), None)])  # a node's successors come at once
        for end, score in zip(self.ends, self.scores, strict=True):
            way = self._way(end)
            first, N = nodes[way[0]], nodes[0].visits
            terms = (
                (first.score / first.visits, trigrams.exploration(first, N, self.c1, self.c2)) if first.visits else None
            )
            for i in (0, *way):
                nodes[i].visits, nodes[i].score = nodes[i].visits + 1, nodes[i].score + score
                there.update(below[self.parents[i]] if i else ())
            made = self._drafted([nodes[i] for i in sorted(there)])
            answers.append(([*made.values()], fates([*made], tree, self.room), terms and [round(x, 2) for x in terms]))
        return {
            "iterations": Stops([*map(float, range(len(answers)))], answers),
            "fixed": Stops([0], [fates([*map(tuple, self.fixed)], tree, self.room)]),
        }

    def _way(self, node: int) -> list[int]:
        """The nodes from below the root down to this one."""
        return [*self._way(self.parents[node]), node] if node else []

    def _drafted(self, nodes: list[trigrams.Node]) -> dict[tuple[int, ...], int]:
        """The drafts that go to the target, with their nodes."""
        number = {tuple(self.tokens[i] for i in self._way(node)): node for node in range(len(self.tokens))}
        drafts: dict[tuple[int, ...], int] = {}
        for node in trigrams.most_visited(nodes, self.paths):
            at = number[tuple(node.path)]
            ending = self.heaviest[at]
            drafts.setdefault((*node.path, *([] if ending is None else [ending])), at)
        return {tuple(draft): drafts[tuple(draft)] for draft in trigrams.trim([*map(list, drafts)], self.node_limit)}


ACCEPTED, REFUSED, UNREACHED = "ar-"


def fates(paths: Sequence[tuple[int, ...]], tree: Tree, room: int) -> tuple[list[str], str, int, int]:
    """What becomes of drafts where the target writes what it emitted in a step: of each a sign for every token that may
    be accepted; what the target's own token behind those is, "" where all that it emitted is accepted, for what follows
    is not known; and how many tokens it reads and accepts. A first choice is compared with siblings up to the one that
    is accepted, a drawn token with all."""
    drawn, emitted, states = tree.emitted_source == "target", tuple(tree.emitted), dict[tuple[int, ...], str]()
    for path in paths:
        for end in range(1, min(len(path), room) + 1):
            row, wrote = path[:end], emitted[:end]
            if len(wrote) < end or row[:-1] != wrote[:-1] or (states.get(wrote) == ACCEPTED and not drawn):
                states.setdefault(row, UNREACHED)
            else:
                states.setdefault(row, ACCEPTED if row == wrote else REFUSED)
    kept = [*states.values()].count(ACCEPTED)
    refused = kept < room and any(len(path) > kept and path[:kept] == emitted[:kept] for path in paths)
    own = "correction" if refused else "bonus" if states else "new"
    signs = ["".join(states[path[: i + 1]] for i in range(min(len(path), room))) for path in paths]
    return signs, own if kept < len(emitted) else "", len(states), kept


def searched(
    table: trigrams.Table,
    loaded: trigrams.Table,
    root: Sequence[int],
    nodes: Sequence[trigrams.Node],
    done: Sequence[trigrams.Iteration],
    uniforms: Sequence[float],
    room: int,
    p: Params,
) -> TableSearch | None:
    """The record of a search from the pair `root`; None for a text of a single token, which has no pair.

    uniforms: those that the search took; room: tokens that may still be accepted."""
    if len(root) < 2:
        return None
    number = {id(node): i for i, node in enumerate(nodes)}
    parents = {id(child): i for i, node in enumerate(nodes) for child in node.children}
    texts = [[*root, *node.path] for node in nodes]
    other = trigrams.search(loaded, root, p.iterations, p.depth, iter(uniforms), reward=p.reward, c1=p.c1, c2=p.c2)
    return TableSearch(
        [*root],
        [parents.get(id(node), -1) for node in nodes],
        [text[-1] for text in texts],
        [round(node.prior, DIGITS) for node in nodes],
        [0.0, *(round(loaded.weight(*text[-3:]), DIGITS) for text in texts[1:])],
        [next((c for c, _ in table.successors(text)), None) for text in texts],
        [number[id(iteration.node)] for iteration in done],
        [round(iteration.score, DIGITS) for iteration in done],
        [iteration.rollout for iteration in done],
        trigrams.trim(trigrams.drafts(loaded, other, root, p.paths), p.node_limit),
        p.paths,
        p.node_limit,
        room,
        p.c1,
        p.c2,
    )
