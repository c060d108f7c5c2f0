"""The exact oracle: a `MaskedLM` without a network that knows the true distribution of every position, by counting
right answers.

It reads the task from the board's prompt, lists every right answer of it, keeps those that agree with the visible
tokens, and counts. So it is the Bayes-optimal denoiser of its tasks, and whatever a decoding method still gets wrong on
it is the price of committing several tokens at once (ParallelBench, arXiv:2510.04767; `measures.joint` has the price in
nats).

A broken board, with which no right answer agrees any more, gets the distribution of the answers that agree on the most
visible
positions: the nearest repairs, equally likely. `consistent` tells such boards apart; nothing is ever NaN.

Shapes: B boards, L positions (prompt, then answer), N answers of n tokens, V vocabulary.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.trace import ModelRecord, Piece
from engines.models.measures import joint
from engines.tasks import lists, puzzles, recognise, words

if TYPE_CHECKING:
    from torch import Tensor

    from engines.core.kinds import Tokenizer

NAME = "oracle"
TITLE = "Exact oracle for lists and puzzles (no network)"
NOTE = (
    "Knows the true distribution of every position by counting all right answers: what goes wrong here is the price of "
    "parallel commits."
)
LICENCE = "Apache-2.0"
SHUFFLED = 7  # items; 7! = 5,040 answers
SPECIALS = ("<pad>", "<mask>", "<eos>", "<turn>")
PAD, MASK, EOS, TURN = range(4)
TASK_WORDS = "copy reverse sort shuffle insert remove replace any latin sudoku at from by in".split()
LISTED = (
    words.NAMES,
    words.THINGS,
    words.COUNTED,
    words.VERBS,
    words.ADJECTIVES,
    words.COLOURS,
    words.CITIES,
    words.PLACES,
)


class WordTokenizer:
    """Words, digits and signs with the blank before them, so that a list item and a sudoku cell are one token each.

    Ids, fixed by this order: 0-3 `SPECIALS`, 4 line end, 5 blank, then two for every sign from "!" to "~" and for every
    word (`TASK_WORDS`, then the lists of `engines.tasks.words` in their order): without and with a blank before it. An
    unknown word is spelt in letters and is then several tokens."""

    def __init__(self) -> None:
        signs = [chr(i) for i in range(ord("!"), ord("~") + 1)]
        known = dict.fromkeys([*signs, *TASK_WORDS, *(word for listed in LISTED for word in listed)])
        self.texts = [*SPECIALS, "\n", " ", *(blank + text for text in known for blank in ("", " "))]
        self.ids = {text: i for i, text in enumerate(self.texts) if i >= len(SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, losslessly. Raises UserError for a character that has none."""
        ids = []
        for part in re.findall(r"\n| ?[A-Za-z]+| ?\S| ", text):
            for token in [part] if part in self.ids else re.findall(r" ?\S", part):
                if token not in self.ids:
                    raise UserError(
                        f"the oracle has no token for '{token.strip()}'; it writes English letters, digits and signs, "
                        "so leave it out."
                    )
                ids.append(self.ids[token])
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a prompt, its blanks made plain, and <turn> behind it. Raises UserError, as `answer_ids`, for one that
        the oracle cannot answer."""
        plain = re.sub(r"[^\S\n]", " ", text.strip())
        answer_ids(plain)
        return [*self.encode(plain), TURN]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; special tokens and ids that stand for nothing are left out."""
        return "".join(self.texts[i] for i in ids if len(SPECIALS) <= i < len(self.texts))

    def piece(self, token: int) -> Piece:
        """The text with its blank, or the name of a special id."""
        if not 0 <= token < len(self.texts):
            return Piece(token, f"<unused {token}>", "special")
        return Piece(token, self.texts[token], "special" if token < len(SPECIALS) else "text")

    def vocabulary(self) -> dict[int, str]:
        """What each id stands for."""
        return dict(enumerate(self.texts))


TOKENIZER = WordTokenizer()


