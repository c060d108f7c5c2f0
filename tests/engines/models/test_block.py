"""Masked models, whole boards and blocks: caches are exact or as old as they say, and parts can be fed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import DynamicCache, Glm4MoeForCausalLM

import engines
from engines.core.errors import UserError
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.driver.run import Run
from engines.methods.diffusion import llada2
from engines.models.adapters.block import HFBlockMaskedLM
from engines.models.adapters.masked import HFMaskedLM
from engines.models.configs.mapping import plan
from engines.models.forwards import prepared
from engines.models.layers.slots import SlotCache
from engines.models.loading.zoo import load_model
from engines.models.tokenizers.tokens import IdTokenizer
from tests.engines.conftest import GOLDEN
from tests.engines.models.published import config_of
from tests.engines.models.stock import close, stock
from tests.engines.refusals import refuses

B, V, MASK = 4, 40, 39
SIZE = {"vocab_size": V, "num_hidden_layers": 3, "max_position_embeddings": 33, "head_dim": 8}
FAMILIES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
DONE = [3, 14, 15, 9, 26, 5, 35, 8]  # two blocks
BLOCK = [7, MASK, 20, MASK]


def build(family: str = "llama", *, shift: bool = True, block: int = B, attention: str = "sdpa") -> HFBlockMaskedLM:
    causal = {"is_causal": False} if family == "llama" else {}
    network = stock(FAMILIES[family], **SIZE, **causal, attn_implementation=attention)
    record = ModelRecord("model", family, "block")
    blocks = {"mask_id": MASK, "block_size": block, "shift": shift}
    return prepared(HFBlockMaskedLM(network, IdTokenizer(V), record, frozenset({2}), **blocks))


def after(model: HFBlockMaskedLM, done: list[int]) -> SlotCache:
    cache = model.new_cache(len(done) + 2 * model.block_size)
    model.store(done, cache)
    return cache


def by_hand(model: HFBlockMaskedLM, ids: list[int]) -> torch.Tensor:
    """The network's own rows [L, V], with the mask of the paper."""
    place = torch.arange(len(ids)) // model.block_size
    mask = torch.where(place[:, None] >= place, 0.0, -1e9)[None, None]
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0]
    logits[:, model.mask_id] = -torch.inf
    return logits


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_board_is_block_causal_and_a_block_on_the_cache_equals_it(family, attention, shift) -> None:
    model = build(family, shift=shift, attention=attention)
    board = torch.tensor([*DONE, *BLOCK, 11, MASK])  # the last block is cut
    cache, rows = model.new_cache(16), by_hand(model, board.tolist())
    both = model(torch.stack([board.flip(0), board]))[1]
    close(both, torch.cat([rows[:1], rows[:-1]]) if shift else rows)
    close(model.store(DONE[:B], cache), rows[B - 1])
    close(model.store(DONE[B:], cache), rows[2 * B - 1])
    kept = [(layer.keys[:, :, :8].clone(), layer.values[:, :, :8].clone()) for layer in cache.layers]
    for _ in range(2):  # the cache is not extended, so it can be asked again
        logits = model.denoise(BLOCK, cache)
        close(logits, torch.cat([rows[8:9], rows[8:11]]) if shift else rows[8:12])
        assert cache.length == 8
        logits[0, 3] = -torch.inf  # a method may write into them
    model.store([7, 21, 20, 22], cache)
    for layer, (keys, values) in zip(cache.layers, kept, strict=True):  # stored blocks never change
        assert torch.equal(layer.keys[:, :, :8], keys) and torch.equal(layer.values[:, :, :8], values)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_part_on_a_fresh_block_cache_equals_the_whole_block(family: str) -> None:
    model, shifting = build(family, shift=False), build(family)
    cache = after(model, DONE)
    whole = model.denoise(BLOCK, cache)
    for start, end in [(0, 2), (2, 4), (1, 2), (0, 4)]:
        close(model.denoise(BLOCK[start:end], cache, start), whole[start:end])
    cache = after(shifting, DONE)
    shifting.denoise(BLOCK, cache)
    close(shifting.denoise(BLOCK[2:], cache, 2)[1:], whole[2:3])  # row j uses j - 1 of what was fed
    close(shifting.denoise(BLOCK[2:], cache, 2)[0], whole[2])  # and row 0 keeps its own


