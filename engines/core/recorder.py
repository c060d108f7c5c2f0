"""What a method is handed as `run`: its randomness, its board, and `step`, which turns facts into a recorded step at
the chosen detail.

Recording is timed apart from the model and from the method's own work, so that looking closely does not change what is
reported."""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from engines.core.errors import UserError
from engines.core.kinds import KVCache, Tokenizer
from engines.core.lazy import Tensor, torch
from engines.core.meter import Meter, OverBudget
from engines.core.method import MethodInfo
from engines.core.packing import (
    CommitFacts,
    RecordFacts,
    accepted_sources,
    authors_of,
    commits_of,
    ints,
    pack_candidates,
    pack_records,
    pack_scores,
)
from engines.core.params import Params
from engines.core.texts import many
from engines.core.trace import (
    Branch,
    Commits,
    Decision,
    Detail,
    Edit,
    Interval,
    Media,
    Memory,
    Piece,
    Routing,
    Span,
    Step,
    Tree,
    step_tokens,
)
from engines.core.trace.records import places

T = TypeVar("T")
Given: TypeAlias = T | Callable[[], T]


class Groups(TypedDict, total=False):
    """What a method may give `Recorder.step`. A function is called only where its group is recorded, on the
    recording's clock, in the order in which they are given; those of records come last."""

    commits: CommitFacts | None
    """(positions, tokens, causes[, probabilities[, authors]]), as tensors or lists; one cause may serve all. Authors
    that are not given follow from the causes, the draft tree and the model that the step chose."""
    removed: Sequence[int]
    """Rising positions that go, of the board as it was: see `Commits`. The method changes its own state and caches in
    the same way."""
    inserted: Sequence[int]
    """Rising positions that come, of the board as it will be, among those of the commits."""
    scores: Given[Mapping[str, tuple[Any, Any]]] | None
    """Lane name -> (positions [n], values [n]), NaN where undefined."""
    thresholds: Mapping[str, float] | None
    """Lane name -> the line drawn into it."""
    candidates: Given[tuple[Any, Any]] | None
    """(positions [n], logits [n, V]), of which the top k are kept."""
    records: Mapping[str, RecordFacts] | None
    """By name, of the types that the method declares; None records nothing."""
    tree: Given[Tree | None] | None
    memory: Given[Iterable[Memory]] | None
    spans: Given[Iterable[Span]]
    branches: Given[Iterable[Branch]]
    intervals: Given[Iterable[Interval]]
    routing: Given[Iterable[Routing]]
    choice: Given[Decision | None]
    media: Given[Media | None]
    facts: Given[Mapping[str, float]] | None
    note: str


ONLY_IN_FULL = {"scores", "thresholds", "candidates", "memory"}

GAP = -1  # no token: it stands where nothing was written


