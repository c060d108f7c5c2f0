"""What is asked of a run, checked before anything is loaded or computed: prompt, seed, detail, room and edits. Every
refusal is a UserError."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from engines.core.errors import UserError
from engines.core.kinds import Model
from engines.core.method import Method
from engines.core.params import LENGTH, Params, resolve
from engines.core.registry import get_method
from engines.core.trace import Edit

MAX_PROMPT_CHARACTERS = 20_000
MAX_EDITS = 256

Edits = Sequence[tuple[int, Edit]]


def prompt_ids(model: Model, prompt: str | Sequence[int]) -> list[int]:
    """The prompt as ids of the model: text in its own format, or the given ids."""
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UserError("the prompt is empty; type a question or pick a task.")
        if len(prompt) > MAX_PROMPT_CHARACTERS:
            raise UserError(f"the prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are taken.")
        if any("\ud800" <= c <= "\udfff" for c in prompt):
            raise UserError("the prompt holds half of a character (a lone surrogate); take it out.")
        ids = list(model.tokenizer.encode_prompt(prompt))
    else:
        try:
            ids = [int(t) for t in prompt]
        except (TypeError, ValueError, OverflowError):
            raise UserError("the prompt is neither a text nor a list of token ids.") from None
    if not ids:
        raise UserError("the prompt has no tokens; give at least one id.")
    if bad := [t for t in ids if not takes(model, t)]:
        raise UserError(f"prompt id {bad[0]} is not in the vocabulary; ids go from 0 to {model.vocab_size - 1}.")
    return ids


def takes(model: Model, token: int) -> bool:
    """Whether an id may stand in a prompt: of the vocabulary, or a part of a picture for a model that sees."""
    return 0 <= token < model.vocab_size or token in getattr(model, "picture_ids", ())


def check_room(models: Mapping[str, Model], prompt_ids: list[int], new_tokens: int) -> None:
    """Prompt and answer fit into every model."""
    for model in models.values():
        new_tokens = _whole(model, new_tokens)
        if len(prompt_ids) + new_tokens <= model.max_positions:
            continue
        if getattr(model, "rotations_change", False):
            raise UserError(
                f"the prompt has {len(prompt_ids):,} tokens and {new_tokens:,} more are asked for; the rotations of "
                f"{model.record.name} (LongRoPE) change after {model.max_positions:,} tokens, which the keys in a "
                "cache cannot follow. Shorten the prompt or ask for fewer new tokens."
            )
        if getattr(model, "window_ignored", False):
            raise UserError(
                f"the prompt has {len(prompt_ids):,} tokens and {new_tokens:,} more are asked for; llama.cpp ignores "
                f"the sliding window of {model.record.name}, and computes what the model does for "
                f"{model.max_positions:,} tokens only. Shorten the prompt, ask for fewer new tokens, or load the "
                "model's safetensors."
            )
        _refuse_room(model, f"{len(prompt_ids):,}", f"{new_tokens:,}", f"{model.max_positions:,}")


def prompt_room(models: Iterable[Model], new_tokens: int) -> int:
    """How many tokens a prompt may have before an answer of that length; none where it is 0 or less."""
    return min(model.max_positions - _whole(model, new_tokens) for model in models)


def _whole(model: Model, new_tokens: int) -> int:
    """What is asked for, rounded up to whole canvases."""
    length = getattr(model, "canvas_length", 1)
    return int(-(-new_tokens // length) * length)


def _refuse_room(model: Model, prompt: str, new: str, room: str) -> NoReturn:
    """Raises UserError, with the grid of a board that is cut into canvases or blocks. The numbers are written out."""
    name = model.record.name
    if canvas := getattr(model, "canvas_length", 0):
        raise UserError(
            f"the prompt has {prompt} tokens and {new} more are asked for; {name} has room for {room} in all, and an "
            f"answer fills whole canvases of {canvas:,}. Shorten the prompt or ask for fewer new tokens."
        )
    if model.record.kind == "block" and (block := getattr(model, "block_size", 0)):
        raise UserError(
            f"the prompt has {prompt} tokens and {new} more are asked for; {name} has room for {room} in all, whole "
            f"blocks of {block:,} counted from the prompt's first token. Shorten the prompt or ask for fewer new "
            "tokens."
        )
    raise UserError(
        f"the prompt has {prompt} tokens and {new} more are asked for; {name} has room for {room} in all. Shorten the "
        "prompt or ask for fewer new tokens."
    )


def check_seed(seed: object) -> None:
    """Whole and not negative."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise UserError(f"seed={str(seed)[:40]} is not allowed; give a whole number from 0 to 9223372036854775807.")


def check_detail(detail: object) -> None:
    """One of the known levels."""
    if detail not in ("none", "light", "full"):
        raise UserError(f"detail={str(detail)[:40]} is not known; choose one of none, light, full.")


def check_edits(edits: Edits) -> None:
    """Pairs of a step (-1: before the first) and an edit."""
    if len(edits) > MAX_EDITS:
        raise UserError(f"{len(edits)} edits are given; at most {MAX_EDITS} are taken.")
    for step, edit in edits:
        if not isinstance(step, int) or step < -1 or not isinstance(edit, Edit):
            raise UserError(
                "edits are pairs (after_step, Edit) with after_step >= -1, where -1 is before the first step."
            )


def check_edit(edit: Edit, vocab_size: int) -> None:
    """What can be refused without knowing the board; `Recorder.check_edit` looks at the positions."""
    tokens = [*edit.force.values(), *(t for forbidden in edit.forbid.values() for t in forbidden)]
    if bad := [t for t in tokens if not 0 <= t < vocab_size]:
        raise UserError(f"token {bad[0]} of the edit is not in the vocabulary; ids go from 0 to {vocab_size - 1}.")
    if bad := [p for p in edit.forbid if p < 0]:
        raise UserError(f"position {bad[0]} cannot be edited; positions start at 0.")
    if LENGTH in edit.params:
        raise UserError(
            f"{LENGTH} is settled when a run begins and cannot be edited; start a new run with another length."
        )


def method_after(slug: str, kind: str, params: Mapping[str, Any], length: int) -> tuple[Method, Params]:
    """The method that an edit switches to, and its parameters for an answer of `length` positions from the prompt on.
    kind: of the board's model."""
    method = get_method(slug)
    if method.info.kind != kind:
        raise UserError(
            f"'{slug}' needs a {method.info.kind} model and this run has a {kind} one; switch to a method for {kind} "
            "models."
        )
    return method, parameters(method, {**params, LENGTH: length})


def parameters(method: Method, given: Mapping[str, Any] | None, model: Model | None = None) -> Params:
    """A method's parameters, checked one by one and against each other; the length no longer than what `model` can
    write, where that has an end of its own, such as the last cell of a picture."""
    p = resolve(method.info.params, given)
    if method.check:
        method.check(p)
    most = getattr(model, "longest_answer", None)
    if most is not None and getattr(p, LENGTH, 0) > most:
        vars(p)[LENGTH] = most
    return p
