"""Two thousand hostile traces and records, each refused or read within bounds:  python -m tests.page.mutations
[PLACE ...]

`corpus` gives the same cases every time, so a place names a case. The server does with each what it does with a trace
that a visitor opens."""

import copy
import gzip
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engines import TraceError, UserError
from explorer.page.run_limits import Limits
from explorer.runs.gallery import gallery, read_bytes, read_pasted
from tests.page.conftest import desk, visitor
from tests.page.hostile import REAL, WHOLE, places
from tests.page.serving import resident

COUNT = 2000
SECONDS, MEGABYTES = 2.0, 300.0  # of one case; of the processor, which other programs change less
RECORDS = Path(__file__).parents[1] / "explorer" / "records"
POISON = ("__proto__", "constructor", "prototype", "toString", "hasOwnProperty")
ODD = ("", "\ud800", "x\udc00", "\x00\x1b[31m", "\u202e", "</script><script>window.hit=1</script>", "é" * 70_000)


@lru_cache(maxsize=1)
def bodies() -> list[Any]:
    """The smallest recorded trace of each family, and the records of other programs."""
    chosen: dict[str, Any] = {}
    for card in sorted(gallery().cards, key=lambda card: card.steps):
        if card.family not in chosen:
            chosen[card.family] = json.loads(gallery().get(card.id).to_json())
    return [*chosen.values(), *(json.loads(path.read_text("utf-8")) for path in sorted(RECORDS.glob("*.json")))]


def nested(depth: int, chance: random.Random) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {chance.choice((*POISON, "a")): value} if chance.random() < 0.5 else [value]
    return value


def wrong_type(old: Any, chance: random.Random) -> Any:
    return chance.choice([value for value in (None, True, 7, 0.5, "7", [], {}, [[]]) if type(value) is not type(old)])


