"""Shared by the trainings."""

from pathlib import Path

import pytest

from engines.training.tiny.tokenizer import load_tokenizer
from tests.engines import micro


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Llama with the family's tokenizer, from which the mask token was taken."""
    folder, tokenizer = tmp_path_factory.mktemp("base"), load_tokenizer()
    tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    model = micro.llama(2, seed=0, max_position_embeddings=256, initializer_range=0.3, bos_token_id=None)
    model.save_pretrained(folder)
    return folder
