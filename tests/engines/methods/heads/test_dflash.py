"""DFlash: one pass for a block, what its context keeps, and a training that computes what its drafting does."""

import torch

from engines.core.kinds import counted as counted_model
from engines.core.meter import Meter
from engines.methods.heads import dflash
from engines.training.heads.dflash import READS, DFlashTraining
from tests.engines.methods.heads.conftest import PROMPTS, decoder

decode = decoder("dflash", length=24)


def test_a_block_is_one_pass_that_only_new_states_join(large):
    """Whatever its length; the context holds each token of the text but the last once."""
    for b in (4, 8):
        trace = decode(large, block=b)
        joined = 0
        for step in trace.steps[1:]:
            record = step.record("maskblock", dflash.MaskBlock)
            if not record.tokens:
                continue
            joined += record.joined
            assert step.forwards["draft"] == 1 and step.work["draft"] == 2 * (1 + len(record.tokens))
            assert record.context == joined == step.tree.start
            assert [slot[0] for slot in record.tokens] == step.tree.tokens[1:]
            assert step.tree.parents == list(range(-1, len(record.tokens)))
        assert len(trace.steps[1].tree.tokens) == b


def test_its_training_computes_what_its_drafting_does(large, training):
    """All blocks of a text in one pass with a mask, against a block by itself behind its own context."""
    training = training(DFlashTraining, large, READS, PROMPTS)
    with torch.no_grad():
        for one in training.network.parameters():
            one += 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel()))
    text = next(training.cache.texts(training.layers))
    anchors = training.anchors(text)
    assert anchors.tolist() == list(range(text.prompt, len(text.tokens) - 1))
    d, found = training.drafter, training.filled(text, anchors)
    counted = d.counted(counted_model(large, "target", Meter(), "layered"), Meter())
    states = d.states({i: h.float() for i, h in text.hidden.items()})
    for t, out in zip(anchors.tolist(), found, strict=True):
        alone = counted.fill(counted, int(text.tokens[t]), states[:t], d.pasts(), d.block)
        assert torch.allclose(alone, out, atol=1e-4)
    loss = training.loss([text])
    loss.value.backward()
    assert loss.answer_tokens == sum(min(d.k, len(text.tokens) - 1 - t) for t in anchors.tolist())
    assert all(float(one.grad.abs().sum()) > 0 for one in training.network.parameters())
