"""What a drafter's config.json says, checked for its types: numbers that are none end here, in one sentence."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from engines.core.errors import UserError

T = TypeVar("T")
FULL, SLIDING = "full_attention", "sliding_attention"
OUTPUTS_FROM = 1  # `eagle_config` counts outputs of layers where its first id is this one, inputs where it is another

Finite = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Rope(msgspec.Struct, frozen=True):
    """What is read of rotations; their other entries go to transformers."""

    rope_theta: Finite | None = None
    rope_type: str | None = None
    type: str | None = None


class LayerConfig(msgspec.Struct, frozen=True):
    """A Llama- or Qwen3-like config, as far as layers are computed by it."""

    num_attention_heads: Annotated[int, msgspec.Meta(ge=1)]
    head_dim: Count | None = None
    hidden_act: str = "silu"
    rms_norm_eps: Finite = 1e-6
    rope_theta: Finite | None = None
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    max_position_embeddings: Count | None = None
    layer_types: list[str] | None = None
    sliding_window: Count | None = None
    use_sliding_window: bool | None = None
    max_window_layers: Count = 28  # Qwen's, whose later layers slide

    def windows(self, layers: int, name: str) -> list[int]:
        """How many positions each of the drafter's layers sees, its own among them; 0 for all. Raises UserError for
        another kind of attention, and for a window of no size."""
        kinds = self.layer_types or []
        if not kinds and self.use_sliding_window and self.sliding_window:
            kinds = [SLIDING if i >= self.max_window_layers else FULL for i in range(layers)]
        kinds = kinds[:layers] + [FULL] * (layers - len(kinds))
        if other := next((kind for kind in kinds if kind not in (FULL, SLIDING)), None):
            raise UserError(
                f"config.json of '{name}' gives a layer {other!r:.40}; drafters with {FULL} or {SLIDING} can be "
                "computed."
            )
        if SLIDING in kinds and not self.sliding_window:
            raise UserError(
                f"config.json of '{name}' gives a layer {SLIDING} and sliding_window={self.sliding_window}; write down "
                "how many positions it sees, or download it again."
            )
        return [self.sliding_window or 0 if kind == SLIDING else 0 for kind in kinds]


class EagleFlags(msgspec.Struct, frozen=True):
    """How EAGLE-3 is computed, as far as the tensors do not say it. return_hidden_post_norm: TensorRT-LLM's word for
    norm_output."""

    eagle_aux_hidden_state_layer_ids: list[int] | None = None
    norm_before_residual: bool | None = None
    norm_output: bool | None = None
    return_hidden_post_norm: bool | None = None
    norm_before_fc: bool | None = None
    fc_norm: bool | None = None


class EagleConfig(EagleFlags, frozen=True):
    """The same at the top, where speculators writes it, and in `eagle_config`, where others do."""

    eagle_config: EagleFlags | None = None

    def flag(self, name: str, *words: str) -> bool | None:
        """What the two places say of it, None for nothing. words: its field, and others that mean the same. Raises
        UserError where they contradict each other."""
        places = (self,) if self.eagle_config is None else (self, self.eagle_config)
        values = {value for place in places for word in words if (value := getattr(place, word)) is not None}
        if len(values) > 1:
            raise UserError(
                f"config.json of '{name}' says {words[0]} both true and false, at the top and in eagle_config; one of "
                "them is wrong, so download it again."
            )
        return next(iter(values), None)

    @property
    def layer_ids(self) -> list[int] | None:
        """The layers whose inputs are read; None where it does not say. Those at the top are inputs. In `eagle_config`
        SpecForge counts outputs (its own choice is 1, n // 2 - 1, n - 4), others inputs (2, n // 2, n - 3): SGLang
        tells them apart by the first id (sgl-project/sglang#25454), and so do we."""
        if self.eagle_aux_hidden_state_layer_ids or self.eagle_config is None:
            return self.eagle_aux_hidden_state_layer_ids
        ids = self.eagle_config.eagle_aux_hidden_state_layer_ids
        return [i + 1 for i in ids] if ids and ids[0] == OUTPUTS_FROM else ids


def typed_config(kind: type[T], config: Mapping[str, Any], name: str) -> T:
    """What a config says, as that type. Raises UserError, with the key, for a value that is of another one."""
    try:
        return msgspec.convert(config, kind, strict=False)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        at, value = place.strip("`.").partition("[")[0], config
        for key in filter(None, at.split(".")):
            value = value[key]
        lost = f"{what.split('`')[1]}=None" if not at else f"{at}={value!r:.40}"
        reason = f"{what[0].lower()}{what[1:]}"
        raise UserError(f"config.json of '{name}' says {lost} ({reason}); mend it, or download it again.") from None


def layer_config(config: Mapping[str, Any], name: str, *places: str) -> Mapping[str, Any]:
    """The config of the layers: what stands under the first of these keys that holds something, else all of it."""
    held = next((config[key] for key in places if config.get(key)), config)
    if not isinstance(held, Mapping):
        key = next(key for key in places if config.get(key))
        raise UserError(
            f"config.json of '{name}' says {key}={held!r:.40}, which should be an object of settings; mend it, or "
            "download it again."
        )
    return held
