"""Block diffusion: the cache of finished blocks is exact, and the unfinished one can be fed in parts."""

from pathlib import Path

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import KINDS, BlockMaskedLM, CausalLM, Seq2SeqLM, counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.driver.run import Run
from engines.methods.diffusion import llada2
from engines.models.adapters.block import HFBlockMaskedLM
from engines.models.slots import SlotCache
from engines.models.tokens import IdTokenizer
from engines.models.zoo import load_model
from tests.engines.models.stock import stock

B, V, MASK = 4, 40, 39
SIZE = {"vocab_size": V, "num_hidden_layers": 3, "max_position_embeddings": 33, "head_dim": 8}
FAMILIES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
DONE = [3, 14, 15, 9, 26, 5, 35, 8]  # two blocks
BLOCK = [7, MASK, 20, MASK]


def build(family: str = "llama", *, shift: bool = True, block: int = B, attention: str = "sdpa") -> HFBlockMaskedLM:
    causal = {"is_causal": False} if family == "llama" else {}
    network = stock(FAMILIES[family], **SIZE, **causal, attn_implementation=attention)
    record = ModelRecord("model", family, "block")
    return HFBlockMaskedLM(network, IdTokenizer(V), record, MASK, block, shift, frozenset({2}))


def after(model: HFBlockMaskedLM, done: list[int]) -> SlotCache:
    cache = model.new_cache(len(done) + 2 * model.block_size)
    model.store(done, cache)
    return cache


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def by_hand(model: HFBlockMaskedLM, ids: list[int]) -> torch.Tensor:
    """The network's own rows [L, V], with the mask of the paper spelled out position by position."""
    size = len(ids)
    mask = torch.tensor(
        [[0.0 if j // model.block_size <= i // model.block_size else -1e9 for j in range(size)] for i in range(size)]
    )
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([ids]), attention_mask=mask[None, None], use_cache=False).logits[0]
    logits[:, model.mask_id] = -torch.inf
    return logits


def test_kinds_protocols_and_wrappers_go_together() -> None:
    model = build()
    assert isinstance(model, BlockMaskedLM) and not isinstance(model, (CausalLM, Seq2SeqLM))
    assert KINDS["block"].protocol is BlockMaskedLM
    assert isinstance(counted(model, "model", Meter()), KINDS["block"].counted)  # type: ignore[arg-type]


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_whole_board_is_block_causal(family: str, attention: str, shift: bool) -> None:
    model = build(family, shift=shift, attention=attention)
    board = torch.tensor([*DONE, *BLOCK, 11, MASK])  # the last block is cut
    rows, logits = by_hand(model, board.tolist()), model(board)
    close(logits, torch.cat([rows[:1], rows[:-1]]) if shift else rows)
    assert logits.dtype == torch.float32 and logits[:, MASK].eq(-torch.inf).all()
    changed = board.clone()
    changed[-1] = 4
    assert torch.equal(model(changed)[:12, :MASK], logits[:12, :MASK])
    assert not torch.equal(model(changed)[-1, :MASK], logits[-1, :MASK])
    both = model(torch.stack([board, changed]))
    close(both[0], logits)
    close(both[1], model(changed))


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_block_on_the_cache_equals_the_whole_sequence(family: str, attention: str, shift: bool) -> None:
    model = build(family, shift=shift, attention=attention)
    cache = model.new_cache(16)
    first = model.store(DONE[:B], cache)
    free = model.store(DONE[B:], cache)
    rows = by_hand(model, [*DONE, *BLOCK])
    close(first, rows[B - 1])
    close(free, rows[2 * B - 1])
    for _ in range(2):  # the cache is not extended, so it can be asked again
        logits = model.denoise(BLOCK, cache)
        close(logits, torch.cat([rows[8:9], rows[8:11]]) if shift else rows[8:])
        assert cache.length == 8 and logits.shape == (B, V)
    whole = model(torch.tensor([*DONE, *BLOCK]))
    close(logits[1:], whole[9:]) if shift else close(logits, whole[8:])
    if shift:
        close(free, whole[8])
    logits[0, 3] = -torch.inf  # a method may write into them


def test_blocks_can_be_stored_one_by_one_or_together() -> None:
    model = build("qwen3")
    one, many = model.new_cache(12), model.new_cache(12)
    for block in (DONE[:B], DONE[B:]):
        model.denoise(BLOCK, one)
        last = model.store(torch.tensor(block), one)
    close(last, model.store(DONE, many))
    for a, b in zip(one.layers, many.layers, strict=True):
        close(a.keys[:, :, :8], b.keys[:, :, :8])
    close(model.denoise(BLOCK, one), model.denoise(BLOCK, many))


def test_blocks_of_one_are_the_causal_model() -> None:
    model = build(block=1)
    model.model.config.is_causal = True
    with torch.no_grad():
        rows = model.model(input_ids=torch.tensor([DONE]), use_cache=False).logits[0]
    rows[:, MASK] = -torch.inf
    close(model(torch.tensor(DONE)), torch.cat([rows[:1], rows[:-1]]))
    cache = model.new_cache(8)
    close(torch.stack([model.store([token], cache) for token in DONE]), rows)


def test_stored_blocks_never_change() -> None:
    model = build()
    cache = after(model, DONE)
    kept = [(layer.keys[:, :, :8].clone(), layer.values[:, :, :8].clone()) for layer in cache.layers]
    model.denoise(BLOCK, cache)
    model.denoise([21, 22], cache, 1)
    model.store([7, 21, 20, 22], cache)
    model.denoise(BLOCK, cache)
    assert cache.length == 12
    for layer, (keys, values) in zip(cache.layers, kept, strict=True):
        assert torch.equal(layer.keys[:, :, :8], keys) and torch.equal(layer.values[:, :, :8], values)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_part_on_a_fresh_block_cache_equals_the_whole_block(family: str) -> None:
    model = build(family, shift=False)
    cache = after(model, DONE)
    whole = model.denoise(BLOCK, cache)
    for start, end in [(0, 2), (2, 4), (1, 2), (0, 4)]:
        close(model.denoise(BLOCK[start:end], cache, start), whole[start:end])
    shifting = build(family)
    cache = after(shifting, DONE)
    shifting.denoise(BLOCK, cache)
    close(shifting.denoise(BLOCK[2:], cache, 2)[1:], whole[2:3])  # row j uses j - 1 of what was fed
    close(shifting.denoise(BLOCK[2:], cache, 2)[0], whole[2])  # and row 0 keeps its own


def test_a_part_overwrites_its_rows_and_sees_stale_ones() -> None:
    """Against the network with the other positions' keys and values frozen layer by layer, as `use_block_cache` leaves
    them."""
    model = build(shift=False)
    cache = after(model, DONE)
    model.denoise(BLOCK, cache)
    stale = [layer.keys[:, :, 8:12].clone() for layer in cache.layers]
    part = model.denoise([7, 21], cache, 0)
    for layer, old in zip(cache.layers, stale, strict=True):
        assert torch.equal(layer.keys[:, :, 10:12], old[:, :, 2:])
        assert not torch.equal(layer.keys[:, :, 9], old[:, :, 1])
    exact = model.denoise([7, 21, *BLOCK[2:]], cache)
    assert (part - exact[:2])[
        :, :MASK
    ].abs().max() > 1e-4  # an approximation: positions 10 and 11 did not see the new token
    close(model.denoise([7, 21], cache, 0), exact[:2])  # and after a whole forward none


def test_what_does_not_fit_is_refused() -> None:
    model = build()
    cache = after(model, DONE)
    with pytest.raises(ValueError, match="2 of 4 positions were fed"):
        model.denoise(BLOCK[:2], cache)
    model.denoise(BLOCK, cache)
    with pytest.raises(ValueError, match="positions 3 to 4 behind 8"):
        model.denoise([1, 2], cache, 3)
    with pytest.raises(ValueError, match="3 tokens were to be stored behind 8"):
        model.store([1, 2, 3], cache)
    cache.crop(8)
    with pytest.raises(ValueError, match="feed the whole block first"):  # a crop forgets the unfinished block
        model.denoise(BLOCK[:2], cache)
    cache.crop(6)
    with pytest.raises(ValueError, match="behind 6"):
        model.denoise(BLOCK, cache)
    small = model.new_cache(6)
    assert small.capacity == 8 and model.max_positions == 32
    model.store(DONE, small)
    with pytest.raises(UserError, match="room for 8 positions; 8 are used and 4 more"):
        model.denoise(BLOCK, small)
    with pytest.raises(UserError, match="32 positions and position 35 was fed"):
        model.store([1] * 36, model.new_cache(36))
    for size in (0, 34, "16"):
        with pytest.raises(UserError, match=f"block_size={size} does not fit llama"):
            HFBlockMaskedLM(model.model, model.tokenizer, model.record, MASK, size)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="mask_id=40"):
        HFBlockMaskedLM(model.model, model.tokenizer, model.record, V, B)
    sliding = stock("Mistral", **SIZE, sliding_window=4)
    with pytest.raises(UserError, match="sliding_attention layers; block diffusion needs full attention"):
        HFBlockMaskedLM(sliding, model.tokenizer, model.record, MASK, B)
    assert model.warm_up() > 0 and model.warm_up() == 0.0


