"""The loss of distillation as the official code of Return of the Encoder has it (arXiv 2501.16273,
train_text2text_by_kd.py): alpha KL(teacher || student) on an answer that the student wrote, and 1 - alpha cross-entropy
on the right answer.

Shapes: B rows, E tokens of an input, D of an answer, V vocabulary."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

ALPHA, TEMPERATURE, TOP_K = 0.9, 0.9, 128


def forward_kl(student: Tensor, teacher: Tensor, present: Tensor | None = None) -> Tensor:
    """KL(teacher || student) in nats, summed over the vocabulary, of logits [B, D, V]; the larger vocabulary is cut to
    the smaller. The mean is over all positions, padded ones too, as officially, or over those in `present` [B, D]."""
    V = min(student.shape[-1], teacher.shape[-1])
    log_q, log_p = (z[..., :V].log_softmax(-1) for z in (student, teacher))
    each = (log_p.exp() * (log_p - log_q)).sum(-1)
    return each.mean() if present is None else each[present].mean()


def distillation_loss(kl: Tensor, ce: Tensor, alpha: float = ALPHA) -> Tensor:
    """alpha KL + (1 - alpha) CE. At alpha = 0 this is plain training, whatever the teacher says."""
    return ce if alpha == 0 else alpha * kl + (1 - alpha) * ce


def teacher_slice(E: int, D: int) -> slice:
    """Which rows of a decoder-only model that reads [input, answer] predict the D tokens of the answer: E - 1 to
    E - 2 + D."""
    return slice(E - 1, E - 1 + D)


def drawn(z: Tensor, generator: torch.Generator, temperature: float = TEMPERATURE, top_k: int = TOP_K) -> Tensor:
    """A token [B] for each row of logits [B, V]: among the k likeliest, at a temperature."""
    best, at = (z / temperature).topk(min(top_k, z.shape[-1]), -1)
    return at.gather(1, torch.multinomial(best.softmax(-1), 1, generator=generator))[:, 0]


def cross_entropy(z: Tensor, targets: Tensor) -> Tensor:
    """Mean over the targets [B, D] that there are, in nats, of logits [B, D, V]."""
    return F.cross_entropy(z.flatten(0, 1), targets.flatten())
