"""The draft tree of one step as a picture: what was drafted, what was accepted, where it was refused, what the step
gained."""

import math
from collections import Counter
from dataclasses import dataclass

from engines import UserError
from explorer.export import fonts, look
from explorer.export.drawing import Drawing
from explorer.export.playback import Playback
from explorer.export.views import SMALL

STATES = {"root": "old", "accepted": "accepted", "mismatch": "rejected", "unreached": "unreached"}
OWN = {"correction": "the target's correction", "bonus": "the target's bonus token"}  # behind what was accepted
MAX_NODES = 60  # shown; what was never reached is folded first
MAX_COLUMNS = 24
ROW = 14.0


@dataclass
class Node:
    """A row of the tree; `weight` 0..1 is the width of the edge that leads to it, `folded` counts hidden rows below
    it."""

    token: int
    parent: int
    state: str
    weight: float
    column: int = 0
    row: float = 0.0
    folded: int = 0


def tree_nodes(run: Playback, t: int) -> list[Node]:
    """The tree of step t - 1 with the target's own tokens behind the accepted path: a correction, a bonus token or,
    where nothing was drafted, what it says next; empty where the step has none."""
    step = run.trace.steps[t - 1] if t else None
    tree = step.tree if step else None
    if step is None or tree is None:
        return []
    nodes = []
    for i, (token, parent, why) in enumerate(zip(tree.tokens, tree.parents, tree.why, strict=True)):
        chance = 1 / (1 + max(0, tree.ranks[i])) if tree.ranks else 0.3
        for logprobs in (tree.target_logprobs, tree.draft_logprobs):
            if logprobs and (logprob := logprobs[i]) is not None:
                chance = math.exp(min(0.0, logprob))
        nodes.append(Node(token, parent, STATES.get(why, "accepted" if tree.accepted[i] else "drafted"), chance))
    path = [i for i, node in enumerate(nodes) if tree.accepted[i] and tree.why[i] != "root"]
    above = path[-1] if path else 0
    own = next((cause for cause in step.commits.causes if cause in OWN), "new") if step.commits else "new"
    for token in tree.emitted[len(path) :]:
        nodes.append(Node(token, above, own, 0.5))
        above = len(nodes) - 1
    return nodes


def folded(nodes: list[Node]) -> list[Node]:
    """At most MAX_NODES of them where folding what was never reached, then what was refused, allows it; indices of
    parents are renewed."""
    shown, left = [True] * len(nodes), len(nodes)
    below = Counter(node.parent for node in nodes)  # of each node the children that are shown
    for state in ("unreached", "rejected"):
        for i in reversed(range(len(nodes))):
            if left > MAX_NODES and nodes[i].state == state and not below[i]:
                shown[i], left = False, left - 1
                below[nodes[i].parent] -= 1
                nodes[nodes[i].parent].folded += 1 + nodes[i].folded
    number = {i: n for n, i in enumerate(i for i in range(len(nodes)) if shown[i])}
    kept = [nodes[i] for i in number]
    for node in kept:
        node.parent = number[node.parent] if node.parent >= 0 else -1
    return kept


def place(nodes: list[Node]) -> tuple[int, int]:
    """Give every node its column (depth) and row: leaves in depth-first order, a parent midway between its children.
    Returns (columns, rows)."""
    children: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        if node.parent >= 0:
            children[node.parent].append(i)
            node.column = nodes[node.parent].column + 1  # a parent stands before its children
    rows, order = 0, [(i, False) for i, node in reversed(list(enumerate(nodes))) if node.parent < 0]
    while order:
        i, done = order.pop()
        if not children[i]:
            nodes[i].row, rows = float(rows), rows + 1
        elif done:
            nodes[i].row = (nodes[children[i][0]].row + nodes[children[i][-1]].row) / 2
        else:
            order += [(i, True), *((child, False) for child in reversed(children[i]))]
    return 1 + max(node.column for node in nodes), rows


def tree_board(d: Drawing, run: Playback, t: int, x: float, y: float, w: float) -> float:
    """Depth from left to right; the width of an edge is the draft's probability, or its rank. Raises UserError for a
    tree too deep to be read."""
    nodes = tree_nodes(run, t)
    if not nodes:
        d.text(x, y + 9, "No draft tree in this step." if t else "Before the first step.", SMALL, look.surface("muted"))
        return 16.0
    nodes = folded(nodes)
    columns, rows = place(nodes)
    if columns > MAX_COLUMNS:
        raise UserError(
            f"the draft tree of step {t - 1} is {columns} levels deep; a picture takes at most {MAX_COLUMNS}. Choose "
            "another step."
        )
    pitch = min(76.0, w / columns)
    wide = pitch * (0.74 if pitch > 46 else 0.82) if columns > 1 else min(w, 56.0)
    for node in nodes:
        if node.parent >= 0:
            above = nodes[node.parent]
            x0, y0 = x + above.column * pitch + wide, y + (above.row + 0.5) * ROW
            x1, y1 = x + node.column * pitch, y + (node.row + 0.5) * ROW
            middle, line, dash = (x0 + x1) / 2, look.state(node.state, "line"), look.border(node.state)
            d.curve(((x0, y0), (middle, y0), (middle, y1), (x1, y1)), line, 0.5 + 2.4 * node.weight, dash)
    for node in nodes:
        _node(d, run, node, x + node.column * pitch, y + node.row * ROW + 1.5, wide)
    return rows * ROW + 2


def _node(d: Drawing, run: Playback, node: Node, x: float, y: float, w: float) -> None:
    h, ink = ROW - 3, look.state(node.state, "text")
    d.box(x, y, w, h, look.state(node.state, "fill"), look.state(node.state, "line"), 0.7, 2, look.border(node.state))
    if node.state == "unreached":
        d.hatch(x + 0.5, y + 0.5, w - 1, h - 1, look.surface("line"), 3.2, 0.4)
    if node.state in OWN:
        d.box(x - 1.3, y - 1.3, w + 2.6, h + 2.6, "", look.state(node.state, "line"), 0.5, 3)
    mark = f"+{node.folded}" if node.folded else "" if node.state == "old" else look.glyph(node.state)
    if w > 34:
        taken = fonts.width(mark, "sans", 5.8) + 2 if mark else 0.0
        d.text(x + 2, y + h / 2 + 2.3, run.text_of(node.token), 6.4, ink, "mono", room=w - 3.4 - taken, spaces=False)
        d.text(x + w - 1.8, y + h / 2 + 2.1, mark, 5.8, ink, anchor="end")
        return
    text = run.text_of(node.token).strip() or "␣"
    d.text(x + w / 2, y + h - 2, text, 5.2, ink, "mono", "middle", w - 2, spaces=False)
    d.text(x + w - 1.2, y + 4, mark, 3.6, ink, anchor="end")


def tree_words(run: Playback, t: int) -> str:
    """The tree in a sentence."""
    tree = run.trace.steps[t - 1].tree if t else None
    if tree is None:
        return "no draft tree in this step"
    accepted = sum(tree.accepted[i] and why != "root" for i, why in enumerate(tree.why))
    drafted = len(tree.tokens) - tree.why.count("root")
    own = next((node.state for node in tree_nodes(run, t)[len(tree.tokens) :]), "")
    behind = f", then {OWN.get(own, 'one token from the target')} ({tree.emitted_source})" if own else ""
    return f"{drafted} drafted, {accepted} accepted{behind}"
