"""Hidden Transfer: pseudo rows that no real row sees, their work, what decoding guesses as training computes it."""

import random
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.kinds.layered import CountedLayered
from engines.core.meter import Meter
from engines.methods.heads.hidden_transfer import Transfer, forward, maps_of
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from engines.training.heads import hidden_transfer as module
from engines.training.heads.hidden_transfer import TransferTraining
from tests.engines.methods.heads.conftest import PROMPTS, decoder

decode = decoder("hidden-transfer")


def maps(model, layer, m=3):
    W, b, _ = maps_of(load_part("transfer-maps", [model.record]), layer, m, "cpu")
    return W, b


def turn_of(model, ids, layer, W, b, tails=(3,), guesses=()):
    """A turn of guesses below the last token, with so many pseudo rows behind each of them."""
    draft = Draft.of([ids[-1], *guesses], [-1, *[0] * len(guesses)], "draft")
    draft.tails = [*tails]
    p = SimpleNamespace(max_new_tokens=24, temperature=0.0)
    target = Target(CountedLayered(model, "target", Meter()), ids, p, rows=40)
    return target, *forward(target, ids, draft, layer, W, b, torch.Generator())


@pytest.mark.parametrize("layer", [2, 4, 6])
def test_real_rows_never_see_pseudo_rows_and_nothing_of_them_stays(model, layer):
    """Logits of a tree with and without pseudo rows, and the cache after the turn in every layer."""
    ids, z = model.tokenizer.encode_prompt(PROMPTS[0]), []
    best = model.extend(ids, model.new_cache(64), last_only=True).logits[0].topk(3).indices.tolist()
    for tails in ([3, 3, 2, 0], [0, 0, 0, 0]):
        target, turn, streams = turn_of(model, ids, layer, *maps(model, layer), tails, best)
        z.append(turn.z)
        assert len(streams[model.num_layers]) == tails[turn.verdict.path[-1]] and turn.verdict.path == [0, 1]
        assert target.cache.lengths == (len(turn.ids) - 1,) * model.num_layers
        kept = model.extend(turn.ids[-1:], target.cache, last_only=True).logits
        fresh = model.extend(turn.ids, model.new_cache(64), last_only=True).logits
        assert torch.allclose(kept, fresh, atol=1e-4)
    assert torch.allclose(*z, atol=1e-4)


def test_the_extra_rows_are_counted_as_work(model):
    for layer in (2, 4, 6):
        trace = decode(model, transfer_layer=layer)
        for step in trace.steps:
            rows = step.facts["rows"] + (0 if step.index else len(trace.header.prompt_ids) - 1)
            extra = step.facts["pseudo_rows"] * (6 - layer)
            assert step.facts["pseudo_row_layers"] == extra
            assert sum(step.work.values()) == rows * 6 + extra
        assert trace.steps[1].facts["pseudo_rows"] == 27 and trace.steps[1].tree.tails == [3] * 9


@pytest.mark.parametrize(("l", "m"), [(2, 3), (4, 2), (6, 3)])
def test_the_record_reads_each_pseudo_row_after_each_layer(model, l, m):  # noqa: E741 - the paper's letter
    """Against the text and its pseudo rows, run anew through the layers above l; the last is the first guess."""
    trace, (W, b) = decode(model, transfer_layer=l, m=m), maps(model, l, m)
    ids = list(trace.header.prompt_ids)
    told = [(step, step.record("transfer", Transfer)) for step in trace.steps]
    assert not told[0][1].tokens and sum(bool(record.tokens) for _, record in told) > 2
    for step, record in told:
        if record.tokens:
            assert (record.layer, record.layers, record.source) == (l, 6, ids[-2])
            x = model.layers(model.embed(ids[:-1]), model.new_cache(64), 0, l)
            pseudo = W @ x[-1] + b
            for layer, tokens, chances in zip(range(l, 7), record.tokens, record.chances, strict=True):
                y = model.layers(torch.cat([x, pseudo]), model.new_cache(64), l, layer)
                p = model.unembed(y[-m:]).softmax(-1)
                assert tokens == p.argmax(-1).tolist()
                assert chances == pytest.approx(p.amax(-1).tolist(), abs=1e-3)
            sources = [source.tokens[0] for source in step.tree.guessed_from]
            assert record.tokens[-1][: len(sources)] == sources
        ids += step.tree.emitted


def test_after_an_edit_nothing_is_told_of_guesses_that_were_dropped(model):
    original = decode(model, transfer_layer=2)
    at = len(original.header.prompt_ids) + 2
    fork = engines.fork(original, 2, edit=engines.Edit(force={at: 300}))
    told = [step.record("transfer", Transfer) for step in fork.steps[fork.header.origin.step :]]
    assert not told[0].tokens and any(record.tokens for record in told[1:])


def test_training_computes_what_decoding_guesses(model, training):
    training = training(TransferTraining, model)
    training.start()
    training.loss(training.batch(0.0)).value.backward()
    assert all(one.grad is not None and float(one.grad.abs().sum()) > 0 for one in training.network.W.values())
    assert not any(one.requires_grad for one in model.model.parameters())
    text = next(training.cache.texts(training.layers))
    cut = text.prompt + 1
    for layer, found in training.said(text, text.rows(1)).items():
        W, b = training.network.W[str(layer)].detach(), training.network.b[str(layer)].detach()
        _, _, streams = turn_of(model, text.tokens[: cut + 1].tolist(), layer, W, b)
        h = model.normed(streams[model.num_layers])
        assert torch.allclose(found[cut - text.rows(1).start], h, atol=1e-3)


def test_of_a_large_model_a_step_takes_some_rows(model, training, monkeypatch):
    training = training(TransferTraining, model, prompts=PROMPTS[:1])
    (text,) = training.cache.texts((model.num_layers,))
    rows = text.rows(1)
    assert not training.large and training.some(rows, random.Random(0)) == rows
    training.large = True
    monkeypatch.setattr(module, "ROWS", 4)
    taken = [training.some(rows, random.Random(seed)) for seed in range(20)]
    assert {len(one) for one in taken} == {4} and len({one.start for one in taken}) > 3
    assert all(set(one) <= set(rows) for one in taken) and training.loss([text]).answer_tokens == 4


def test_a_layer_without_maps_is_refused(model):
    with pytest.raises(engines.UserError, match=r"transfer_layer 3 was given .* trained for 2, 4, 6; choose one"):
        decode(model, transfer_layer=3)
