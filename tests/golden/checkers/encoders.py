"""Golden cases of Return of the Encoder: counts of parameters, the loss of distillation, the teacher's rows."""

from __future__ import annotations

from engines.core.lazy import torch

from .cases import Given, Values, float64, kinds


def rows(given: Given) -> Values:
    """The teacher's rows."""
    from engines.training.architectures import distillation

    found = distillation.teacher_slice(given["encoder_len"], given["decoder_len"])
    return {"first_teacher_position": found.start, "last_teacher_position": found.stop - 1}


def loss(given: Given) -> Values:
    """Both parts of the loss, and it."""
    from engines.training.architectures import distillation

    kl = distillation.forward_kl(float64(given["student_logits"]), float64(given["teacher_logits"]))
    ce = distillation.cross_entropy(float64(given["student_logits"]), torch.tensor(given["targets"]))
    return {"kl": float(kl), "ce": float(ce), "loss": float(distillation.distillation_loss(kl, ce, given["alpha"]))}


def published_weights(
    vocab: int, width: int, qkv: int, ffn: int, encoder_layers: int, decoder_layers: int, heads: int, kv_heads: int
) -> Values:
    """How many parameters the published network has, with its biases and the gains of its norms."""
    shared = qkv // heads * kv_heads  # width of keys and of values
    attention = 2 * width * qkv + 2 * width * shared + qkv + 2 * shared + width
    feed = 2 * width * ffn + ffn + width
    encoder = attention + feed + 2 * width
    decoder = encoder + attention + width
    total = vocab * width + encoder_layers * encoder + decoder_layers * decoder + 2 * width
    return {"embedding": vocab * width, "encoder_layer": encoder, "decoder_layer": decoder, "total": total}


kinds(
    "encoder_return",
    **{"parameters": lambda given: published_weights(**given), "teacher-slice": rows, "distillation-loss": loss},
)
