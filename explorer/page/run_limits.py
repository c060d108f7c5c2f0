"""What a run may cost here. A public page has its own limits (`--public`, EXPLORER_PUBLIC=1 or a Space); at home those
of `engines` hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from engines import UserError
from explorer.own_pictures import BYTES, MEGAPIXELS
from explorer.runs.gallery import MAX_TRACE_CHARACTERS

WAITING = 16
NEW_TOKENS = 4096  # what the longest methods declare
PUBLIC_NEW_TOKENS = 1024  # the most that a public host may be told to allow: longer answers are for one's own machine


@dataclass(frozen=True)
class Limits:
    """Budgets of one slot's run, and whether strangers use this server (then only listed models may be loaded).

    models: the names that may run, all listed ones if empty. waiting: runs in the queue. device: where models are put,
    such as cpu or cuda. row_invariant: a left-to-right model that can gives a row the same bits beside any rows."""

    prompt_characters: int
    steps: int
    seconds: float
    public: bool
    new_tokens: int = NEW_TOKENS
    waiting: int = WAITING
    trace_characters: int = MAX_TRACE_CHARACTERS
    models: tuple[str, ...] = ()
    device: str = "cpu"
    row_invariant: bool = False

    @classmethod
    def from_env(cls, public: bool = False) -> Limits:
        """EXPLORER_PUBLIC=1 (or a Space, or `public`), EXPLORER_MAX_PROMPT, _TOKENS, _STEPS, _SECONDS, _WAITING,
        _TRACE; EXPLORER_MODELS; EXPLORER_DEVICE; EXPLORER_ROW_INVARIANT=1."""
        public = public or bool(os.environ.get("SPACE_ID")) or os.environ.get("EXPLORER_PUBLIC") == "1"

        def most(name: str, here: float, at_home: float) -> float:
            return _number(f"EXPLORER_MAX_{name}", here if public else at_home)

        cuda = "cuda" if os.environ.get("SPACES_ZERO_GPU") else "cpu"
        return cls(
            prompt_characters=int(most("PROMPT", 4000, 20_000)),
            steps=int(most("STEPS", 512, 4096)),
            seconds=most("SECONDS", 45, 600),
            public=public,
            new_tokens=min(int(most("TOKENS", 256, NEW_TOKENS)), PUBLIC_NEW_TOKENS if public else NEW_TOKENS),
            waiting=int(most("WAITING", WAITING, WAITING)),
            trace_characters=min(int(most("TRACE", 2_000_000, MAX_TRACE_CHARACTERS)), MAX_TRACE_CHARACTERS),
            models=tuple(name.strip() for name in os.environ.get("EXPLORER_MODELS", "").split(",") if name.strip()),
            device=os.environ.get("EXPLORER_DEVICE", "").strip() or cuda,
            row_invariant=os.environ.get("EXPLORER_ROW_INVARIANT") == "1",
        )

    @property
    def sweep_runs(self) -> int:
        """The most runs of one sweep."""
        return 240 if self.public else 20_000

    @property
    def sweep_seconds(self) -> int:
        """The longest that one sweep may take."""
        return 60 if self.public else 4 * 3600

    @property
    def advice_tokens(self) -> int:
        """New tokens of each run that is timed to say what helps."""
        return min(32 if self.public else 48, self.new_tokens)

    @property
    def advice_seconds(self) -> float:
        """After so many seconds of it no run begins."""
        return min(self.seconds, 45) if self.public else 120

    def sentences(self) -> list[str]:
        """Each limit as one sentence for the page."""
        sentences = [
            f"A prompt may have {self.prompt_characters:,} characters.",
            f"An answer may have {self.new_tokens:,} new tokens.",
            f"A run ends after {self.steps:,} steps or {self.seconds:g} seconds; what was decoded by then stays.",
            f"One run goes at a time, {self.waiting} may wait, and the line under Run shows your place in the queue.",
            f"A trace that you open may have {self.trace_characters:,} characters; its file is read by your "
            "browser, and not uploaded.",
        ]
        if self.public or self.models:
            sentences.append(
                f"Only {'these' if self.models else 'the listed'} models run "
                f"here{': ' + ', '.join(self.models) if self.models else ''}."
            )
        if not self.public:
            sentences.append(
                f"A picture of your own may have {BYTES:,} bytes and {MEGAPIXELS} million pixels; this server reads "
                "it, and keeps nothing of it but the prompt."
            )
        if self.public:
            sentences.append("No hub id, no folder and no file of this machine is read for a visitor.")
        return sentences

    def check_methods(self, files: Sequence[str]) -> None:
        """Nothing but what ships runs for strangers. Raises UserError where local method files are to run on a public
        host."""
        if self.public and files:
            raise UserError(
                f"'{files[0]}' is a method of your own, which may do anything, and this is a public host (--public, "
                "EXPLORER_PUBLIC or SPACE_ID is set); "
                "start the page without --method-file and DECODING_EXPLORER_EXTRA, or where only you can reach it."
            )

    def check_prompt(self, prompt: object) -> str:
        """The prompt, if it may be decoded here. Raises UserError before any model is touched."""
        if not isinstance(prompt, str) or not prompt.strip():
            raise UserError("the prompt is empty; type a question or pick a task example.")
        if not prompt.isascii() and any("\ud800" <= c <= "\udfff" for c in prompt):
            raise UserError("the prompt holds half of a character (a lone surrogate); take it out.")
        if len(prompt) > self.prompt_characters:
            raise UserError(
                f"the prompt has {len(prompt):,} characters; at most {self.prompt_characters:,} are taken here. "
                "Shorten it and run again."
            )
        return prompt


def check_seed(seed: object) -> int:
    """A seed as an int; Gradio sends numbers, None for an empty field. Raises UserError."""
    if seed is None:
        raise UserError("the seed is empty; give a whole number from 0 to 9007199254740991.")
    if isinstance(seed, bool) or not isinstance(seed, (int, float)) or not 0 <= seed < 2**53 or seed != int(seed):
        raise UserError(f"seed={short(seed)} is not allowed; give a whole number from 0 to 9007199254740991.")
    return int(seed)


def short(value: object) -> str:
    """At most 40 characters of whatever was sent."""
    try:
        return str(value)[:40].encode("utf-8", "replace").decode()
    except (ValueError, RecursionError):  # a number of thousands of digits, a list that is too deep
        return f"a {type(value).__name__}"


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else float(default)
    except ValueError:
        raise SystemExit(
            f"{name}={text[:40]} is not a number; leave it unset or give one such as {default:g}."
        ) from None
    if not 1 <= value < float("inf") and not (name == "EXPLORER_MAX_SECONDS" and value > 0):
        raise SystemExit(f"{name}={text[:40]} must be at least 1; leave it unset or give one such as {default:g}.")
    return value
