"""Several sequences that grow by a token each in every forward: a batch of prompts, samples of one prompt, or beams.

Which sequence each one was before shows in the cache (`rows.Fingerprint`), or in the text where all of it is fed again.
Where they only ever follow themselves, each is an answer of its own; otherwise they are beams of one answer.

Shapes: B sequences, n rows fed, V vocabulary."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import Tensor, torch
from engines.core.trace import Branch
from engines.watching.arguments import Unreadable, given_to_decoder
from engines.watching.facts import Describer, Facts, said_broken
from engines.watching.hooks import Call
from engines.watching.iteration import NO_OUTPUT, Reading, Turn, Written
from engines.watching.rows import Fingerprint, fingerprint, grown


@dataclass
class Level:
    """One forward. tokens [B]: the last ones fed; parents [B]: which sequence of the forward before each one was, None
    where that cannot be seen; p [B]: their probabilities by that forward."""

    calls: list[Call]
    tokens: list[int]
    parents: list[int] | None
    facts: Facts | None
    p: list[float | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Lockstep:
    """The forwards of B sequences, from the prompts on."""

    def __init__(self, full: bool, batch: int) -> None:
        self.full, self.batch = full, batch
        self.levels: list[Level] = []
        self.prompts: list[list[int]] = []
        self._sources = [0] * batch  # by sequence: which of several sources an encoder read for it
        self._texts: list[list[int]] = []  # of each sequence, as far as it was fed
        self._print: Fingerprint | None = None
        self._parents: list[int] | None = None
        self._describe = Describer()

    def look(self, call: Call, cache: Any) -> None:
        """Before a forward: which sequence each one was."""
        if call.batch != self.batch:
            raise Unreadable(grown(self.batch, call.batch, all(prompt == self.prompts[0] for prompt in self.prompts)))
        assert call.ids is not None
        ids = call.ids.tolist()
        if not self.levels:
            self._parents = list(range(self.batch))
        elif self._repeats(ids):
            if call.past:
                raise Unreadable(
                    f"the loop fed all of its {self.batch} texts again behind a cache that already held them, so the "
                    "model read them twice; feed the new tokens alone, or leave the cache out."
                )
            self._parents = self._by_text(ids)
        elif call.n > 1:
            raise Unreadable(
                f"{self.batch} sequences with {call.n} rows each cannot be followed; decode them one by one."
                if call.past
                else "texts were fed that continue none of those before; use one `with` for each batch."
            )
        else:
            self._parents = self._print.parents(cache) if self._print is not None else None

    def _repeats(self, ids: list[list[int]]) -> bool:
        """Whether each row begins with a prompt."""
        size = len(self.prompts[0])
        return len(ids[0]) > size and all(row[:size] in self.prompts for row in ids)

    def _by_text(self, ids: list[list[int]]) -> list[int]:
        """The sequence that each text goes on by one token."""
        parents: list[int] = []
        for b, row in enumerate(ids):
            same = [i for i in (b, *range(self.batch)) if self._texts[i] == row[:-1]]
            if not same:
                grown = len(row) - len(self._texts[b])
                raise Unreadable(
                    f"the texts grew by {grown} tokens between two forwards, of which a forward of {self.batch} "
                    "sequences can gain one; decode them one by one."
                    if grown > 1
                    else "a text was fed that continues none of those fed before; use one `with` for each batch."
                )
            parents.append(same[0])
        return parents

    def take(self, calls: list[Call], logits: Tensor, cache: Any) -> None:
        """After a forward: what it fed, and what it says of the next tokens. logits [B, n, V]."""
        call = calls[-1]
        assert call.ids is not None
        tokens = call.ids[:, -1].tolist()
        level = Level(calls, tokens, self._parents, None)
        if not self.levels:
            self.prompts = self._texts = call.ids.tolist()
            self._sources = sources(call.given, self.batch)
        else:
            parents = level.parents or range(self.batch)
            self._texts = [[*self._texts[a], token] for a, token in zip(parents, tokens, strict=True)]
            before = self.levels[-1].facts
            if before is not None and level.parents is not None:
                level.p = [before.of(parent, token) for parent, token in zip(level.parents, tokens, strict=True)]
            if before is not None:
                before.forget()
        if self.full:
            level.facts = self._describe(logits[:, -1], range(self.batch))
        level.notes = said_broken(level.facts, logits[:, -1])
        self.levels.append(level)
        self._print = fingerprint(call, cache)

    def readings(self, outputs: list[list[int]] | None, drafts: list[Call]) -> list[Reading]:
        """What is known of each answer."""
        levels = [level for level in self.levels if all(call.ended for call in level.calls)]
        if not levels:
            return []
        groups = self._groups(levels, len(outputs) if outputs is not None else self.batch)
        if len(groups) == self.batch:
            given = [outputs[b] if outputs and b < len(outputs) else None for b in range(self.batch)]
            return [self._alone(b, levels, given[b]) for b in range(self.batch)]
        each = len(outputs) // len(groups) if outputs is not None else 0
        return [
            Beams(self, levels, rows).reading(
                outputs[i * each : (i + 1) * each] if each and outputs else None, i, len(groups)
            )
            for i, rows in enumerate(groups)
        ]

    def _groups(self, levels: Sequence[Level], answers: int) -> list[list[int]]:
        """The sequences of each answer: those that ever continued one another are its beams. Where these are more than
        the answers, or not as many for each, the sequences of each prompt. Raises UserError for sequences of
        different prompts that took each other's place."""
        group = list(range(self.batch))
        for level in levels:
            for b, parent in enumerate(level.parents or group):
                old, new = sorted((group[b], group[parent])) if level.parents else (b, b)
                group = [old if number == new else number for number in group]
        groups = [[b for b in range(self.batch) if group[b] == number] for number in dict.fromkeys(group)]
        if len(groups) > answers or len({len(rows) for rows in groups}) > 1:
            begun = [(tuple(prompt), source) for prompt, source in zip(self.prompts, self._sources, strict=True)]
            alike = [[b for b in range(self.batch) if begun[b] == beginning] for beginning in dict.fromkeys(begun)]
            groups = alike if answers % len(alike) == 0 else groups
        for rows in groups:
            if any(self.prompts[b] != self.prompts[rows[0]] for b in rows):
                raise UserError(
                    "sequences of different prompts took each other's place, so they are no beams of one answer; "
                    "decode the prompts one by one."
                )
        return groups

    def _alone(self, b: int, levels: Sequence[Level], output: list[int] | None) -> Reading:
        """One sequence that only ever followed itself."""
        prompt, remarks, turns = self.prompts[b], list[str](), list[Turn]()
        unseen = any(level.parents is None for level in levels)
        text, end = list(prompt), len(prompt)
        final = answered(prompt, output) if output is not None else None
        for k, level in enumerate(levels):
            iteration = Turn(level.calls, end + k - 1, end + k, notes=list(level.notes))
            after = levels[k + 1] if k + 1 < len(levels) else None
            token = after.tokens[b] if after else final[end + k] if final and len(final) > end + k else None
            if token is not None:
                p = (after.p[b] if after.p else None) if after else level.facts.of(b, token) if level.facts else None
                iteration.commits = [Written(end + k, token, "written", p, p)]
                iteration.facts, iteration.rows = level.facts, {end + k: b}
                text.append(token)
            turns.append(iteration)
        complete = final is not None and final[: len(text)] == text[: len(final)]
        if final is not None and not complete:
            remarks.append("The output does not fit the text that was fed, so what the last step wrote is not known.")
        elif final is None:
            remarks.append(NO_OUTPUT)
        if complete and final is not None and len(final) < len(text):
            turns[-1].commits.append(Written(len(final), -1, "withdrawn"))
            text = final
        if unseen and final is not None and not complete:  # so rows did take each other's place
            text = list(prompt)
            for iteration in turns:
                iteration.commits, iteration.facts = [], None
        elif unseen:
            remarks.append("The cache cannot be seen, so it is taken that every row goes on with its own text.")
        return Reading(turns, text, len(prompt), "", None, True, remarks, complete, b, self.batch)


