"""What a run may cost here. A public host sets the variables; at home the limits of `engines` hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from engines import UserError

SLOTS = 4


@dataclass(frozen=True)
class Limits:
    """Budgets of one slot's run, and whether strangers use this server (then only listed models may be loaded)."""

    prompt_characters: int
    steps: int
    seconds: float
    public: bool

    @classmethod
    def from_env(cls) -> Limits:
        """EXPLORER_PUBLIC=1 (or a Space), EXPLORER_MAX_PROMPT, EXPLORER_MAX_STEPS, EXPLORER_MAX_SECONDS."""
        public = bool(os.environ.get("SPACE_ID")) or os.environ.get("EXPLORER_PUBLIC") == "1"
        return cls(
            prompt_characters=int(_number("EXPLORER_MAX_PROMPT", 4000 if public else 20_000)),
            steps=int(_number("EXPLORER_MAX_STEPS", 512 if public else 4096)),
            seconds=_number("EXPLORER_MAX_SECONDS", 45 if public else 600),
            public=public,
        )

    @property
    def sweep_runs(self) -> int:
        """The most runs of one sweep."""
        return 240 if self.public else 20_000

    @property
    def sweep_seconds(self) -> int:
        """The longest that one sweep may take."""
        return 60 if self.public else 4 * 3600

    def check_methods(self, files: Sequence[str]) -> None:
        """Nothing but what ships runs for strangers. Raises UserError where local method files are to run on a public host."""
        if self.public and files:
            raise UserError(
                f"'{files[0]}' is a method of your own, which may do anything, and this is a public host (EXPLORER_PUBLIC or SPACE_ID is set); "
                "start the page without --method-file, or where only you can reach it."
            )

    def check_prompt(self, prompt: object) -> str:
        """The prompt, if it may be decoded here. Raises UserError before any model is touched."""
        if not isinstance(prompt, str) or not prompt.strip():
            raise UserError("the prompt is empty; type a question or pick a task example.")
        if len(prompt) > self.prompt_characters:
            raise UserError(f"the prompt has {len(prompt):,} characters; at most {self.prompt_characters:,} are taken here. Shorten it and run again.")
        return prompt


def check_seed(seed: object) -> int:
    """A seed as an int; Gradio sends numbers, None for an empty field. Raises UserError."""
    if seed is None:
        raise UserError("the seed is empty; give a whole number from 0 to 9007199254740991.")
    if isinstance(seed, bool) or not isinstance(seed, (int, float)) or not 0 <= seed < 2**53 or seed != int(seed):
        raise UserError(f"seed={str(seed)[:40]} is not allowed; give a whole number from 0 to 9007199254740991.")
    return int(seed)


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else float(default)
    except ValueError:
        raise SystemExit(f"{name}={text[:40]} is not a number; leave it unset or give one such as {default:g}.") from None
    if not value > 0:
        raise SystemExit(f"{name}={text[:40]} must be above 0; leave it unset or give one such as {default:g}.")
    return value
