"""How a checkpoint is loaded: what was read out of its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Plan:
    """How to load a checkpoint. `model_class` and `tokenizer_class` are names in transformers; `config` None:
    transformers reads config.json itself. fused: the end of a tensor's name -> those of the tensors of the class that
    it holds, one below the other. unread: how names of tensors begin that may be there or missing.

    mask_id, shift: of the masked, block and two-way kinds; block_size: positions per block of the latter two.
    chat: what a chat template is given beside the turn. ends: whether a token that ends an answer has to be known.
    also: of a causal model, what more it is: layered (it runs layer by layer), moe (its layers have routers), split
    (they come apart), memory (they have memories), two-way (it fills blocks, too)."""

    kind: str
    model_class: str
    config_class: str = "AutoConfig"
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
