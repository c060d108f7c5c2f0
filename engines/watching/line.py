"""One sequence that a watched loop writes left to right: its text as far as known, and each forward's part in it."""

import math
from dataclasses import dataclass, field
from typing import Any

from engines.core.lazy import Tensor
from engines.watching.arguments import Unreadable, cache_length
from engines.watching.drafts import follow, likeliest_rows, tree_of
from engines.watching.facts import Describer, Facts, said_broken
from engines.watching.hooks import Call
from engines.watching.iteration import NO_OUTPUT, Reading, Turn, Written
from engines.watching.open_forward import Fed, put_in, said_of, unguess, whole_root
from engines.watching.rows import fingerprint, parents_of

MOST = 512  # rows of a forward that are taken down
ANOTHER = (
    "another prompt began, or the first call held drafts behind the prompt; use one `with` for each answer, and give "
    "prompt= where the first call holds more than it."
)
DRAFTS_UNSEEN = (
    "the cache does not say how many positions it holds, and several tokens were fed behind it, so which of them are "
    "drafts cannot be seen; pass the call position_ids."
)
ELSEWHERE = (
    "a call fed {n} tokens that neither repeat the text nor stand behind it by position ids or by a cache among the "
    "call's arguments: another prompt began (use one `with` for each answer), or the module keeps a cache of its own "
    "(then pass it position_ids)."
)