def test_a_part_overwrites_its_rows_and_sees_stale_ones() -> None:
    model = build(shift=False)
    cache = after(model, DONE)
    model.denoise(BLOCK, cache)
    stale = [layer.keys[:, :, 8:12].clone() for layer in cache.layers]
    part = model.denoise([7, 21], cache, 0)
    for layer, old in zip(cache.layers, stale, strict=True):
        assert torch.equal(layer.keys[:, :, 10:12], old[:, :, 2:])
        assert not torch.equal(layer.keys[:, :, 9], old[:, :, 1])
    exact = model.denoise([7, 21, *BLOCK[2:]], cache)
    assert (part - exact[:2])[:, :MASK].abs().max() > 1e-4  # positions 10 and 11 did not see the new token
    close(model.denoise([7, 21], cache, 0), exact[:2])  # and after a whole forward they have


def test_what_does_not_fit_is_refused() -> None:
    model = build()
    cache = after(model, DONE)
    refuses(ValueError, "2 of 4 positions were fed", model.denoise, BLOCK[:2], cache)
    model.denoise(BLOCK, cache)
    refuses(ValueError, "positions 3 to 4 behind 8", model.denoise, [1, 2], cache, 3)
    refuses(ValueError, "3 tokens were to be stored behind 8", model.store, [1, 2, 3], cache)
    cache.crop(8)
    with pytest.raises(ValueError, match="feed the whole block first"):  # a crop forgets the unfinished block
        model.denoise(BLOCK[:2], cache)
    cache.crop(6)
    refuses(ValueError, "behind 6", model.denoise, BLOCK, cache)
    small = model.new_cache(6)
    assert small.capacity == 8 and model.max_positions == 32
    model.store(DONE, small)
    refuses(UserError, "room for 8 positions; 8 are used and 4 more", model.denoise, BLOCK, small)
    refuses(UserError, "32 positions and position 35 was fed", model.store, [1] * 36, model.new_cache(36))
    for size in (0, 34, "16"):
        with pytest.raises(UserError, match=f"block_size={size} does not fit llama"):
            HFBlockMaskedLM(model.model, model.tokenizer, model.record, mask_id=MASK, block_size=size)  # type: ignore[arg-type]
    made = model.model, model.tokenizer, model.record
    refuses(UserError, "mask_id=40", HFBlockMaskedLM, *made, mask_id=V, block_size=B)
    sliding = stock("Mistral", **SIZE, sliding_window=4)
    with pytest.raises(UserError, match="sliding_attention layers; block diffusion needs full attention"):
        HFBlockMaskedLM(sliding, model.tokenizer, model.record, mask_id=MASK, block_size=B)
    assert model.warm_up() > 0 and model.warm_up() == 0.0
    model = build()  # 33 positions are 8 blocks of 4
    with pytest.raises(UserError, match="room for 32 in all, whole blocks of 4 counted from the prompt's first token"):
        Run(llada2.decode, {"model": model}, [5] * 30, params={"max_new_tokens": 3})
    Run(llada2.decode, {"model": model}, [5] * 30, params={"max_new_tokens": 2})


@pytest.mark.parametrize("shift", [True, False])
def test_forwards_and_tokens_are_counted_and_edits_apply(shift: bool) -> None:
    meter = Meter(forbidden={8: {5}, 9: {6}, 7: {3}})
    model: Any = counted(build(shift=shift), "model", meter)
    cache = model.new_cache(12)
    free = model.store(DONE, cache)
    assert (meter.forwards, meter.tokens_fed) == ({"model": 1}, 8)
    assert free[5 if shift else 3] == -torch.inf and free[3 if shift else 5] > -torch.inf
    logits = model.denoise(BLOCK, cache)
    assert logits[1, 6] == -torch.inf and model.denoise(BLOCK[1:3], cache, 1)[0, 6] == -torch.inf
    assert logits.eq(-torch.inf).sum() == B + 2  # the mask everywhere, tokens 5 and 6 in their rows
    assert (meter.forwards, meter.tokens_fed) == ({"model": 3}, 8 + 4 + 2)
    board = model(torch.tensor([*DONE, *BLOCK]))
    assert meter.tokens_fed == 8 + 4 + 2 + 12
    assert [int(board[p, t].isinf()) for p, t in ((7, 3), (8, 5), (9, 6), (9, 5))] == [1, 1, 1, 0]


