"""The plain loops of LLaDA and Fast-dLLM as a textbook has them, and what ours cost beside them.

    python -m tests.engines.methods.diffusion.textbook

The textbook loop proposes a token for every position of the board and takes a float64 softmax over the whole board and
vocabulary in every forward, as the official code does; a tiny LLaDA with LLaDA-8B's vocabulary makes that the larger
part of the work. Both loops call the same model object. Printed are the medians of alternating runs and their ratio;
the outputs have to be identical. A machine with other work on it gives no usable wall times, so processor seconds are
printed beside them."""

from __future__ import annotations

import statistics
import sys
import time

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import engines
from engines.core.trace import ModelRecord
from engines.models.adapters.masked import HFMaskedLM
from engines.models.tokens import IdTokenizer

VOCABULARY, MASK = 126_464, 126_336  # of LLaDA-8B
G, BLOCK, THRESHOLD = 64, 32, 0.9
PROMPT = list(range(100, 116))


def tiny_llada(vocabulary: int = VOCABULARY, mask_id: int = MASK) -> HFMaskedLM:
    """Two layers of random weights, drawn wide enough that distributions have peaks."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        is_causal=False,
        initializer_range=0.5,
    )
    return HFMaskedLM(
        LlamaForCausalLM(config), IdTokenizer(vocabulary), ModelRecord("model", "tiny LLaDA", "masked"), mask_id
    )


@torch.inference_mode()
def textbook(model: HFMaskedLM, prompt: list[int], length: int, block: int, threshold: float | None) -> list[int]:
    """Greedy decoding of `length` tokens: one per forward, or all that reach the threshold and always the best one."""
    x = torch.tensor(prompt + [model.mask_id] * length)
    for start in range(len(prompt), len(x), block):
        while (x[start : start + block] == model.mask_id).any():
            logits = model(x)  # [L, V]
            x0 = logits.argmax(-1)
            p = logits.double().softmax(-1)
            confidence = p.gather(-1, x0[:, None])[:, 0]
            ready = x == model.mask_id
            ready[start + block :] = False
            x = torch.where(selected(confidence.masked_fill(~ready, -torch.inf), threshold), x0, x)
    return x[len(prompt) :].tolist()


def selected(confidence: Tensor, threshold: float | None) -> Tensor:
    """Which positions [L] are filled: the best one, and with a threshold all others that reach it."""
    best = torch.zeros_like(confidence, dtype=torch.bool)
    best[confidence.argmax()] = True
    return best if threshold is None else best | (confidence >= threshold)


def ours(model: HFMaskedLM, prompt: list[int], length: int, block: int, threshold: float | None) -> list[int]:
    """The same with the installed methods, nothing recorded."""
    slug, extra = ("llada", {}) if threshold is None else ("threshold", {"threshold": threshold})
    return engines.run(
        slug, model, prompt, params={"max_new_tokens": length, "block_length": block, **extra}, detail="none"
    ).output_ids


def main(repeats: int = 5) -> None:
    """Print one line per loop. Raises AssertionError if outputs differ."""
    model = tiny_llada()
    model.warm_up()
    for name, threshold in (("base", None), ("threshold", THRESHOLD)):
        times: dict[str, list[tuple[float, float]]] = {"textbook": [], "ours": []}
        outputs = set()
        for _ in range(repeats):
            for label, loop in (("textbook", textbook), ("ours", ours)):
                wall, busy = time.perf_counter(), time.process_time()
                outputs.add(tuple(loop(model, PROMPT, G, BLOCK, threshold)))
                times[label].append((time.perf_counter() - wall, time.process_time() - busy))
        assert len(outputs) == 1, f"{name}: the outputs differ"
        wall, busy = (
            [statistics.median(run[i] for run in times[label]) for label in ("ours", "textbook")] for i in (0, 1)
        )
        print(
            f"{name:10s} ours {wall[0]:.2f} s, textbook {wall[1]:.2f} s, ratio {wall[0] / wall[1]:.2f}; processor "
            f"{busy[0]:.2f} s and {busy[1]:.2f} s, "
            f"ratio {busy[0] / busy[1]:.2f}; {torch.get_num_threads()} threads, {repeats} alternating runs, outputs "
            "identical",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
