"""Several continuations of one text in one cache: beams, parallel samples, the states of a search, probes.

A path is a line of nodes from the text to its tip. Paths share what they have in common: the text is fed once, a node
that several paths run through is fed once, and each round feeds all that is new in one forward, every row seeing only
its own path (the tree mask of `CausalLM.extend`). The rows of a path that was dropped are freed by the next round.

    paths = Paths(model, prompt, rows=n * p.max_new_tokens, rng=run.rng)
    one, two = paths.add(), paths.add()
    paths.feed()                                              # one forward; then every path has its logits [V]
    for path in paths.living:
        paths.write(path, [draw(distribution(path.logits, p.temperature), path.rng)])
    edit = yield run.step(commits=paths.commits(run.board, one), branches=paths.branches())
    paths.apply_edit(run, edit, one)

Letters: V vocabulary, n rows of a draft tree, c rows of text fed on the way to a tip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engines.core.errors import UserError
from engines.core.kinds import CausalLM
from engines.core.lazy import Generator, Tensor, torch
from engines.core.recorder import Recorder
from engines.core.trace import Branch, Edit


class DraftTree(Protocol):
    """Tokens that may follow a path: row 0 is the path's last token with parent -1, parents stand before children."""

    tokens: list[int]
    parents: list[int]


@dataclass(eq=False)
class Node:
    """A token at a position of the board. row: its place behind the text in the cache, None where it is not fed;
    logits [V]: what follows it, kept only while a path ends here. parent None: it is the text's last token."""

    token: int
    parent: Node | None
    position: int
    row: int | None = None
    logits: Tensor | None = None


@dataclass(eq=False)
class Path:
    """One continuation. parent: the path it was forked from, -1 for none; fate: alive, pruned, finished or chosen;
    scores: whatever a method ranks it by. rng: its own randomness, the same however many paths there are."""

    id: int
    parent: int
    tip: Node
    rng: Generator
    fate: str = "alive"
    scores: dict[str, float] = field(default_factory=dict)
    draft: list[Node] = field(default_factory=list, repr=False)
    recorded: list[int] = field(default_factory=list, repr=False)
    recorded_fate: str = field(default="", repr=False)

    @property
    def length(self) -> int:
        """Positions of its text, those shared by all included."""
        return self.tip.position + 1

    @property
    def logits(self) -> Tensor:
        """Logits [V] of what follows it. Raises ValueError where `feed` has not read its last token."""
        if self.tip.logits is None:
            raise ValueError(f"path {self.id} has grown since it was fed; call feed() first")
        return self.tip.logits


@dataclass(frozen=True)
class Fed:
    """What a round read of one path: z [n, V] of its last token and of the draft below it; z_before [c, V] of the
    tokens `before` that this path was the first to feed on the way there (of the first path also the text)."""

    z: Tensor
    z_before: Tensor
    before: list[int]