def test_a_folder_of_ours(tmp_path: Path) -> None:
    config = {"is_causal": False, "block_size": 4, "mask_token_id": MASK, "shift_logits": True}
    stock("Llama", **SIZE, **config).save_pretrained(tmp_path / "ours")
    model = load_model(tmp_path / "ours", kind="block")
    found = type(model).__name__, model.record.kind, model.block_size, model.mask_id, model.shift
    assert found == ("HFBlockMaskedLM", "block", 4, MASK, True)
    other = load_model(tmp_path / "ours", block_size=8, shift=False, mask_id=3)
    assert (other.block_size, other.shift, other.mask_id) == (8, False, 3)


LLADA2 = GOLDEN / "diffusion2026" / "llada2"
BOARDS = json.loads((LLADA2 / "cases.json").read_text("utf-8"))["boards"]
CONFIG = config_of("llada2")
LLADA2_MASK = CONFIG["mask_token_id"]


def llada2_in(block_size=8):
    return engines.load_model(LLADA2 / "checkpoint", dtype="float32", block_size=block_size)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["id"])
def test_its_logits_are_those_of_its_own_file_and_a_cache_changes_nothing(board):
    model, ids = llada2_in(board["block_length"]), torch.tensor(board["ids"])
    z = model(ids)
    wanted = load_file(LLADA2 / "logits.safetensors")[f"{board['id']}.logits"]
    rest = torch.arange(z.shape[1]) != LLADA2_MASK  # never proposed
    close(z[:, rest], wanted[:, rest])
    size, cache = board["block_length"], model.new_cache(len(ids))
    if len(ids) >= 2 * size:
        model.store(ids[:size], cache)
        behind = model.denoise(ids[size : 2 * size], cache)
        torch.testing.assert_close(behind[:, rest], z[size : 2 * size, rest], atol=1e-5, rtol=0)


def test_the_published_config_names_neither_mask_nor_block_and_glm_itself_is_read_as_before(tmp_path):
    """They stand in its tokenizer and its code: mask 156895, blocks of 32; its end mark is what it pads with."""
    published = {key: value for key, value in CONFIG.items() if key not in ("mask_token_id", "eos_token_id")}
    how = plan(published, "LLaDA2.1-mini")
    assert (how.kind, how.mask_id, how.block_size, how.shift) == ("block", 156895, 32, False)
    assert how.config["eos_token_id"] == CONFIG["pad_token_id"]
    assert plan(published | {"block_length": 16}, "x").block_size == 16
    stock = Glm4MoeForCausalLM(llada2_in().model.config).eval()
    stock.save_pretrained(tmp_path)
    again, info = Glm4MoeForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in stock.state_dict().items())


SMALL = {"vocab_size": 40, "max_position_embeddings": 32}
MASKED = {
    "llama": ("Llama", {"is_causal": False, "num_key_value_heads": 4}),
    "qwen2": ("Qwen2", {"is_causal": False}),
    "qwen3": ("Qwen3", {"is_causal": False, "head_dim": 8}),
    "bert": ("Bert", {"num_key_value_heads": None, "head": "ForMaskedLM"}),
}
BOARD = torch.tensor([3, 1, 4, 39, 39, 39, 39, 39])


def masked(family: str, shift: bool = False, attention: str = "sdpa") -> HFMaskedLM:
    name, more = MASKED[family]
    network = stock(name, **SMALL, **more, attn_implementation=attention)
    return prepared(
        HFMaskedLM(network, IdTokenizer(40), ModelRecord("target", family, "masked"), mask_id=39, shift=shift)
    )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(MASKED))
