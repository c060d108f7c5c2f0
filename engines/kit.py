"""What a method file or a study needs, in one place: `from engines.kit import method, Float, ...`. The templates use
nothing else (`decoding-explorer template`)."""

import importlib
from collections.abc import Generator
from typing import Any

from engines.core.errors import UserError
from engines.core.kinds import (
    BlockMaskedLM,
    CachedMaskedLM,
    CanvasLM,
    CausalLM,
    Extended,
    KVCache,
    LayeredLM,
    Mark,
    MaskedLM,
    SceneLM,
    Seq2SeqLM,
    Tokenizer,
    TwoWayLM,
    WordReaderLM,
)
from engines.core.kinds.causal import CountedCausal
from engines.core.kinds.layered import AttentionInputs, Routing, SlotsRead, Taps
from engines.core.kinds.memory import CountedMemory, MemoryTable
from engines.core.kinds.moe import CountedMoE
from engines.core.kinds.power_law import CountedPowerLaw
from engines.core.kinds.split import CountedSplit
from engines.core.lazy import torch
from engines.core.masks import block_of, mask_positions, on_board, require_divisor, transfer_schedule
from engines.core.method import Former, LaneInfo, method, part
from engines.core.params import Bool, Choice, Code, Float, Int, Param, Params, Text, max_new_tokens
from engines.core.paths import Fed, Path, Paths
from engines.core.recorder import Recorder
from engines.core.recording import exact, pack_placement, pack_routing, pack_slots
from engines.core.row_costs import RowCosts
from engines.core.sampling import (
    accept_probability,
    distribution,
    draw,
    entropy,
    gumbel_argmax,
    residual,
    token_probability,
    top_ids,
    within_mass,
    within_rank,
    without,
)
from engines.core.study import Axis, Column, Figure, Played, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import (
    Branch,
    Decision,
    Edit,
    GuessSource,
    Interval,
    Media,
    Memory,
    NumBytes,
    Packed,
    PackedTokens,
    Position,
    Probability,
    Record,
    Span,
    Step,
    TokenId,
    Trace,
    Tree,
    bytes_held,
    pack,
    pack_exact,
)
from engines.core.trees import behind, children, from_child_counts, row_depths
from engines.core.truncated import (
    common_samplers,
    kept_by_mass,
    kept_by_rank,
    kept_by_ratio,
    let_through,
    ranked,
)
from engines.core.wording import many
from engines.driver.roles import Roles
from engines.driver.show import show

Steps = Generator[Step, Edit | None, None]  # what `decode` returns: a step out, an edit or nothing in
law = distribution  # its name in method files written before November 2026

OLDER = {
    "Completions": "engines.methods.sampling.mgd.monitor",
    "Mode": "engines.methods.reasoning._votes",
    "Operators": "engines.methods.architecture.pldr_llm.operators",
    "Opinions": "engines.methods.speculative.rapid.opinions",
    "Reading": "engines.methods.multimodal._scene",
    "Scene": "engines.methods.multimodal._scene",
    "Sight": "engines.methods.multimodal._word",
    "Tally": "engines.methods.reasoning._votes",
    "Truncation": "engines.core.truncated",
    "Vision": "engines.methods.multimodal._seen",
    "Vote": "engines.methods.reasoning._votes",
    "pack_opinions": "engines.methods.speculative.rapid.opinions",
}  # names that stood here until December 2026, and where they are


def __getattr__(name: str) -> Any:
    """A name of `OLDER`, for method files that import it from here."""
    if name not in OLDER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(OLDER[name]), name)


__all__ = [
    "AttentionInputs",
    "Axis",
    "BlockMaskedLM",
    "Bool",
    "Branch",
    "CachedMaskedLM",
    "CanvasLM",
    "CausalLM",
    "Choice",
    "Code",
    "Column",
    "Decision",
    "Edit",
    "Extended",
    "Fed",
    "Figure",
    "Float",
    "Former",
    "GuessSource",
    "Int",
    "Interval",
    "KVCache",
    "LaneInfo",
    "LayeredLM",
    "Mark",
    "MaskedLM",
    "Media",
    "Memory",
    "MemoryTable",
    "CountedCausal",
    "CountedMemory",
    "CountedMoE",
    "CountedSplit",
    "CountedPowerLaw",
    "NumBytes",
    "Packed",
    "PackedTokens",
    "Position",
    "Probability",
    "Record",
    "TokenId",
    "Param",
    "Params",
    "Path",
    "Paths",
    "Played",
    "Progress",
    "Receipt",
    "Recorder",
    "Roles",
    "RowCosts",
    "Routing",
    "SceneLM",
    "Seq2SeqLM",
    "Series",
    "SlotsRead",
    "Span",
    "Step",
    "Steps",
    "Study",
    "Table",
    "Taps",
    "Text",
    "Tokenizer",
    "Trace",
    "Tree",
    "TwoWayLM",
    "UserError",
    "WordReaderLM",
    "accept_probability",
    "behind",
    "block_of",
    "bytes_held",
    "children",
    "common_samplers",
    "distribution",
    "draw",
    "entropy",
    "exact",
    "from_child_counts",
    "gumbel_argmax",
    "kept_by_mass",
    "kept_by_rank",
    "kept_by_ratio",
    "let_through",
    "many",
    "mask_positions",
    "max_new_tokens",
    "method",
    "on_board",
    "pack",
    "pack_exact",
    "pack_placement",
    "pack_routing",
    "pack_slots",
    "part",
    "ranked",
    "require_divisor",
    "residual",
    "row_depths",
    "show",
    "study",
    "token_probability",
    "top_ids",
    "torch",
    "transfer_schedule",
    "within_mass",
    "within_rank",
    "without",
]
