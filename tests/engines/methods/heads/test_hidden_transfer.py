"""Hidden Transfer: real rows that never see pseudo rows, work that counts them, what decoding guesses against what
training computes."""

import random
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.kinds.layered import CountedLayered, Taps
from engines.core.meter import Meter
from engines.methods.heads.hidden_transfer import forward, layout, maps_of
from engines.methods.heads.hidden_transfer.lens import Transfer
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads import hidden_transfer as module
from engines.training.heads.hidden_transfer import TransferTraining
from tests.engines.methods.heads.conftest import PROMPTS


def counted(model):
    return CountedLayered(model, "target", Meter())


def decode(model, prompt=PROMPTS[0], slug="hidden-transfer", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


@pytest.mark.parametrize("layer", [2, 4, 6])
def test_real_rows_never_see_pseudo_rows_and_nothing_of_them_stays(model, layer):
    """Logits of a tree with and without pseudo rows, and the cache after the turn in every layer."""
    p = SimpleNamespace(max_new_tokens=24, temperature=0.0)
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    maps = load_part("transfer-maps", [model.record])
    W, b, _ = maps_of(maps, layer, 3, "cpu")
    best = model.extend(ids, model.new_cache(64), last_only=True).logits[0].topk(3).indices.tolist()
    z, lengths = [], []
    for tails in ([3, 3, 2, 0], [0, 0, 0, 0]):
        draft = Draft.of([ids[-1], *best], [-1, 0, 0, 0], "draft")
        draft.tails = tails
        target = Target(counted(model), ids, p, rows=40)
        turn, streams = forward(target, ids, draft, layer, W, b, torch.Generator())
        h = model.normed(streams[model.num_layers])
        z.append(turn.z)
        lengths.append(target.cache.lengths)
        assert len(h) == tails[turn.verdict.path[-1]] and turn.verdict.path == [0, 1]
        assert target.cache.lengths == (len(turn.ids) - 1,) * model.num_layers
        kept = model.extend(turn.ids[-1:], target.cache, last_only=True).logits
        fresh = model.extend(turn.ids, model.new_cache(64), last_only=True).logits
        assert torch.allclose(kept, fresh, atol=1e-4)
    assert torch.allclose(*z, atol=1e-4) and lengths[0] == lengths[1]


def test_behind_the_last_layer_they_are_linear_heads(model):
    maps, ids = load_part("transfer-maps", [model.record]), model.tokenizer.encode_prompt(PROMPTS[0])
    W, b, _ = maps_of(maps, 6, 3, "cpu")
    stream = {}
    model.layers(model.embed(ids), model.new_cache(64), 0, 6, taps=Taps(stream=stream.__setitem__))
    p = SimpleNamespace(max_new_tokens=24, temperature=0.0)
    draft = Draft.of([ids[-1]], [-1], "draft")
    draft.tails = [3]
    _, streams = forward(Target(counted(model), ids, p, rows=9), ids, draft, 6, W, b, torch.Generator())
    assert torch.allclose(model.normed(streams[6]), model.normed(W @ stream[6][-1] + b), atol=1e-4)


def test_the_extra_rows_are_counted_as_work(model):
    for layer in (2, 4, 6):
        trace = decode(model, transfer_layer=layer)
        for before, step in zip([None, *trace.steps], trace.steps, strict=False):
            rows = step.facts["rows"] + (len(trace.header.prompt_ids) - 1 if before is None else 0)
            extra = step.facts["pseudo_rows"] * (6 - layer)
            assert step.facts["pseudo_row_layers"] == extra
            assert sum(step.work.values()) == rows * 6 + extra
        assert f"{3 * (128 * 128 + 128):,} trained parameters" in trace.steps[0].note
        assert trace.steps[1].facts["pseudo_rows"] == 27 and trace.steps[1].tree.tails == [3] * 9


@pytest.mark.parametrize("params", [{"transfer_layer": 2}, {"m": 2}, {"transfer_layer": 6}])
def test_the_record_reads_each_pseudo_row_after_each_layer(model, params):
    """Against the text up to the last token and its pseudo rows, run anew and alone through the layers above l; the
    last reading is the first guess."""
    trace = decode(model, **params)
    l, m = params.get("transfer_layer", 4), params.get("m", 3)  # noqa: E741 - the paper's letter
    W, b, _ = maps_of(load_part("transfer-maps", [model.record]), l, m, "cpu")
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


def test_each_pseudo_row_hangs_on_the_one_before():
    pseudo, below = layout([2, 0, 3], 5)  # five rows of text, three candidates
    assert pseudo == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    assert below == [5, 8, 7, 10, 11]


def test_training_computes_what_decoding_guesses(model, texts):
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = TransferTraining("test", model, texts(model), teacher, 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    loss = training.loss(training.batch(0.0)).value
    loss.backward()
    assert float(loss.detach()) < before
    assert all(one.grad is not None and float(one.grad.abs().sum()) > 0 for one in training.network.W.values())
    assert not any(one.requires_grad for one in model.model.parameters())
    text = next(training.cache.texts(training.layers))
    cut, p = text.prompt + 1, SimpleNamespace(max_new_tokens=24, temperature=0.0)
    for layer, found in training.said(text, text.rows(1)).items():
        ids = text.tokens[: cut + 1].tolist()
        draft = Draft.of([ids[-1]], [-1], "draft")
        draft.tails = [3]
        W, b = training.network.W[str(layer)].detach(), training.network.b[str(layer)].detach()
        _, streams = forward(Target(counted(model), ids, p, rows=9), ids, draft, layer, W, b, torch.Generator())
        h = model.normed(streams[model.num_layers])
        assert torch.allclose(found[cut - text.rows(1).start], h, atol=1e-3)


@torch.no_grad()
def test_of_a_large_model_a_step_takes_some_rows(model, texts, monkeypatch):
    """Windows that cover a text, weighed by their rows, give the loss of the whole text."""
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = TransferTraining("test", model, texts(model, prompts=PROMPTS[:1]), teacher, 0)
    (text,) = training.cache.texts((model.num_layers,))
    monkeypatch.setattr(module, "DECAY", 0.0)  # the next token but one alone, which all rows have
    whole = training.loss([text])
    rows, k = text.rows(1), 4
    assert not training.large and training.some(rows, random.Random(0)) == rows
    training.large = True
    monkeypatch.setattr(module, "ROWS", k)
    taken = [training.some(rows, random.Random(seed)) for seed in range(20)]
    assert {len(one) for one in taken} == {k} and len({one.start for one in taken}) > 3
    assert all(set(one) <= set(rows) for one in taken)
    windows = [rows[at : at + k] for at in range(0, len(rows), k)]
    monkeypatch.setattr(training, "some", lambda rows, rng: windows[0])
    parts = []
    while windows:
        parts.append(training.loss([text]))
        windows.pop(0)
    count = sum(one.answer_tokens for one in parts)
    assert count == whole.answer_tokens == len(rows)
    mean = sum(float(one.value) * one.answer_tokens for one in parts) / count
    assert mean == pytest.approx(float(whole.value), rel=1e-4)


def test_a_layer_without_maps_is_refused(model):
    with pytest.raises(engines.UserError, match=r"transfer_layer 3 was given .* trained for 2, 4, 6; choose one"):
        decode(model, transfer_layer=3)
