"""Parameters as data: type, default, range, symbol and sentence stand once (the sentence perhaps in the paper's file);
slider, flag, docs and validation all come from here."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from engines.core.errors import UserError

Kind = Literal["int", "float", "bool", "choice", "text", "code"]
YES, NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
MOST = {"text": 2000, "code": 12_000}  # characters
LENGTH = "max_new_tokens"  # the one parameter that every method has and no edit may change


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a method. `low` and `high` are inclusive; `help` tells what a viewer sees when it moves; ""
    where the file of the method's paper does.

    `neutral`: the value at which the method equals its declared baseline, where there is one. `fair`: the value of a
    rule that the baseline could have as well but has not, at which the two differ in the method's own idea alone.
    """

    name: str
    kind: Kind
    default: Any
    help: str = ""
    symbol: str = ""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    neutral: Any = None
    fair: Any = None
    source: str = ""  # where the default comes from
    presets: Mapping[str, str] = {}  # of code: what each name that may be given in its place stands for
    file: bool = False  # the text names a file of this machine: not for strangers
    longest: int | None = None  # characters of a text, where not the usual number

    def check(self, value: Any) -> Any:
        """The value in the parameter's own type. Raises UserError with the range. Text as given on a command line is
        understood."""
        try:
            value = _coerce(self.kind, value)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{self.name}={_short(value)} is not {_article(self.kind)}; {self.allowed()}.") from None
        if self.kind == "choice" and value not in self.choices:
            raise UserError(f"{self.name}={_short(value)} is not offered; {self.allowed()}.")
        if self.kind in ("int", "float"):
            below = self.low is not None and value < self.low
            above = self.high is not None and value > self.high
            if below or above or math.isnan(value):
                raise UserError(f"{self.name}={_short(value)} is out of range; {self.allowed()}.")
        if self.kind in MOST and len(value) > (most := self.longest or MOST[self.kind]):
            raise UserError(f"{self.name} has {len(value)} characters; at most {most} are allowed.")
        if (
            self.kind in ("text", "choice", "code")
            and not value.isascii()
            and any("\ud800" <= c <= "\udfff" for c in value)
        ):
            raise UserError(
                f"{self.name} holds half of a character (a lone surrogate), which no file can hold; take it out."
            )
        return value

    def allowed(self) -> str:
        """A phrase that says what may be given."""
        if self.kind == "choice":
            return f"choose one of {', '.join(self.choices)}"
        if self.kind == "bool":
            return "give true or false"
        if self.kind == "text":
            return "give a text"
        if self.kind == "code":
            return f"give one of {', '.join(self.presets)}, or a text of your own"
        if self.low is None or self.high is None:
            return "give a whole number" if self.kind == "int" else "give a number"
        if self.kind == "int":
            return f"give a whole number from {self.low:g} to {self.high:g}"
        return f"give a number from {self.low:g} to {self.high:g}"


class Said(TypedDict, total=False):
    """What a parameter may say beside its type, default and range: see `Param`."""

    help: str
    symbol: str
    neutral: Any
    fair: Any
    source: str


def Int(name: str, default: int, low: int, high: int, **about: Unpack[Said]) -> Param:
    """A whole number in [low, high]."""
    return Param(name=name, kind="int", default=default, low=low, high=high, step=1, **about)


def Float(name: str, default: float, low: float, high: float, *, step: float = 0.01, **about: Unpack[Said]) -> Param:
    """A number in [low, high]."""
    return Param(name=name, kind="float", default=default, low=low, high=high, step=step, **about)


def Bool(name: str, default: bool, **about: Unpack[Said]) -> Param:
    """A switch."""
    return Param(name=name, kind="bool", default=default, **about)


def Choice(name: str, default: str, choices: Sequence[str], **about: Unpack[Said]) -> Param:
    """One of several named options."""
    return Param(name=name, kind="choice", default=default, choices=tuple(choices), **about)


def Text(name: str, default: str, *, file: bool = False, longest: int | None = None, **about: Unpack[Said]) -> Param:
    """Free text of at most `longest` characters (2,000); `file` if it names a file of this machine, which a page that
    strangers use does not offer."""
    return Param(name=name, kind="text", default=default, file=file, longest=longest, **about)


def Code(name: str, default: str, presets: Mapping[str, str], **about: Unpack[Said]) -> Param:
    """A longer text with names for those that ship, such as the files of a project. A tool of this machine reads it, so
    a page that strangers use takes the names alone."""
    return Param(name=name, kind="code", default=default, presets=dict(presets), **about)


def max_new_tokens(default: int = 48, high: int = 4096) -> Param:
    """The length of the answer, called the same in every method."""
    return Int(
        LENGTH,
        default,
        1,
        high,
        symbol="G",
        help="How many tokens may be written; on a masked board, how many masks it starts with.",
    )


class Params(SimpleNamespace):
    """The checked values of one run, read as attributes. An edit may change them while the run goes on."""

    __slots__ = ("_waiting",)

    def change(self, values: Mapping[str, Any]) -> None:
        """Set new values; `unread` then holds the names that nobody has looked at since."""
        object.__setattr__(self, "_waiting", {*self.unread, *values})
        vars(self).update(values)
        self.__class__ = Noticing

    @property
    def unread(self) -> frozenset[str]:
        """Names that were changed and not looked at since."""
        return frozenset(getattr(self, "_waiting", ()))


class Noticing(Params):
    """Parameters after a change: they notice which of the changed ones are read again."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        """As ever; a name that is read waits no more."""
        if not name.startswith("_"):
            self._waiting.discard(name)
        return super().__getattribute__(name)


def resolve(declared: Sequence[Param], given: Mapping[str, Any] | None, what: str = "this method") -> Params:
    """Defaults overlaid with `given`, each checked. Raises UserError for an unknown name or a bad value of `what`."""
    given = dict(given or {})
    by_name = {p.name: p for p in declared}
    for name in given:
        if name not in by_name:
            raise UserError(f"unknown parameter '{_short(name)}'; {what} has {', '.join(by_name) or 'no parameters'}.")
    return Params(**{name: p.check(given[name]) if name in given else p.default for name, p in by_name.items()})


def _coerce(kind: Kind, value: Any) -> Any:
    if kind == "bool":
        if (word := str(value).strip().lower()) not in (*YES, *NO):
            raise ValueError
        return word in YES
    if kind in ("choice", "text", "code"):
        if not isinstance(value, str):
            raise TypeError
        return value
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if kind == "float":
        return number
    if not number.is_integer():
        raise ValueError
    return int(number)


def _article(kind: Kind) -> str:
    return {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "choice": "one of the choices",
        "text": "a text",
        "code": "a text",
    }[kind]


def _short(value: Any) -> str:
    text = str(value) if not isinstance(value, int) or abs(value) < 10**60 else "a huge number"
    return text if len(text) <= 60 else text[:57] + "..."
