"""Checkpoints of a grid of drafts by name: TARGET@CHECKPOINT is the target with that draft beside it, for every method
that takes a draft; GRID@CHECKPOINT is the draft alone. CHECKPOINT is SIZE.STEPS, such as d64x4.512.

Shapes: n tokens, D the target's hidden size, V vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from engines.core.errors import UserError
from engines.core.kinds import Model
from engines.core.lazy import Tensor
from engines.models.files.hub import read_json
from engines.models.parts import CARD, Part, folder_of, load_part

if TYPE_CHECKING:
    from engines.models.networks.sized_draft import SizedDraft

PART, MARK, ROLE = "draft-grid", "@", "draft"


def beside(target: str, size: str, steps: int | str) -> str:
    """The name of the target with the draft of that size and so many steps beside it."""
    return f"{target}{MARK}{size}.{steps}"


def split(name: str) -> tuple[str, str, bool] | None:
    """(target, checkpoint, whether the draft alone is meant) of a name of that form whose target has a grid."""
    base, mark, checkpoint = name.partition(MARK)
    target = base.removesuffix(f"-{PART}")
    if not mark or "/" in base or "\\" in base or not _card(target):
        return None
    return target, checkpoint, base != target


def draft_beside(name: str) -> str | None:
    """The draft that TARGET@CHECKPOINT stands with, None for other names."""
    name_parts = split(name)
    return f"{name_parts[0]}-{PART}{MARK}{name_parts[1]}" if name_parts and not name_parts[2] else None


def load(name: str, load_model: Callable[..., Model], **options: Any) -> Model | None:
    """What a name of that form stands for, None for other names. load_model: loads the target, with the options. Raises
    UserError for a checkpoint that the grid does not have."""
    name_parts = split(name)
    if name_parts is None:
        return None
    target, checkpoint, alone = name_parts
    if checkpoint not in (known := checkpoints(target)):
        raise UserError(f"the grid of drafts of {target} has no '{checkpoint[:60]}'; it has {', '.join(known)}.")
    model: Any = load_model(target, **options)
    if alone:
        return draft(name, checkpoint, model)
    twin = copy.copy(model)
    twin.record = msgspec.structs.replace(model.record, name=name)
    return twin


def checkpoints(target: str) -> list[str]:
    """The checkpoints of a target's grid, small ones and short trainings first."""
    card = _card(target)
    return [f"{size}.{steps}" for size in card.get("sizes", ()) for steps in card.get("checkpoints", ())]


def _card(target: str) -> Mapping[str, Any]:
    return read_json(folder_of(PART, target) / CARD) if target else {}


def draft(name: str, checkpoint: str, target: Any) -> Model:
    """One draft as a causal model, with the target's embedding and tokenizer."""
    from engines.models.adapters.causal import HFCausalLM
    from engines.models.networks.sized_draft import parameters

    part = load_part(PART, [target.record])
    network = network_of(part, checkpoint, target.model.get_input_embeddings().weight.cpu(), target.max_positions)
    record = part.record(ROLE, target.record)
    record = msgspec.structs.replace(
        record,
        name=name,
        kind="causal",
        parameters=parameters(network),
        dtype="float32",
        threads=target.record.threads,
        tokenizer=target.record.tokenizer,
    )
    return HFCausalLM(_network(network).to(target.device), target.tokenizer, record, target.eos_ids)


def network_of(part: Part, checkpoint: str, embedding: Tensor, positions: int) -> SizedDraft:
    """A checkpoint of a grid without a cache; embedding [V, D] is the target's. Raises UserError for one that the grid
    does not have."""
    from engines.models.networks.sized_draft import SIZES, of_state

    size = next((size for size in SIZES if size.name == checkpoint.partition(".")[0]), None)
    begin = f"{checkpoint}."
    state = {key.removeprefix(begin): tensor for key, tensor in part.tensors.items() if key.startswith(begin)}
    if size is None or not state:
        known = [f"{name}.{steps}" for name in part.card.get("sizes", ()) for steps in part.card.get("checkpoints", ())]
        raise UserError(f"{part.name} has no '{checkpoint[:60]}'; it has {', '.join(known)}.")
    return of_state(size, state, embedding, positions)


def _network(draft: SizedDraft) -> Any:
    """The draft as transformers' own class, so that it takes a cache: its projections become embedding and head."""
    from transformers import LlamaForCausalLM

    from engines.models.networks.sized_draft import Entrance, Exit

    network = LlamaForCausalLM(draft.body.config)
    network.model, network.lm_head = draft.body, Exit(draft)
    network.model.embed_tokens = Entrance(draft)
    network.config.update({"vocab_size": len(draft.E)})
    return network
