"""DiffusionGemma of transformers behind `CanvasLM`: an encoder and a decoder of the same weights, the decoder with
self-conditioning beside.

The encoder writes the rows of a `SlotCache`; the decoder only looks at them, its sliding layers at the last
`sliding_window` - 1 of them and always at the whole canvas. Its masks are made here, for transformers would take the
window from a cache of its own.

Shapes: L positions of a canvas, n rows fed, d hidden size, V vocabulary."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import KVCache, Tokenizer
from engines.core.kinds.base import Ids
from engines.models.adapters.base import HFModel, check_position
from engines.models.layers.slots import SlotCache, check_room


class HFCanvasLM(HFModel):
    """A `DiffusionGemmaForBlockDiffusion` with its tokenizer: see `CanvasLM`. Its vision tower is let go: text needs
    none. Raises UserError for a model that names no end of text, since its canvases would go on for ever."""

    def __init__(self, model: Any, *given: Any) -> None:
        encoder = model.model.encoder
        encoder.vision_tower = encoder.embed_vision = None
        super().__init__(model, *given)
        if not self.eos_ids:
            raise UserError(
                f"{self.record.name} does not say which token ends a text; put eos_token_id into its config.json"
                f"{_candidates(self.tokenizer, self.vocab_size)}."
            )
        length = model.config.canvas_length
        self.max_positions = int(self.config.max_position_embeddings)
        if not isinstance(length, int) or not 1 <= length < self.max_positions:
            raise UserError(
                f"canvas_length={length!r:.60} in the config of {self.record.name} cannot be; a canvas has 1 to "
                f"{self.max_positions - 1} positions."
            )
        self.canvas_length, self.num_layers = length, self.config.num_hidden_layers
        self.pad_id = self.config.pad_token_id or 0

    def _first_calls(self) -> None:
        cache = self.new_cache(1)
        self.encode([self.pad_id], cache)
        canvas = [self.pad_id] * self.canvas_length
        self.denoise(canvas, cache, self.denoise(canvas, cache))

    def new_cache(self, capacity: int) -> SlotCache:
        """See `CanvasLM`."""
        return SlotCache(self.num_layers, capacity)

    @torch.no_grad()
    def encode(self, tokens: Ids, cache: KVCache) -> Tensor:
        """See `CanvasLM`. States [n, d]. Raises UserError if they do not fit the cache or the model's positions."""
        assert isinstance(cache, SlotCache)
        ids, first = self._ids(tokens), cache.length
        end = first + ids.shape[1]
        check_position(self, end - 1)
        check_room(first, end - first, cache.capacity)
        states: Tensor = (
            self.model.model.encoder.language_model(
                input_ids=ids,
                position_ids=torch.arange(first, end, device=self.device)[None],
                attention_mask={kind: self._causal(first, end, kind) for kind in set(self.config.layer_types)},
                past_key_values=cache,
            )
            .last_hidden_state[0]
            .float()
        )
        return states

    @torch.no_grad()
    def denoise(self, canvas: Ids, cache: KVCache, conditioning: Tensor | None = None) -> Tensor:
        """See `CanvasLM`. Logits [L, V], float32. Raises UserError if the canvas is beyond the model's positions."""
        assert isinstance(cache, SlotCache)
        ids = self._ids(canvas)
        if not cache.length:
            raise ValueError("a canvas stands behind an encoded prompt, and nothing was encoded")
        check_position(self, cache.length + ids.shape[1] - 1)
        positions = torch.arange(cache.length, cache.length + ids.shape[1], device=self.device)
        logits: Tensor = self.model(
            decoder_input_ids=ids,
            past_key_values=self._looked_at(cache),
            self_conditioning_logits=None if conditioning is None else conditioning.to(self.device)[None],
            decoder_position_ids=positions[None],
        ).logits[0]
        return logits.float()

    def _causal(self, first: int, end: int, kind: str) -> Tensor:
        """Additive mask [1, 1, n, end]: rows first ... end - 1 see those before them, and in sliding layers none that
        is `sliding_window` or more away."""
        away = torch.arange(first, end)[:, None] - torch.arange(end)[None]
        window = self.config.sliding_window if kind == "sliding_attention" else end
        hidden = (away < 0) | (away >= window)
        mask = torch.zeros(1, 1, *hidden.shape, dtype=self.model.dtype)
        return mask.masked_fill_(hidden, torch.finfo(mask.dtype).min).to(self.device)

    def _looked_at(self, cache: SlotCache) -> Any:
        """What the decoder's layers see of the cache: all they ask of a transformers cache, read only."""
        end, window = cache.length, self.config.sliding_window
        layers = []
        for kind, layer in zip(self.config.layer_types, cache.layers, strict=True):
            first = max(0, end - window + 1) if kind == "sliding_attention" else 0
            keys, values = (buffer[:, :, first:end] for buffer in (layer.keys, layer.values))
            layers.append(SimpleNamespace(keys=keys, values=values))
        return SimpleNamespace(layers=layers, is_compileable=False, get_seq_length=lambda layer_idx=0: end)


def _candidates(tokenizer: Tokenizer, vocabulary: int) -> str:
    """The tokenizer's marks that could be it, in brackets; "" where it has none."""
    known = ((i, tokenizer.piece(i)) for i in range(min(vocabulary, 512)))
    marks = [f"{piece.text} = {i}" for i, piece in known if piece.kind == "special"]
    return f" ({', '.join(marks[:6])})" if marks else ""
