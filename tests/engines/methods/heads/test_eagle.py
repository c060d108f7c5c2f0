"""EAGLE: the layer's cache, and a training that rolls on as decoding does. Chosen rows are golden cases."""

import pytest
import torch

from engines.methods.heads._rows import Drafter, expanded
from engines.methods.heads.eagle import Trained
from engines.models.networks.eagle_layer import layer_of
from engines.models.parts import load_part
from engines.training.heads.eagle import EagleTraining
from tests.engines.methods.heads.conftest import PROMPTS, Uncounted


def test_what_it_drafts_with_its_cache_is_what_a_read_of_the_whole_text_gives(model):
    """Turn after turn with rows kept and forgotten, against the layer that reads everything anew."""
    layer, n = layer_of(load_part("eagle-layer", [model.record])), model.num_layers
    ids, drafter = model.tokenizer.encode_prompt(PROMPTS[0]), Drafter(Trained(Uncounted(model), layer, None))
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


def test_training_rolls_on_as_decoding_does(model, training):
    training = training(EagleTraining, model)
    training.start()
    text, t = next(training.cache.texts(training.layers)), 4  # one row by hand: its own state goes on, with true tokens
    states = [*text.hidden[training.last][: t + 1].float()]
    for j, found in enumerate(training.rolled(text)):
        F = training.network(training.E[text.tokens[1 : t + j + 2]], torch.stack(states))[-1]
        assert torch.allclose(F, found[t], atol=1e-4)
        states.append(F)