# --- all right answers of a prompt


def _shuffles(text: str) -> list[str]:
    items = lists.items_of(text)
    if len(items) > SHUFFLED:
        raise UserError(
            f"the oracle lists every order, and {len(items)} items were given to shuffle; give at most {SHUFFLED} "
            "(5,040 orders)."
        )
    return [" ".join(order) for order in permutations(items)]


def _named(text: str) -> tuple[str, list[str]]:
    new, _, items = text.partition(" in ")
    return new, lists.items_of(items)


def _insertions(text: str) -> list[str]:
    new, items = _named(text)
    return [" ".join([*items[:i], new, *items[i:]]) for i in range(len(items) + 1)]


def _removals(text: str) -> list[str]:
    items = lists.items_of(text)
    return [" ".join(items[:i] + items[i + 1 :]) for i in range(len(items))]


def _replacements(text: str) -> list[str]:
    new, items = _named(text)
    return [" ".join([*items[:i], new, *items[i + 1 :]]) for i in range(len(items))]


def _squares(text: str) -> list[str]:
    symbols = text.split()
    return [
        "\n".join(" ".join(symbols[i] for i in row) for row in square) for square in puzzles.latin_squares(len(symbols))
    ]


def _grids(text: str) -> list[str]:
    cells = "".join(text.split())
    solved = puzzles.solutions(" ".join(re.findall("....", cells))) if re.fullmatch("[0-4]{16}", cells) else []
    if not solved:
        raise UserError(
            f"'{text[:40]}' is not a 4x4 sudoku that can be solved; give four rows of the digits 0 to 4, "
            "0 for an empty cell."
        )
    return solved


ONE = ("copy", "reverse", "sort", "insert", "remove", "replace")  # tasks with one right answer
MANY: dict[str, Callable[[str], list[str]]] = {
    "shuffle": _shuffles,
    "insert any": _insertions,
    "remove any": _removals,
    "replace any": _replacements,
    "latin": _squares,
    "sudoku": _grids,  # also with several solutions, which `engines.tasks.recognise` refuses
}


def right_answers(prompt: str) -> list[str]:
    """Every right answer of a prompt, each as often as the task's generator could choose it: all orders, all places,
    all squares, all grids.

    Raises UserError for a prompt of another kind, for more than 7 items to shuffle, and for a sudoku without a
    solution."""
    verb, _, text = prompt.partition(":")
    slug = " ".join(verb.lower().split())
    example = recognise(prompt)
    if slug not in (*ONE, *MANY) or (example is None and slug != "sudoku"):
        raise UserError(
            f"'{prompt.strip()[:40]}' is nothing that the oracle can answer; it knows {', '.join((*ONE, *MANY))}. "
            "Write for example 'shuffle: Mia, Leo, Ada'."
        )
    return MANY[slug](text.strip()) if slug in MANY or example is None else [example.answer]


@lru_cache(maxsize=16)
def answer_ids(prompt: str) -> Tensor:
    """The right answers of a prompt as ids [N, n], short ones filled up with <eos>; do not write into it. Raises
    UserError as `right_answers`."""
    rows = [TOKENIZER.encode(f" {answer}") if answer else [] for answer in right_answers(prompt)]
    n = max(map(len, rows))
    with torch.inference_mode(False):
        return torch.tensor([row + [EOS] * (n - len(row)) for row in rows], dtype=torch.long)


# --- the model


