"""What `python -m tests.gguf_speed` wrote, as a record: greedy on a GGUF file beside llama.cpp's server, what
recording costs there, and what a forward of n rows costs by how the weights are coded."""

import msgspec

from engines import ASSETS

FOLDER = ASSETS / "bench" / "gguf"


class Loop(msgspec.Struct, frozen=True):
    """One loop, medians over the rounds. prompt: seconds until the first token; speed: tokens per second after it;
    wall, processor: seconds of the whole request; same: tokens equal to those of greedy, up to the first other one."""

    name: str
    prompt: float
    speed: float
    wall: float
    processor: float
    same: int


class Ratio(msgspec.Struct, frozen=True):
    """Of two loops in the same round: the median with its first and third quarter. after: of the seconds after the
    first token; wall, processor: of the whole request. goal: what it should keep to."""

    name: str
    after: list[float]
    wall: list[float]
    processor: list[float]
    goal: str


class Rows(msgspec.Struct, frozen=True):
    """A way of coding the weights. made: whether they were coded again from the file's own. moved: by how much a row's
    logits moved at most with rows beside it (`engines.models.measures.bits`). seconds: rows of a forward -> (wall,
    processor), medians."""

    code: str
    bytes: int
    made: bool
    moved: float
    seconds: dict[int, tuple[float, float]]


class Speeds(msgspec.Struct, frozen=True):
    """All of one run. build: of llama.cpp, with what it was built for. past: cached positions in front of
    the rows. again: measurements that others disturbed and that were made again; left: those that stayed disturbed."""

    file: str
    machine: str
    build: str
    threads: int
    prompt_tokens: int
    new_tokens: int
    rounds: int
    past: int
    loops: list[Loop]
    ratios: list[Ratio]
    rows: list[Rows]
    again: int
    left: int
    command: str
    date: str
