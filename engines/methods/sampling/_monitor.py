"""A monitor of members: at a dot an analyser is asked which names exist there, and until the name is complete the state
says which tokens can go on with one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engines.kit import CausalLM, Completions, Interval, Recorder, Tokenizer, top_ids, torch
from engines.methods.sampling._names import Trie, begun, rests, trie_of
from engines.tools import completion
from engines.tools.completion import Analyser, Answer
from engines.tools.projects import files_of

SHOWN = 24  # names kept in a step
WANTED = 5  # of the refused tokens
LANE = "analyser"
NAME = re.compile(r"\w*")


@dataclass(frozen=True)
class State:
    """Where a text stands. kind: idle, asked (in this step), open (a name is begun), astray (it is none of the
    analyser's) or unknown (asked, and it does not know). C: name -> what is left of it. written: what stands of the
    name. allowed: the tokens that can go on with one. answer: the analyser's."""

    kind: str
    C: Mapping[str, str]
    written: str
    allowed: list[int]
    answer: Answer | None = None

    def mass(self, chances: torch.Tensor) -> float:
        """Probability of the allowed tokens, of chances [V] before any mask."""
        return float(chances[self.allowed].sum())

    def completed(self, text: str | None) -> tuple[str, bool | None]:
        """The name that a token of this text (None: of no text) ends, and whether the analyser has it; ("", None) where
        it ends none."""
        more = NAME.match(text or "")
        name = self.written + (more[0] if more else "")
        if self.answer is None or not self.answer.names or not name or (more and more[0] == text):
            return "", None
        return name, name in self.answer.names

    def facts(self, token: int, chances: torch.Tensor, text: str | None) -> dict[str, float]:
        """The counts of a step: questions asked, names possible, tokens that go on with one, their probability, whether
        the model's first choice is none of them, whether a name that ended exists."""
        found = {"questions": float(self.kind in ("asked", "unknown"))}
        if self.allowed:
            found |= {"names": len(self.C), "allowed_tokens": len(self.allowed), "allowed_mass": self.mass(chances)}
            found["overruled"] = float(int(chances.argmax()) not in set(self.allowed) and token in set(self.allowed))
        name, exists = self.completed(text)
        return found | ({"exists": float(bool(exists))} if name else {})

    def completions(self, position: int, chances: torch.Tensor, held: bool, text: str | None) -> Completions:
        """The group of a step. chances [V] before any mask; text: of the token that was written."""
        answer, shown = self.answer, list(self.C)[:SHOWN]
        place = {"line": answer.line, "column": answer.column, "source": LANE} if answer else {}
        outside = chances.clone()
        outside[self.allowed] = 0.0
        refused = top_ids(outside[None], WANTED)[0].tolist() if self.allowed else []
        refused = [one for one in refused if outside[one] > 0]
        details = dict(zip(answer.names, answer.details, strict=True)) if answer else {}
        name, exists = self.completed(text)
        return Completions(
            position,
            self.kind,
            names=shown,
            details=[details[one] for one in shown],
            total=len(self.C),
            written=self.written,
            allowed=len(self.allowed),
            mass=round(self.mass(chances), 9) if self.allowed else None,
            refused=refused,
            refused_probabilities=[round(float(outside[one]), 6) for one in refused],
            held=held,
            name=name,
            exists=exists,
            **place,
        )

    def note(self, chances: torch.Tensor, held: bool) -> str:
        """One sentence on the step."""
        if self.kind == "unknown" and self.answer:
            return f"A dot: {self.answer.why or 'the model has no tokens for the names'}; decoding stays plain here."
        if not self.allowed:
            return {"astray": "The name that is begun does not exist."}.get(self.kind, "No dot, no question.")
        count = f"{len(self.C)} name{'s are' if len(self.C) != 1 else ' is'} possible"
        asked = f"The analyser was asked: {count}" if self.kind == "asked" else f"Inside a name: {count}"
        said = f"{asked}, with {self.mass(chances):.1%} of the model's probability."
        if int(chances.argmax()) in set(self.allowed):
            return said
        return f"{said} Its first choice is none of them{' and was masked out' if held else ''}."


class Monitor:
    """The analyser with the vocabulary: one question at each dot, the state behind it. Used as a context; its copy of
    the project is gone afterwards. It is off, and always idle, until it reads a project."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        self.vocabulary = (tokenizer, vocab_size)
        self.project: str | None = None
        self.analyser: Analyser | None = None
        self.trie = Trie({})
        self.answers: dict[str, Answer | None] = {}  # by the text up to the dot; None in strings and comments

    def reads(self, project: str | None) -> None:
        """From now on this project, by name or as text (None: off); what was asked of another one is forgotten. Raises
        UserError for a project that cannot be read, and where the analyser is not installed."""
        if project == self.project:
            return
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
        """The state of a text; asks at most once at a dot, and not in strings and comments."""
        found = begun(x) if self.analyser else None
        if found is None or self.analyser is None:
            return State("idle", {}, "", [])
        before, written = found
        asked = before not in self.answers
        if asked:
            quoted = completion.in_string_or_comment(before)
            self.answers[before] = None if quoted else self.analyser.members(before)
        answer = self.answers[before]
        if answer is None or not (asked or answer.names):
            return State("idle", {}, "", [])
        C = rests(answer.names, written)
        if allowed := self.trie.allowed(C.values()):
            return State("asked" if asked else "open", C, written, allowed, answer)
        return State("astray" if answer.names and not C else "unknown", {}, written, [], answer)


def mask(L: torch.Tensor, allowed: list[int]) -> torch.Tensor:
    """Logits [V] with all other tokens out; L itself where none is to be held, or an edit forbids all of those."""
    if not allowed or not torch.isfinite(L[allowed]).any():
        return L
    masked = torch.full_like(L, float("-inf"))
    masked[allowed] = L[allowed]
    return masked


def question(run: Recorder, state: State) -> list[Interval]:
    """The question of a step as it was measured; none where none was asked."""
    if state.answer is None or state.kind in ("open", "astray"):
        return []
    return run.interval(LANE, state.answer.began, state.answer.ended, f"asked at line {state.answer.line}")


def told(model: CausalLM, token: int) -> str | None:
    """The text of a token; None where it stands for none of its own."""
    piece = model.tokenizer.piece(token)
    return piece.text if piece.kind == "text" else None
