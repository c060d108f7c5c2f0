"""What the config.json of a DiffusionGemma asks for: transformers' own class, without a vision tower's layers."""

from collections.abc import Mapping
from typing import Any

from engines.core.errors import UserError

FIELDS = ("canvas_length", "tie_word_embeddings", "initializer_range", "quantization_config")
TOKENS = ("boi_token_id", "eoi_token_id", "image_token_id")
UNREAD = ("model.encoder.vision_tower.", "model.encoder.embed_vision.")  # text needs neither


def canvas_config(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The config of the class for a DiffusionGemma, as published (two keys for the heads of full layers) or as
    transformers saves it (`per_layer_config`). The class takes 1 for an end mark that nobody named; here none is named.

    Raises UserError for an encoder that is not causal, and a config without the text's part."""
    text = raw.get("text_config")
    if not isinstance(text, Mapping):
        raise UserError(f"config.json of '{name}' has no text_config, which a DiffusionGemma has; download it again.")
    if text.get("use_bidirectional_attention") not in (None, "vision"):
        raise UserError(
            f"'{name}' has use_bidirectional_attention={text['use_bidirectional_attention']!r}; only a DiffusionGemma "
            "whose encoder reads text causally can be loaded."
        )
    ends = raw.get("eos_token_id", text.get("eos_token_id"))
    return {key: raw[key] for key in (*FIELDS, *TOKENS) if key in raw} | {
        "text_config": {**text, "eos_token_id": text.get("eos_token_id")},
        "vision_config": {"model_type": "gemma4_vision", **(raw.get("vision_config") or {}), "num_hidden_layers": 0},
        "eos_token_id": ends,
    }