class Paths:
    """The continuations of one text. rows: how many of their tokens and draft rows the cache has room for at once."""

    def __init__(self, model: CausalLM, text: Sequence[int], rows: int, rng: Generator) -> None:
        self.model, self.paths = model, list[Path]()
        self._capacity = len(text) + rows
        self._cache = model.new_cache(self._capacity)
        self._text, self._root = list(text[:-1]), Node(text[-1], None, len(text) - 1)
        self._rows: list[Node] = []  # behind the text in the cache, in its order
        self._forced: dict[int, int] = {}  # position -> token, for paths that have not got there yet
        self._start, self._rng = len(text), rng

    @property
    def living(self) -> list[Path]:
        """The paths that go on, in the order they were made."""
        return [path for path in self.paths if path.fate == "alive"]

    @property
    def cache_bytes(self) -> int:
        """Bytes of the cache's buffers as they are allocated; 0 before the first round, or where it does not say."""
        return int(getattr(self._cache, "bytes", 0))

    def add(self) -> Path:
        """A new path that begins behind the text. The first one draws from the run's own generator, so that a single
        path is plain sampling; the others from generators of their own."""
        return self._new(-1, self._root)

    def fork(self, path: Path, length: int | None = None) -> Path:
        """A new path on the first `length` tokens of another (all of them); what they share is not fed again."""
        new = self._new(path.id, path.tip)
        new.scores = dict(path.scores)
        self.cut(new, new.length if length is None else length)
        return new

    def _new(self, parent: int, tip: Node) -> Path:
        number = len(self.paths)
        seed = (self._rng.initial_seed() + number * 0x9E3779B97F4A7C15) % 2**63
        self.paths.append(Path(number, parent, tip, torch.Generator().manual_seed(seed) if number else self._rng))
        return self.paths[-1]

    def read(self, path: Path) -> list[int]:
        """Its tokens, those of the text first; also of a path that was dropped."""
        tokens, node = list[int](), path.tip
        while node.parent is not None:
            tokens.append(node.token)
            node = node.parent
        return [*self._text, node.token, *reversed(tokens)]

    def write(self, path: Path, tokens: Iterable[int]) -> list[int]:
        """Put tokens behind a path; they are fed by the next round. Returns those that stand now: where an edit forces
        another token, that one, and nothing behind it."""
        gained = list[int]()
        for token in tokens:
            stands = self._forced.get(path.length, token)
            path.tip = Node(stands, path.tip, path.length)
            gained.append(stands)
            if stands != token:
                break
        return gained

    def accept(self, path: Path, rows: Sequence[int], tokens: Sequence[int] = ()) -> list[int]:
        """Keep rows of the draft last fed below a path, one below the other, and write tokens behind them. Returns the
        tokens gained; an edit that forces another one on the way ends it there."""
        gained = list[int]()
        for node in (path.draft[row] for row in rows):
            if self._forced.get(node.position, node.token) != node.token:
                return gained + self.write(path, [node.token])
            path.tip = node
            gained.append(node.token)
        return gained + self.write(path, tokens)

    def cut(self, path: Path, length: int) -> None:
        """Take a path back to its first `length` tokens. Raises ValueError where the text that all share would be cut,
        or the path is not that long."""
        if not self._root.position < length <= path.length:
            raise ValueError(
                f"path {path.id} has {path.length} tokens and shares {self._root.position + 1} with all others; "
                f"it cannot be cut to {length}"
            )
        while path.length > length:
            path.tip = path.tip.parent or self._root

    def drop(self, path: Path, fate: str = "pruned") -> None:
        """End a path as pruned, finished or chosen. It can still be read; its rows are freed."""
        path.fate, path.draft = fate, []

    def resume(self, path: Path) -> None:
        """Let a dropped path go on. What is not in the cache any more is fed again."""
        path.fate = "alive"

    def feed(self, drafts: Mapping[int, DraftTree] | None = None) -> dict[int, Fed]:
        """Feed in one forward all that the cache lacks of the living paths, and draft trees (path id -> tree) below
        them. Returns what was read of each path, by id. Raises UserError where it does not fit."""
        living, drafts = self.living, drafts or {}
        for path in living:
            if path.tip.row is not None and path.tip.logits is None:  # its logits are gone: read it once more
                path.tip = Node(path.tip.token, path.tip.parent, path.tip.position)
        self._free(living)
        chain, new, before = self._text[self._cache.length :], list[Node](), dict[int, list[Node]]()
        for path in living:
            line = self._unfed(path, set(new))
            before[path.id] = [node for node in line if node is not path.tip]
            path.draft = grown(path.tip, drafts.get(path.id))
            new += [*line, *path.draft[1:]]
        self._check(living, len(chain) + len(new), max((node.position for node in new), default=0))
        z, at = self._extend(chain, new, last_only=not drafts and len(new) == 1)
        return {path.id: self._found(path, z, at, before[path.id], chain * (path is living[0])) for path in living}

    def _unfed(self, path: Path, seen: set[Node]) -> list[Node]:
        """The nodes of a path that neither the cache holds nor a path before it feeds, in the order of the text."""
        line, node = list[Node](), path.tip if path.tip.row is None else None
        while node is not None and node.row is None and node not in seen:
            line.append(node)
            node = node.parent
        return line[::-1]

    def _found(self, path: Path, z: Tensor, at: Mapping[Node, int], before: list[Node], chain: list[int]) -> Fed:
        """What a round read of a path. z: the logits of all that was fed, at: node -> its row of them."""
        if path.tip in at:
            path.tip.logits = z[at[path.tip]].clone()
        rows = [at[node] for node in path.draft if node in at]
        read = pick(z, rows) if path.tip in at else torch.cat([path.logits[None], pick(z, rows).to(path.logits)])
        if len(z) < len(chain) + len(before) + len(rows):  # only the last row was asked for
            return Fed(read, read[:0], [])
        return Fed(
            read,
            pick(z, [*range(len(chain)), *(at[node] for node in before)]),
            [*chain, *(node.token for node in before)],
        )

    def _extend(self, chain: list[int], new: list[Node], last_only: bool) -> tuple[Tensor, dict[Node, int]]:
        """One forward: (logits, node -> its row of them)."""
        if not new:
            return torch.zeros(0, self.model.vocab_size), {}
        early, c = len(self._rows), len(chain)
        for row, node in enumerate(new, early):
            node.row = row
        self._rows += new
        parents = [*range(-1, c - 1), *(c - 1 if n.parent is None else c + (n.parent.row or 0) for n in self._rows)]
        tokens = [*chain, *(node.token for node in new)]
        z = self.model.extend(tokens, self._cache, parents=parents, last_only=last_only).logits
        return z, {node: 0 if last_only else c + i for i, node in enumerate(new)}

    def _free(self, living: Sequence[Path]) -> None:
        """Give back the rows that no living path runs through, and the logits behind which none ends."""
        tips, used = {path.tip for path in living}, set[Node]()
        for tip in tips:
            node: Node | None = tip
            while node is not None and node not in used:
                used.add(node)
                node = node.parent
        kept = [node for node in self._rows if node in used]
        if len(kept) < len(self._rows):
            self._cache.keep(len(self._text), [node.row or 0 for node in kept])
        for node in self._rows:
            node.row = None
            node.logits = node.logits if node in tips else None
        for row, node in enumerate(kept):
            node.row = row
        self._rows = kept

    def _check(self, living: Sequence[Path], new: int, last: int) -> None:
        used = self._cache.length
        if used + new > self._capacity:
            raise UserError(
                f"{len(living)} paths need {used + new} rows of a cache that was made for {self._capacity}; "
                "take fewer paths, smaller drafts or fewer new tokens."
            )
        if last >= self.model.max_positions:
            raise UserError(
                f"a path reaches position {last} and the model has {self.model.max_positions}; use a shorter prompt, "
                "smaller drafts or fewer new tokens."
            )

    # --- the record

    def commits(
        self, board: Sequence[int], path: Path, cause: str = "sampled"
    ) -> tuple[list[int], list[int], list[str]]:
        """(positions, tokens, causes) that turn the board into this path's text, for `run.step`: what it does not share
        with the board is withdrawn first, so the board may show another path in every step."""
        text = self.read(path)
        same = shared(board, text)
        at, tokens = list(range(same, len(text))), text[same:]
        gone = same < len(board)
        return [same] * gone + at, [-1] * gone + tokens, ["withdrawn"] * gone + [cause] * len(at)

    def branches(self) -> list[Branch]:
        """What became of each path since the last record: the tokens that it gained (a new fork those that its parent
        lacks), its length behind the text, scores and fate. Paths that ended before are left out."""
        branches = []
        for path in self.paths:
            text = self.read(path)
            known = path.recorded or (self.paths[path.parent].recorded if path.parent >= 0 else [])
            if path.fate == "alive" or path.fate != path.recorded_fate or text != path.recorded:
                gained, length = text[max(shared(known, text), self._start) :], max(0, len(text) - self._start)
                branches.append(Branch(path.id, path.parent, gained, length, dict(path.scores), path.fate))
            path.recorded, path.recorded_fate = text, path.fate
        return branches

    def apply_edit(self, run: Recorder, edit: Edit | None, shown: Path) -> None:
        """An edit made to the board, which shows the path `shown`. A token forced at a position cuts every path there
        that is as long, ended ones too but for those pruned, and all go on from it; the others get it when they come
        to that position."""
        if edit is None:
            return
        run.apply_edit(edit, self.read(shown))
        for path in self.paths:
            if path.tip.logits is not None and (tokens := edit.forbid.get(path.length)):
                path.tip.logits[..., sorted(tokens)] = -torch.inf
        if edit.force:
            self._force(edit.force)

    def _force(self, force: Mapping[int, int]) -> None:
        first = min(force)
        self._forced = {p: token for p, token in self._forced.items() if p < first} | dict(force)
        within = first <= self._root.position  # the edit cuts what all share
        if within:
            self._root = Node(self._text[first - 1], None, first - 1)
            self._text, self._rows = self._text[: first - 1], []
            self._cache.crop(min(self._cache.length, first - 1))
        behind = dict[Node, Node]()  # paths that are the same up to there share the forced tokens too
        for path in self.paths:
            if within:
                path.tip = self._root
            if path.fate == "pruned" or path.length < first:
                continue
            self.cut(path, first)
            tip = path.tip
            for position in sorted(force) if tip not in behind else ():
                behind[tip] = Node(force[position], behind.get(tip, tip), position)
            path.tip, path.fate, path.draft = behind[tip], "alive", []


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two texts begin with in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def grown(tip: Node, tree: DraftTree | None) -> list[Node]:
    """A draft tree as nodes below the tip of a path, which is its row 0."""
    nodes = [tip]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True) if tree else ():
        nodes.append(Node(token, nodes[parent], nodes[parent].position + 1))
    return nodes


def pick(z: Tensor, rows: Sequence[int]) -> Tensor:
    """Rows of logits z [m, V]; a view where they follow each other."""
    if rows and rows[-1] - rows[0] + 1 == len(rows):
        return z[rows[0] : rows[-1] + 1]
    return z[list(rows)]
