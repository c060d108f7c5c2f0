"""Models with one tokenizer whose output layers are padded to different sizes, as those of a family often are."""

import copy

import pytest
import torch

import engines

PAIRED = ["speculative-sampling", "dyspec", "pearl", "rasd", "rsd", "reflective-verification", "ead"]
PROMPT = "add: 4 + 5"


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    """A model, and it again with twice the rows, all of which are as likely as any other."""
    folder = tmp_path_factory.mktemp("padded")
    plain = engines.load_model("tiny-ar-s")
    padded = copy.deepcopy(plain.model)
    padded.resize_token_embeddings(2 * padded.config.vocab_size)
    with torch.no_grad():
        padded.get_output_embeddings().weight.zero_()
    padded.save_pretrained(folder)
    plain.tokenizer.tokenizer.save_pretrained(folder)
    return plain, engines.load_model(folder)


def run(slug, main, other, seed=0, **params):
    info = engines.get_method(slug).info
    models = {role: main if role == info.role else other for role in info.needs}
    return engines.run(slug, models, PROMPT, params={"max_new_tokens": 12, **params}, seed=seed)


@pytest.mark.parametrize("slug", PAIRED)
def test_a_token_that_the_draft_model_lacks_is_no_error_and_more_rows_change_no_lossless_text(sizes, slug):
    plain, padded = sizes
    written = [token for seed in range(3) for token in run(slug, padded, plain, seed, temperature=1.0).output_ids]
    assert max(written) >= plain.vocab_size or slug in ("ead", "rsd")  # whose smaller model writes, too
    trace = run(slug, plain, padded, temperature=0.0)
    assert max(trace.output_ids) < plain.vocab_size
    if engines.get_method(slug).info.lossless:
        assert trace.output_ids == engines.run("greedy", plain, PROMPT, params={"max_new_tokens": 12}).output_ids
