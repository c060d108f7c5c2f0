"""Whether a row's logits keep their bits beside other rows and in a draft tree. One row is multiplied by other code
than several. In llama.cpp it depends on how the weights are coded (Q4_0, Q4_1, Q8_0: all agree; F16: from two rows on
other bits; Q4_K_M: from four on, in some texts), in torch on the type, the shape and the processor."""

import time

import torch
from torch import Tensor

from engines.core.kinds import CausalLM

TEXT = 16  # tokens before the rows
SIZES = (2, 3, 4, 5, 8, 16, 32)  # rows fed at once
LEAST = 8  # rows that are tried however long they take: with few of them Q4_K_M was seen to keep its bits by chance
SECONDS = 1.0
TREE = (-1, 0, 0, 1)  # parents; its rows but the third are the first of the chain


def same_bits(model: CausalLM, seconds: float = SECONDS, text: int = TEXT) -> tuple[int, float]:
    """(largest number of rows that was tried, by how much a logit moved at most): rows fed at once and in a small tree
    behind `text` tokens, as many as the model has positions for, against the same rows fed one by one. Of slow models
    fewer are tried in that time, LEAST of them anyway."""
    text = min(text, max(1, model.max_positions - SIZES[-1] - len(TREE)))
    began, ids = time.perf_counter(), _ids(model.vocab_size, text)
    cache = model.new_cache(len(ids) + len(TREE))
    model.extend(ids[:text], cache, last_only=True)
    alone: list[Tensor] = []
    for token in ids[text:]:
        alone.append(model.extend([token], cache).logits[0])
        if len(alone) >= LEAST and time.perf_counter() - began > seconds / 3:
            break
    largest, moved = 1, 0.0
    for n in SIZES:
        if n > len(alone) or (largest >= LEAST and time.perf_counter() - began > seconds):
            break
        cache.crop(text)
        z = model.extend(ids[text : text + n], cache).logits
        largest, moved = n, max(moved, _moved(z, alone[:n]))
    cache.crop(text)
    a, b, c = ids[text : text + 3]
    z = model.extend([a, b, ids[0], c], cache, parents=TREE).logits
    return largest, max(moved, _moved(z[[0, 1, 3]], alone[:3]))


def _moved(z: Tensor, alone: list[Tensor]) -> float:
    return float((z - torch.stack(alone)).abs().max())


def _ids(vocab: int, text: int) -> list[int]:
    """Different tokens, as far as there are so many."""
    step = max(1, vocab // (text + SIZES[-1] + 1))
    return [(step * (i + 1)) % vocab for i in range(text + SIZES[-1])]
