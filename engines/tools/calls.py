"""Calls that are open where a Python text ends, and which characters may follow in them: the monitor of arguments.

A text is read character by character. Each open bracket has a frame; that of a call counts its arguments and is held
to the call's signatures, of which one must fit: a comma needs room for one more argument, a keyword must exist and be
free, and the closing bracket needs all that has no default. A comma behind the last argument is left out, and so is
whitespace in a call without parameters. A call with * or ** or a lambda is held to nothing, and so is one that already
broke a rule: it would have no end. Only calls that are open are asked about.

The official monitor (numargs_monitor.py, for Java) counts commas and refuses a closing bracket that comes too early or,
after a comma too many, any; it knows one signature, no defaults and no keywords, and does not look for strings. The
rest is ours, because of Python."""

from __future__ import annotations

import copy
import keyword
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engines.tools.completion import Parameter

Signatures = Sequence[Sequence[Parameter]]
CALLEE = re.compile(r"(?:(\w+)\s+)?(\w+|[\])])\Z")
LAMBDA = re.compile(r"\blambda\b")
CLOSES = {")": "(", "]": "[", "}": "{"}
PLACES = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
BY_NAME = ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


@dataclass
class Frame:
    """An open bracket. start: where its inside begins, for a call; signatures: of the call, None where nothing is held;
    broken: whether none of them fits any more, so that nothing is. places, names: arguments that are complete; current:
    the text of the one being written."""

    bracket: str
    start: int = -1
    signatures: Signatures | None = None
    places: int = 0
    names: list[str] = field(default_factory=list)
    current: str = ""
    broken: bool = False

    @property
    def key(self) -> str:
        """The name before the = of the current argument; "" where it has none."""
        match = re.match(r"\s*(\w+)\s*=(?!=)", self.current)
        return match[1] if match else ""

    @property
    def free(self) -> bool:
        """Whether nothing is held here."""
        start = self.current.lstrip()
        return not self.signatures or self.broken or start.startswith("*") or LAMBDA.search(self.current) is not None

    def end_argument(self) -> None:
        """Count the current argument."""
        if key := self.key:
            self.names.append(key)
        elif self.current.strip():
            self.places += 1
        self.current = ""

    def ended(self) -> Frame:
        """Itself with the current argument counted."""
        frame = copy.copy(self)
        frame.names = list(self.names)
        frame.end_argument()
        return frame


def open_names(signature: Sequence[Parameter], frame: Frame) -> list[str]:
    """Keywords of a signature that are not given yet."""
    by_place = [p.name for p in signature if p.kind in PLACES][: frame.places]
    return [p.name for p in signature if p.kind in BY_NAME and p.name not in (*frame.names, *by_place)]


def has(signature: Sequence[Parameter], kind: str) -> bool:
    """Whether a signature takes any number of arguments of this kind."""
    return any(p.kind == kind for p in signature)


def fits(signature: Sequence[Parameter], frame: Frame) -> bool:
    """Whether the complete arguments of a frame are among those of a signature."""
    places = [p for p in signature if p.kind in PLACES]
    if frame.places > len(places) and not has(signature, "VAR_POSITIONAL"):
        return False
    names = {p.name for p in signature if p.kind in BY_NAME} - {p.name for p in places[: frame.places]}
    known = has(signature, "VAR_KEYWORD") or all(name in names for name in frame.names)
    return known and len(set(frame.names)) == len(frame.names)


def place_left(signature: Sequence[Parameter], frame: Frame) -> bool:
    """Whether an argument without a name may follow."""
    room = frame.places < sum(p.kind in PLACES and p.name not in frame.names for p in signature)
    return (room or has(signature, "VAR_POSITIONAL")) and not frame.names


def may_begin(frame: Frame) -> bool:
    """Whether one more argument may be begun."""
    return any(
        fits(signature, frame)
        and (place_left(signature, frame) or open_names(signature, frame) or has(signature, "VAR_KEYWORD"))
        for signature in frame.signatures or ()
    )


def may_close(frame: Frame) -> bool:
    """Whether the call may end with these arguments."""

    def complete(signature: Sequence[Parameter]) -> bool:
        given = {*frame.names, *(p.name for p in [p for p in signature if p.kind in PLACES][: frame.places])}
        return all(p.name in given for p in signature if p.required)

    return any(fits(signature, frame) and complete(signature) for signature in frame.signatures or ())


def only_names(frame: Frame) -> list[str] | None:
    """The keywords that the argument which begins here must be one of; None where it may be anything."""
    good = [signature for signature in frame.signatures or () if fits(signature, frame)]
    if frame.free or any(place_left(signature, frame) or has(signature, "VAR_KEYWORD") for signature in good):
        return None
    return list(dict.fromkeys(name for signature in good for name in open_names(signature, frame)))


def breaks(frame: Frame) -> bool:
    """Whether the arguments so far, with the one that is begun, fit no signature, whatever follows."""
    good = [signature for signature in frame.signatures or () if fits(signature, frame)]
    begun, wanted = frame.current.strip(), only_names(frame)
    if not good or not begun or frame.free:
        return not good
    if key := frame.key:
        return not any(takes(signature, key, frame) for signature in good)
    return wanted is not None and not any(name.startswith(begun) for name in wanted)


