"""Which adapter makes a model of a loaded network."""

from typing import Any

from engines.core.kinds import Model
from engines.core.trace import ModelRecord
from engines.models.configs.plans import Plan


def model_of(
    how: Plan,
    network: Any,
    tokenizer: Any,
    record: ModelRecord,
    mask_id: int | None,
    eos_ids: frozenset[int],
    options: dict[str, Any],
) -> Model:
    """A loaded network as a model of its kind. mask_id: of masked, block and two-way models; options: shift and
    block_size, where they were given."""
    from engines.models.adapters.block import HFBlockMaskedLM
    from engines.models.adapters.canvas import HFCanvasLM
    from engines.models.adapters.causal import HFCausalLM
    from engines.models.adapters.family import check_family, try_out
    from engines.models.adapters.layered import HFLayeredLM
    from engines.models.adapters.masked import HFMaskedLM
    from engines.models.adapters.power_law import HFPowerLawLM
    from engines.models.adapters.seq2seq import HFSeq2SeqLM, MuSeq2SeqLM
    from engines.models.adapters.sparse import HFMemoryLM, HFMoELM
    from engines.models.adapters.split import HFSplitLM
    from engines.models.adapters.two_way import HFTwoWayLM
    from engines.models.layers.packed import pack

    if how.kind in ("seq2seq", "power-law"):
        pair = MuSeq2SeqLM if network.config.model_type == "mu" else HFSeq2SeqLM
        return (pair if how.kind == "seq2seq" else HFPowerLawLM)(network, tokenizer, record, eos_ids)
    if how.kind == "canvas":
        return HFCanvasLM(network, tokenizer, record, eos_ids)
    if mask_id is None:
        made = {"split": HFSplitLM, "moe": HFMoELM, "memory": HFMemoryLM, "layered": HFLayeredLM}
        causal = next((made[kind] for kind in made if kind in how.also), HFCausalLM)
        check_family(network, record)
        model = causal(pack(network), tokenizer, record, eos_ids)  # other kinds feed whole boards, which gain nothing
        if causal is HFCausalLM:  # the families that run layer by layer are known, and tested each
            try_out(model)
        return model
    shift = how.shift if options.get("shift") is None else bool(options["shift"])
    if how.kind == "masked":
        return HFMaskedLM(network, tokenizer, record, mask_id, shift, eos_ids)
    block_size = how.block_size if options.get("block_size") is None else options["block_size"]
    if "two-way" in how.also:
        return HFTwoWayLM(pack(network), tokenizer, record, mask_id, block_size, shift, eos_ids)
    return HFBlockMaskedLM(network, tokenizer, record, mask_id, block_size, shift, eos_ids)
