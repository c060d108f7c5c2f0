"""Hidden Transfer: the greedy text whatever the maps are, real rows that never see pseudo rows, work that counts them,
what decoding guesses against what training computes, and bad input."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.kinds.layered import CountedLayered, Taps
from engines.core.meter import Meter
from engines.methods.heads import hidden_transfer
from engines.methods.heads.hidden_transfer import forward, layout, maps_of
from engines.methods.heads.hidden_transfer.lens import Transfer
from engines.methods.speculative._turn import Target
from engines.methods.speculative._verify import Draft
from engines.models import parts
from engines.models.parts import load_part
from engines.training.core.text_cache import Answer, Teacher, TextCache, fill
from engines.training.heads import hidden_transfer as module
from engines.training.heads.hidden_transfer import TransferTraining

ROOT = Path(__file__).resolve().parents[4]
PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def counted(model):
    return CountedLayered(model, "target", Meter())


def decode(model, prompt=PROMPTS[0], slug="hidden-transfer", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "params", [{}, {"transfer_layer": 2}, {"transfer_layer": 6}, {"m": 1}, {"nodes": 40, "transfer_layer": 2}]
)
def test_the_text_is_the_greedy_one_in_fewer_calls(model, prompt, params):
    ours, plain = decode(model, prompt, **params), decode(model, prompt, "greedy")
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards_by_role["target"]
    assert all(1 <= len(step.tree.emitted) <= params.get("m", 3) + 1 for step in ours.steps)
    assert [step.forwards for step in ours.steps] == [{"target": 1}] * len(ours.steps), (
        "what went along in them is no draft call"
    )


@pytest.mark.parametrize(("layer", "kind"), [(2, "noise"), (4, "identity"), (6, "noise")])
def test_maps_that_know_nothing_only_slow_it_down(model, monkeypatch, layer, kind):
    rng = torch.Generator().manual_seed(0)
    W = torch.eye(128).repeat(3, 1, 1) if kind == "identity" else torch.randn(3, 128, 128, generator=rng)
    monkeypatch.setattr(hidden_transfer, "maps_of", lambda *_: (W, torch.zeros(3, 128), [[0.5, 0.3, 0.1]] * 3))
    ours = decode(model, transfer_layer=layer)
    assert ours.output_ids == decode(model, slug="greedy").output_ids and ours.steps[1].facts["drafted"] == 8


@pytest.mark.parametrize("seed", range(2))
def test_above_temperature_0_it_draws_as_plain_sampling_does(model, seed):
    """Candidates are chosen without chance and one draw of the model decides each token, so the same random numbers
    give the text that no candidates give."""
    ours, plain = (decode(model, seed=seed, temperature=1.3, nodes=n) for n in (8, 0))
    assert ours.output_ids == plain.output_ids and len(plain.steps) == len(plain.output_ids) > len(ours.steps)


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


def test_recording_the_record_changes_nothing(model):
    full, bare = (engines.run("hidden-transfer", model, PROMPTS[1], detail=detail) for detail in ("full", "none"))
    assert full.output_ids == bare.output_ids
    for one, other in zip(full.steps, bare.steps, strict=True):
        assert (one.forwards, one.work, one.tokens_fed) == (other.forwards, other.work, other.tokens_fed)


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


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_tree_larger_than_the_room_left_is_cut(model, length):
    ours, plain = (decode(model, slug=s, max_new_tokens=length) for s in ("hidden-transfer", "greedy"))
    assert ours.output_ids == plain.output_ids and len(ours.output_ids) <= length


def test_it_ends_at_the_last_position_of_the_model(model):
    """Pseudo rows and candidates that would stand behind the model's 512 positions are left out."""
    ids = (model.tokenizer.encode_prompt(PROMPTS[0]) * 60)[:506]
    ours, plain = (engines.run(s, model, ids, params={"max_new_tokens": 6}) for s in ("hidden-transfer", "greedy"))
    assert ours.output_ids == plain.output_ids


def test_training_computes_what_decoding_guesses(model, tmp_path):
    said = decode(model).output_ids
    prompts = [model.tokenizer.encode_prompt(text) for text in PROMPTS * 2]
    answers = [Answer(list(prompt), list(said), i == 0, {"prompt": ""}) for i, prompt in enumerate(prompts)]
    fill(tmp_path, model, (model.num_layers,), [answers], lambda: False)
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = TransferTraining("test", model, TextCache(tmp_path), teacher, 0)
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
def test_of_a_large_model_a_step_takes_some_rows(model, tmp_path, monkeypatch):
    """Windows that cover a text, weighed by their rows, give the loss of the whole text."""
    prompt, said = model.tokenizer.encode_prompt(PROMPTS[0]), decode(model).output_ids
    fill(tmp_path, model, (model.num_layers,), [[Answer(list(prompt), list(said), False, {})]], lambda: False)
    teacher = Teacher(model.model.get_output_embeddings().weight)
    training = TransferTraining("test", model, TextCache(tmp_path), teacher, 0)
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


def test_earlier_layers_guess_better_and_the_card_says_so():
    card = json.loads((ROOT / "assets" / "parts" / "tiny-ar-m-transfer-maps" / "card.json").read_text())
    first = [layer[0] for layer in card["held_out"]["rank_1"]]
    assert card["transfer_layers"] == [2, 4, 6] and first == sorted(first, reverse=True)
    assert card["parameters"] == 3 * 3 * (128 * 128 + 128)


def test_bad_input_is_one_sentence(model, tmp_path, monkeypatch):
    with pytest.raises(engines.UserError, match="nodes"):
        decode(model, nodes=64)
    with pytest.raises(engines.UserError, match=r"transfer_layer 3 was given .* trained for 2, 4, 6; choose one"):
        decode(model, transfer_layer=3)
    with pytest.raises(engines.UserError, match=r"training transfer-maps tiny-ar-s"):
        decode("tiny-ar-s")
    (tmp_path / "parts").mkdir()
    shutil.copytree(
        ROOT / "assets" / "parts" / "tiny-ar-m-transfer-maps", tmp_path / "parts" / "tiny-ar-s-transfer-maps"
    )
    monkeypatch.setattr(parts, "assets", lambda: tmp_path)
    with pytest.raises(engines.UserError, match=r"trained for other weights.*training transfer-maps tiny-ar-s"):
        decode("tiny-ar-s")