def takes(signature: Sequence[Parameter], key: str, frame: Frame) -> bool:
    """Whether a signature has this keyword left."""
    return key in open_names(signature, frame) or (has(signature, "VAR_KEYWORD") and key not in frame.names)


class Brackets:
    """What is open where a text ends. signatures: place of a call -> its signatures, for those that are known."""

    def __init__(self, text: str, signatures: Callable[[int], Signatures | None] = lambda start: None) -> None:
        self.text, self.frames, self.quote, self.comment = "", list[Frame](), "", False
        self._skip = 0
        self.read(text)
        for frame in self.frames:
            if frame.start >= 0:
                frame.signatures = signatures(frame.start)
                frame.broken = bool(frame.signatures) and breaks(frame)

    @property
    def call(self) -> Frame | None:
        """The innermost bracket, where it is a call's and the text is no string or comment."""
        return self.frames[-1] if self.frames and self.frames[-1].start >= 0 and not self._quiet else None

    @property
    def _quiet(self) -> bool:
        return bool(self.quote) or self.comment

    @property
    def every_token(self) -> bool:
        """Whether a rule is about any character that may follow, and not only about those that end an argument, which
        are `)`, `]`, `}`, `,` and `=`."""
        call = self.call
        if call is None or call.free or call.key:
            return False
        return only_names(call) is not None or not (call.current.strip() or may_begin(call))

    def follows(self, token: str) -> bool:
        """Whether a token keeps to the rules of all calls that it is read in; of one that it begins itself nothing is
        known yet."""
        other = copy.copy(self)
        other.frames = [copy.copy(frame) for frame in self.frames]
        for frame in other.frames:
            frame.names = list(frame.names)
        return other.read(token, strict=True)

    def read(self, more: str, strict: bool = False) -> bool:
        """Read on; strict: stop at the first character that breaks a rule and return False."""
        start, self.text = len(self.text), self.text + more
        for at in range(start, len(self.text)):
            if strict and not self._legal(at):
                return False
            self._step(at)
        return True

    def _legal(self, at: int) -> bool:
        frame, c = self.frames[-1] if self.frames else None, self.text[at]
        if self._quiet or self._skip or frame is None or frame.free:
            return True
        ended, begun = frame.ended(), bool(frame.current.strip())
        if c == ")":
            return may_close(ended)
        if c == ",":
            return begun and may_begin(ended)
        if not begun and not c.isspace() and c not in "*#":
            wanted = only_names(frame)
            return may_begin(frame) and (wanted is None or any(name.startswith(c) for name in wanted))
        if not begun:
            return may_begin(frame)
        return self._legal_inside(frame, c, at)

    def _legal_inside(self, frame: Frame, c: str, at: int) -> bool:
        """A character inside an argument: a keyword's name and its =. A lone = is a keyword's, whatever the next token
        may bring: == as two tokens is not foreseen."""
        word = frame.current.strip()
        key = re.fullmatch(r"[^\W\d]\w*", word) and not frame.key
        if c == "=" and self.text[at + 1 : at + 2] != "=" and word[-1] not in "=!<>:" and not frame.key:
            return bool(key) and any(
                takes(signature, word, frame) for signature in frame.signatures or () if fits(signature, frame)
            )
        wanted = only_names(frame)
        if wanted is None or frame.key or not key:
            return True
        if c.isalnum() or c == "_":
            return frame.current[-1].isspace() is False and any(name.startswith(word + c) for name in wanted)
        return c.isspace() and word in wanted

    def _step(self, at: int) -> None:
        c, text, frame = self.text[at], self.text, self.frames[-1] if self.frames else None
        if frame and not self.comment:
            frame.current += c if self.quote or c not in ",)]}" else ""
        if self._skip:
            self._skip -= 1
        elif self.comment:
            self.comment = c != "\n"
        elif self.quote:
            if c == "\\":
                self._skip = 1
            elif text.startswith(self.quote, at):
                self._skip, self.quote = len(self.quote) - 1, ""
            elif c == "\n" and len(self.quote) == 1:
                self.quote = ""
        elif c == "#":
            self.comment = True
        elif c in "\"'":
            self.quote = c * 3 if text.startswith(c * 3, at) else c
            self._skip = len(self.quote) - 1
        elif c in "([{":
            self.frames.append(self._frame(c, at))
        elif c in CLOSES and frame and frame.bracket == CLOSES[c]:
            self.frames.pop()
            if self.frames:
                self.frames[-1].current += c
        elif c == "," and frame and LAMBDA.search(frame.current):
            frame.current += c  # the lambda's own parameters, or the end of it: which of both is not looked at
        elif c == "," and frame:
            frame.end_argument()

    def _frame(self, c: str, at: int) -> Frame:
        match = CALLEE.search(self.text[max(0, at - 200) : at]) if c == "(" else None
        before, name = (match[1], match[2]) if match else (None, None)
        if not name or keyword.iskeyword(name) or before in ("def", "class") or name[0].isdigit():
            return Frame(c)
        return Frame(c, at + 1)