def test_the_mask_is_never_proposed_and_the_rest_is_the_network_that_sees_the_whole_board(family, attention):
    model, other = masked(family, attention=attention), BOARD.clone()
    other[-1] = 5
    both, shifted = model(torch.stack([BOARD, other])), masked(family, shift=True, attention=attention)(BOARD)
    assert both[..., 39].eq(-torch.inf).all() and (both[0, 0, :39] - both[1, 0, :39]).abs().max() > 1e-3
    with torch.no_grad():
        plain = model.model(input_ids=BOARD[None]).logits[0]
    torch.testing.assert_close(both[0, :, :39], plain[:, :39], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(BOARD), both[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(shifted, torch.cat([both[0, :1], both[0, :-1]]), atol=1e-5, rtol=0)
    shifted[0, 0] = -torch.inf  # a method may write into them


DECODERS = ["llama", "qwen2", "qwen3"]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", DECODERS)
def test_feeding_everything_is_the_plain_forward_and_a_part_its_rows(family: str, attention: str, shift: bool) -> None:
    model = masked(family, shift, attention)
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
    """Against transformers' own growing cache, cut at the block: the official prefix cache."""
    model, later = masked(family), BOARD.clone()
    later[3], later[5] = 7, 8
    grown, cache = DynamicCache(config=model.model.config), model.new_cache(8)

    def behind(ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            rows = model.model(input_ids=ids[None], past_key_values=grown, use_cache=True).logits[0]
        grown.crop(3 - grown.get_seq_length())
        return rows[:, :39]

    behind(BOARD)
    whole = model.feed(BOARD, cache, 0, 8)
    part = model.feed(later, cache, 3, 8)
    torch.testing.assert_close(part[:, :39], behind(later[3:]), atol=1e-5, rtol=0)
    assert (part[:, :39] - model(later)[3:, :39]).abs().max() > 1e-3  # the first three have not seen the new tokens
    torch.testing.assert_close(model.feed(later, cache, 0, 8), model(later), atol=1e-6, rtol=0)
    model.feed(later, cache, 5, 6)
    alone = model.feed(later, cache, 6, 7)
    model.feed(BOARD, cache, 5, 6)
    assert (alone - model.feed(later, cache, 6, 7))[:, :39].abs().max() > 1e-3
    model.feed(BOARD, cache, 0, 8)
    cut = model.feed(BOARD[:6], cache, 3, 6)  # a board that was cut goes on without its tail
    torch.testing.assert_close(cut[:, :39], behind(BOARD[3:6]), atol=1e-5, rtol=0)
    assert (cut - whole[3:6])[:, :39].abs().max() > 1e-3


def test_limits_of_masked_models() -> None:
    model, bert = masked("llama"), masked("bert")
    cache = model.new_cache(8)
    refuses(UserError, "32 positions and a board of 33", bert, torch.zeros(33, dtype=torch.long))
    refuses(UserError, "mask_id=40", HFMaskedLM, bert.model, bert.tokenizer, bert.record, mask_id=40)
    refuses(ValueError, "feed the whole board first", model.feed, BOARD, cache, 2, 4)
    model.feed(BOARD, cache, 0, 8)
    refuses(ValueError, "positions 4 to 3", model.feed, BOARD, cache, 4, 4)
    refuses(UserError, "room for 8", model.feed, torch.zeros(9, dtype=torch.long), cache, 0, 9)
    refuses(UserError, "32 positions and a board of 33", model.feed, torch.zeros(33, dtype=torch.long), cache, 0, 2)
    refuses(UserError, r"encoder.*cache=none", bert.new_cache, 8)
    torch.testing.assert_close(model.feed(BOARD[:6], cache, 0, 6), model(BOARD[:6]))  # a shorter board may follow
    refuses(ValueError, "feed the whole board first", model.feed, BOARD[:7], cache, 2, 4)
