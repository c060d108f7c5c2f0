"""Masked models: no causal mask, rows in their place, the mask never proposed."""

import pytest
import torch
from transformers import DynamicCache

from engines.core.errors import UserError
from engines.core.kinds import BlockMaskedLM, CachedMaskedLM, CausalLM, MaskedLM
from engines.core.trace import ModelRecord
from engines.models.adapters.masked import HFMaskedLM
from engines.models.tokens import IdTokenizer
from tests.engines.models.stock import stock

SIZE = {"vocab_size": 40, "max_position_embeddings": 32}
FAMILIES = {
    "llama": ("Llama", {"is_causal": False, "num_key_value_heads": 4}),
    "qwen2": ("Qwen2", {"is_causal": False}),
    "qwen3": ("Qwen3", {"is_causal": False, "head_dim": 8}),
    "bert": ("Bert", {"num_key_value_heads": None, "head": "ForMaskedLM"}),
}
BOARD = torch.tensor([3, 1, 4, 39, 39, 39, 39, 39])


def build(family: str, shift: bool = False, attention: str = "sdpa") -> HFMaskedLM:
    name, more = FAMILIES[family]
    network = stock(name, **SIZE, **more, attn_implementation=attention)
    return HFMaskedLM(network, IdTokenizer(40), ModelRecord("target", family, "masked"), 39, shift)


def test_it_is_a_masked_and_no_causal_model() -> None:
    model = build("llama")
    assert isinstance(model, CachedMaskedLM)
    assert isinstance(model, MaskedLM)
    assert not isinstance(model, (CausalLM, BlockMaskedLM))


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


DECODERS = ["llama", "qwen2", "qwen3"]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", DECODERS)
def test_feeding_everything_is_the_plain_forward_and_a_part_its_rows(family: str, attention: str, shift: bool) -> None:
    model = build(family, shift, attention)
    plain, cache = model(BOARD), model.new_cache(10)
    for _ in range(2):
        torch.testing.assert_close(model.feed(BOARD, cache, 0, 8), plain, atol=1e-6, rtol=0)
        for start, end in ((3, 8), (3, 5), (0, 2), (7, 8)):
            part = model.feed(BOARD, cache, start, end)
            own = int(shift and start > 0)  # that row's distribution stands before the part
            torch.testing.assert_close(part[own:], plain[start + own : end], atol=1e-5, rtol=0)
            assert part.shape == (end - start, 40) and part[:, 39].eq(-torch.inf).all()


@pytest.mark.parametrize("family", DECODERS)
def test_the_part_left_out_is_as_old_as_its_last_forward(family: str) -> None:
    """Against transformers' own growing cache, cut at the block: the official prefix cache. And one token fed alone
    changes what the others see."""
    model, later = build(family), BOARD.clone()
    later[3], later[5] = 7, 8
    grown, cache = DynamicCache(config=model.model.config), model.new_cache(8)
    with torch.no_grad():
        model.model(input_ids=BOARD[None], past_key_values=grown, use_cache=True)
        grown.crop(-5)
        rest = model.model(input_ids=later[None, 3:], past_key_values=grown, use_cache=True).logits[0]
    model.feed(BOARD, cache, 0, 8)
    part = model.feed(later, cache, 3, 8)
    torch.testing.assert_close(part[:, :39], rest[:, :39], atol=1e-5, rtol=0)
    assert (part[:, :39] - model(later)[3:, :39]).abs().max() > 1e-3  # the first three have not seen the new tokens
    again = model.feed(later, cache, 0, 8)
    torch.testing.assert_close(again, model(later), atol=1e-6, rtol=0)
    model.feed(later, cache, 5, 6)
    alone = model.feed(later, cache, 6, 7)
    model.feed(BOARD, cache, 5, 6)
    assert (alone - model.feed(later, cache, 6, 7))[:, :39].abs().max() > 1e-3


def test_limits_of_the_cache() -> None:
    model = build("llama")
    cache = model.new_cache(8)
    with pytest.raises(ValueError, match="feed the whole board first"):
        model.feed(BOARD, cache, 2, 4)
    model.feed(BOARD, cache, 0, 8)
    with pytest.raises(ValueError, match="positions 4 to 3"):
        model.feed(BOARD, cache, 4, 4)
    with pytest.raises(UserError, match="room for 8"):
        model.feed(torch.zeros(9, dtype=torch.long), cache, 0, 9)
    with pytest.raises(UserError, match="32 positions and a board of 33"):
        model.feed(torch.zeros(33, dtype=torch.long), cache, 0, 2)
    with pytest.raises(UserError, match=r"encoder.*cache=none"):
        build("bert").new_cache(8)
    torch.testing.assert_close(model.feed(BOARD[:6], cache, 0, 6), model(BOARD[:6]))  # a shorter board may follow
    with pytest.raises(ValueError, match="feed the whole board first"):
        model.feed(BOARD[:7], cache, 2, 4)


@pytest.mark.parametrize("family", DECODERS)
def test_a_board_that_was_cut_goes_on_without_its_tail(family: str) -> None:
    """The rows left are as old as they were, the others are no longer seen: as with transformers' own cache, of which
    only the first three stay."""
    model = build(family)
    grown, cache = DynamicCache(config=model.model.config), model.new_cache(8)
    with torch.no_grad():
        model.model(input_ids=BOARD[None], past_key_values=grown, use_cache=True)
        grown.crop(-5)
        rest = model.model(input_ids=BOARD[None, 3:6], past_key_values=grown, use_cache=True).logits[0]
    whole = model.feed(BOARD, cache, 0, 8)
    part = model.feed(BOARD[:6], cache, 3, 6)
    torch.testing.assert_close(part[:, :39], rest[:, :39], atol=1e-5, rtol=0)
    assert (part - whole[3:6])[:, :39].abs().max() > 1e-3