class Recorder:
    """The run as a method sees it. `rng` is the only randomness; `x = run.apply_edit((yield run.step(...)), x)` ends
    every turn."""

    def __init__(
        self,
        info: MethodInfo,
        params: Params,
        prompt: list[int],
        *,
        seed: int,
        detail: Detail,
        meter: Meter,
        tokenizer: Tokenizer,
        mask_id: int | None,
    ) -> None:
        self.rng = torch.Generator().manual_seed(seed)
        self.params = params
        self.detail: Detail = detail
        self.full = detail == "full"
        self.board = list(prompt)
        self.prompt_length = len(prompt)
        self.pieces: dict[int, Piece] = {}
        self.record_seconds = 0.0
        self._info, self._meter, self._tokenizer, self._mask_id = info, meter, tokenizer, mask_id
        self._token_places = places(info.described, "token")
        self.steps = 0  # that were recorded
        self._resumed = self._start = 0.0
        self._pending: list[tuple[int, int, str]] = []
        self._taken: list[int] | None = None  # the board that a method took over, where it did not begin the run
        self._noise: tuple[int, int] | None = None  # vocabulary and length of a canvas that holds no masks
        self.register_tokens(prompt if mask_id is None else [*prompt, mask_id])

    def canvas(self, length: int, device: str = "cpu") -> Tensor:
        """The starting board of a masked run, [L]: the prompt and `length` masks, or the board that this method takes
        over."""
        assert self._mask_id is not None
        if self._taken is not None:
            assert len(self._taken) == self.prompt_length + length, (
                "a method keeps the length of the board that it takes over"
            )
            return torch.tensor(self._taken, device=device)
        self.board = self.board[: self.prompt_length] + [self._mask_id] * length
        return torch.tensor(self.board, device=device)

    def noise_canvas(self, vocab_size: int, length: int) -> Tensor | None:
        """Say that from now on the board ends in a canvas [length] of any tokens, which settle. Returns the one that
        this method takes over, None where it draws its own."""
        taken, self._taken = self._taken if self._noise else None, None  # a text alone has no open canvas
        self._noise = vocab_size, length
        return None if taken is None else torch.tensor(taken)

    def restart(self, info: MethodInfo, params: Params, edit: Edit, seed: int) -> list[int]:
        """The board, with an edit made to it, for a method that begins anew here with a fresh random state. Raises
        UserError for a bad edit."""
        self._info, self.params, self._token_places = info, params, places(info.described, "token")
        self.rng = torch.Generator().manual_seed(seed)
        edit = replace(edit, params={}, method="")
        self.check_edit(edit)
        tokens = self._mask_id is not None or self._noise is not None
        state = self.apply_edit(edit, torch.tensor(self.board) if tokens else list(self.board))
        self._taken = board = state.tolist() if tokens else state
        if self._noise:  # the canvas that stood last is written by whoever takes over
            board, self._taken = board[: -self._noise[1]], board[-self._noise[1] :]
        return list(board)

    def follow(self, board: list[int], steps: int, pieces: Iterable[Piece], noise: tuple[int, int]) -> None:
        """Stand behind so many steps of another run, which left this board. pieces: its token table; noise: vocabulary
        and length of the canvas of any tokens that the board ends in, a length of 0 where it ends in none."""
        self.board, self.steps, self._noise = board, steps, noise if noise[1] else None
        self.pieces = {piece.id: piece for piece in pieces} | self.pieces

    def open(self, length: int) -> None:
        """The board before the first step, for an edit there: `length` masks behind the prompt."""
        self.board = self.board[: self.prompt_length] + [self._mask_id or 0] * length

    def remaining_steps(self, forwards: int, start: int, end: int) -> int:
        """Of the forwards that a fixed schedule plans for [start, end), those that are left where a part of it was
        there when the method took over."""
        if self._taken is None:
            return forwards
        return -(-forwards * self._taken[start:end].count(self._mask_id or 0) // (end - start))

    @property
    def unrecorded(self) -> bool:
        """Whether an edit changed the board and no step has said so yet."""
        return bool(self._pending)

    def resume(self) -> None:
        """Called by the driver when the method gets control."""
        self._resumed = time.perf_counter()
        self._start = self._start or self._resumed

    def step(self, **groups: Unpack[Groups]) -> Step:
        """Record one turn and return it for yielding. Raises TypeError for a group that a step does not have, and
        ValueError for a record that does not fit its declaration, or positions that cannot go or come."""
        now, meter = time.perf_counter(), self._meter
        if unknown := groups.keys() - Groups.__annotations__:
            raise TypeError(f"a step has no '{min(unknown)}'; run.step takes {', '.join(Groups.__annotations__)}")
        if meter.spent:
            raise OverBudget
        seconds = meter.seconds + (meter.beside.seconds if meter.beside else 0.0)
        step = Step(
            index=self.steps,
            forwards=dict(meter.forwards),
            tokens_fed=meter.tokens_fed,
            model_seconds=meter.seconds,
            method_seconds=max(0.0, now - self._resumed - seconds),
            work=dict(meter.work),
        )
        self.steps += 1
        forced, self._pending = self._pending, []
        removed, inserted = ints(groups.get("removed", ())), ints(groups.get("inserted", ()))
        commits = commits_of(groups.get("commits"), forced, removed, inserted)
        self._apply(commits)
        if self.detail != "none":
            self._fill(step, commits, groups)
        meter.reset()
        self.record_seconds += time.perf_counter() - now
        return step

    def _fill(self, step: Step, commits: Commits | None, groups: Groups) -> None:
        """Put what the method gave into the step, as far as this detail keeps it."""
        given: dict[str, Any] = {
            name: group() if callable(group) else group
            for name, group in groups.items()
            if self.full or name not in ONLY_IN_FULL
        }
        for name in ("spans", "branches", "routing", "intervals", "memory"):
            setattr(step, name, list(given.get(name) or ()))
        step.tree, step.choice, step.media = given.get("tree"), given.get("choice"), given.get("media")
        step.note = given.get("note", "")
        step.commits = self._signed(commits, step.tree, step.choice)
        facts = {**(given.get("facts") or {}), **self._meter.counts_beside()}
        step.facts = {name: float(value) for name, value in facts.items()}
        step.records = pack_records(given.get("records") or {}, self._info.records, self.full)
        self.register_tokens(step_tokens(step, self._token_places))
        if given.get("scores"):
            step.scores = pack_scores(given["scores"], self._info.lanes, given.get("thresholds") or {})
        if given.get("candidates"):
            step.candidates = pack_candidates(*given["candidates"])
            self.register_tokens(step.candidates.tokens.array().ravel().tolist() if step.candidates else ())

    def calls(self, labels: Mapping[str, str] | None = None) -> list[Interval]:
        """The model calls since the last step as measured intervals, a track per role; none where nothing is recorded.
        labels: role -> verb shown."""
        if self.detail == "none":
            return []
        s, names = self._start, labels or {}
        return [
            Interval(role, a - s, b - s, f"{verb}, {many(fed, 'row')}", about={"mark": fed}, kind=verb)
            for role, a, b, fed in self._meter.calls
            for verb in (names.get(role, "forward"),)
        ]

    def interval(
        self,
        track: str,
        began: float,
        ended: float,
        label: str = "",
        about: Mapping[str, Any] | None = None,
        kind: str = "",
    ) -> list[Interval]:
        """Work beside the models, such as a look-up, as a measured interval; none where nothing is recorded. began,
        ended: by `time.perf_counter`, read by the tool that did it. about, kind: as in `Interval`."""
        if self.detail == "none":
            return []
        return [Interval(track, began - self._start, ended - self._start, label, about=dict(about or {}), kind=kind)]

    def call(self, role: str, device: str, fed: int, compute: Callable[[], Any], *, layer_rows: int = 0) -> Any:
        """Run a forward of a trained part that is a model of its own, on the clock: see `Meter.call`."""
        return self._meter.call(role, device, fed, compute, layer_rows=layer_rows)

    def count_as(self, role: str) -> None:
        """Count the forwards since the last step under `role`: work beside the decoding itself, such as a reference to
        compare with."""
        meter = self._meter
        meter.forwards, meter.work = {role: sum(meter.forwards.values())}, {role: sum(meter.work.values())}

    def register_tokens(self, tokens: Iterable[int]) -> None:
        """Put tokens into the token table."""
        for token in tokens:
            if token not in self.pieces:
                self.pieces[token] = self._tokenizer.piece(token)

    def _signed(self, commits: Commits | None, tree: Tree | None, choice: Decision | None) -> Commits | None:
        """The commits with their authors, where the method did not name them."""
        if commits and not commits.authors:
            role = choice.chosen if choice and choice.chosen in self._info.needs else self._info.role
            known = accepted_sources(tree.why, tree.sources) if tree else ()
            commits.authors = authors_of(commits.causes, role, known, role if self._noise else "draft")
        return commits

    def _apply(self, commits: Commits | None) -> None:
        if not commits:
            return
        if commits.moves:
            commits.width(self.prompt_length, len(self.board))  # raises where it does not fit
        width = len(self.board)
        commits.onto(self.board, GAP)
        assert GAP not in self.board[width:], f"the commits leave a gap behind {width}"

    def check_edit(self, edit: Edit) -> None:
        """Refuse an edit that does not fit the run as it stands: parameters, positions, kind of board. Raises
        UserError; nothing has changed then."""
        declared = {p.name: p for p in self._info.params}
        for name, value in edit.params.items():
            if name not in declared:
                raise UserError(f"unknown parameter '{name}'; this method has {', '.join(declared)}.")
            declared[name].check(value)
        first, last = self.prompt_length, len(self.board) - 1
        if self._mask_id is not None or self._noise is not None:
            if outside := [p for p in (*edit.force, *edit.remask) if not first <= p <= last]:
                raise UserError(f"position {outside[0]} cannot be edited; the answer has positions {first} to {last}.")
            begin = last + 1 - self._noise[1] if self._noise else first
            if settled := [p for p in edit.remask if p < begin]:
                raise UserError(
                    f"position {settled[0]} cannot be drawn anew; the canvas being written has positions {begin} to "
                    f"{last}. Force a token there instead."
                )
            return
        if edit.remask:
            raise UserError("this model writes left to right and has no masks; force or forbid a token instead.")
        positions = sorted(edit.force)
        if positions and not first <= positions[0] <= last + 1:
            raise UserError(f"position {positions[0]} cannot be forced; give one from {first} to {last + 1}.")
        if gap := [b for a, b in itertools.pairwise(positions) if b != a + 1]:
            raise UserError(f"forced positions must follow each other; {gap[0]} leaves a gap.")

    def apply_edit(self, edit: Edit | None, state: Any, *caches: KVCache) -> Any:
        """The state after an edit that passed `check_edit`: a masked board [L], or a causal run's list of ids (its
        caches are cropped to match)."""
        if edit is None:
            return state
        if edit.params:
            self.params.change(
                {p.name: p.check(edit.params[p.name]) for p in self._info.params if p.name in edit.params}
            )
        for position, tokens in edit.forbid.items():
            self._meter.forbidden.setdefault(position, set()).update(tokens)
        if not hasattr(state, "clone"):
            return self._apply_edit_ids(edit, state, caches)
        changes: list[tuple[int, int | None, str]] = [(p, t, "forced") for p, t in edit.force.items()]
        for position in edit.remask:  # the mask, or a token drawn where there is none
            token = int(torch.randint(self._noise[0], (1,), generator=self.rng)) if self._noise else self._mask_id
            changes.append((position, token, "remasked"))
        for position, token, cause in changes:
            state[position] = token
            self._pending.append((position, int(token or 0), cause))
        return state

    def _apply_edit_ids(self, edit: Edit, ids: list[int], caches: Sequence[KVCache]) -> list[int]:
        if not edit.force:
            return ids
        first = min(edit.force)
        if first < len(ids):
            self._pending.append((first, -1, "withdrawn"))
        ids = ids[:first]
        for position in sorted(edit.force):
            ids.append(edit.force[position])
            self._pending.append((position, edit.force[position], "forced"))
        for cache in caches:
            cache.crop(min(cache.length, first))
        return ids
