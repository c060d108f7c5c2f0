"""Training a head on the text cache: a subclass says which layers it reads and what it makes of them, about 60 lines
with its command and card; batches, teacher, loss, checkpoint and resume are here.

A head turns what it reads into states on the scale of the model's last norm [n, d]; row t, through the model's own
output head, shall say what the model says at row t + shift (shift 1: the token after the next, as Medusa's first head;
shift 0: the next one, as an early exit)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from engines.training.core.loop import Loss, Training, attention
from engines.training.core.optimizer import cosine
from engines.training.core.text_cache import Teacher, Text, TextCache, soft_cross_entropy


class HeadTraining(Training):
    """Soft cross-entropy with the teacher on answer rows. Subclasses set `layers` and `shift` and write `features`."""

    layers: tuple[int, ...] = ()
    shift: int = 1
    learning_rate: float = 1e-3
    warmup: int = 10
    texts_per_step: int = 4

    def __init__(self, name: str, head: nn.Module, cache: TextCache, teacher: Teacher, seed: int = 0) -> None:
        """Raises UserError where the cache lacks a layer that the head, or the teacher, reads."""
        super().__init__()
        self.name, self.network, self.cache, self.teacher, self.seed = name, head, cache, teacher, seed
        self.settings = f"{name} {cache.sha256} {self.layers} {self.shift} {seed} {len(teacher.ids)} {len(cache.files)}"
        self.last = max(cache.layers)
        self.command = name
        self.optimizer = torch.optim.AdamW(head.parameters(), lr=self.learning_rate, betas=(0.9, 0.95))
        self.per_epoch = cache.count()
        next(cache.texts(self._read))
        self._go_on()

    @property
    def _read(self) -> tuple[int, ...]:
        return tuple(sorted({*self.layers, self.last}))

    def _go_on(self) -> None:
        place = divmod(self.progress.step * self.texts_per_step, self.per_epoch)
        self._stream = self.cache.endless(self._read, self.seed, place)

    def context(self) -> AbstractContextManager[Any]:
        """bfloat16 only where the processor has instructions for it, as the teacher; without them a step of large
        adapters takes some twenty times as long."""
        return super().context() if self.teacher.type == torch.bfloat16 else attention(self.device)

    def features(self, text: Text) -> Tensor:
        """What the head makes of a text: states [n, d]."""
        raise NotImplementedError

    def batch(self, share: float) -> list[Text]:
        """The next texts."""
        return [next(self._stream) for _ in range(self.texts_per_step)]

    def pairs(self, text: Text) -> tuple[Tensor, Tensor]:
        """Logits [m, v] of the head and of the teacher, of all rows of a text that take the loss."""
        rows = torch.tensor(text.rows(self.shift), dtype=torch.long)
        said = self.teacher.logits(self.features(text)[rows])
        return said, self.teacher.logits(text.hidden[self.last][rows + self.shift])

    def loss(self, batch: list[Text]) -> Loss:
        """The mean over all rows of the batch, in nats."""
        found = [self.pairs(text) for text in batch if len(text.rows(self.shift))]
        said, wanted = (torch.cat(part) for part in zip(*found, strict=True))
        return Loss(soft_cross_entropy(said, wanted), sum(len(text.tokens) for text in batch), len(said))

    def rate(self, share: float) -> float:
        """Rise and half cosine."""
        return cosine(self.learning_rate, self.progress.step, self.warmup, share)

    @torch.inference_mode()
    def agreement(self) -> dict[str, Any]:
        """On held-out prompts: in how many rows head and teacher rank the same token first, and the mean overlap of
        their distributions (1 - TVD)."""
        self.network.eval()
        found = [self.pairs(text) for text in self.cache.texts(self._read, held_out=True) if text.rows(self.shift)]
        said, wanted = (torch.cat(part) for part in zip(*found, strict=True))
        same = (said.argmax(-1) == wanted.argmax(-1)).double().mean().item()
        overlap = torch.minimum(said.softmax(-1), wanted.softmax(-1)).sum(-1).double().mean().item()
        return {"rows": len(said), "same_first_token": round(same, 4), "one_minus_tvd": round(overlap, 4)}

    def load(self, state: dict[str, Any]) -> None:
        """Go on behind the texts of the steps so far."""
        self._go_on()
