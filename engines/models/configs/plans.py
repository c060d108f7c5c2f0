"""How a checkpoint is loaded: what was read out of its config.json, the config of a transformers class that this comes
to, and what is said where there is none."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.models.files.hub import read_json
from engines.models.networks import OURS, network_class


@dataclass(frozen=True)
class Plan:
    """How to load a checkpoint. `model_class` and `tokenizer_class` are names in transformers; `config`: what that
    class's config is given, None: transformers reads config.json itself. fused: the end of a tensor's name -> those of
    the tensors of the class that it holds, one below the other. unread: how names of tensors begin that may be there or
    missing.

    mask_id, shift: of the masked, block and two-way kinds; block_size: positions per block of the latter two.
    chat: what a chat template is given beside the turn. ends: whether a token that ends an answer has to be known.
    also: of a causal model, what more it is: layered (it runs layer by layer), moe (its layers have routers), split
    (they come apart), memory (they have memories), two-way (it fills blocks, too)."""

    kind: str
    model_class: str
    config: dict[str, Any] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    tokenizer_class: str = "AutoTokenizer"
    mask_id: int | None = None
    shift: bool = False
    block_size: int = 0
    also: tuple[str, ...] = ()
    chat: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds that the model satisfies."""
        return self.kind, *self.also


def config_of(folder: Path, name: str, how: Plan) -> Any:
    """The config of the plan's class. Raises UserError for a family that would need code from the checkpoint."""
    import transformers

    if how.config is not None:
        return getattr(transformers, how.model_class).config_class(**how.config)
    if (model_type := str(read_json(folder / "config.json").get("model_type"))) in OURS:
        network_class(model_type)
    try:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError) as error:
        kind = read_json(folder / "config.json").get("model_type")
        raise UserError(
            f"'{name}' has the model type '{kind}', which would need code from the checkpoint (trust_remote_code), and "
            "none is run here; choose a Llama- or Qwen-like model."
        ) from error


def check_class(config: Any, how: Plan, name: str) -> None:
    """Raises UserError for a family that transformers has no network of the wanted kind for."""
    import transformers

    known = getattr(getattr(transformers, how.model_class, None), "_model_mapping", None)
    if known is not None and type(config) not in known:
        raise UserError(
            f"'{name}' is of the type '{config.model_type}', which {how.model_class} of transformers does not know; "
            "choose a Llama- or Qwen-like model."
        )


@contextmanager
def refusing(name: str, options: dict[str, Any]) -> Iterator[None]:
    """What transformers says of a device map, a quantisation or a damaged file, in one sentence of ours."""
    wishes = [key for key in ("device_map", "quantization") if options.get(key) is not None]
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # a damaged file can make transformers raise anything
        reason = " ".join(str(error).split())[:200]
        if not wishes:
            raise UserError(
                f"'{name}' cannot be loaded: {reason}; download it again or choose another model."
            ) from error
        raise UserError(
            f"'{name}' cannot be loaded with {' and '.join(wishes)} as given: {reason}; change that or leave it out."
        ) from error