@pytest.mark.parametrize("shift", [True, False])
def test_forwards_and_tokens_are_counted_and_edits_apply(shift: bool) -> None:
    meter, plain = Meter(forbidden={8: {5}, 9: {6}, 7: {3}}), build(shift=shift)
    model = counted(plain, "model", meter)
    assert isinstance(model, BlockMaskedLM) and (model.block_size, model.shift, model.mask_id) == (B, shift, MASK)
    cache = model.new_cache(12)
    free = model.store(DONE, cache)
    assert (meter.forwards, meter.tokens_fed) == ({"model": 1}, 8) and meter.seconds > 0
    assert free[5 if shift else 3] == -torch.inf and free[3 if shift else 5] > -torch.inf
    logits = model.denoise(BLOCK, cache)
    model.denoise(BLOCK[:2], cache, 0)
    assert (meter.forwards, meter.tokens_fed) == ({"model": 3}, 8 + 4 + 2)
    assert logits[1, 6] == -torch.inf and model.denoise(BLOCK[1:3], cache, 1)[0, 6] == -torch.inf
    assert logits.eq(-torch.inf).sum() == B + 2  # the mask everywhere, tokens 5 and 6 in their rows
    board = model(torch.tensor([*DONE, *BLOCK]))
    assert meter.tokens_fed == 8 + 4 + 2 + 2 + 12
    assert [int(board[p, t].isinf()) for p, t in ((7, 3), (8, 5), (9, 6), (9, 5))] == [1, 1, 1, 0]


