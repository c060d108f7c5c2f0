"""Golden cases of Return of the Encoder: counts of parameters, the loss of distillation, the teacher's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, NotCovered, checks, differ


@checks("encoder_return")
def check(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """All that is expected of a case, by its kind. Raises NotCovered for another kind."""
    from engines.training.architectures import distillation

    given, kind = case["inputs"], case["kind"]
    if kind == "parameters":
        return differ("", published_weights(**given), case["expected"], 0.0)
    if kind == "teacher-slice":
        rows = distillation.teacher_slice(given["encoder_len"], given["decoder_len"])
        got = {"first_teacher_position": rows.start, "last_teacher_position": rows.stop - 1}
        return differ("", got, case["expected"], 0.0)
    if kind == "distillation-loss":
        student, teacher = (
            torch.tensor(given[name], dtype=torch.float64) for name in ("student_logits", "teacher_logits")
        )
        kl = distillation.forward_kl(student, teacher)
        ce = distillation.cross_entropy(student, torch.tensor(given["targets"]))
        loss = distillation.distillation_loss(kl, ce, given["alpha"])
        return differ("", {"kl": float(kl), "ce": float(ce), "loss": float(loss)}, case["expected"], 1e-9)
    raise NotCovered(f"cases of the kind '{kind}' are not known")


def published_weights(
    vocab: int, width: int, qkv: int, ffn: int, encoder_layers: int, decoder_layers: int, heads: int, kv_heads: int
) -> dict[str, int]:
    """How many parameters the published network has, with its biases and the gains of its norms."""
    shared = qkv // heads * kv_heads  # width of keys and of values
    attention = 2 * width * qkv + 2 * width * shared + qkv + 2 * shared + width
    feed = 2 * width * ffn + ffn + width
    encoder = attention + feed + 2 * width
    decoder = encoder + attention + width
    total = vocab * width + encoder_layers * encoder + decoder_layers * decoder + 2 * width
    return {"embedding": vocab * width, "encoder_layer": encoder, "decoder_layer": decoder, "total": total}
