"""What a stock network of any family can do here: whether it takes a cache of keys and values, how many positions it
has, and whether it gives behind that cache, and for the branches of a draft tree, what it gives without.

Nothing of it is told by a family's name. What a config declares is read; the rest is tried with a few tokens when a
checkpoint is loaded, since a family whose network counts rows instead of positions, or keeps a state of its own, gives
another text and no error.

Shapes: n rows, V vocabulary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engines.core.errors import UserError

if TYPE_CHECKING:
    from engines.core.trace import ModelRecord
    from engines.models.adapters.causal import HFCausalLM

SERVED = {
    "full_attention",
    "sliding_attention",
    "local_attention",
    "chunked_attention",
}  # layers that our cache can serve
TEXT, BRANCHES = 5, [-1, 0, 0, 1, 2]  # what is tried: a text, and behind it the rows of a tree with two branches
EXACT, ROUGH = 1e-3, 0.25  # how far logits may lie apart, as a share of their spread: in float32, in shorter numbers


def check_family(network: Any, record: ModelRecord) -> None:
    """Raise UserError for a network that takes no cache of keys and values, or whose config tells no positions."""
    name, family = record.name, network.config.model_type
    if "past_key_values" not in inspect.signature(network.forward).parameters:
        raise UserError(
            f"'{name}' is of the type '{family}', whose network takes no cache of keys and values; choose a Llama- or "
            "Qwen-like model."
        )
    positions = getattr(network.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        raise UserError(
            f"'{name}' is of the type '{family}', whose config has no max_position_embeddings to tell how long a text "
            "may be; choose a Llama- or Qwen-like model."
        )


def positions_of(config: Any) -> tuple[int, bool]:
    """How many positions a run may use, and whether these end where the rotations change.

    LongRoPE turns all positions by other angles once a text is longer than `original_max_position_embeddings`; the
    keys in a cache were turned by the old ones, so a run ends before that."""
    most = int(config.max_position_embeddings)
    ropes = getattr(config, "rope_parameters", None) or {}
    settings = [ropes, *(rope for rope in ropes.values() if isinstance(rope, dict))]
    turns = [
        setting.get("original_max_position_embeddings")
        for setting in settings
        if setting.get("rope_type") == "longrope"
    ]
    first = min((int(n) for n in turns if n), default=most)
    return min(first, most), first < most


def most_rows(network: Any, positions: int) -> int | None:
    """How many rows a cache may hold where the network keeps causal masks as tables of its own [1, 1, positions,
    positions]; None where it keeps none."""
    tables = (b for b in network.buffers() if b.dim() == 4 and b.shape[-1] == b.shape[-2] == positions)
    return positions if next(tables, None) is not None else None


def try_out(model: HFCausalLM) -> None:
    """Feed a few tokens whole, in pieces and as a tree. Raises UserError where the pieces do not give what the whole
    gives; where only the tree does not, the model takes none from then on."""
    name, family, ids = model.record.name, model.model.config.model_type, _some_ids(model)
    if model.max_positions < len(ids):
        return
    with torch.no_grad():
        whole = _tried(model, lambda: model.model(input_ids=_row(model, ids)).logits)[0]
    if whole.shape[0] != len(ids) or not torch.isfinite(whole).all():
        return  # weights that give no numbers give none behind a cache either
    cache = model.new_cache(2 * len(ids))

    def in_pieces() -> Tensor:
        cuts = [(0, TEXT - 2), (TEXT - 2, TEXT - 1), (TEXT - 1, len(ids))]
        rows = [model.extend(ids[a:b], cache).logits for a, b in cuts]
        cache.crop(TEXT)
        return torch.cat([*rows, model.extend(ids[TEXT:], cache, last_only=True).logits])

    pieces = _tried(model, in_pieces)
    if not near(pieces, torch.cat([whole, whole[-1:]]), model):
        raise UserError(
            f"'{name}' is of the type '{family}', whose network gives different logits with a KV cache; "
            "choose a Llama- or Qwen-like model."
        )
    model.measured(cache)
    if not model.takes_trees:
        return
    try:
        model.branches = _branches(model, ids, cache)
    except Exception:  # whatever a stock network stumbles over
        model.branches = False


def _branches(model: HFCausalLM, ids: Sequence[int], cache: Any) -> bool:
    """Whether every row of a tree gets what its own branch gets alone."""
    cache.crop(TEXT)
    tree = [*ids[TEXT:], *ids[: len(BRANCHES)]][: len(BRANCHES)]
    z = model.extend(tree, cache, parents=BRANCHES).logits
    alone = []
    for row in range(len(BRANCHES)):
        line, at = list[int](), row
        while at >= 0:
            line, at = [tree[at], *line], BRANCHES[at]
        with torch.no_grad():
            alone.append(model.model(input_ids=_row(model, [*ids[:TEXT], *line])).logits[0, -1])
    return near(z, torch.stack(alone), model)


def near(a: Tensor, b: Tensor, model: HFCausalLM) -> bool:
    """Whether logits [n, V] are the same but for rounding: every row's distance by the spread of that row."""
    a, b = a.float().cpu(), b.float().cpu()
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    limit = EXACT if model.model.dtype == torch.float32 else ROUGH
    return bool(((a - b).norm(dim=-1) <= limit * b.norm(dim=-1) + 1e-6).all())


def _some_ids(model: HFCausalLM) -> list[int]:
    """Different tokens of the vocabulary without those that have a meaning of their own."""
    special = {getattr(model.config, f"{name}_token_id", None) for name in ("pad", "bos", "eos")}
    step = max(1, model.vocab_size // 16)
    plain = [i for i in range(model.vocab_size // 3, model.vocab_size, step) if i not in special]
    return (plain * (TEXT + 2))[: TEXT + 2]


def _row(model: HFCausalLM, ids: Sequence[int]) -> Tensor:
    return torch.tensor([list(ids)], device=model.device)


def _tried(model: HFCausalLM, run: Callable[[], Tensor]) -> Tensor:
    try:
        return run()
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a stock network can stumble over anything
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise UserError(
            f"'{model.record.name}' is of the type '{model.model.config.model_type}', whose network cannot be run "
            f"with a cache of keys and values ({why}); choose a Llama- or Qwen-like model."
        ) from error