def test_a_folder_of_ours(tmp_path: Path) -> None:
    """What `tiny-blockdlm` will say in its config.json, and the options that change it."""
    config = {"is_causal": False, "block_size": 4, "mask_token_id": MASK, "shift_logits": True}
    stock("Llama", **SIZE, **config).save_pretrained(tmp_path / "ours")
    model = load_model(tmp_path / "ours", kind="block")
    found = type(model).__name__, model.record.kind, model.block_size, model.mask_id, model.shift
    assert found == ("HFBlockMaskedLM", "block", 4, MASK, True)
    other = load_model(tmp_path / "ours", block_size=8, shift=False, mask_id=3)
    assert (other.block_size, other.shift, other.mask_id) == (8, False, 3)
    with pytest.raises(UserError, match="a masked model is needed and ours is block"):
        load_model(tmp_path / "ours", kind="masked")


def test_a_prompt_that_does_not_fit_the_grid_of_blocks_is_told_the_grid():
    model = build()  # 33 positions are 8 blocks of 4
    with pytest.raises(UserError, match="room for 32 in all, whole blocks of 4 counted from the prompt's first token"):
        Run(llada2.decode, {"model": model}, [5] * 30, params={"max_new_tokens": 3})
    Run(llada2.decode, {"model": model}, [5] * 30, params={"max_new_tokens": 2})
