"""What a method file needs, in one place: `from engines.kit import method, Float, ...`. The templates use nothing else (`decoding-explorer template`)."""

from engines.core.errors import UserError
from engines.core.events import Branch, Edit, Interval, Span, Step, Tree
from engines.core.events import Choice as Decision
from engines.core.lazy import torch
from engines.core.masks import block_of, mask_positions, require_divisor, transfer_schedule
from engines.core.method import LaneInfo, method
from engines.core.params import Bool, Choice, Float, Int, Params, Text, max_new_tokens
from engines.core.recorder import Recorder
from engines.core.sampling import draw, entropy, gumbel_argmax, law, token_probability, top_ids, within_mass, within_rank

__all__ = [
    "Bool",
    "Branch",
    "Choice",
    "Decision",
    "Edit",
    "Float",
    "Int",
    "Interval",
    "LaneInfo",
    "Params",
    "Recorder",
    "Span",
    "Step",
    "Text",
    "Tree",
    "UserError",
    "block_of",
    "draw",
    "entropy",
    "gumbel_argmax",
    "law",
    "mask_positions",
    "max_new_tokens",
    "method",
    "require_divisor",
    "token_probability",
    "top_ids",
    "torch",
    "transfer_schedule",
    "within_mass",
    "within_rank",
]
