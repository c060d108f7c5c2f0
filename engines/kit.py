"""What a method file or a study needs, in one place: `from engines.kit import method, Float, ...`. The templates use
nothing else (`decoding-explorer template`)."""

import collections.abc

from engines.core.alternatives import Alternatives, Stops, slider
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
from engines.core.kinds.layered import AttentionInputs, Routing, SlotsRead, Taps
from engines.core.kinds.memory import MemoryTable
from engines.core.kinds.power_law import CountedPowerLaw
from engines.core.kinds.split import CountedSplit
from engines.core.lazy import Generator, Tensor, torch
from engines.core.masks import block_of, mask_positions, on_board, require_divisor, transfer_schedule
from engines.core.method import LaneInfo, method, part
from engines.core.packing import exact, pack_placement, pack_routing, pack_slots
from engines.core.params import Bool, Choice, Code, Float, Int, Param, Params, Text, max_new_tokens
from engines.core.paths import Fed, Path, Paths
from engines.core.recorder import Recorder
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
    uniform,
    within_mass,
    within_rank,
    without,
)
from engines.core.study import Axis, Column, Figure, Played, Progress, Receipt, Series, Study, Table, study
from engines.core.texts import many
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
from engines.driver.roles import Roles
from engines.driver.show import show

Steps = collections.abc.Generator[Step, Edit | None, None]  # what `decode` returns: a step out, an edit or nothing in