class OracleMaskedLM:
    """Exact conditional marginals over the right answers, behind `MaskedLM`.

    The answer starts right behind <turn>, and <eos> fills the rest of the board. The distribution of a visible position
    includes its own token, so on a consistent board that token is certain. `max_positions` only bounds the memory: no
    position is learnt. It holds no state, so threads may share it."""

    mask_id, eos_ids, vocab_size, max_positions = MASK, frozenset({EOS}), len(TOKENIZER.texts), 2048
    tokenizer: Tokenizer = TOKENIZER

    def __init__(self, record: ModelRecord) -> None:
        self.record = record

    def warm_up(self) -> float:
        """Nothing has to be warmed up: 0.0 seconds."""
        return 0.0

    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> log p [L, V], or [B, L] -> [B, L, V], float32, -inf for what cannot stand there. Raises UserError as
        `answers_on`."""
        boards = x.reshape(-1, x.shape[-1])
        return torch.stack([self._log_distributions(board) for board in boards]).reshape(*x.shape, self.vocab_size)

    def _log_distributions(self, x: Tensor) -> Tensor:
        start, answers, visible = self.answers_on(x)
        n = answers.shape[1]
        p = torch.zeros(len(x), self.vocab_size, dtype=torch.float64, device=x.device)
        p[torch.arange(start, device=x.device), x[:start]] = 1  # the prompt
        p[start : start + n] = joint.marginals(answers, visible[:n], self.vocab_size)
        p[start + n :, EOS] = 1
        return p.log().float()

    def answers_on(self, x: Tensor) -> tuple[int, Tensor, Tensor]:
        """Read a board [L]: where the answer starts, all right answers [N, n], and what is visible of the answer, [L -
        start] with `joint.HIDDEN`.

        Raises UserError for a board without a prompt, with one that the oracle cannot answer, or without room for the
        answer."""
        ids = x.tolist()
        start = ids.index(TURN) + 1 if TURN in ids else 0
        if MASK in ids[:start] or not start:
            raise UserError(
                "the oracle cannot do without the prompt and finds none on this board: switch off guidance "
                "(cfg_scale=0), which hides it, "
                "and give prompts as text or as ids that end with <turn>."
            )
        answers = answer_ids(self.tokenizer.decode(ids[:start])).to(x.device)
        if (n := answers.shape[1]) > len(ids) - start:
            raise UserError(
                f"the answer has {n} tokens and the board has room for {len(ids) - start}; set max_new_tokens to {n} "
                "or more."
            )
        return start, answers, x[start:].masked_fill(x[start:] == MASK, joint.HIDDEN)

    def consistent(self, x: Tensor) -> bool:
        """Whether some right answer agrees with every visible token of a board [L]. If not, decoding has already broken
        it."""
        _, answers, visible = self.answers_on(x)
        n = answers.shape[1]
        head, tail = visible[:n], visible[n:]
        seen = int((head != joint.HIDDEN).sum())
        return int(joint.agreement(answers, head).max()) == seen and bool(
            ((tail == EOS) | (tail == joint.HIDDEN)).all()
        )


def load_oracle(*, device: str = "cpu", dtype: Any = None, **options: Any) -> OracleMaskedLM:
    """The oracle, for `engines.models.loading.zoo.load_model`; there is nothing to read from a disk.

    The record's sha256 is that of the sources that list the answers, its tokenizer that of the vocabulary. Raises
    UserError for another device or dtype than cpu and float32 (or "auto"), and for any option that was set."""
    if given := sorted(name for name, value in options.items() if value is not None):
        raise UserError(f"{given[0]} is an option of models with weights and the oracle has none; leave it out.")
    if device != "cpu" or str(dtype).removeprefix("torch.") not in ("None", "auto", "float32"):
        raise UserError(
            f"the oracle counts on the cpu and answers in float32; device={device}, dtype={dtype} was given, leave "
            "both out."
        )
    sources = b"".join(
        Path(str(file)).read_bytes() for file in (__file__, joint.__file__, lists.__file__, puzzles.__file__)
    )
    vocabulary = "\0".join(TOKENIZER.texts).encode()
    record = ModelRecord(
        role="target",
        name=NAME,
        kind="masked",
        sha256=hashlib.sha256(sources).hexdigest(),
        dtype="float32",
        threads=torch.get_num_threads(),
        tokenizer=hashlib.sha256(vocabulary).hexdigest()[:12],
        licence=LICENCE,
    )
    return OracleMaskedLM(record)
