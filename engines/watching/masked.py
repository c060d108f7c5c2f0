"""Reading a loop over a board with masks: what was fed, and what was written, which is the difference between two
inputs, and between the last one and the output.

Shapes: B rows, L positions of the board, n of them fed, V vocabulary."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from engines.core.lazy import Tensor
from engines.core.trace import Span
from engines.watching.arguments import Unreadable
from engines.watching.facts import Describer, said_broken
from engines.watching.hooks import Call
from engines.watching.iteration import NO_OUTPUT, Reading, Turn, Written
from engines.watching.packed import check_one_text
from engines.watching.rows import PADDING, SECOND_LOOK, first_look, fitting, grown, guidance, padding, rivals, row_of

CLEAR = 5.0  # nats by which one reading of the rows must explain the written tokens better than the other
MOST = 10.0  # nats that a single token may say about it
MOST_HALVES = 2  # calls beside the one that sees the prompt, of one step


class MaskedReader:
    """The calls of one module over masked boards; one `Board` per prompt among the rows."""

    def __init__(
        self, mask_id: int, shift: bool | None, full: bool, prompt: list[int] | None, blocks: bool = False
    ) -> None:
        self.mask_id, self.shift, self.full, self.prompt = mask_id, shift, full, prompt
        self.blocks = blocks  # whether the model is known to want a block mask
        self.boards: list[Board] = []
        self._batch = 0

    def before(self, call: Call, cache: Any) -> None:
        """The board of the call, and with it what the turn before it wrote."""
        if call.ids is None:
            raise Unreadable("the loop feeds embeddings instead of token ids, so its board cannot be seen.")
        check_one_text(call)
        if not self.boards:
            self._batch = call.batch
            self.boards = [Board(self, row, blind) for row, blind in guidance(call.ids.numpy(), self.mask_id)]
        if call.batch != self._batch:
            begun = [board.x[: board.prompt].tolist() for board in self.boards]
            fed = [] if call.past != 0 else [row[: len(begun[0])] for row in call.ids.tolist()]
            alike = all(ids == begun[0] for ids in (*begun, *fed))
            raise Unreadable(grown(self._batch, call.batch, alike))
        for board in self.boards:
            board.see(call)

    def after(self, call: Call, logits: Tensor, cache: Any) -> None:
        """What the forward says at the open positions."""
        if logits.shape[-2] != call.n:
            raise Unreadable(f"{call.n} positions were fed and {logits.shape[-2]} rows of logits came back.")
        for board in self.boards:
            board.hear(call, logits[board.row if len(logits) > 1 else 0])

    def readings(self, outputs: list[list[int]] | None) -> list[Reading]:
        """What is known of each prompt's answer. outputs: the loop's own, one per prompt."""
        boards = copy.deepcopy(self.boards)  # trace() may be asked again
        return [
            board.reading(outputs[i] if outputs is not None and i < len(outputs) else None, i, len(boards))
            for i, board in enumerate(boards)
        ]


class Board:
    """One prompt's board. row: its row in a forward; blind: the row beside it that does not see the prompt, of
    guidance, or None."""

    def __init__(self, reader: MaskedReader, row: int, blind: int | None) -> None:
        self.reader, self.row, self.blind = reader, row, blind
        self.x = np.zeros(0, dtype=np.int64)  # [L], as it was last seen
        self.fed = 0  # positions that were fed so far; behind them stands what is known of the prompt
        self.offset = 0  # from a position id to a position of the board (padding on the left)
        self.prompt, self.turns, self.fault = 0, list[Turn](), ""
        self.since = 0  # where what was fed last begins, of a board that grows block by block
        self.evidence: list[tuple[float, float]] = []  # p and before of every token written, see `Written`
        self.blind_calls = 0  # forwards of their own in which the prompt was hidden
        self.trailing = 0  # of these, behind the last forward that saw it
        self.cached = False  # whether the last forward that saw the prompt was given a cache
        self._skipped = self._masked = self._padded = self._windows = self._edited = self._copied = False
        self._describe = Describer()

    @property
    def guided(self) -> bool:
        """Whether a second row or call hides the prompt."""
        return self.blind is not None or self.blind_calls > 0

    def see(self, call: Call) -> None:
        """Place the call's row on the board and close the turn before it."""
        if self.fault:
            return
        assert call.ids is not None
        width = call.n if call.positions is None else first_look(call, self.row)
        part = call.ids[self.row, :width].numpy()
        self._skipped, self._copied = False, self._copied or width < call.n
        try:
            if not len(self.x):
                self._begin(part, call)
            elif self._unguided(part, call):
                self._skipped = True
                self.turns[-1].calls.append(call)
                self.blind_calls += 1
                self.trailing += 1
                call.aside = True
                return
            self.trailing, self.cached = 0, call.cached
            self._padded |= padding(call)
            if call.past == 0 and self.fed < len(part):
                self._windows, self.since = True, self.fed
            start = self._start(part, call)
            given = self._write(part, start) if start is not None else []
            self.turns.append(self._turn(call, part, start))
            self.turns[-1].commits += given
        except Unreadable as error:
            self.fault = str(error)

    def _begin(self, part: np.ndarray, call: Call) -> None:
        if call.past:
            raise Unreadable(
                f"the cache already held {call.past} positions when watching began; begin the `with` before the "
                "prompt is fed."
            )
        masks = np.flatnonzero(part == self.reader.mask_id)
        given = self.reader.prompt
        self.prompt = len(given) if given is not None else int(masks[0]) if len(masks) else len(part)
        if given is not None and part[: self.prompt].tolist() != given[: len(part)]:
            raise Unreadable(
                f"the board does not begin with the {self.prompt} tokens of `prompt`; give the ids as the loop feeds "
                "them, or leave `prompt` out."
            )
        if call.positions is not None:
            self.offset = len(part) - 1 - int(call.positions[self.row, len(part) - 1])
        rest = [] if given is None else given[len(part) :]  # of a prompt that is fed in several calls
        self.since = self.prompt
        self.x, self.fed = np.concatenate([part, np.asarray(rest, dtype=part.dtype)]), len(part)

    def _unguided(self, part: np.ndarray, call: Call) -> bool:
        """Whether this is the other half of guidance in two calls: the board once more with its prompt hidden, or
        whatever stands behind a cache of its own, which begins empty while the board's own is in use."""
        if call.branch is not None or call.past or not self.prompt:
            return bool(call.branch)
        n = min(len(part), self.prompt)
        other = np.flatnonzero(part[:n] != self.x[:n])
        if len(part) == len(self.x) and (part == self.x)[self.prompt :].all():
            return bool(len(other) and (part[other] == self.reader.mask_id).all())
        return self.cached and bool(len(part) < self.fed or len(other))

    def _start(self, part: np.ndarray, call: Call) -> int | None:
        """Where the part stands on the board: as the call says it, by what the cache holds, or by the one place where
        it fits; None where that cannot be known. A part may be as wide as the board and still stand behind it."""
        n, past, complete = len(part), call.past, self.reader.mask_id not in self.x[: self.fed]
        if call.positions is not None and past != 0 and bool((call.positions[self.row, :n].diff() == 1).all()):
            at = int(call.positions[self.row, 0]) + self.offset
            if at >= 0:
                return at
        if call.place is not None:
            return call.place
        if past == 0 and n < self.fed:
            raise Unreadable(
                f"the board had {self.fed} positions and a board of {n} was fed without a cache; watch one answer at a "
                "time, with a board of one width."
            )
        if past == 0:
            return 0
        if past is not None and past + n == self.fed:
            return past
        if past == self.fed and complete:
            return past  # another block behind a text that is complete
        if n == self.fed:
            return 0
        board, mask = self.x[: self.fed], self.reader.mask_id
        if past is not None and past < self.fed < past + n and past in fitting(board, part[: self.fed - past], mask):
            return past
        places = fitting(board, part, mask)
        return places[0] if len(places) == 1 else None

    def _write(self, part: np.ndarray, start: int) -> list[Written]:
        """Note what the turn before wrote: where the part differs from what stood there. What the loop put in beside it
        is returned."""
        mask, end = self.reader.mask_id, start + len(part)
        if start > self.fed:
            raise Unreadable(f"positions from {start} on were fed of a board of {self.fed}.")
        if end > len(self.x):  # the board grows by masks
            self.x = np.concatenate([self.x, np.full(end - len(self.x), mask)])
        at = start + np.flatnonzero(self.x[start:end] != part)
        if len(at) and at[0] < self.prompt:
            raise Unreadable("another prompt began; use one `with` for each answer.")
        at, given = self._given(at, part, start)
        self.fed = max(self.fed, end)
        if not len(self.turns):
            return given
        again = not (self.x[self.prompt :] == mask).any() and len(self.x) - self.prompt == len(at)
        if again and (part[at - start] == mask).all():
            raise Unreadable("the same prompt began once more; use one `with` for each answer.")
        self._note(at, part[at - start])
        self.x[start:end] = part
        return given

    def _given(self, at: np.ndarray, part: np.ndarray, start: int) -> tuple[np.ndarray, list[Written]]:
        """Of the places `at` that differ: those that the turn before may have written, and the tokens that stood behind
        all that was fed, where no forward can have written them: the loop put them there, the rest of a prompt. Alone
        directly behind it a token may come from the row before its place."""
        beyond = at[at >= max(self.fed, self.prompt)]
        if len(self.turns) and self.reader.shift is not False and beyond.tolist() == [self.fed]:
            return at, []
        return at[at < self.fed], [Written(int(p), int(part[p - start]), "constraint") for p in beyond]

    def _note(self, at: np.ndarray, tokens: np.ndarray) -> None:
        """Book the changes on the last turn, and let go of its distributions."""
        iteration, mask = self.turns[-1], self.reader.mask_id
        outside = 0
        for position, token in zip(at.tolist(), tokens.tolist(), strict=True):
            cause = "remasked" if token == mask else "filled" if self.x[position] == mask else "changed"
            p = before = None
            self._edited |= cause == "changed"
            if iteration.facts and iteration.start is not None and token != mask:
                p = iteration.facts.of(position - iteration.start, token)
                before = iteration.facts.of(row_of(position, iteration.start, True), token)
                self.evidence += [(p, before)] if p is not None and before is not None else []
            if self.guided:  # the rows are mixed before they decide
                p = before = None
            outside += iteration.start is not None and not iteration.start <= position < iteration.end
            iteration.commits.append(Written(position, token, cause, p, before))
        if outside:
            iteration.notes.append(
                f"{outside} of these positions were not fed in this call; they may have been written in an earlier one."
            )
        if iteration.facts:
            iteration.facts.forget()

    def _turn(self, call: Call, part: np.ndarray, start: int | None) -> Turn:
        if start is None:
            note = f"{len(part)} positions were fed; which ones cannot be seen from the call."
            return Turn([call], None, 0, notes=[note])
        end, length = start + len(part), len(self.x)
        iteration = Turn([call], start, end, open=(start + np.flatnonzero(part == self.reader.mask_id)).tolist())
        self._masked |= bool(iteration.open)
        if len(part) < length:
            kind = "prefix" if end == length else "dual"
            iteration.spans = [Span("fed", start, end, kind)]
            iteration.spans += [Span("cache", a, b, kind) for a, b in ((0, start), (end, length)) if a < b]
            iteration.notes.append(f"{len(part)} of {length} positions are fed, the others are old.")
        if not self.turns:
            given = np.flatnonzero(part != self.reader.mask_id).tolist() if iteration.open else []
            iteration.commits = [Written(p, int(part[p]), "constraint") for p in given if p >= self.prompt]
        return iteration

    def hear(self, call: Call, logits: Tensor) -> None:
        """Take down what the forward says at the open positions. logits [n, V]."""
        if self.fault or self._skipped or not self.turns:
            return
        iteration = self.turns[-1]
        if iteration.start is None or not self.reader.full:
            iteration.notes += said_broken(None, logits)
            return
        ways = (False, True) if self.reader.shift is None else (self.reader.shift,)
        rows = {row_of(place, iteration.start, way) for place in iteration.open for way in ways} - {-1}
        if self._padded or self._windows or self._edited or self.reader.blocks:
            places = [
                p for p in range(max(iteration.start, self.since), iteration.end) if self.x[p] != self.reader.mask_id
            ]
            for way in ways:
                rows |= rivals(logits, places, self.x, iteration.start, way)
        if rows:
            iteration.facts = self._describe(logits, sorted(rows))
            iteration.notes += said_broken(iteration.facts, logits)

    def reading(self, output: list[int] | None, number: int, answers: int) -> Reading:
        """What is known of this answer, on a copy. output: the loop's own board, with or without the prompt."""
        turns = self.turns = [
            iteration for iteration in self.turns if all(call.ended for call in iteration.calls)
        ]  # none that failed
        board, remarks, complete = self.x, list[str](), False
        if output is not None and turns and not self.fault:
            last = self._outcome(output)
            if last is None:
                remarks.append(
                    f"The output of {len(output)} tokens does not fit the board of {len(self.x)} positions with its "
                    f"prompt of {self.prompt}, so what the last step wrote is not known."
                )
            else:
                at = np.flatnonzero(last != self.x)
                self._note(at, last[at])
                board, complete = last, True
        elif not self.fault:
            remarks.append(NO_OUTPUT)
        shift = self._shift(remarks)
        if self.guided:
            remarks.append(
                "Two rows or calls (guidance): the figures are those of the one that sees the prompt; the scale at "
                "which the loop mixes the two cannot be seen, so the probabilities of what it wrote are not known."
            )
        remarks += [PADDING] if self._padded and (self._windows or self.reader.blocks) else []
        remarks += [SECOND_LOOK] if self._copied else []
        fault = self.fault
        if not fault and self.trailing > MOST_HALVES:
            fault = "another prompt began; use one `with` for each answer."
        if not fault and turns and not self._masked:
            fault = (
                f"No position held the mask token {self.reader.mask_id} in any call; give the model's own as mask_id=, "
                "or kind='causal' for a loop that writes left to right."
            )
        return Reading(turns, board.tolist(), self.prompt, fault, len(board), shift, remarks, complete, number, answers)

    def _outcome(self, output: list[int]) -> np.ndarray | None:
        """The last board by the output: a whole board, or the answer, perhaps cut off behind its end."""
        tokens, length = np.asarray(output, dtype=np.int64), len(self.x)
        whole = np.array_equal(tokens[: self.prompt], self.x[: self.prompt])
        end, masks = length if whole else length - self.prompt, tokens == self.reader.mask_id
        if masks[end:].all() and not masks[:end].all():  # blocks of which none was fed
            tokens = tokens[:end]
        if whole and len(tokens) == length:
            return tokens
        answer = tokens[self.prompt :] if whole and len(tokens) > self.prompt else tokens
        last = self.x.copy()
        if not 0 < len(answer) <= length - self.prompt:
            return None
        last[self.prompt : self.prompt + len(answer)] = answer
        return last

    def _shift(self, remarks: list[str]) -> bool:
        """Whether row i predicts token i + 1: as it was told, or as the written tokens show it."""
        if self.reader.shift is not None or not self.reader.full:
            return bool(self.reader.shift)
        pairs = self.evidence
        evidence = sum(max(-MOST, min(MOST, float(np.log((a + 1e-9) / (b + 1e-9))))) for a, b in pairs)
        if abs(evidence) < CLEAR:
            remarks.append(
                "Whether row i is the distribution of token i or of token i + 1 did not show itself in the tokens "
                "written; i is taken. Say shift=True or shift=False."
            )
            return False
        shift = evidence < 0
        index = "i + 1" if shift else "i"
        remarks.append(
            f"Row i is the distribution of token {index}: so much more likely are the {len(pairs)} tokens written "
            f"({abs(evidence):.0f} nats)."
        )
        return shift
