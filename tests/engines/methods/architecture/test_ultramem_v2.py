"""UltraMemV2: its invariants on random and on the trained memories, what a run records of them and of its twins, and
what is refused."""

from math import isqrt

import numpy as np
import pytest
import torch

import engines
from engines.core.kinds.memory import MemoryTable
from engines.kit import Taps
from engines.methods.architecture.ultramem_v2 import Text
from engines.models.networks.ultra_mem import UltraMemConfig, UltraMemForCausalLM, search

PROMPT = "fact: Ada Raven"
SMALL = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2}


def network(m=5, seed=0):
    torch.manual_seed(seed)
    config = UltraMemConfig(
        keys_per_axis=12, slots_read=m, key_size=8, value_size=6, pre_size=4, num_key_value_heads=2, **SMALL
    )
    return UltraMemForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ultramem", dtype="float32")


@pytest.fixture(scope="module")
def read(model):
    """Ids of a text and what every layer read for it."""
    ids, found = model.tokenizer.encode_prompt("read: Lola has a green picture. Who has a green picture?"), []
    model.layers(model.embed(ids), model.new_cache(99), 0, model.num_layers, taps=Taps(memory=found.append))
    return ids, found


def test_a_search_among_all_keys_finds_the_best_of_all_crossings():
    g = torch.Generator().manual_seed(0)
    q, keys = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((6, 2, 2, 5), (2, 9, 2, 5)))
    cores = torch.rand(2, 2, 2, generator=g, dtype=torch.float64)
    with torch.no_grad():
        found, few = search(q, keys, cores, 9), search(q, keys, cores, 4)  # m = K: all rows and columns are candidates
    s = torch.einsum("narp,akrp->ankr", q, keys)
    every = torch.einsum("nir,rs,njs->nij", s[0], cores.sum(0), s[1]).flatten(1)
    best = every.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(found.crossings, best.indices[:, :9])
    assert torch.allclose(found.scores.sum(-1), best.values[:, :9])
    for n in range(len(q)):  # slots are crossings of the candidates, and none is read twice
        crossings = {int(i) * 9 + int(j) for i in few.rows[n] for j in few.columns[n]}
        assert set(few.crossings[n].tolist()) <= crossings and len(set(few.crossings[n].tolist())) == 4


def test_a_choice_of_the_highest_never_sees_two_negative_scores():
    """One rank: a row and a column far below 0 multiply to the best of all, and a choice by rank 1 misses them."""
    keys = torch.tensor([[[[3.0]], [[2.0]], [[-9.0]]], [[[3.0]], [[2.0]], [[-9.0]]]], dtype=torch.float64)
    q, cores = torch.ones(1, 2, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    with torch.no_grad():
        near, whole = search(q, keys, cores, 1), search(q, keys, cores, 1, candidates=3)
    assert near.crossings.item() == 0 and whole.crossings.item() == 2 * 3 + 2
    assert float(whole.scores) == 81 > float(near.scores) == 9


def test_zero_tables_give_the_model_without_memory():
    whole, ids = network(), torch.arange(12)[None]
    alone = network(m=0)
    alone.load_state_dict({k: v for k, v in whole.state_dict().items() if k in alone.state_dict()})
    with torch.no_grad():
        assert not torch.equal(whole(ids).logits, alone(ids).logits)
        whole.pool.values.zero_()
        assert torch.equal(whole(ids).logits, alone(ids).logits)


def test_slots_lie_in_the_window_of_their_layer_and_more_tokens_never_read_fewer(model, read):
    assert len(read[1]) == len(model.memories) == 4
    for one, table in zip(read[1], model.memories, strict=True):
        inside = (one.slots - table.first) % table.pool
        assert int(inside.max()) < table.keys**2 and table.keys == isqrt(table.pool // 2)
    text = Text(model.memories)
    assert text.add(read[1], 0) == sum(len(one.slots.unique()) for one in read[1])
    unions = [text.chunk(c)[0] for c in range(1, len(read[0]) + 1)]
    assert unions == sorted(unions) and unions[0] == 16
    assert all(union <= 16 * c for c, union in enumerate(unions, 1)) and unions[7] > 2 * 16


def test_a_place_that_is_written_again_forgets_what_it_read():
    text = Text([MemoryTable(0, 4, 2, 32, 0, 10, 100)])

    class One:
        slots = torch.tensor([[1, 2], [2, 3]])

    assert text.add([One()], 0) == 3 and text.chunk(9) == (3.0, 30)
    One.slots = torch.tensor([[2, 9]])
    assert text.add([One()], 1) == 1 and text.chunk(9) == (3.0, 30) and text.chunk(1) == (2.0, 20)


def test_cached_decoding_reads_what_a_whole_forward_reads_and_fewer_slots_are_a_wish_of_one_call(model, read):
    ids, found = read
    cache, one, few = model.new_cache(99), [], []
    model.layers(model.embed(ids), model.new_cache(99), 0, 4, taps=Taps(memory=few.append, slots=4))
    assert {each.slots.shape[1] for each in few} == {4} and model.memories[0].slots_read == 16
    for token in ids:
        model.layers(model.embed([token]), cache, 0, 4, taps=Taps(memory=one.append))
    for layer, whole in enumerate(found):
        assert torch.cat([step.slots for step in one[layer::4]]).tolist() == whole.slots.tolist()


def test_every_step_says_what_was_read(model):
    run, seen, text = engines.run("ultramem-v2", model, PROMPT, params={"max_new_tokens": 16}), set(), []
    for step in run.steps:
        slots, rows, columns, experts = step.routing
        assert (slots.units, rows.units, columns.role, experts.role) == (4489, 67, "columns", "mixture")
        chosen, i, j = (one.chosen.array() for one in (slots, rows, columns))
        assert chosen.shape == i.shape == j.shape == (len(slots.positions), 4, 16)
        for n, layer in np.ndindex(chosen.shape[:2]):
            assert set(chosen[n, layer] // 67) <= set(i[n, layer]) and set(chosen[n, layer] % 67) <= set(j[n, layer])
        new = {(layer, unit) for row in chosen for layer in range(4) for unit in row[layer]} - seen
        assert step.facts["new_slots"] == len(new)
        seen |= new
        text += list(chosen)
        union = sum(len({unit for row in text[-8:] for unit in row[layer]}) for layer in range(4))
        assert step.facts["union"] == union / 4
        assert step.facts["bytes_read"] == step.facts["always_bytes"] + union * 2 * 48 * 4
    dense = step.facts["dense_bytes"]
    assert abs(dense - step.facts["always_bytes"] - 4 * 16 * 384) / dense < 0.001  # equal work for one token


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="shared by 5 heads"):
        UltraMemConfig(score_heads=5)
    with pytest.raises(ValueError, match="99 slots cannot be read with 67 keys"):
        UltraMemConfig(slots_read=99, num_hidden_layers=4)


def test_the_twins_stand_beside_the_totals():
    """With and without them a run costs the same; what they cost is told, and their seconds are nobody's."""
    given = [{"max_new_tokens": 4, "twins": on} for on in (0, 1)]
    alone, both = (engines.run("ultramem-v2", "tiny-ultramem", PROMPT, params=one) for one in given)
    assert alone.output_ids == both.output_ids
    for one in (alone, both):
        assert one.totals.forwards == one.totals.forwards_by_role["target"] == len(one.steps)
        assert one.totals.tokens_fed == alone.totals.tokens_fed
    assert all("mixture layer-rows" in step.facts and step.facts["dense forwards"] == 1 for step in both.steps)
    assert not any(name.endswith("forwards") for step in alone.steps for name in step.facts)
