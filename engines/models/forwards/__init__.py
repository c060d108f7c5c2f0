"""Forwards of our own over the weights of a network of transformers, and the one door to them.

What they buy. `merged` runs a decoder layer of Llama's family as one function without modules: of SmolLM2's 30 layers
on two threads a third of the time of a forward of one row, of our tiny models about half. Its `attend` takes few rows
in bfloat16 (9 query heads on 3 key heads of 64, two threads of an AMD EPYC): one row over 200 positions in 30
us in place of 115, over 4,000 in 370 in place of 2,250. Both have the bits of transformers' modules, but for one to
three rows in bfloat16, which get the bits that they have beside others. `row_invariant`, which is asked for, costs time
and gives a row the same bits beside any rows, in a draft tree, too.

What they lean on, which is private to transformers and can change with any version:

- `merged`: names and meaning of a layer's parts (`input_layernorm`, `self_attn.q_proj` to `o_proj`, `q_norm`, `k_norm`,
  `post_attention_layernorm`, `mlp.gate_proj`, `up_proj`, `down_proj`, `act_fn`), their `variance_epsilon`, `head_dim`
  and `scaling`, the body's `embed_tokens`, `rotary_emb` and `norm`, `_attn_implementation` and
  `_attn_implementation_internal` of configs, `ALL_ATTENTION_FUNCTIONS`, and accelerate's `_hf_hook`.
- `merged.attend` and `row_invariant`: what an attention function is called with, and `ALL_MASK_ATTENTION_FUNCTIONS`.

So nothing is taken on trust: a network's first layer is tried when it is loaded. Where it lacks a part, or its own
modules give other bits, the model runs with transformers' modules, and the log says so."""

import logging
from typing import Any

from engines.core.errors import UserError

log = logging.getLogger("decoding-explorer")


def prepared(model: Any, row_invariant: Any = None) -> Any:
    """The model, its layers in few calls where they can be; with row_invariant (True) another one beside it, which
    shares its weights and whose rows keep their bits. Raises UserError where a model cannot have those."""
    if row_invariant in (None, False):
        model.body = _body_of(model) if model.mergeable else None
        return model
    try:
        from engines.models.forwards.row_invariant.model import of

        return of(model, row_invariant)
    except (AttributeError, ImportError, TypeError) as error:
        raise UserError(
            f"row_invariant does not know the parts of '{model.record.name}' in this version of transformers "
            f"({str(error)[:120]}); leave it out."
        ) from error


def _body_of(model: Any) -> Any | None:
    """The network's layers in few calls; None where they are others, or no longer what is known of them here."""
    try:
        from engines.models.forwards.merged import MergedBody

        body = MergedBody.of(model.model)
        if body is None or body.agrees():
            return body
        why = "other bits than in few calls"
    except Exception as error:  # whatever another version stumbles over
        why = f"{type(error).__name__}: {str(error)[:120]}"
    log.warning("the layers of '%s' run as transformers' own modules, slower: %s", model.record.name, why)
    return None
