"""EAGLE: the chosen rows, the layer's cache against a read of the whole text, and a training that rolls on as
decoding does."""

import pytest
import torch

import engines
import tests.golden.checkers.eagle  # noqa: F401 - registers its checker
from engines.methods.heads._confident_tree import expanded, reranked
from engines.methods.heads._rows import Drafter
from engines.methods.heads.eagle.trained import Trained
from engines.models.networks.eagle_layer import layer_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.eagle import EagleTraining
from tests.engines.methods.heads.conftest import PROMPTS


def decode(model, prompt=PROMPTS[0], slug="eagle", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16, **params}, seed=seed)


def test_a_turn_is_one_target_call_and_k_of_one_is_a_chain(model):
    trace = decode(model, top_k=1)
    assert [step.forwards["target"] for step in trace.steps] == [1] * len(trace.steps)
    assert trace.steps[1].tree.parents == [-1, 0, 1, 2, 3]
    wide = decode(model, nodes=9)
    assert wide.steps[1].facts["drafted"] == 9 and max(wide.steps[1].tree.parents) > 0


def test_the_chosen_rows_are_the_likeliest_and_a_tree():
    rng = torch.Generator().manual_seed(1)
    table = torch.randn(9, 9, generator=rng).log_softmax(-1)

    def fan(rows, tokens, _):
        top = table[[tokens[row] for row in rows]].topk(3)
        return top.indices.tolist(), top.values.tolist()

    pool = expanded(fan, 0, 3, 3)
    for n in (1, 5, 12, 200):
        tokens, parents, scores = reranked(pool, n)
        assert len(tokens) == 1 + min(n, len(pool[0]) - 1) and all(p < row for row, p in enumerate(parents))
        left = sorted(pool[2][1:], reverse=True)[len(tokens) - 1 :]
        assert not left or min(scores) >= left[0]
        steps = [scores[row] - scores[parents[row]] for row in range(1, len(tokens))]
        told = [float(table[tokens[parents[row]], tokens[row]]) for row in range(1, len(tokens))]
        assert steps == pytest.approx(told, abs=1e-5)


def test_what_it_drafts_with_its_cache_is_what_a_read_of_the_whole_text_gives(model):
    """The guesses behind a chain of drafted tokens, turn after turn with rows kept and forgotten, against the layer
    that reads everything anew."""
    part = load_part("eagle-layer", [model.record])
    layer, n = layer_of(part), model.num_layers
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    counted = engines.load_model("tiny-ar-m", dtype="float32")
    counted.unembed = _speaking(counted.unembed)
    drafter = Drafter(Trained(counted, layer, None))
    for _ in range(4):
        h = model.extend(ids, model.new_cache(99), hidden=(n,)).hidden[n]
        drafter.S, drafter.known = h[:-1], len(h) - 1
        drafter.read(ids, 1)
        tokens, _, scores = expanded(drafter.fan, ids[-1], 1, 2)
        fed, state = [*ids, *tokens[1:]], list(h[:-1])
        for j in range(3):
            F = layer(model.embed(fed[1 : len(ids) + j]), torch.stack(state))[-1]
            logp = model.unembed(F[None], normed=True)[0].double().log_softmax(-1)
            assert int(logp.argmax()) == tokens[j + 1]
            assert float(logp.max()) == pytest.approx(scores[j + 1] - scores[j], abs=1e-4)
            state.append(F)
        drafter.forget(len(ids))
        ids = [*ids, tokens[1], 7]


def _speaking(unembed):
    return lambda h, vocabulary=None, *, normed=False, predicts=None: unembed(h, vocabulary, normed=normed)


def test_training_learns_and_rolls_on_as_decoding_does(model, texts):
    E = model.model.get_input_embeddings().weight.detach().float()
    training = EagleTraining("test", model, texts(model), Teacher(E), 0)
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    text = next(training.cache.texts(training.layers))
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    rolled = training.rolled(text)
    t = 4  # one row by hand: its own state goes on with the true tokens
    states = [*text.hidden[training.last][: t + 1].float()]
    for j, found in enumerate(rolled):
        F = training.network(E[text.tokens[1 : t + j + 2]], torch.stack(states))[-1]
        assert torch.allclose(F, found[t], atol=1e-4)
        states.append(F)
