"""A decision between models, exits or modes."""

from engines.core.trace.base import Record, Unit


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
