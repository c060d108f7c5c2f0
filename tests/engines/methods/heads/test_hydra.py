"""Hydra: guesses that depend on the path above them, and one formula in training and decoding."""

import torch

from engines.methods.heads.hydra import Trained, grown
from engines.models.networks.hydra_heads import heads_of
from engines.models.parts import load_part
from engines.training.heads.hydra import HydraTraining
from tests.engines.methods.heads.conftest import ABOVE, PATHS, PROMPTS, Uncounted, check_nodes


def test_every_node_has_the_guesses_of_its_own_path(model):
    """Each child of the tree against the head, asked by hand about the tokens down to its parent."""
    part, n = load_part("hydra-heads", [model.record]), model.num_layers
    ids = model.tokenizer.encode_prompt(PROMPTS[0])
    h = model.extend(ids[:-1], model.new_cache(64), hidden=(n,)).hidden[n][-1]
    draft = grown(Trained(Uncounted(model), part), h, PATHS, ABOVE, ids)

    def said(above):
        return model.unembed(heads_of(part)(h[None], model.embed([ids[-1], *above])[None]), normed=True)[0]

    check_nodes(draft, said)


def test_training_reads_the_tokens_behind_the_state(model, training):
    training = training(HydraTraining, model)
    text = next(training.cache.texts(training.layers))
    at, h, e = training._inputs(text, 1)
    assert torch.equal(e[0], training.E[text.tokens[text.prompt : text.prompt + 2]])
    assert int(at[0]) == text.prompt - 1 and torch.equal(h[0], text.hidden[training.last][text.prompt - 1].float())
