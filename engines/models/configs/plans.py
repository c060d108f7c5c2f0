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
    layered: a causal model that can be run layer by layer; moe: one whose layers have routers; split: one whose layers
    come apart; memory: one whose layers have memories; two_way: one that fills blocks, too."""

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
    layered: bool = False
    moe: bool = False
    split: bool = False
    memory: bool = False
    two_way: bool = False
    chat: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds that the model satisfies."""
        further = {"layered": self.layered, "moe": self.moe, "split": self.split, "memory": self.memory}
        return (self.kind, *(name for name, has in (further | {"two-way": self.two_way}).items() if has))
