"""EAGLE-3: what a draft vocabulary cannot say, and the unrolled training. Rounds: `test_published.py`."""

import torch

from engines.methods.heads.eagle3 import Fused
from engines.models.parts import load_part
from engines.training.heads.eagle3 import READS, TOKENS, Eagle3Training
from tests.engines.methods.heads.conftest import PROMPTS, decoder

decode = decoder("eagle3", length=64)


def test_the_record_counts_rows_and_names_what_cannot_be_said(large):
    words = set(load_part("eagle3-layer", [large.record]).tensors["vocabulary"].tolist())
    unsaid = 0
    for prompt in ("add: 4827 + 3169", "copy: Zoe, kite, quay", "python: class Boat(name: str, speed: int, crew: int)"):
        trace = decode(large, prompt)
        records = [record for step in trace.steps if (record := step.record("fused", Fused))]
        for step, told in zip(trace.steps[1:], records, strict=False):
            assert (told.reads, told.layers, told.can_say, told.of) == ([*READS], 6, TOKENS, large.vocab_size)
            assert told.fused + told.fed_back == step.facts["layer_rows_of_draft"]
            assert set(step.tree.tokens[1:]) <= words
            assert told.outside == [token for token in step.tree.emitted if token not in words]
            assert not set(told.outside) & set(step.tree.emitted[: int(step.facts["accepted"])])
            unsaid += len(told.outside)
        for before, told in zip(trace.steps[1:], records[1:], strict=False):
            assert told.fused == len(before.tree.emitted), "accepted guesses are read again with the target's states"
    assert unsaid


def test_the_layer_learns_unrolled_as_it_drafts(large, training):
    """Row t of depth j by hand: rows up to t with the target's states, then j times the layer's own output."""
    training, losses = training(Eagle3Training, large, READS, PROMPTS, torch.arange(TOKENS)), []
    for _ in range(5):
        training.optimizer.zero_grad()
        losses.append(training.loss(training.batch(0.0)).value)
        losses[-1].backward()
        training.optimizer.step()
    assert losses[-1] < losses[0]
    d, text, t = training.drafter, max(training.cache.texts(training.layers), key=lambda text: len(text.tokens)), 4
    s = [*d.project(d.states({i: h[: t + 1].float() for i, h in text.hidden.items()}))]
    with torch.no_grad():
        for found in training.rolled(text):
            n = len(s)
            sees = torch.ones(n, n, dtype=torch.bool).tril()
            out = d.rows(training.E[text.tokens[1 : n + 1]], torch.stack(s), d.pasts(), torch.arange(n), sees)
            assert torch.allclose(out[-1], found[t], atol=1e-4)
            s.append(d.fed_back(out[-1]))
