"""Who scores partial solutions: the trained process reward model, or the exact values of the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engines.core.errors import UserError
from engines.kit import Recorder, Roles
from engines.models.step_reward import StepReward
from engines.tasks.chains import CHAINS, sound

Score = Callable[[Sequence[Sequence[int]]], list[float]]


def scorer(name: str, models: Roles, prompt: Sequence[int], run: Recorder) -> Score:
    """r in [0, 1] of texts (token ids, the question first). Raises UserError for "exact" where the prompt is no chain
    of operations."""
    if name == "model":

        def call(rows: int, compute: Callable[[], float], layer_rows: int) -> float:
            r: float = run.call("prm", "cpu", rows, compute, layer_rows=layer_rows)
            return r

        return StepReward(models.prm.tensors, call).score
    decode, start = models.target.tokenizer.decode, len(prompt)
    question = decode(prompt).strip("^?")
    if CHAINS.read(question) is None:
        raise UserError(
            "reward=exact knows the values of chains such as 4+8-9*7 only, and the prompt is none; write one, or take "
            "reward=model."
        )

    def exact(texts: Sequence[Sequence[int]]) -> list[float]:
        ended = [bool(ids) and ids[-1] in models.target.eos_ids for ids in texts]
        return [
            float(sound(question, decode(list(ids)[start : len(ids) - over]), ended=over))
            for ids, over in zip(texts, ended, strict=True)
        ]

    return exact
