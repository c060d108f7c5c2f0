"""The text that heads learn from: a model's own answers, cached with its last states (`core/text_cache.py`).

SmolLM2's cache is made by `text-cache`; that of another causal model, which answers the tasks of `engines/tasks` in a
minute or two, is made here when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Generator
from tqdm import tqdm

from engines.core.kinds import CausalLM
from engines.core.sampling import draw
from engines.models.files import smollm2
from engines.training.core.parts import prompts_of
from engines.training.core.text_cache import Answer, TextCache, fill, folder_of, shards

PROMPTS, LENGTH, TEMPERATURE, PER_SHARD = 900, 80, 0.8, 60
EVERY = 9  # one prompt of so many is held out


@torch.inference_mode()
def written(model: CausalLM, prompt: Sequence[int], rng: Generator) -> list[int]:
    """Up to LENGTH tokens of an answer at TEMPERATURE, its end mark included."""
    room = min(LENGTH, model.max_positions - len(prompt))
    cache, ids = model.new_cache(len(prompt) + room), list(prompt)
    while len(ids) < len(prompt) + room and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        z = model.extend(ids[cache.length :], cache, last_only=True).logits[0]
        ids.append(draw((z.double() / TEMPERATURE).softmax(-1), rng))
    return ids[len(prompt) :]


def groups(model: CausalLM, seed: int) -> Iterator[list[Answer]]:
    """The model's answers to prompts of the training split, PER_SHARD at a time."""
    rng = Generator().manual_seed(seed)
    prompts = enumerate(tqdm(islice(prompts_of(seed), PROMPTS), desc="answers", total=PROMPTS))
    while some := list(islice(prompts, PER_SHARD)):
        ids = [(n, list(model.tokenizer.encode_prompt(text)), text) for n, text in some]
        yield [Answer(x, written(model, x, rng), n % EVERY == 0, {"prompt": text}) for n, x, text in ids]


def cache_of(model: CausalLM, seed: int = 0, folder: Path | None = None, layers: Sequence[int] = ()) -> TextCache:
    """The text cache of a model, with its last states and those at `layers`. Raises UserError for SmolLM2 without one,
    with the command that makes it."""
    usual = folder_of(model.record.name)
    folder = folder or (usual.with_name("-".join([usual.name, "layers", *map(str, layers)])) if layers else usual)
    if model.record.name != smollm2.NAME and not shards(folder):
        fill(folder, model, (*layers, model.num_layers), groups(model, seed), lambda: True)
    return TextCache(folder)
