"""The models of a run as its method sees them: each call goes through the meter, and no row proposes what an edit forbids at its position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.models import BlockMaskedLM, CachedMaskedLM, CausalLM, Extended, KVCache, MaskedLM, Memory, Meter, Model, Seq2SeqLM, row_depths

if TYPE_CHECKING:
    from torch import Tensor


class Counted:
    """A model seen through the meter: what all kinds pass on."""

    def __init__(self, model: Any, role: str, meter: Meter) -> None:
        self._model, self._role, self._meter = model, role, meter
        self.eos_ids, self.vocab_size = model.eos_ids, model.vocab_size
        self.max_positions, self.tokenizer, self.record = model.max_positions, model.tokenizer, model.record

    def warm_up(self) -> float:
        """See `Model`."""
        return float(self._model.warm_up())

    def _call(self, fed: int, work: Any) -> Any:
        return self._meter.call(self._role, self.record.device, fed, work)

    def _allowed(self, logits: Tensor, first: int) -> Tensor:
        """Logits [..., n, V] of positions from `first` on, in place with -inf for the tokens forbidden there."""
        for position, tokens in self._meter.forbidden.items():
            if first <= position < first + logits.shape[-2]:
                logits[..., position - first, sorted(tokens)] = -torch.inf
        return logits


class CountedMasked(Counted):
    """A masked model seen through the meter."""

    def __init__(self, model: MaskedLM, role: str, meter: Meter) -> None:
        super().__init__(model, role, meter)
        self.mask_id = model.mask_id
        self.shift = bool(getattr(model, "shift", False))

    def __call__(self, x: Tensor) -> Tensor:
        """See `MaskedLM`; forbidden tokens get -inf."""
        return self._allowed(self._call(x.numel(), lambda: self._model(x)), 0)

    def new_cache(self, capacity: int) -> KVCache:
        """See `CachedMaskedLM`. Raises UserError for a model that is none."""
        if not isinstance(self._model, CachedMaskedLM):
            raise UserError(f"{self.record.name} keeps no keys and values between forwards; set cache=none or choose a Llama- or Qwen-like masked model.")
        return self._model.new_cache(capacity)

    def feed(self, x: Tensor, cache: KVCache, start: int, end: int) -> Tensor:
        """See `CachedMaskedLM`; what is counted is end - start positions. Forbidden tokens get -inf."""
        return self._allowed(self._call(end - start, lambda: self._model.feed(x, cache, start, end)), start)


class CountedCausal(Counted):
    """A causal model seen through the meter."""

    def __init__(self, model: CausalLM, role: str, meter: Meter) -> None:
        super().__init__(model, role, meter)
        self.num_layers = model.num_layers

    def new_cache(self, capacity: int) -> KVCache:
        """See `CausalLM`."""
        cache: KVCache = self._model.new_cache(capacity)
        return cache

    def extend(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, *, parents: Sequence[int] | None = None, hidden: Sequence[int] = (), last_only: bool = False
    ) -> Extended:
        """See `CausalLM`; a row never proposes a token forbidden at the position it predicts."""
        past, n = cache.length, len(tokens)
        early = len(parents) - n if parents is not None else 0  # rows of the tree that are in the cache already
        result: Extended = self._call(n, lambda: self._model.extend(tokens, cache, parents=parents, hidden=hidden, last_only=last_only))
        depths = (list(range(n)) if parents is None else row_depths(parents)[early:])[-1 if last_only else 0 :]
        for row, depth in enumerate(depths) if self._meter.forbidden else ():
            self._allowed(result.logits[row : row + 1], past - early + depth + 1)
        return result


class CountedBlock(CountedMasked):
    """A block-diffusion model seen through the meter; forbidden tokens get -inf in the rows of their positions."""

    def __init__(self, model: BlockMaskedLM, role: str, meter: Meter) -> None:
        super().__init__(model, role, meter)
        self.block_size = model.block_size

    def new_cache(self, capacity: int) -> KVCache:
        """See `BlockMaskedLM`."""
        cache: KVCache = self._model.new_cache(capacity)
        return cache

    def store(self, tokens: Sequence[int] | Tensor, cache: KVCache) -> Tensor:
        """See `BlockMaskedLM`."""
        logits = self._call(len(tokens), lambda: self._model.store(tokens, cache))
        return self._allowed(logits[None], cache.length if self.shift else cache.length - 1)[0]

    def denoise(self, tokens: Sequence[int] | Tensor, cache: KVCache, start: int = 0) -> Tensor:
        """See `BlockMaskedLM`."""
        return self._allowed(self._call(len(tokens), lambda: self._model.denoise(tokens, cache, start)), cache.length + start)


class CountedSeq2Seq(Counted):
    """An encoder-decoder seen through the meter. The encoder's calls are booked apart, under the role with `.encoder` behind it."""

    def __init__(self, model: Seq2SeqLM, role: str, meter: Meter) -> None:
        super().__init__(model, role, meter)
        self.start_id, self.encoder_layers, self.decoder_layers = model.start_id, model.encoder_layers, model.decoder_layers

    def encode(self, prompt: Sequence[int] | Tensor) -> Memory:
        """See `Seq2SeqLM`."""
        memory: Memory = self._meter.call(f"{self._role}.encoder", self.record.device, len(prompt), lambda: self._model.encode(prompt))
        return memory

    def new_cache(self, memory: Memory, capacity: int) -> KVCache:
        """See `Seq2SeqLM`."""
        cache: KVCache = self._model.new_cache(memory, capacity)
        return cache

    def extend(self, tokens: Sequence[int] | Tensor, cache: KVCache, *, last_only: bool = False, attention: bool = False) -> Extended:
        """See `Seq2SeqLM`; a row never proposes a token forbidden at the position it predicts."""
        result: Extended = self._call(len(tokens), lambda: self._model.extend(tokens, cache, last_only=last_only, attention=attention))
        self._allowed(result.logits, cache.length + 1 - len(result.logits))
        return result


COUNTED: dict[str, Any] = {"causal": CountedCausal, "masked": CountedMasked, "block": CountedBlock, "seq2seq": CountedSeq2Seq}


def counted(model: Model, role: str, meter: Meter) -> Counted:
    """The model as a method sees it. Its record says the kind: a block-diffusion model also has everything that makes up a `MaskedLM`."""
    wrapped: Counted = COUNTED[model.record.kind](model, role, meter)
    return wrapped
