"""A left-to-right model whose rows keep their bits, beside the plain one whose weights it shares."""

from statistics import median
from typing import Any

import msgspec
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds.base import Ids
from engines.core.measure import RowClock
from engines.models.adapters.causal import Rows
from engines.models.adapters.layered import HFLayeredLM
from engines.models.forwards.merged import MergedBody
from engines.models.forwards.row_invariant.attention import BLOCK, NAME, BlockLayer, Seen
from engines.models.forwards.row_invariant.layers import Rotations, fill, twin
from engines.models.layers.slots import SlotCache
from engines.models.measures.bits import same_bits

OPTION = "row_invariant"
SECONDS = 3.0  # that the trial of the bits may take
TURNS = 5  # forwards of one row, timed of each of the two in turn


class HFRowInvariantLM(HFLayeredLM):
    """See `of`. plain: the model as it was loaded."""

    def __init__(self, plain: HFLayeredLM) -> None:
        network = twin(plain.model)
        for module in network.modules():
            if (config := getattr(module, "config", None)) is not None:
                config._attn_implementation_internal = NAME
        record = msgspec.structs.replace(plain.record, options={**plain.record.options, OPTION: True})
        super().__init__(network, plain.tokenizer, record, plain.eos_ids)
        self.plain, self._rotary = plain, Rotations(self._rotary)
        self.body = MergedBody.of(network) if plain.body else None

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty cache for up to `capacity` positions, in float32 and blocks."""
        return SlotCache(self.num_layers, capacity, BlockLayer)

    def _mask(self, kind: str, new: Rows, h: Tensor, cache: SlotCache, layer: int, at: Tensor) -> Any:
        parents = () if new.chain else new.parents
        past, early = (new.past + new.early, 0) if new.chain else (new.past, new.early)
        return Seen.of(past, early, h.shape[1], parents, h.device)

    def _rows_of_head(self, vocabulary: Ids) -> Any:
        return fill(super()._rows_of_head(vocabulary))


def of(model: Any, wish: Any = True) -> HFRowInvariantLM:
    """The model with row-invariant forwards; tried on a few dozen rows first, and timed against the plain one. Raises
    UserError for a model that cannot have them, or whose rows' bits move all the same on this machine. wish: what a
    person gave for the option."""
    name, kind = model.record.name, model.record.kind
    if wish is not True:
        raise UserError(f"row_invariant={wish!r:.60} cannot be; give True (the rows keep their bits) or False.")
    if type(model) is not HFLayeredLM or not model.takes_trees:
        what = ", ".join(filter(None, (kind, getattr(getattr(model, "config", None), "model_type", ""))))
        raise UserError(
            f"row_invariant is not for '{name}' ({what}); take a left-to-right model like Llama whose layers all have "
            "full attention, or leave it out."
        )
    if any(hasattr(module, "_hf_hook") for module in model.model.modules()):
        raise UserError(f"row_invariant needs all layers on one device and '{name}' is spread; leave device_map out.")
    made = HFRowInvariantLM(model)
    tried, moved = same_bits(made, SECONDS, BLOCK - 2)  # so that the rows and the tree cross a block
    if moved:
        raise UserError(
            f"on this machine the logits of '{name}' in {model.record.dtype} move by {moved:.2g} with {tried} other "
            "rows even with row_invariant; leave it out, or load the model with another dtype."
        )
    made.record.moved, made.record.slower = moved, round(_slower(made), 3)
    return made


def _slower(made: HFRowInvariantLM) -> float:
    """Seconds of a forward of one row over the plain model's, medians of alternating ones, of which the first is left
    out."""
    clocks = RowClock(made), RowClock(made.plain)
    turns = [[clock.seconds() for clock in clocks] for _ in range(1 + TURNS)]
    invariant, plain = (median(each) for each in zip(*turns[1:], strict=True))
    return invariant / plain
