"""A draft model as a source: it is asked about one row of the tree at a time, for a forward of its own.

What it would have guessed where nobody asked is found when it next reads the text, at no further price."""

from collections.abc import Callable, Sequence

from engines.kit import CausalLM, Params, Tensor
from engines.methods.speculative._turn import Drafter
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.adaptive_drafts.sources import Guess, by_chance, ranked
from engines.methods.speculative.adaptive_drafts.tree_choice import Acceptance, Path

RANKS = 4  # guesses behind a row
ROWS = 64  # that lie in its cache at once
LONG = 32  # tokens after which it is asked in any case


class DraftModel:
    """The draft model of a run, over the text and the tree of a round. price: of a forward of n rows of it, in forwards
    of one row of the target."""

    name = "draft"

    def __init__(
        self, model: CausalLM, prompt: Sequence[int], p: Params, vocab_size: int, price: Callable[[int], float]
    ) -> None:
        self._drafter = drafter = Drafter(model, prompt, p, rows=ROWS, vocab_size=vocab_size)
        self.cache = drafter.cache
        self._price, self._start, self._end = price, len(prompt), len(prompt) + p.max_new_tokens
        self._ids: list[int] = []
        self._draft, self._rows = Draft(0), dict[Path, int]()
        self._guesses: dict[Path, list[Guess]] = {}
        self._late: list[tuple[list[Guess], int]] = []  # found when the text was read, with the place it is of
        self._known: dict[int, bool] = {}  # place -> whether a guess for nothing was right

    def begin(self, ids: list[int]) -> None:
        """A round begins behind this text."""
        self._ids, self._draft, self._rows, self._guesses = ids, Draft(ids[-1]), {(): 0}, {}

    @property
    def overdue(self) -> bool:
        """Whether it has not been asked for long."""
        return len(self._ids) - max(self._start, self.cache.length) > LONG

    def price(self, path: Path) -> float:
        """Of its guesses behind that path, in forwards of one row of the target. Rows between the text and this one are
        read with it. Reading the prompt is done once, and is spread over what may still be written."""
        new = sum(path[:n] not in self._guesses for n in range(1, len(path) + 1))
        price = self._price(new) if new else 0.0
        if () in self._guesses:
            return price
        unread = self._price(len(self._ids) - self.cache.length)
        if self.cache.length < self._start:
            row = self._price(1)
            unread = row + (unread - row) / max(1, self._end - len(self._ids))
        return price + unread

    def guesses(self, path: Path) -> list[Guess]:
        """What may follow that path, for that price."""
        if () not in self._guesses:
            self._read()
        new: list[Path] = [at for n in range(1, len(path) + 1) if (at := path[:n]) not in self._guesses]
        for at in new:
            self._rows[at] = self._draft.add(self._rows[at[:-1]], at[-1])
        if new:
            self._note(new, self._drafter.extend(self._draft, [self._rows[at] for at in new]).logits)
        return self._guesses[path]

    def settle(self, gained: Sequence[int], known: Sequence[bool], a: Acceptance) -> None:
        """The round has ended with these tokens: what was accepted stays read, and what it had guessed is counted, for
        earlier rounds, too. known: whether another source had each token."""
        start, path, text = len(self._ids), tuple(gained), [*self._ids, *gained]
        self._known.update(zip(range(start, len(text)), known, strict=True))
        now = [(self._guesses[path[:n]], start + n) for n in range(len(path)) if path[:n] in self._guesses]
        for guesses, at in [*self._late, *now]:
            right = a.observe(guesses, text[at])
            if not self._known.pop(at, True):
                a.alone[not right] += 1
        self._late = []
        if self._guesses:
            self._drafter.settle([0, *(self._rows[at] for n in range(1, len(path)) if (at := path[:n]) in self._rows)])

    def _read(self) -> None:
        """Read what is new of the text; of the rows behind the prompt the guesses are kept."""
        ids, before = self._ids, self.cache.length
        z = self._drafter.read(ids, last_only=before < self._start).logits
        self._note([()], z[-1:])
        for at, guesses in zip(range(len(ids) - len(z) + 1, len(ids)), self._ranked(z[:-1]), strict=True):
            self._late.append((guesses, at))

    def _note(self, paths: Sequence[Path], z: Tensor) -> None:
        self._guesses.update(zip(paths, self._ranked(z), strict=True))

    def _ranked(self, z: Tensor) -> list[list[Guess]]:
        """The guesses of each row of the logits z [n, V]."""
        return [by_chance(self.name, *row) for row in zip(*ranked(z, RANKS), strict=True)]
