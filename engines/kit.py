"""What a method file or a study needs, in one place: `from engines.kit import method, Float, ...`. The templates use
nothing else (`decoding-explorer template`)."""

from collections.abc import Generator

from engines.core.errors import UserError
from engines.core.kinds import (
    BlockMaskedLM,
    CachedMaskedLM,
    CausalLM,
    Extended,
    KVCache,
    LayeredLM,
    Mark,
    MaskedLM,
    SceneLM,
    Seq2SeqLM,
    Tokenizer,
    WordReaderLM,
)
from engines.core.kinds.layered import AttentionInputs, Routing, SlotsRead, Taps
from engines.core.kinds.memory import CountedMemory, MemoryTable
from engines.core.kinds.moe import CountedMoE
from engines.core.kinds.power_law import CountedPowerLaw
from engines.core.kinds.split import CountedSplit
from engines.core.lazy import torch
from engines.core.masks import block_of, mask_positions, on_board, require_divisor, transfer_schedule
from engines.core.method import LaneInfo, method, part
from engines.core.params import Bool, Choice, Code, Float, Int, Param, Params, Text, max_new_tokens
from engines.core.paths import Fed, Path, Paths
from engines.core.recorder import Recorder
from engines.core.recording import pack_placement, pack_routing, pack_slots
from engines.core.roles import Roles
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
from engines.core.show import show
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.core.trace import (
    Branch,
    Completions,
    Decision,
    Edit,
    Interval,
    Media,
    Memory,
    Mode,
    Operators,
    Reading,
    Scene,
    Sight,
    Span,
    Step,
    Tally,
    Trace,
    Tree,
    Truncation,
    Vision,
    Vote,
)
from engines.core.trees import children, from_child_counts, row_depths
from engines.core.truncated import (
    common_samplers,
    kept_by_mass,
    kept_by_rank,
    kept_by_ratio,
    let_through,
    ranked,
)

Steps = Generator[Step, Edit | None, None]  # what `decode` returns: a step out, an edit or nothing in
law = distribution  # its name in method files written before November 2026

__all__ = [
    "AttentionInputs",
    "Axis",
    "BlockMaskedLM",
    "Bool",
    "Branch",
    "CachedMaskedLM",
    "CausalLM",
    "Choice",
    "Code",
    "Completions",
    "Column",
    "Decision",
    "Edit",
    "Extended",
    "Fed",
    "Figure",
    "Float",
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
    "CountedMemory",
    "CountedMoE",
    "CountedSplit",
    "CountedPowerLaw",
    "Mode",
    "Operators",
    "Param",
    "Params",
    "Path",
    "Paths",
    "Progress",
    "Receipt",
    "Recorder",
    "Roles",
    "Routing",
    "Reading",
    "Scene",
    "SceneLM",
    "Seq2SeqLM",
    "Series",
    "Sight",
    "SlotsRead",
    "Span",
    "Step",
    "Steps",
    "Study",
    "Table",
    "Tally",
    "Taps",
    "Text",
    "Tokenizer",
    "Trace",
    "Tree",
    "Truncation",
    "UserError",
    "Vision",
    "Vote",
    "WordReaderLM",
    "accept_probability",
    "block_of",
    "children",
    "common_samplers",
    "distribution",
    "draw",
    "entropy",
    "from_child_counts",
    "gumbel_argmax",
    "kept_by_mass",
    "kept_by_rank",
    "kept_by_ratio",
    "let_through",
    "mask_positions",
    "max_new_tokens",
    "method",
    "on_board",
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
