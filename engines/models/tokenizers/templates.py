"""Chat templates, which come with checkpoints: rendered in a process of their own, bounded in time and memory."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from engines.core.child import Child, Late
from engines.core.errors import UserError

SECONDS = 10.0  # that a template may take; ours take a millisecond
PROGRAM = Path(__file__).with_name("_template_process.py")


def rendered(template: str, text: str, given: Mapping[str, Any]) -> str:
    """What a chat template makes of a user's turn, up to where the answer begins. given: what it is told beside the
    turn, as JSON has it. Raises UserError where it refuses the turn or does not come to an end."""
    usual = {"add_generation_prompt": True, "tools": None, "documents": None}
    message = {"role": "user", "content": text}
    question = {"template": template, "messages": [message], "given": {**usual, **given}}
    try:
        answer = _process().ask(question, SECONDS)
    except Late:
        raise UserError(
            f"the chat template of this model did not come to an end within {SECONDS:g} seconds; choose another model."
        ) from None
    if "text" not in answer:
        raise UserError(
            "the chat template of this model refuses this prompt: "
            f"{str(answer.get('refused', 'its process ended'))[:200]}; change the prompt, or choose another model."
        )
    return str(answer["text"])


@cache
def _process() -> Child:
    return Child(PROGRAM, "jinja2", "markupsafe")
