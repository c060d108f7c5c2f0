"""What the importers share: a trace body with placeholders where nothing was recorded, and a token table that is filled
as tokens are named."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from engines import SCHEMA_VERSION, Trace, TraceError, read_trace, visible

MAX_CELLS = 4_000_000  # boards x positions of a record
MAX_TOKENS, MAX_STEPS = 2**17, 2**14  # of a response: a number in it may stand for so many, and no more
MAX_PIECES = 2**16  # different tokens of a record
UNTIMED = (
    "forwards",
    "tokens_fed",
    "work",
    "model_seconds",
    "method_seconds",
    "wall_seconds",
    "record_seconds",
    "warmup_seconds",
)
NAMELESS = "‹not recorded›"
DEEPEST = 8  # parts inside of parts
SAID = 200  # characters of a server's own words
OWN_NUMBERS = 2**24  # of texts without an id: beyond every vocabulary


class Table:
    """The token table. Ids of the record stay; texts without ids get numbers of their own, from `first` on; `unknown`
    stands for a token of which nothing is known. An id may stand for several texts, as that of the last byte of a
    character does where a server shows the character: each further one is an entry of its own, which names the id."""

    def __init__(self, first: int = 0) -> None:
        self.pieces: dict[int, dict[str, Any]] = {}
        self._numbers: dict[tuple[int | None, str], int] = {}  # (id of the record, text) -> the entry's number
        self._unknown: int | None = None
        self._most = first - 1  # the greatest id

    def known(self, token: int, text: str, special: bool = False) -> int:
        """The number of an id of the record with its text: the id, unless that is another text's. Raises TraceError
        where there are too many."""
        return self._entry(token, token, text, special)

    def text(self, text: str, special: bool = False) -> int:
        """A text without an id."""
        return self._entry(None, self._free(), text, special)

    def ids(self, numbers: Iterable[int]) -> list[int]:
        """The ids of some entries as the record gives them; those without are their numbers here."""
        return [self.pieces[number].get("token", number) for number in numbers]

    @property
    def unknown(self) -> int:
        """A token of which the record has neither id nor text."""
        if self._unknown is None:
            self._unknown = self.known(self._free(), NAMELESS, special=True)
        return self._unknown

    def _entry(self, token: int | None, number: int, text: str, special: bool) -> int:
        if (known := self._numbers.get((token, text))) is not None:
            return known
        if len(self.pieces) >= MAX_PIECES:
            raise TraceError(f"the record names more than {MAX_PIECES:,} different tokens, which no run here has.")
        number = max(OWN_NUMBERS, self._free()) if number in self.pieces else number
        self._most, self._numbers[token, text] = max(self._most, number), number
        kind = {"kind": "special"} if special else {}
        named = {"token": token} if token not in (None, number) else {}
        self.pieces[number] = {"id": number, "text": text} | kind | named
        return number

    def _free(self) -> int:
        return self._most + 1


def step(index: int, **groups: Any) -> dict[str, Any]:
    """A step without costs."""
    return {"index": index, "forwards": {}, "tokens_fed": 0, "model_seconds": 0.0, "method_seconds": 0.0, **groups}


def trace(
    *,
    source: str,
    title: str,
    model: str = "",
    prompt: str = "",
    steps: Sequence[dict[str, Any]],
    table: Table,
    output_ids: Sequence[int],
    text: str,
    missing: Iterable[str],
    about: str,
    unknown: Iterable[str] = (*UNTIMED, "seed", "prompt_ids"),
    end: Mapping[str, Any] = {},
    **more: Any,
) -> Trace:
    """The validated trace of a record. unknown: what such records never hold; missing: what this one does not. end,
    more: further fields of end and header. Raises TraceError."""
    header = {
        "schema": SCHEMA_VERSION,
        "method": "imported",
        "title": title,
        "family": "imported",
        "paper": "",
        "params": {},
        "models": [{"role": "model", "name": model or NAMELESS, "kind": "", "device": "", "threads": 0}],
        "prompt": prompt,
        "prompt_ids": [],
        "seed": 0,
        "detail": "full",
        "baseline": None,
        "lossless": False,
        "emits": [],
        "departures": about,
        "versions": {},
        "machine": "",
        "started_at": "",
        "eos_ids": [],
        "imported_from": source,
        "missing": [*unknown, *missing],
        **more,
    }
    ended = {
        "reason": "complete",
        "output_ids": list(output_ids),
        "text": text,
        "wall_seconds": 0.0,
        "record_seconds": 0.0,
        **end,
    }
    body = {"header": header, "steps": list(steps), "pieces": list(table.pieces.values()), "end": ended}
    return read_trace(msgspec.json.encode(body))


def as_reported(tokens: Sequence[int]) -> dict[str, Any]:
    """The commits of tokens from the first place on, of which nothing more is known than that they were reported."""
    return {"positions": list(range(len(tokens))), "tokens": list(tokens), "causes": ["reported"] * len(tokens)}


def packed(rows: Sequence[Sequence[float]], dtype: Literal["i4", "f4"]) -> dict[str, Any]:
    """Rows of equal length as a trace holds a numeric array: ids as i4, probabilities as f4."""
    array = np.array(rows, f"<{dtype}").reshape(len(rows), len(rows[0]) if rows else 0)
    return {"dtype": dtype, "shape": array.shape, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def convert(body: Any, kind: Any, what: str) -> Any:
    """A part of a record as a struct. Raises TraceError that names the part."""
    try:
        return msgspec.convert(body, kind)
    except UnicodeError:
        raise TraceError(f"{what} holds half of a character (a lone surrogate), which no trace can hold.") from None
    except msgspec.ValidationError as error:
        raise TraceError(f"{what} cannot be read: {error}") from None


def part(body: Any, name: str) -> dict[str, Any]:
    """An object inside an object; empty where it is not there."""
    inner = body.get(name) if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def words(*given: Any) -> str:
    """The first that is a text; nothing if none is."""
    return next((text for text in given if isinstance(text, str)), "")


def finite(facts: dict[str, float | None]) -> dict[str, float]:
    """The facts that are there."""
    return {name: float(value) for name, value in facts.items() if value is not None}


def short(text: str) -> str:
    """At most `SAID` characters of foreign words, on one line, with escapes for what drives a terminal."""
    line = visible(" ".join(text.split()))
    return (line if len(line) <= SAID else line[:SAID] + "…").rstrip(".")