@dataclass
class Line:
    """One sequence. text: as far as it is known, up to the root of the last forward; -1 where a token is not."""

    full: bool
    given: list[int] | None
    text: list[int] = field(default_factory=list)
    prompt: int = 0
    turns: list[Turn] = field(default_factory=list)
    fed: Fed | None = None
    remarks: list[str] = field(default_factory=list)
    describe: Describer = field(default_factory=Describer)
    offset: int = 0  # from a position id to a position of the text (padding on the left)
    end: int = 0  # behind the last row that was fed
    extra: int = 0  # rows in the cache that are no part of the text, which was fed again
    dropped: int = 0  # rows of the text that the cache no longer holds
    held: int | None = None  # rows in the cache when the last forward had ended
    feds: list[Fed] = field(default_factory=list)  # the forwards so far
    cached: bool = False  # whether the last forward had a cache, or made one
    guided: bool = False
    wrote: list[float] = field(default_factory=list)  # log-probabilities of what forwards without drafts wrote
    again: list[int] = field(default_factory=list)  # turns that fed the whole text behind a cache that held it
    pieces: int = 0  # tokens of the prompt that came behind its first piece
    put: list[int] = field(default_factory=list)  # positions of the tokens that the loop itself put in
    blind: bool = False  # whether a cache does not say its length
    refused: bool = False  # whether a draft was seen to be refused
    unsure: list[tuple[int, bool]] = field(default_factory=list)  # turns whose drafts the loop may have put in; surely

    def beside(self, call: Call) -> bool:
        """Whether a call belongs to another text, behind a cache of its own: the half of guidance that sees no prompt.
        A cache that is not known, and holds nothing, begins one where a text behind a cache is not begun anew."""
        if call.branch is not None or not self.turns or not self.cached or call.past or call.ids is None:
            return bool(call.branch)
        return not self._repeats(call.ids[0].tolist())

    def take(self, calls: list[Call], logits: Tensor, cache: Any) -> None:
        """After a forward: close the turn before it and begin its own. calls: those that drafted for it, and it."""
        call = calls[-1]
        assert call.ids is not None
        ids = call.ids[0].tolist()
        start = self.begins(call)
        if not self.turns and self.given is None:
            self._first_draft(calls, ids)
        if self._fed_again(call, ids, start):
            self.again.append(len(self.turns))
            start, self.extra = 0, call.past or 0
        if not start and not call.past:
            unguess(self, ids)
        root = self._root(calls, start, len(logits))
        if self.turns and self.fed is not None:
            self._close(ids, start, root)
        elif not self.turns:
            self._begin(ids, root)
            self.offset = root - int(call.positions[0, root]) if call.positions is not None else 0
        parents = parents_of(call, root)
        iteration = Turn(calls, start, start + call.n)
        self.end, self.cached, self.held = start + call.n, cache is not None, cache_length(cache)
        if parents is None:
            iteration.notes.append("How the drafted rows hang together cannot be seen from the call.")
        self.turns.append(iteration)
        if start + call.n < self.prompt:
            return  # a piece of the prompt
        facts = self._facts(logits, call.n, root)
        iteration.notes += said_broken(facts, logits[-1])
        self.fed = Fed(iteration, ids, start, root, parents, facts, fingerprint(call, cache))
        self.feds.append(self.fed)
        self.fed.places = None if call.positions is None else call.positions[0].tolist()
        if self.fed.drafted:
            self.fed.greedy = start == 0 and likeliest_rows(logits, ids, root, parents)

    def _fed_again(self, call: Call, ids: list[int], start: int) -> bool:
        """Whether the whole text and one more token were fed behind a cache that holds that text. Where the text
        repeats itself these may be drafts: the token that was written is the likelier one, the last or the first."""
        known = len(self.text)
        if not call.past or known < 2 or ids[:known] != self.text or len(ids) <= known:
            return False
        if start < known:  # told by position ids; a cache that replaces its rows does not grow by them
            return call.past > known
        facts, root = (self.fed.facts, self.fed.root) if self.fed is not None else (None, 0)
        first, last = (facts.of(root, token) if facts is not None else None for token in (ids[0], ids[-1]))
        return first is None or last is None or last > first or bool(self.again)

    def _repeats(self, ids: list[int]) -> bool:
        """Whether the fed tokens begin with the prompt."""
        return len(ids) >= self.prompt and ids[: self.prompt] == self.text[: self.prompt]

    def _first_draft(self, calls: list[Call], ids: list[int]) -> None:
        """The prompt by what a drafting module was fed first, where the first forward holds it and drafts behind it."""
        first = next((call for call in calls[:-1] if call.ids is not None and call.past == 0), None)
        fed = first.ids[0].tolist() if first is not None and first.ids is not None else ids
        if len(fed) < len(ids) and ids[: len(fed)] == fed:
            self.given = fed
            self.remarks.append(f"The prompt is the {len(fed)} tokens that the drafting module was fed first.")

    def _facts(self, logits: Tensor, n: int, root: int) -> Facts | None:
        """Of the root and the drafts behind it; a row of the forward is a row of the facts."""
        rows = [row for row in range(root, n) if row >= n - len(logits)][:MOST]
        if not self.full or not rows:
            return None
        return self.describe(logits, [row - n + len(logits) for row in rows], rows)

    def begins(self, call: Call) -> int:
        """The position of a forward's first row: by its position ids where they are known to be those of the text, else
        by the cache. Without either among the arguments the rows repeat the text, or the module keeps a cache of its
        own and they stand behind it."""
        assert call.ids is not None
        ids, past = call.ids[0].tolist(), call.past
        if not self.turns or (past == 0 and (call.cached or self._repeats(ids))):
            return 0
        if past and self.dropped:
            return past - self.extra + self.dropped
        if call.positions is not None and (first := int(call.positions[0, 0]) + self.offset) >= 0:
            return first
        if past:
            return past - self.extra
        if call.n > 1 and (past == 0 or call.rows == call.n):
            raise Unreadable(ELSEWHERE.format(n=call.n) if past == 0 else DRAFTS_UNSEEN)
        self.blind = True
        return self.end

    def _root(self, calls: list[Call], start: int, rows: int) -> int:
        """The row that is the text's last; what has logits behind it are drafts. rows: those with logits."""
        call = calls[-1]
        if not self.turns and self.given is not None and len(self.given) <= call.n:
            return len(self.given) - 1
        if self.turns and self.given is not None and start < len(self.given) <= start + call.n and start:
            return len(self.given) - 1 - start  # the last piece of the prompt
        first = call.n - rows if rows < call.n else 0
        if start == 0 and self.fed is not None and not call.past:
            return max(first, whole_root(self, calls))
        if first:
            return first
        return call.n - 1 if start == 0 or start + call.n < self.prompt else 0

    def _begin(self, ids: list[int], root: int) -> None:
        given = self.given
        self.prompt = len(given) if given is not None else root + 1
        if given is not None and given[: len(ids)] != ids[: len(given)]:
            raise Unreadable(
                f"the first call does not begin with the {len(given)} tokens of `prompt`; give the ids as the loop "
                "feeds them, or leave `prompt` out."
            )
        self.text = list(given) if given is not None else ids[: self.prompt]

    def _close(self, ids: list[int], start: int, root: int) -> None:
        """What the last forward wrote: everything up to the root of this one."""
        fed, now = self.fed, start + root
        assert fed is not None
        common = next(
            (q for q in range(start, min(len(self.text), now + 1)) if self.text[q] not in (ids[q - start], -1)), None
        )
        cut = common if common is not None else now + 1 if now + 1 < len(self.text) else None
        if cut is not None and cut < self.prompt:
            raise Unreadable(ANOTHER)
        if cut is not None:
            fed.iteration.commits.append(Written(cut, -1, "withdrawn"))
            del self.text[cut:]
            new = range(max(cut, start), now + 1)
            fed.iteration.commits += [Written(q, ids[q - start], fed.cause(q - new[0])) for q in new]
            self.put += new[fed.drafted + 1 :]
            self.text += ids[cut - start : root + 1] if cut >= start else []
            self._forget()
            return
        tokens, path = self._gained(fed, ids, start, now)
        if start and self.given is None and not self.decoded and not fed.drafted and len(tokens) > 1:
            self.text += tokens  # the next piece of the prompt
            self.pieces += len(tokens)
            self.prompt = len(self.text)
            self._forget()
            return
        if -1 not in tokens:
            self._settle(fed, tokens, path)
        else:
            fed.iteration.unseen = (fed.end + 1, now + 1)
        self.text += tokens
        self._forget()

    @property
    def decoded(self) -> bool:
        """Whether a forward was seen to write."""
        return any(iteration.commits or iteration.unseen for iteration in self.turns)

    def _forget(self) -> None:
        for call in self.fed.iteration.calls if self.fed is not None else ():
            call.facts.clear()
        if self.fed is not None and self.fed.facts is not None:
            self.fed.facts.forget()

    def _gained(self, fed: Fed, ids: list[int], start: int, now: int) -> tuple[list[int], list[int] | None]:
        """The tokens behind the last root up to this one, -1 for those that were not seen, and the rows accepted."""
        accepted = max(0, now - fed.end - 1) if fed.drafted else 0
        path: list[int] | None = None
        if fed.kept is not None:
            path = [row for row in fed.kept if row > fed.root][:accepted]
        elif start <= fed.end:  # all of them were fed again
            path = follow(fed.ids, fed.parents, fed.root, ids[fed.end + 1 - start : now + 1 - start])
            accepted = len(path or [])
        elif fed.parents is not None and fed.parents == list(range(-1, len(fed.ids) - 1)):
            path = list(range(fed.root + 1, fed.root + 1 + accepted))
        if path is not None and (len(path) != accepted or any(row >= len(fed.ids) for row in path)):
            path = None
        tokens = []
        for q in range(fed.end + 1, now + 1):
            if q >= start:
                tokens.append(ids[q - start])
            else:
                tokens.append(fed.ids[path[q - fed.end - 1]] if path is not None and q - fed.end <= len(path) else -1)
        return tokens, path

    def _settle(self, fed: Fed, tokens: list[int], path: list[int] | None) -> None:
        """Write down what a forward gained. path: the rows accepted, as many as tokens or one fewer."""
        iteration, rows = fed.iteration, [fed.root, *(path or [])]
        given = fed.unlikely(tokens, path, self.wrote)
        if fed.start == 0 and len(self.turns) > 1 and path is not None:
            self.refused |= len(path) < min(fed.drafted, len(tokens))
            if path and len(path) == fed.drafted and len(iteration.calls) == 1 and not fed.greedy:
                self.unsure.append((len(self.turns) - 1, given))
            given = False
        for i, token in enumerate(tokens):
            cause = fed.cause(i)
            if fed.drafted and path is not None and cause == "written":
                cause = "accepted" if i < len(path) else fed.own(path)
            if given:
                cause = "constraint" if i < len(tokens) - 1 else "written"
            known = i < len(rows) and (path is not None or i == 0) and fed.facts is not None
            p = fed.facts.of(rows[i], token) if known and fed.facts is not None else None
            if cause == "constraint":
                self.put.append(fed.end + 1 + i)
            elif not fed.drafted and p:
                self.wrote.append(math.log(p))
            p = None if self.guided or cause == "constraint" else p
            iteration.commits.append(Written(fed.end + 1 + i, token, cause, p, p))
            if known:
                iteration.rows[fed.end + 1 + i] = rows[i]
        iteration.facts = fed.facts
        if fed.drafted and fed.parents is not None and path is not None and not given:
            iteration.tree = tree_of(fed.ids, fed.parents, fed.root, fed.end, path, tokens, iteration.calls, fed.facts)

    def reading(self, output: list[int] | None, drafts: list[Call]) -> Reading:
        """What is known of the answer, on a copy. drafts: calls of other modules after the last forward."""
        remarks, complete = self.remarks, False
        if self.turns:
            self.turns[-1].calls += drafts
        if output is not None and self.fed is not None:
            complete = self._finish(self.fed, output, remarks)
        elif output is None:
            remarks.append(NO_OUTPUT)
        put_in(self)
        remarks += said_of(self)
        board = self.text
        if -1 in board:
            board = board[: board.index(-1)]
            remarks.append("Which drafts were kept could not be seen in the cache and no output says it.")
            for iteration in self.turns:
                iteration.commits = [commit for commit in iteration.commits if commit.position < len(board)]
        return Reading(self.turns, board, self.prompt, "", None, True, remarks, complete)

    def _finish(self, fed: Fed, output: list[int], remarks: list[str]) -> bool:
        """Close the last forward by the loop's own output, with or without the prompt."""
        whole = output[: self.prompt] == self.text[: self.prompt]
        final = list(output) if whole else self.text[: self.prompt] + list(output)
        shared, most = min(len(final), len(self.text)), len(self.text) + fed.drafted + 1
        if not whole and output[0:1] == self.text[0:1] and len(final) > most:
            remarks.append(
                f"The output begins like the first call and is longer than what {len(self.turns)} calls can have "
                "written, so it is not known which of its tokens were written: say prompt= where that call held more "
                "than the prompt."
            )
            return False
        if any(a not in (b, -1) for a, b in zip(self.text[self.prompt : shared], final[self.prompt :], strict=False)):
            remarks.append(
                f"The output of {len(output)} tokens does not fit the text that was fed, so what the last step wrote "
                "is not known."
            )
            return False
        self._fill(final)
        if len(final) < len(self.text):
            fed.iteration.commits.append(Written(len(final), -1, "withdrawn"))
            self.text = final
            return True
        tokens = final[len(self.text) :]
        path: list[int] | None = follow(fed.ids, fed.parents, fed.root, tokens) if fed.drafted else []
        steps = len(path) + 1 if path is not None else len(tokens)
        self._settle(fed, tokens[:steps], path)
        if rest := tokens[steps:]:
            at = len(self.text) + steps
            fed.iteration.commits += [Written(at + i, token, "constraint") for i, token in enumerate(rest)]
            fed.iteration.notes.append(f"The last {len(rest)} tokens of the output were seen in no call.")
        self.text = final
        return True

    def _fill(self, final: list[int]) -> None:
        """Tokens that were not seen when they were kept, from the loop's own output; without probabilities."""
        for iteration in self.turns:
            if iteration.commits or iteration.unseen is None:
                continue
            first, last = iteration.unseen
            iteration.commits = [Written(q, final[q], "written") for q in range(first, min(last, len(final)))]
        self.text = [final[q] if token < 0 and q < len(final) else token for q, token in enumerate(self.text)]
