"""What all parts of a trace are made of: the base record and the bounded numbers. Times are seconds."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from engines.core.errors import Readable

EXACT = 2**53 - 1  # the largest whole number that a browser counts exactly
Index = Annotated[int, Meta(ge=0, le=EXACT)]
Count = Annotated[int, Meta(ge=0, le=EXACT)]
Small = Annotated[int, Meta(ge=0, le=4096)]  # of a record, where something is asked so many times
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Detail = Literal["none", "light", "full"]
Unit = Literal["probability", "nats", "bits", "count", "score"]


class TraceError(Readable):
    """A trace that cannot be read; the message says what is wrong and where."""


class Record(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all parts, and of the records that a method declares: unknown fields are refused, defaults are not
    written. A record is kept from the detail `KEPT_FROM` on."""

    KEPT_FROM: ClassVar[Detail] = "full"
