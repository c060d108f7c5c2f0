"""Attention of few rows in bfloat16 on a CPU: the query heads that share a key head go as rows of one product.

torch's kernel takes one query head after the other and reads a key head's keys and values again for each; and one to
three rows go through code for vectors, which is slow and rounds otherwise than that for matrices. As rows of one
product a forward of one row reads each key once.

A row then has the bits that it has beside others, up to the last columns that it does not see; alone in transformers'
call its last bit can differ from them (in 1 of 20 outputs of a layer over 200 positions). Forwards of four rows or more
stay as they are, except that keys and values are not copied for each query head, and so does float32, where nothing is
gained: their bits are those of transformers.

Shapes: B texts, h key heads, g query heads for each, n rows, d head size, C columns."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

NAME = "decoding_explorer_grouped"  # under which transformers finds `attend`
LEAST = 4  # rows from which on torch multiplies matrices


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers' modules call it: queries [B, h g, n, d], keys and values [B, h, C, d] to
    [B, n, h g, d]. attention_mask: [B, 1, n, C]; without one the rows are a whole text (is_causal) or see all."""
    n, g = query.shape[2], query.shape[1] // key.shape[1]
    causal = n > 1 and attention_mask is None and (module.is_causal if is_causal is None else is_causal)
    if query.dtype == torch.bfloat16:
        together = n < LEAST and not causal
    else:  # transformers groups heads in this case only
        together = n == 1 and g > 1 and attention_mask is not None
    if together:
        return _together(query, key, value, attention_mask, scaling), None
    out = scaled_dot_product_attention(
        query, key, value, attention_mask, is_causal=causal, scale=scaling, enable_gqa=g > 1
    )
    return out.transpose(1, 2), None


def _together(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """The heads' rows as those of one product; [B, n, h g, d]."""
    (B, heads, n, d), h = query.shape, key.shape[1]
    R = heads // h * n
    q = query.reshape(B, h, R, d)
    if mask is not None:
        mask = mask.repeat(1, 1, heads // h, 1)
    if R < LEAST and query.dtype == torch.bfloat16:
        q, mask = _filled(q), None if mask is None else _filled(mask)
    out = scaled_dot_product_attention(q, key, value, mask, scale=scaling)
    return out[:, :, :R].reshape(B, heads, n, d).transpose(1, 2)


def _filled(rows: Tensor) -> Tensor:
    """LEAST rows [B, h, R, ...]: copies of the first behind them."""
    return torch.cat((rows, rows[:, :, :1].expand(-1, -1, LEAST - rows.shape[2], -1)), 2)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
