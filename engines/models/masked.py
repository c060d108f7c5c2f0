"""Any bidirectional transformer with a mask token behind `MaskedLM`: LLaDA- and Dream-like decoders, BERT-like encoders.

Shapes: B boards, L positions, V vocabulary.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.core.models import Tokenizer


class HFMaskedLM:
    """A transformers model without a causal mask (`config.is_causal` False, or an encoder), with its tokenizer.

    shift: row i of the network predicts token i + 1 (models that were causal once, such as Dream); the rows are moved here, row 0 keeps its own.
    The mask token is never proposed: its logit is -inf, as ParallelBench does it. LLaDA's own loop leaves it in, and can end with holes.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, record: ModelRecord, mask_id: int, shift: bool = False, eos_ids: frozenset[int] = frozenset()) -> None:
        config = model.config.get_text_config()
        if not 0 <= mask_id < config.vocab_size:
            raise UserError(f"mask_id={mask_id} is not in the vocabulary of {record.name}; ids go from 0 to {config.vocab_size - 1}.")
        self.model, self.tokenizer, self.record = model.eval().requires_grad_(False), tokenizer, record
        self.mask_id, self.shift, self.eos_ids = mask_id, shift, eos_ids
        self.vocab_size, self.max_positions = config.vocab_size, config.max_position_embeddings
        self._inputs = {"use_cache": False} if getattr(config, "is_causal", None) is False else {}
        self._warm = False

    @property
    def device(self) -> torch.device:
        """Where token ids have to be."""
        return self.model.get_input_embeddings().weight.device

    def warm_up(self) -> float:
        """One untimed forward of a short board, the first time only; the seconds it took, 0.0 later."""
        if self._warm:
            return 0.0
        began = time.perf_counter()
        self(torch.full((min(8, self.max_positions),), self.mask_id))
        self._warm = True
        return time.perf_counter() - began

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """x [L] -> logits [L, V], or [B, L] -> [B, L, V], float32 on the model's device. Raises UserError if L exceeds `max_positions`."""
        if x.shape[-1] > self.max_positions:
            raise UserError(f"{self.record.name} has {self.max_positions} positions and a board of {x.shape[-1]} was fed; use a shorter prompt or canvas.")
        logits = self.model(input_ids=x.to(self.device).reshape(-1, x.shape[-1]), **self._inputs).logits.float()
        if self.shift:
            logits = torch.cat([logits[:, :1], logits[:, :-1]], dim=1)
        logits[..., self.mask_id] = -torch.inf
        return logits.reshape(*x.shape, self.vocab_size)
