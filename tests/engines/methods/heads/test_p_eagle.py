"""P-EAGLE: rows of masks that never stay. Rounds of published drafters: `test_published.py`."""

import torch

from engines.core.kinds import counted as counted_model
from engines.core.meter import Meter
from engines.methods.heads.p_eagle import SharedState
from engines.training.heads.peagle import READS, PEagleTraining
from tests.engines.methods.heads.conftest import PROMPTS, decoder

decode = decoder("p-eagle", length=24)


def test_a_chain_is_one_pass_and_only_rows_of_text_stay(large):
    """One draft pass whatever k is; each row of text goes through the layer once, every mask anew."""
    for k in (2, 7):
        known = 0
        for step in decode(large, k=k).steps[1:]:
            told = step.record("sharedstate", SharedState)
            if not told:
                continue
            assert step.forwards["draft"] == 1 and step.work["draft"] == 2 * (len(told.text) + len(told.tokens) - 1)
            assert [row[0] for row in told.tokens] == step.tree.tokens[1:]
            assert step.tree.parents == list(range(-1, len(told.tokens)))
            assert told.before == known and told.text[-1] == step.tree.tokens[0]
            known += len(told.text)
            assert known == step.tree.start  # a row for each token of the text but the first
        assert known > 10


def test_its_training_computes_what_its_drafting_does(large, training):
    """All rows of a text as the last one of text, in one pass with a mask, against one pass for each."""
    training = training(PEagleTraining, large, READS, PROMPTS, torch.arange(512))
    with torch.no_grad():
        for one in training.network.parameters():
            one += 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(one.numel()))
    text = next(training.cache.texts(training.layers))
    d, rolled = training.drafter, training.rolled(text)
    counted = d.counted(counted_model(large, "target", Meter(), "layered"), Meter())
    states = d.states({i: h.float() for i, h in text.hidden.items()})
    assert len(rolled) == training.depths == 7
    for t in range(text.prompt - 1, len(text.tokens) - 1):
        alone = d.block(counted, text.tokens[1 : t + 2].tolist(), states[: t + 1], d.pasts(), training.depths)
        assert torch.allclose(alone, torch.stack([out[t] for out in rolled]), atol=1e-4)
    training.loss([text]).value.backward()
    assert float(training.network.mask_hidden.grad.abs().sum()) > 0


def test_a_batch_in_which_no_text_goes_so_far_has_a_loss(large, training):
    """Answers of two tokens: the farther places have no row, and the others count."""
    training = training(PEagleTraining, large, READS, PROMPTS[:1], torch.arange(512), cut=2)
    loss = training.loss(list(training.cache.texts(training.layers)))
    assert torch.isfinite(loss.value) and loss.answer_tokens == 1  # the second token; the first needs no draft
