"""BlockFFN: its invariants on random patterns and on the trained mixtures, the same text as greedy decoding, and
what is refused."""

import pytest
import torch

import engines
from engines.core.kinds.layered import Routing
from engines.core.kinds.moe import Mixture
from engines.kit import Taps, method
from engines.methods.architecture._routed import pattern, reading
from engines.models.measures.activation import cls, reuse
from engines.models.networks.block_ffn import BlockFFN, BlockFFNConfig, relu_norm

MIXTURES = ("tiny-blockffn", "tiny-blockffn-plain", "tiny-moe")
PROMPT = "python: class Robot(size: int, owner: str)"


@pytest.mark.parametrize("router", ["relu", "topk"])
def test_the_union_alone_gives_what_all_experts_give(router):
    torch.manual_seed(0)
    sizes = {"num_experts": 16, "expert_size": 4, "hidden_size": 24, "num_attention_heads": 2, "vocab_size": 8}
    part = BlockFFN(BlockFFNConfig(router=router, **sizes)).eval()
    x = torch.randn(3, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        _, a, _ = part.gate(x)
        assert 0 < int((a != 0).any(0).sum()) < 16  # the union is not all of them, so something was left out
        assert torch.allclose(part(x), part.experts(x, a, part.up, part.down), atol=1e-5)
    assert bool((relu_norm(-torch.ones(2, 5), torch.ones(5), 1e-5) == 0).all())  # no numbers that are none


def test_where_all_experts_are_off_and_without_a_whole_chunk_nothing_is_said():
    """None, which a record can hold, and not NaN."""
    on, off = torch.rand(32, 12, generator=torch.Generator().manual_seed(0)) < 0.2, torch.zeros(4, 3, dtype=torch.bool)
    assert cls(on[:31], 16) == cls(on[:16], 16) and cls(on, 33) is None  # a rest does not count
    with pytest.raises(ValueError, match="0 tokens"):
        cls(on, 0)
    assert reuse(off) is None and reuse(off[:1]) is None and cls(off[:0], 1) is None
    assert cls(off, 1) == cls(off, 2) == 1


def test_bytes_are_those_of_the_union():
    experts = torch.tensor([[0, 3], [3, -1]])
    one = Routing(2, torch.zeros(2, 8), experts, torch.ones(2, 2))
    assert pattern(one).sum(1).tolist() == [2, 1]
    found = reading([one], [Mixture(2, 8, 100)])
    assert (found.union, found.bytes_read, found.bytes_dense, found.row_share) == (2, 200, 800, 1.5 / 8)


@pytest.mark.parametrize("name", MIXTURES)
def test_every_step_says_what_its_routers_decided_and_the_text_is_greedy_decodings(name):
    model = engines.load_model(name, dtype="float32")
    greedy = engines.run("greedy", model, PROMPT, params={"max_new_tokens": 24})
    run = engines.run("blockffn", model, PROMPT, params={"max_new_tokens": 24})
    assert run.output_ids == greedy.output_ids and len(run.steps) < len(greedy.steps)  # something was copied
    for step in run.steps:
        entry, *others = step.routing
        assert [one.role for one in others] == ["twin"] * (name != "tiny-moe")
        chosen = entry.chosen.array()
        assert chosen.shape[:2] == (step.facts["rows"], 4) and entry.units == 32
        unions = [len({int(e) for e in chosen[:, layer].ravel() if e >= 0}) for layer in range(4)]
        assert step.facts["union"] == pytest.approx(sum(unions) / 4)
        assert step.facts["ffn_bytes_read"] == sum(unions) * 32 * 128 * 2 * 4
        assert step.facts["ffn_bytes_dense"] == 4 * 32 * 32 * 128 * 2 * 4


def test_a_twin_reads_the_same_rows_and_changes_nothing():
    run = engines.run("blockffn", "tiny-blockffn", PROMPT, params={"max_new_tokens": 32})
    twin = engines.load_model("tiny-moe", dtype=run.header.models[1].dtype)
    ids, cache = list(run.header.prompt_ids), twin.new_cache(200)
    for step in run.steps:
        own, beside = step.routing
        assert beside.positions == own.positions and (beside.role, beside.units) == ("twin", 32)
        cache.crop(own.positions[0])
        drafted = step.tree.tokens
        rows = [*ids[own.positions[0] : len(ids) - 1], *drafted]
        found = []
        twin.layers(twin.embed(rows), cache, 0, 4, taps=Taps(router=found.append))
        chosen = beside.chosen.array()
        assert chosen.shape == (len(rows), 4, 6)
        for layer, routed in enumerate(found):
            used = [set(row) - {-1} for row in routed.experts.tolist()]
            assert [set(row) - {-1} for row in chosen[:, layer].tolist()] == used
        assert step.facts["twin_union"] == pytest.approx(reading(found, twin.mixtures).union)
        assert step.forwards == {"target": 1}
        ids += step.commits.tokens
    alone = engines.run("blockffn", {"target": "tiny-blockffn", "twin": "tiny-moe"}, PROMPT, detail="none",
                        params={"max_new_tokens": 32})  # fmt: skip
    assert alone.output_ids == run.output_ids and "twin_union" not in alone.steps[0].facts


def test_a_router_that_is_none_and_a_model_that_may_not_be_lacking_are_refused():
    with pytest.raises(ValueError, match="router 'best'"):
        BlockFFNConfig(router="best")
    with pytest.raises(ValueError, match="33 experts of 32"):
        BlockFFNConfig(num_experts_per_tok=33)
    given = {"title": "M", "family": "architecture", "paper": "", "summary": "M.", "params": [], "emits": {"commits"}}
    for lacking in ("target", "nobody"):
        with pytest.raises(ValueError, match="may lack"):
            method("m", **given, needs={"target": "moe", "twin": "moe"}, beside={"twin"}, optional={lacking})
