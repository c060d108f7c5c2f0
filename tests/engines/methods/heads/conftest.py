"""Shared by the tests of drafting heads: the models that have them, and texts to train them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import engines
from engines.training.core.text_cache import Answer, TextCache, fill

PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada, Ada, Ada")


@pytest.fixture(scope="session")
def model(ar):
    return ar


@pytest.fixture(scope="session")
def large():
    return engines.load_model("tiny-ar-l", dtype="float32")


@pytest.fixture
def texts(tmp_path) -> Callable[..., TextCache]:
    """Answers of a model to some prompts, the first of them held out, with its states at some layers."""

    def cached(model: Any, layers: tuple[int, ...] = (), prompts: tuple[str, ...] = PROMPTS * 2, cut: int = 16):
        said = engines.run("greedy", model, prompts[0], params={"max_new_tokens": 16}).output_ids[:cut]
        answers = [
            Answer(list(model.tokenizer.encode_prompt(text)), list(said), i == 0 and len(prompts) > 1, {"prompt": ""})
            for i, text in enumerate(prompts)
        ]
        fill(tmp_path / "cache", model, (*layers, model.num_layers), [answers], lambda: False)
        return TextCache(tmp_path / "cache")

    return cached