def length(old: Any, chance: random.Random) -> Any:
    if not isinstance(old, (list, str)) or not old:
        return [0] * chance.choice((0, 1, 10_000))
    return chance.choice((old[:-1], old[:1], old + old[-1:], old[:0], (old * (1 + 20_000 // len(old)))[:20_000]))


def negative(old: Any, chance: random.Random) -> Any:
    if isinstance(old, list) and all(isinstance(one, int) for one in old):
        return [-one - 1 for one in old]
    return -chance.choice((1, 2, 2**31, 2**53))


def poisoned(old: Any, chance: random.Random) -> Any:
    name, value = chance.choice(POISON), chance.choice(({"polluted": 1}, "x", 3, None))
    return {**old, name: value} if isinstance(old, dict) else {name: value}


WAYS: dict[str, Callable[[Any, random.Random], Any]] = {
    "type": wrong_type,
    "number": lambda old, chance: chance.choice([*WHOLE, *REAL]),
    "length": length,
    "negative": negative,
    "text": lambda old, chance: chance.choice(ODD),
    "proto": poisoned,
    "deep": lambda old, chance: nested(chance.choice((20, 60, 200)), chance),
}


def changed(body: Any, way: str, chance: random.Random) -> Any:
    """A copy of a body with one to three values made wrong, or left out."""
    body = copy.deepcopy(body)
    for _ in range(chance.randint(1, 3)):
        *road, last = chance.choice(places(body))
        inside = body
        for key in road:
            inside = inside[key]
        if way == "gone":
            del inside[last]
        else:
            inside[last] = WAYS[way](inside[last], chance)
    return body


def broken_traces(bodies: list[Any]) -> st.SearchStrategy[str]:
    """Texts of such copies. Not all are refused: some changes are harmless."""
    seeds, ways = st.integers(0, 2**32).map(random.Random), st.sampled_from([*WAYS, "gone"])
    return st.builds(changed, st.sampled_from(bodies), ways, seeds).map(json.dumps)


def repeated(body: Any, count: int) -> Any:
    """One of its steps so many times, numbered."""
    if not (isinstance(body, dict) and body.get("steps")):
        return body
    first = json.dumps(body["steps"][-1])
    return {**body, "steps": [{**json.loads(first), "index": i} for i in range(count)]}


def packed(text: str, chance: random.Random) -> bytes:
    """A .gz file that is damaged: cut, a byte changed, something behind it, or its head alone."""
    whole = bytearray(gzip.compress(text.encode("utf-8", "replace"), 1, mtime=0))
    how = chance.randrange(4)
    if how == 0:
        return bytes(whole[: chance.randrange(len(whole))])
    if how == 1:
        whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        return bytes(whole)
    return bytes(whole) + b"\x1f\x8b" * 50 if how == 2 else bytes(whole[:10])


def bare(count: int, extra: str = "") -> str:
    """A valid trace of so many steps that hold almost nothing."""
    whole = copy.deepcopy(bodies()[0])
    whole["header"] |= {"canvas": None, "prompt_ids": [], "mask_id": None, "blocks": None, "edits": []}
    whole["header"] = {name: value for name, value in whole["header"].items() if value is not None}
    whole["end"]["output_ids"] = []
    text = json.dumps({**whole, "steps": ["STEPS"]})
    cost = '"forwards":{},"tokens_fed":0,"model_seconds":0,"method_seconds":0' + extra
    return text.replace('"STEPS"', ",".join(f'{{"index":{i},{cost}}}' for i in range(count)))


LARGE: tuple[tuple[str, Callable[[], str | bytes]], ...] = (  # the few that are large by design
    ("10^6 steps", lambda: bare(10**6)),
    ("16,000 steps", lambda: bare(16_000)),
    ("90,000 steps in order backwards", lambda: bare(90_000).replace('"index":0,', '"index":89999,', 1)),
    ("a log of 900,000 different tokens", lambda: "1, *" + "&*".join(map(str, range(900_000))) + "&"),
    ("a log of 65,000 different tokens", lambda: "1, *" + "&*".join(map(str, range(65_000))) + "&"),
    ("a log of blanks", lambda: "1, *" + "& " * 3_000_000 + "x"),
    ("100,000 brackets", lambda: "[" * 100_000),
    ("a number of 7 million digits", lambda: '{"header":{"schema":' + "9" * 7_000_000 + "}}"),
    ("gzip bomb", lambda: gzip.compress(b"[" + b"0," * 80_000_000 + b"0]", 1, mtime=0)),
    ("gzip in gzip", lambda: gzip.compress(gzip.compress(b" " * 50_000_000, 1, mtime=0), mtime=0)),
)


def corpus(chosen: Iterable[int] | None = None) -> Iterator[tuple[int, str, str | bytes]]:
    """The cases: (place, how it was made, text or bytes). chosen: only these places; the large ones come last."""
    wanted = None if chosen is None else set(chosen)
    ways = (*WAYS, "repeat", "cut", "gzip")
    for place in range(COUNT - len(LARGE)):
        if wanted is not None and place not in wanted:
            continue
        chance, way = random.Random(place), ways[place % len(ways)]
        body = bodies()[place // len(ways) % len(bodies())]
        if way == "repeat":
            yield place, way, json.dumps(repeated(body, chance.choice((0, 2, 400, 3000))))[:7_900_000]
        elif way == "cut":
            text = json.dumps(body)
            yield place, way, text[: chance.randrange(len(text))]
        elif way == "gzip":
            yield place, way, packed(json.dumps(body), chance)
        else:
            yield place, way, json.dumps(changed(body, way, chance))
    for place, (name, made) in enumerate(LARGE, COUNT - len(LARGE)):
        if wanted is None or place in wanted:
            yield place, name, made()


@dataclass
class Found:
    """What one case did: read, refused with a sentence, or what it should not have done; seconds and megabytes."""

    place: int
    name: str
    said: str
    seconds: float
    megabytes: float
    fault: str = ""

    @property
    def held(self) -> bool:
        return not self.fault and self.seconds <= SECONDS and self.megabytes <= MEGABYTES

    def __str__(self) -> str:
        return f"{self.place} ({self.name}): {self.seconds:.2f} s, {self.megabytes:.0f} MB, {self.fault or self.said}"


def forget_peak() -> None:
    """VmHWM counts from here."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def on_server(cases: Iterable[tuple[int, str, str | bytes]], open_text: Callable[[str], str]) -> Iterator[Found]:
    """Each case as a visitor brings it. open_text: shows a trace and returns what the status line says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "given.json.gz"
        for place, name, given in cases:
            if isinstance(given, bytes):
                file.write_bytes(given)
            forget_peak()
            before, began, said, fault = resident(), time.thread_time(), "", ""
            try:
                if isinstance(given, bytes):
                    read_pasted(read_bytes(file).decode("utf-8", "replace"))
                    said = "read"
                else:
                    said = open_text(given)
            except (TraceError, UserError) as error:
                said = str(error)
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"[:300]
            took = time.thread_time() - began
            if not fault and not 3 < len(said) < 600:
                fault = f"a sentence of {len(said)} characters"
            yield Found(place, name, said[:120], took, resident("self", "VmHWM") - before, fault)


@contextmanager
def watched() -> Iterator[list[logging.LogRecord]]:
    """What is logged meanwhile: faults that only the last resort has caught."""
    errors: list[logging.LogRecord] = []
    watch = logging.Handler()
    watch.emit = errors.append  # type: ignore[method-assign]
    logging.getLogger("decoding-explorer").addHandler(watch)
    yield errors
    logging.getLogger("decoding-explorer").removeHandler(watch)


def opener() -> Callable[[str], str]:
    """What the page does with a trace that is opened; the answer of its status line. What was logged raises."""
    handlers, who = desk(tempfile.mkdtemp(), limits=Limits(4000, 512, 45, True)), visitor()

    def open_text(text: str) -> str:
        handlers.closed(who)
        with watched() as errors:
            said: str = json.loads(handlers.take_in(text, who)[1])["text"]
        if errors:
            raise AssertionError(f"refused only by the last resort: {errors[0].exc_info}")
        return said

    return open_text


def alone(chosen: Iterable[int]) -> list[Found]:
    """What the server does with these places, in a fresh process: what other tests have left in the memory of this one
    is neither counted nor walked by the garbage collector meanwhile."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_served, list(chosen)).result()


def _served(chosen: list[int]) -> list[Found]:
    return list(on_server(corpus(chosen), opener()))


def main(chosen: list[int]) -> None:
    found = []
    for one in on_server(corpus(chosen or None), opener()):
        found.append(one)
        if not one.held:
            print(f"NOT HELD {one}", flush=True)
    slow, big = max(found, key=lambda one: one.seconds), max(found, key=lambda one: one.megabytes)
    print(f"{len(found)} cases, {sum(not one.held for one in found)} beyond the bounds; slowest {slow}; largest {big}")


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]])
