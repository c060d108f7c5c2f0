"""Masked models: no causal mask, rows in their place, the mask never proposed."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engines.core.errors import UserError
from engines.core.events import ModelRecord
from engines.core.models import CausalLM, MaskedLM
from engines.models.masked import HFMaskedLM
from engines.models.tokens import IdTokenizer

SIZE: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
}  # fmt: skip
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"is_causal": False}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"is_causal": False, "num_key_value_heads": 2}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"is_causal": False, "num_key_value_heads": 2, "head_dim": 8}),
    "bert": (BertConfig, BertForMaskedLM, {}),
}
BOARD = torch.tensor([3, 1, 4, 39, 39, 39, 39, 39])


def build(family: str, shift: bool = False, attention: str = "sdpa") -> HFMaskedLM:
    torch.manual_seed(0)
    config_class, model_class, extra = FAMILIES[family]
    network = model_class(config_class(**SIZE, **extra, initializer_range=0.3, attn_implementation=attention))
    return HFMaskedLM(network, IdTokenizer(40), ModelRecord("target", family, "masked"), 39, shift)


def test_it_is_a_masked_and_no_causal_model() -> None:
    model = build("llama")
    assert isinstance(model, MaskedLM) and not isinstance(model, CausalLM)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_position_sees_the_whole_board(family: str, attention: str) -> None:
    model = build(family, attention=attention)
    other = BOARD.clone()
    other[-1] = 5
    assert (model(BOARD)[0, :39] - model(other)[0, :39]).abs().max() > 1e-3


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_mask_is_never_proposed_and_the_rest_is_the_network(family: str) -> None:
    model = build(family)
    logits = model(BOARD)
    with torch.no_grad():
        plain = model.model(input_ids=BOARD[None]).logits[0]
    assert logits.dtype == torch.float32 and logits[:, 39].eq(-torch.inf).all()
    torch.testing.assert_close(logits[:, :39], plain[:, :39])
    logits[0, 0] = -torch.inf  # a method may write into them


def test_shift_moves_every_row_one_to_the_right() -> None:
    plain, shifted = build("llama")(BOARD), build("llama", shift=True)(BOARD)
    torch.testing.assert_close(shifted[0], plain[0])
    torch.testing.assert_close(shifted[1:], plain[:-1])


def test_boards_in_a_batch() -> None:
    model, other = build("qwen2", shift=True), BOARD.flip(0)
    both = model(torch.stack([BOARD, other]))
    assert both.shape == (2, 8, 40)
    torch.testing.assert_close(both[0], model(BOARD), atol=1e-5, rtol=0)
    torch.testing.assert_close(both[1], model(other), atol=1e-5, rtol=0)


def test_limits() -> None:
    model = build("bert")
    with pytest.raises(UserError, match="32 positions and a board of 33"):
        model(torch.zeros(33, dtype=torch.long))
    with pytest.raises(UserError, match="mask_id=40"):
        HFMaskedLM(model.model, model.tokenizer, model.record, 40)
    assert model.warm_up() > 0 and model.warm_up() == 0.0
