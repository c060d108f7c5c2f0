"""Monitors of members, imports and arguments: at a dot, behind `import` or in a call an analyser is asked what may
stand there, and until that is complete the state says which tokens can go on. Together they are the intersection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from engines.core.trace import Count, Detail, Position, Probability, Record, TokenId
from engines.kit import CausalLM, Interval, Params, Recorder, Tokenizer, many, top_ids, torch
from engines.methods.sampling.mgd.names import Importing, Trie, begun, importing, rests, trie_of
from engines.tools import completion
from engines.tools.calls import Brackets, Signatures, open_names
from engines.tools.completion import Analyser, Answer, Signed
from engines.tools.projects import files_of

SHOWN = 24  # names kept in a step
WANTED = 5  # of the refused tokens
LANE = "analyser"
PLACES = {"dot": "A dot", "import": "An import", "call": "A call"}
NAME = re.compile(r"\w*")
WATCHES = ("members", "imports", "arguments", "all")


class Completions(Record):
    """What a helper, such as a static analyser, lists as possible where the text ends, and what the model wanted there.

    `state`: idle (the text does not end where the helper is asked), asked (in this step), open (a name is begun),
    astray (the name that is begun is none of those listed), unknown (it was asked and has no answer, so nothing is held
    to it). `names`: the first of the names that are still possible, `total` of them; `details` says one line on each.
    `written`: what stands of the name before this step.
    `allowed`: tokens that can go on with one of the names; `mass`: their probability together, before any mask.
    `refused`, `refused_probabilities`: the likeliest tokens that cannot. `held`: whether they were masked out. `name`:
    the name that this step completed, `exists`: whether it is listed. `line` and `column` of the place that was asked
    about, from 1 and 0. `source`: who answered; the interval of its work has this lane. `call`: the names are the
    parameters of a call that are free, and not all that may stand there."""

    KEPT_FROM: ClassVar[Detail] = "light"

    position: Position
    state: Literal["idle", "asked", "open", "astray", "unknown"]
    names: list[str] = []
    details: list[str] = []
    total: Count = 0
    written: str = ""
    allowed: Count = 0
    mass: Probability | None = None
    refused: list[TokenId] = []
    refused_probabilities: list[Probability] = []
    held: bool = False
    name: str = ""
    exists: bool | None = None
    line: Count = 0
    column: Count = 0
    source: str = ""
    call: bool = False


@dataclass(frozen=True)
class State:
    """Where a text stands. kind: idle, asked (in this step), open (a name is begun), astray (it is none of the
    analyser's) or unknown (asked, and it does not know). C: name -> what is left of it. prefix: what stands of the
    name. allowed: the tokens that can go on with one; in a call, those that keep to its signature, and C are the
    parameters that are free. answer: the analyser's. place: what it is about, a dot, an import or a call; asked: the
    answers of this step."""

    kind: str
    C: Mapping[str, str]
    prefix: str
    allowed: list[int]
    answer: Answer | None = None
    place: str = "dot"
    asked: tuple[Answer, ...] = ()

    def mass(self, chances: torch.Tensor) -> float:
        """Probability of the allowed tokens, of chances [V] before any mask."""
        return min(1.0, float(chances[self.allowed].sum()))

    def completed(self, text: str | None) -> tuple[str, bool | None]:
        """The name that a token of this text (None: of no text) ends, and whether the analyser has it; ("", None) where
        it ends none."""
        more = NAME.match(text or "")
        name = self.prefix + (more[0] if more else "")
        judged = self.place != "call" and self.answer and self.answer.names
        if not judged or not name or (more and more[0] == text):
            return "", None
        return name, name in self.answer.names

    def facts(self, token: int, chances: torch.Tensor, text: str | None) -> dict[str, float]:
        """The counts of a step: questions asked, names possible, tokens that go on with one, their probability, whether
        the model's first choice is none of them, whether a name that ended exists."""
        counts = {"questions": float(len(self.asked))}
        if self.allowed:
            counts |= {"names": len(self.C), "allowed_tokens": len(self.allowed), "allowed_mass": self.mass(chances)}
            counts["overruled"] = float(int(chances.argmax()) not in set(self.allowed) and token in set(self.allowed))
        name, exists = self.completed(text)
        return counts | ({"exists": float(bool(exists))} if name else {})

    def completions(self, position: int, chances: torch.Tensor, held: bool, text: str | None) -> Completions:
        """The group of a step. chances [V] before any mask; text: of the token that was written."""
        answer, shown = self.answer, list(self.C)[:SHOWN]
        place = {"line": answer.line, "column": answer.column, "source": LANE} if answer else {}
        outside = chances.clone()
        outside[self.allowed] = 0.0
        refused = top_ids(outside[None], WANTED)[0].tolist() if self.allowed else []
        refused = [token for token in refused if outside[token] > 0]
        details = dict(zip(answer.names, answer.details, strict=True)) if answer else {}
        name, exists = self.completed(text)
        return Completions(
            position,
            self.kind,
            names=shown,
            details=[details[name] for name in shown],
            total=len(self.C),
            written=self.prefix,
            allowed=len(self.allowed),
            mass=round(self.mass(chances), 9) if self.allowed else None,
            refused=refused,
            refused_probabilities=[round(float(outside[token]), 6) for token in refused],
            held=held,
            name=name,
            exists=exists,
            call=self.place == "call",
            **place,
        )

    def note(self, chances: torch.Tensor, held: bool) -> str:
        """One sentence on the step."""
        call = self.allowed and "; only the call around it is constrained"
        if self.kind == "unknown" and self.answer:
            why = self.answer.why or "the model has no tokens for the names"
            return f"{PLACES[self.place]}: {why}{call or '; decoding is unconstrained here'}."
        if self.kind == "astray":
            what = "No name begins with what is written"
            return f"{'The call does not fit its signature' if self.place == 'call' else what}{call or ''}."
        if not self.allowed:
            return "No dot, so the analyser is not asked." if self.place == "dot" else "The analyser is not asked here."
        n, share = len(self.C), f"{self.mass(chances):.1%} of the model's probability"
        if self.place == "call":
            begins = "The analyser was asked about this call" if self.kind == "asked" else "Inside a call"
            sentence = f"{begins}: {many(n, 'parameter')} still free; {share} fits the signature."
        else:
            begins = "The analyser was asked" if self.kind == "asked" else "Inside a name"
            sentence = f"{begins}: {many(n, 'name')} possible, with {share}."
        if int(chances.argmax()) in set(self.allowed):
            return sentence
        verb = "does not" if self.place == "call" else "is none of them"
        return f"{sentence} Its first choice {verb}{' and was masked out' if held else ''}."


class Monitor:
    """The analyser with the vocabulary: one question at each place, the state behind it. Used as a context; its copy of
    the project is gone afterwards. It is off, and always idle, until it reads a project."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, p: Params) -> None:
        """p: watches and dunder of the method."""
        self.vocabulary, self.p = (tokenizer, vocab_size), p
        self.project: str | None = None
        self.analyser: Analyser | None = None
        self.trie = Trie({})
        self.answers: dict[tuple[str, str], Answer | None] = {}  # by place and text; None in strings and comments
        self.new: list[Answer] = []  # of this step

    def reads(self, project: str | None) -> None:
        """From now on this project, by name or as text (None: off); what was asked of another one is forgotten. Raises
        UserError for a project that cannot be read."""
        if project != self.project:
            self.__exit__()
            self.project, self.answers = project, {}
            self.analyser = None if project is None else Analyser(files_of(project))
            self.trie = Trie({}) if project is None else trie_of(*self.vocabulary)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        if self.analyser:
            self.analyser.close()

    def pre(self, x: str) -> State:
        """The state of a text; asks at most once at a place, and not in strings and comments."""
        if self.analyser is None:
            return State("idle", {}, "", [])
        self.new = []
        state = self._name(x)
        if self.p.watches in ("arguments", "all"):
            state = self._call(x, state)
        return replace(state, asked=tuple(self.new))

    def _name(self, x: str) -> State:
        """Of a member or an imported name."""
        watches = self.p.watches
        dotted = begun(x) if watches in ("members", "all") else None
        imported = importing(x) if watches in ("imports", "all") else None
        target, place = (Importing(*dotted), "dot") if dotted else (imported, "import")
        if target is None:
            return State("idle", {}, "", [], place="dot" if watches == "members" else "")
        asked = (place, target.before) not in self.answers
        answer = self._ask(place, target.before)
        names = [] if answer is None else self._open_to(answer.names, target.prefix)
        if answer is None or not (asked or names):
            return State("idle", {}, "", [])
        if answer.names and not names:
            answer = replace(answer, why="all that exists there begins with two underscores")
        C = rests(names, target.prefix)
        allowed = self.trie.allowed(space + rest for space in target.spaces for rest in C.values())
        if allowed:
            allowed = sorted({*allowed, *self.trie.unspaced}) if target.soft else allowed
            return State("asked" if asked else "open", C, target.prefix, allowed, answer, place)
        return State("astray" if names and not C else "unknown", {}, target.prefix, [], answer, place)

    def _open_to(self, names: Iterable[str], prefix: str) -> list[str]:
        """Names with two leading underscores only on request, or where one underscore is written."""
        every = self.p.dunder or prefix.startswith("_")
        return [name for name in names if every or not name.startswith("__")]

    def _call(self, x: str, state: State) -> State:
        """The state with the calls held too: the intersection of both."""
        before = len(self.new)
        brackets = Brackets(x, self._signatures(x))
        unknown = [call for call in self.new[before:] if isinstance(call, Signed) and not call.signatures]
        known = [frame for frame in brackets.frames if frame.signatures]
        open_frames = [frame for frame in known if not frame.broken]
        keeps = self._keeping(brackets, state.allowed) if open_frames else []
        if state.kind != "idle":  # a name; a call that allows nothing of it is not held
            return replace(state, allowed=keeps) if keeps else state
        if unknown:
            return State("unknown", {}, "", keeps, unknown[-1], "call")
        if known and known[-1].broken:
            return State("astray", {}, "", keeps, self.answers["call", x[: known[-1].start]], "call")
        if not keeps:
            return state
        answer = self.answers["call", x[: open_frames[-1].start]]
        names = dict.fromkeys(
            (name for signature in open_frames[-1].signatures or () for name in open_names(signature, open_frames[-1])),
            "",
        )
        return State("asked" if answer in self.new else "open", names, "", keeps, answer, "call")

    def _keeping(self, brackets: Brackets, candidates: list[int]) -> list[int]:
        """Those of the candidates (none: of all tokens) that keep to the rules of the open calls."""
        trie = self.trie
        ruled = trie.texts if brackets.every_token else trie.ruled
        free = [] if brackets.every_token or candidates else trie.fragments  # of a character
        return [
            token for token in candidates or trie.texts if token not in ruled or brackets.follows(trie.texts[token])
        ] + free

    def _signatures(self, x: str) -> Callable[[int], Signatures | None]:
        def of(start: int) -> Signatures | None:
            answer = self._ask("call", x[:start])
            return answer.signatures if isinstance(answer, Signed) else None

        return of

    def _ask(self, place: str, before: str) -> Answer | None:
        """The answer about the end of a text, asked once."""
        if (place, before) not in self.answers and self.analyser:
            answer: Answer | None = None
            if not completion.in_string_or_comment(before):
                ask, members = self.analyser.signatures, self.analyser.members
                answer = ask(before) if place == "call" else members(before, dunder=True)
                self.new.append(answer)
            self.answers[place, before] = answer
        return self.answers[place, before]


def mask(L: torch.Tensor, allowed: list[int]) -> torch.Tensor:
    """Logits [V] with all other tokens out; L itself where none is to be held, or an edit forbids all of those."""
    if not allowed or not torch.isfinite(L[allowed]).any():
        return L
    masked = torch.full_like(L, float("-inf"))
    masked[allowed] = L[allowed]
    return masked


def question(run: Recorder, state: State) -> list[Interval]:
    """The questions of a step as they were measured; none where none was asked."""
    return [
        interval
        for answer in state.asked
        for interval in run.interval(
            LANE, answer.began, answer.ended, f"asked at line {answer.line}", {"mark": answer.line}, "asked"
        )
    ]


def token_text(model: CausalLM, token: int) -> str | None:
    """The text of a token; None where it stands for none of its own."""
    piece = model.tokenizer.piece(token)
    return piece.text if piece.kind == "text" else None
