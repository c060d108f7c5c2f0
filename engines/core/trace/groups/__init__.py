"""The groups of a step, which fills those it has: here the small ones, `Commits` and `Tree` in files of their own."""

import math
from typing import Annotated, Literal

from msgspec import Meta

from engines.core.trace.base import Count, Index, Record, Unit
from engines.core.trace.groups.commits import Commits
from engines.core.trace.groups.tree import GuessSource, Tree
from engines.core.trace.packed import Packed


class Span(Record):
    """A stretch [start, end) of the board: block, fed (positions really computed), window, late, neighbourhood, unit,
    cache ... label: for a person. about: what views read, by name, such as {"expert": "sums"}."""

    kind: str
    start: Index
    end: Index
    label: str = ""
    about: dict[str, bool | int | float | str] = {}


class Lane(Record):
    """One named score over the positions [start, start + len(values)). `threshold`: the line it was held against."""

    name: str
    unit: Unit
    start: Index
    values: Packed
    threshold: float | None = None


class Decision(Record):
    """A decision between models, exits or modes, with the quantity that decided and the line it was held against."""

    options: list[str]
    chosen: str
    quantity: str
    value: float | None
    threshold: float
    unit: Unit = "score"
    raw: float | None = None  # the unsmoothed reading
    switched: bool = False  # after this step another option takes over
    detail: str = ""


class Branch(Record):
    """A continuation: what it added in this step, how long its text is now, its scores by name and its fate.

    `parent`: the branch that it grew from, -1 for the prompt. `scores`: such as log-probability, reward, or the f, g
    and h of a search. `fate`: alive, pruned, finished, chosen; in a search also expanded.
    """

    id: Index
    parent: Annotated[int, Meta(ge=-1)]
    tokens: list[Index]
    length: Count = 0
    scores: dict[str, float] = {}
    fate: str = "alive"


class Candidates(Record):
    """The k most likely tokens at each position in focus: `tokens` and `probabilities` have shape [len(positions), k],
    best first."""

    positions: list[Index]
    tokens: Packed
    probabilities: Packed

    def __post_init__(self) -> None:
        if (
            self.tokens.shape != self.probabilities.shape
            or not self.tokens.shape
            or self.tokens.shape[0] != len(self.positions)
        ):
            raise ValueError(
                f"candidates: shapes {self.tokens.shape} and {self.probabilities.shape} do not fit "
                f"{len(self.positions)} positions"
            )
        if self.tokens.dtype not in ("u2", "i4"):
            raise ValueError(f"candidates: tokens are whole numbers, not {self.tokens.dtype}")


class Memory(Record):
    """An entry of what a method remembers, as it stands after this step: behind a key of one or more tokens the tokens
    it expects, best first.

    `weights`: one number per token (a probability, a table's weight), or none where the memory only ranks. `read`: this
    step drafted from the entry; `written`: this step changed it. `source`: the part of the memory it lies in, such as
    matrix, corpus, adapted or 3-gram."""

    key: list[Index]
    tokens: list[Index]
    weights: list[float] = []
    read: bool = False
    written: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.weights) not in (0, len(self.tokens)):
            raise ValueError(f"memory: {len(self.weights)} weights for {len(self.tokens)} tokens")


class Routing(Record):
    """Which units served which positions in which layers of one model, packed, so that a real mixture stays small.

    `chosen`: whole numbers [positions, layers, k], -1 where fewer than k units served. `weights`: their shares, of the
    same shape, or none. `units`: how many there are to choose from in a layer, 0 where that is not known. `kind`
    device: on which device each position is; under the role "experts" the positions are the numbers of experts. `kind`
    memory: crossings row * K + column of the keys of a memory, their weights of either sign; under the roles "rows" and
    "columns" the keys whose crossings were candidates.
    """

    kind: Literal["expert", "layer", "memory", "device"]
    positions: list[Index]
    layers: list[int]
    chosen: Packed
    weights: Packed | None = None
    units: Index = 0
    role: str = ""

    def __post_init__(self) -> None:
        shape = self.chosen.shape
        if shape[:2] != [len(self.positions), len(self.layers)] or len(shape) != 3:
            raise ValueError(
                f"routing: the chosen units have the shape {shape}, which does not fit {len(self.positions)} positions "
                f"and {len(self.layers)} layers"
            )
        if self.chosen.dtype not in ("u2", "i4"):
            raise ValueError(f"routing: units are whole numbers, not {self.chosen.dtype}")
        if self.weights is not None and self.weights.shape != shape:
            raise ValueError(f"routing: weights of shape {self.weights.shape} do not fit units of shape {shape}")


Place = Annotated[float, Meta(ge=0, le=1e18)]


class Interval(Record):
    """What a track (a device, a worker, an allocation) holds from `start` to `end`, measured or modelled.

    unit: seconds since the run began, bytes from the beginning of an arena, or tiles of a kernel since its launch, of
    which each counts as 1 (modelled), or positions of the text. label: for a person. kind: what is done or held, such
    as "attention" or "bytes"; views are chosen and colours given by it. about: what views read, by name, such as
    {"layer": 3, "microbatch": 2}; `mark` stands in a bar, `part_of` names the track whose call it is a part of.
    """

    track: str
    start: Place
    end: Place
    label: str = ""
    measured: bool = True
    unit: Literal["seconds", "bytes", "tiles", "tokens"] = "seconds"
    about: dict[str, bool | int | float | str] = {}
    kind: str = ""


def bytes_held(group: str, name: str, start: int, end: int, measured: bool = True) -> Interval:
    """Bytes start ... end of an arena, or what travels between two places, by group and name."""
    about: dict[str, bool | int | float | str] = {"group": group, "name": name}
    return Interval(f"{group}: {name}", start, end, name, measured, "bytes", about, "bytes")


CELLS, SIDE = 65_536, 4096  # of a picture, and of one of its sides, at most


class Box(Record):
    """A rectangle on the picture, in cells."""

    row: Index
    column: Index
    height: Count
    width: Count
    label: str = ""


Colour = Annotated[str, Meta(pattern="^#[0-9a-f]{6}$")]


class Media(Record):
    """An image token grid (`codes` has shape [rows, columns], -1 unknown), with boxes on it. colours: of the codes,
    "#rrggbb"; without them a code's shade is its number. guesses: cells in raster order whose code is a draft."""

    codes: Packed
    boxes: list[Box] = []
    colours: list[Colour] = []
    guesses: list[Index] = []

    def __post_init__(self) -> None:
        if self.guesses and max(self.guesses) >= math.prod(self.codes.shape):
            raise ValueError(f"media: cell {max(self.guesses)} lies outside a picture of shape {self.codes.shape}")
        if self.codes.dtype not in ("u2", "i4") or len(self.codes.shape) != 2:
            raise ValueError(
                f"media: codes are whole numbers in rows and columns, not {self.codes.dtype} of shape "
                f"{self.codes.shape}"
            )
        if math.prod(self.codes.shape) > CELLS or max(self.codes.shape) > SIDE:
            raise ValueError(
                f"media: a picture of shape {str(self.codes.shape)[:60]} is too large; it may have {CELLS:,} cells, "
                f"{SIDE:,} in a row or column"
            )