class Beams:
    """Some of the sequences as beams of one answer: `texts` and `sums` by forward and beam, behind the prompt, None
    where it is not known which beam grew from which. A beam's number is its place among `rows`."""

    def __init__(self, of: Lockstep, levels: Sequence[Level], rows: list[int]) -> None:
        self.levels, self.rows, self.batch = levels, rows, len(rows)
        self.prompt = of.prompts[rows[0]]
        self.texts: list[list[list[int] | None]] = [[[] for _ in rows]]
        self.sums: list[list[float | None]] = [[0.0] * self.batch]
        for level in levels[1:]:
            texts, sums = list[list[int] | None](), list[float | None]()
            for b, a in zip(rows, self.parents(level), strict=True):
                text = None if a is None else self.texts[-1][a]
                known = a is not None and text is not None and bool(level.p)
                texts.append(None if text is None else [*text, level.tokens[b]])
                sums.append(added(self.sums[-1][a], level.p[b]) if known and a is not None else None)
            self.texts.append(texts)
            self.sums.append(sums)

    @property
    def known(self) -> bool:
        """Whether each beam was seen to grow from another one."""
        return all(level.parents is not None for level in self.levels)

    def parents(self, level: Level) -> list[int | None]:
        """Which beam each beam was before a forward."""
        return [self.rows.index(level.parents[b]) if level.parents else None for b in self.rows]

    def reading(self, outputs: list[list[int]] | None, number: int = 0, answers: int = 1) -> Reading:
        """The board shows the path of the output; without one that with the largest sum at the last forward. number: of
        this answer among `answers`."""
        remarks = [f"{self.batch} beams are fed in one forward; the board shows the path that was chosen in the end."]
        start = len(self.prompt)
        if outputs is not None:
            final = answered(self.prompt, outputs[0])[start:]
            if len(outputs) > 1:
                remarks.append(f"The first of {len(outputs)} answers is shown.")
        else:
            ends = [b for b, total in enumerate(self.sums[-1]) if total is not None]
            final = self.texts[-1][max(ends, key=lambda b: self.sums[-1][b] or 0.0)] or [] if ends else []
            remarks.append(
                "No output was given: the path with the largest sum of log-probabilities at the last forward is shown."
                if ends
                else "No output was given, and which path has the largest sum is not known: trace(out) shows it."
            )
        if not self.known:
            remarks.append("The cache cannot be seen, so which beam grew from which is not known.")
        turns = [self._turn(k, level, final, start) for k, level in enumerate(self.levels)]
        if self.known:
            self._branches(turns, final)
        seen = min(len(final), len(self.levels))
        if len(final) > seen:
            remarks.append(f"The last {len(final) - seen} tokens of the output were seen in no call.")
        board = self.prompt + final[:seen]
        return Reading(turns, board, start, "", None, True, remarks, outputs is not None, number, answers)

    def _turn(self, k: int, level: Level, final: list[int], start: int) -> Turn:
        iteration = Turn(level.calls, start + k - 1, start + k, notes=list(level.notes))
        if k >= len(final):
            iteration.notes.append("The answer was complete; the search went on.")
            return iteration
        beam = next((b for b, text in enumerate(self.texts[k]) if text == final[:k]), None)
        p = None
        if beam is not None and level.facts is not None:
            row = self.rows[beam]
            p = level.facts.of(row, final[k])
            p = level.facts.likely(row, final[k]) if p is None else p
            p = self._later(k, final) if p is None and k + 1 < len(self.levels) else p
            iteration.facts, iteration.rows = level.facts, {start + k: row}
        iteration.commits = [Written(start + k, final[k], "chosen", p, p)]
        return iteration

    def _later(self, k: int, final: list[int]) -> float | None:
        """The probability of a token as it was noted when the next forward fed it."""
        after = self.levels[k + 1]
        beam = next((b for b, text in enumerate(self.texts[k + 1]) if text == final[: k + 1]), None)
        return after.p[self.rows[beam]] if beam is not None and after.p else None

    def _branches(self, turns: Sequence[Turn], final: list[int]) -> None:
        """What became of each beam: a first child goes on with its beam's number, others have new ones."""
        numbers, following = [-1] * self.batch, 0  # -1: nothing but the prompt
        for k, iteration in enumerate(turns[:-1]):
            after, taken, now = self.levels[k + 1], set[int](), list[int]()
            for b, parent in enumerate(self.parents(after)):
                old, token = numbers[parent or 0], after.tokens[self.rows[b]]
                number, grew = (old, -1) if old >= 0 and old not in taken else (following, old)
                following = max(following, number + 1)
                taken.add(old)
                now.append(number)
                total = self.sums[k + 1][b]
                scores = {} if total is None else {"log p": round(total, 4)}
                iteration.branches.append(Branch(number, grew, [token], k + 1, scores, "alive"))
            for old in sorted(set(numbers) - taken - {-1}):
                iteration.branches.append(Branch(old, -1, [], k, {}, "pruned"))
            numbers = now
        if len(turns) > 1:
            for text, number in zip(self.texts[-1], numbers, strict=True):
                fate = "chosen" if text == final[: len(turns) - 1] else "pruned"
                turns[-1].branches.append(Branch(number, -1, [], len(turns) - 1, {}, fate))


def sources(given: Mapping[str, Any], batch: int) -> list[int]:
    """Of each sequence the first one for which an encoder read the same; 0 where there is no encoder."""
    read: Any = given.get("encoder_outputs")
    read = getattr(read, "last_hidden_state", read[0] if isinstance(read, (tuple, list)) and read else None)
    if read is None and given_to_decoder(given, "input_ids") is not given.get("input_ids"):
        read = given.get("input_ids")
    if not torch.is_tensor(read) or len(read) != batch:
        return [0] * batch
    return [next(a for a in range(b + 1) if torch.equal(read[a], read[b])) for b in range(batch)]


def answered(prompt: list[int], output: list[int]) -> list[int]:
    """The whole text by an output with the prompt or without it."""
    return list(output) if output[: len(prompt)] == prompt else prompt + list(output)


def added(total: float | None, p: float | None) -> float | None:
    """A sum of log-probabilities with one more."""
    return None if total is None or not p else total + math.log(p)
