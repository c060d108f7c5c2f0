"""A draft tree and what became of its rows."""

from typing import Annotated, Literal

from msgspec import Meta

from engines.core.trace.base import EXACT, Index, Record

Token = Annotated[int, Meta(ge=-1, le=EXACT)]  # -1: none


class GuessSource(Record):
    """A place that guesses of a tree were taken from, which stands left of the tree: a row of a table, a stretch of the
    text or of a store, a head, a layer that was left early, a draft model.

    kind: table, text, store, head, prompt (a learned token), layer, model; each has a colour of its own. label: for a
    person, such as "head 2".
    key: the tokens that were looked up, if any. tokens: the guesses that stood there, in order; -1 is an empty place.
    links: (row of the tree, index of the token that the row is; -1 for the source as a whole). after: what stands there
    after the step, where the step writes to it."""

    kind: str
    label: str = ""
    key: list[Index] = []
    tokens: list[Token] = []
    links: list[tuple[Index, Token]] = []
    after: list[Token] = []

    def __post_init__(self) -> None:
        for row, cell in self.links:
            if cell >= len(self.tokens):
                raise ValueError(f"tree: row {row} is linked to guess {cell} of a source that has {len(self.tokens)}")


class Tree(Record):
    """A draft tree as fed to one verification forward. Row 0 is the root (the last emitted token); parents stand before
    children.

    `why` says what became of each row: root, accepted, mismatch (looked at and refused), unreached (never looked at).
    `sources`: root, draft, retrieval, both, ngram, matrix. `ranks`: order among the siblings. `emitted`: the tokens the
    step gained. `chances`: the chance of each row that was looked at to be kept, given the refusals before it;
    `uniforms`: the number drawn for that test. `values`: what the drafter chose the rows by, where that is not their
    probability; `value_name` says what it is, `value_kind` how it is shown: a chance, the value of a
    slot, the number of the pass that drafted it, or else a score. `tails`: rows without a token (learned embeddings,
    made-up states) that were fed behind each row, a chain that sees the row's path. `guessed_from`: where the rows'
    tokens were taken from; empty where that is the drafter alone."""

    start: Index  # position of the root
    parents: list[Annotated[int, Meta(ge=-1)]]
    tokens: list[Index]
    accepted: list[bool]
    why: list[str]
    emitted: list[Index]
    sources: list[str] = []
    ranks: list[int] = []
    draft_logprobs: list[float | None] = []
    target_logprobs: list[float | None] = []
    emitted_source: str = "argmax"  # argmax, target, residual; draft: nothing beyond the accepted rows
    chances: list[float | None] = []
    uniforms: list[float | None] = []
    values: list[float | None] = []
    value_name: str = ""
    value_kind: Literal["score", "chance", "slot", "pass"] = "score"
    tails: list[Index] = []
    guessed_from: list[GuessSource] = []

    def __post_init__(self) -> None:
        n = len(self.parents)
        for name in ("tokens", "accepted", "why"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"tree: {name} has {len(getattr(self, name))} entries for {n} rows")
        for name in ("sources", "ranks", "draft_logprobs", "target_logprobs", "chances", "uniforms", "values", "tails"):
            if len(getattr(self, name)) not in (0, n):
                raise ValueError(f"tree: {name} has {len(getattr(self, name))} entries for {n} rows")
        if any(not 0 < row < n for source in self.guessed_from for row, _ in source.links):
            raise ValueError(f"tree: a source is linked to a row that is none of the {n - 1} below the root")
        if any(parent >= row for row, parent in enumerate(self.parents)):
            raise ValueError("tree: a parent must stand before its children")
