"""What adapters over transformers models share: fixed weights, where they lie, and first, slow calls made apart."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import Tokenizer
from engines.core.kinds.base import Ids
from engines.core.picture import Pictured
from engines.core.trace import ModelRecord


class Warmed(ABC):
    """A model whose first calls are made apart, once."""

    _warm = False

    def warm_up(self) -> float:
        """Untimed first forwards, once; the seconds they took, 0.0 later."""
        if self._warm:
            return 0.0
        began = time.perf_counter()
        self._first_calls()
        self._warm = True
        return time.perf_counter() - began

    @abstractmethod
    def _first_calls(self) -> None:
        """One forward of every shape that a method will use."""


class HFModel(Warmed):
    """A transformers model with its tokenizer. `eos_ids`: the ids that end an answer."""

    max_positions: int
    rotations_change = False  # at `max_positions`: LongRoPE's
    mergeable = False  # whether `forwards` may run its layers in few calls
    body: Any = None  # which does so; None: transformers' own modules do

    def __init__(
        self, model: Any, tokenizer: Tokenizer, record: ModelRecord, eos_ids: frozenset[int] = frozenset()
    ) -> None:
        self.model, self.tokenizer = model.eval().requires_grad_(False), tokenizer
        self.record, self.eos_ids = record, eos_ids
        self.config = model.config.get_text_config()
        self.vocab_size: int = self.config.vocab_size

    @property
    def picture_ids(self) -> range:
        """Ids above the vocabulary that a prompt may hold, as parts of a picture; none of a model that does not see."""
        return getattr(self.model.get_input_embeddings(), "picture_ids", range(0))

    def pictured(self, ids: Sequence[int]) -> Pictured | None:
        """The picture among these ids, of a model whose embedding sees one."""
        find = getattr(self.model.get_input_embeddings(), "pictured", None)
        return None if find is None else find(ids)

    @property
    def device(self) -> torch.device:
        """Where token ids have to be."""
        return self.model.get_input_embeddings().weight.device

    def _logits_of(
        self, ids: Tensor, at: Tensor, seen: int, cache: Any, mask: Tensor | None = None, last_only: bool = False
    ) -> Tensor:
        """The network's logits [B, n, V] of ids [B, n] at positions at [1, n] over so many columns, or of the last row;
        without a mask all rows see all. The layers run in few calls where they can (see `forwards`)."""
        logits = self.body.logits(ids, at, mask, cache, last_only) if self.body else None
        if logits is None:
            if mask is None:
                mask = torch.zeros(1, 1, ids.shape[1], seen, dtype=self.model.dtype, device=self.device)
            logits = self.model(
                input_ids=ids,
                position_ids=at,
                attention_mask=mask,
                past_key_values=cache,
                use_cache=cache is not None,
                **({"logits_to_keep": 1} if last_only else {}),  # some networks do not know it
            ).logits
        return logits

    def _ids(self, tokens: Ids) -> Tensor:
        """Token ids [1, n] on the model's device."""
        return torch.as_tensor(tokens, dtype=torch.long, device=self.device).reshape(1, -1)


def check_mask_id(mask_id: int, vocab_size: int, record: ModelRecord) -> int:
    """The id of the mask token. Raises UserError where the vocabulary has no such id."""
    if not 0 <= mask_id < vocab_size:
        raise UserError(
            f"mask_id={mask_id} is not in the vocabulary of {record.name}; ids go from 0 to {vocab_size - 1}."
        )
    return mask_id


def check_position(model: Any, last: int) -> None:
    """Raises UserError where a model has no such position, or its rotations change before it."""
    if last < model.max_positions:
        return
    if model.rotations_change:
        raise UserError(
            f"the rotations of {model.record.name} (LongRoPE) change at position {model.max_positions}, which the "
            f"keys in a cache cannot follow, and position {last} was fed; use a shorter prompt or fewer new tokens."
        )
    raise UserError(
        f"{model.record.name} has {model.max_positions} positions and position {last} was fed; use a shorter prompt "
        "or fewer new tokens."
    )


def check_board(model: Any, length: int) -> None:
    """Raises UserError for a board that is longer than the model's positions."""
    if length > model.max_positions:
        raise UserError(
            f"{model.record.name} has {model.max_positions} positions and a board of {length} was fed; use a "
            "shorter prompt or canvas."
        )


def shifted(logits: Tensor) -> Tensor:
    """Rows [..., n, V] moved one to the right; the first keeps its own (step 3c of Fast-dLLM v2's official
    `generate`)."""
    return torch.cat([logits[..., :1, :], logits[..., :-1, :]], dim=-2)


def distributions(logits: Tensor, model: Any) -> Tensor:
    """A network's rows [..., n, V] as those of their positions, float32, of which none proposes the mask."""
    logits = shifted(logits.float()) if model.shift else logits.float()
    logits[..., model.mask_id] = -torch.inf
    return logits
