"""The plain loops of LLaDA and Fast-dLLM as a textbook has them, and what ours cost beside them.

    python -m tests.engines.methods.diffusion.textbook

The textbook loop proposes a token for every position of the board and takes a float64 softmax over the whole board and
vocabulary in every forward, as the official code does; a tiny LLaDA with LLaDA-8B's vocabulary makes that the larger
part of the work. Both loops call the same model object. Printed are the medians of alternating runs and their ratio, in
wall and, as other work on the machine spoils these, processor seconds; the outputs have to be identical."""

import time
from statistics import median

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import engines
from engines.core.trace import ModelRecord
from engines.models.adapters.masked import HFMaskedLM
from engines.models.tokenizers.tokens import IdTokenizer

VOCABULARY, MASK = 126_464, 126_336  # of LLaDA-8B


def tiny_llada(vocabulary: int = VOCABULARY, mask_id: int = MASK) -> HFMaskedLM:
    """Two layers of random weights, drawn wide enough that distributions have peaks."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    network = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, is_causal=False, initializer_range=0.5, **sizes))
    return HFMaskedLM(network, IdTokenizer(vocabulary), ModelRecord("model", "tiny LLaDA", "masked"), mask_id=mask_id)


@torch.inference_mode()
def textbook(model: HFMaskedLM, prompt: list[int], length: int, block: int, threshold: float | None) -> list[int]:
    """Greedy decoding of `length` tokens: one per forward, or all that reach the threshold and always the best one."""
    x = torch.tensor(prompt + [model.mask_id] * length)
    for start in range(len(prompt), len(x), block):
        while (x[start : start + block] == model.mask_id).any():
            logits = model(x)  # [L, V]
            x0 = logits.argmax(-1)
            confidence = logits.double().softmax(-1).gather(-1, x0[:, None])[:, 0]
            confidence[x != model.mask_id] = -torch.inf
            confidence[start + block :] = -torch.inf
            filled = confidence >= (torch.inf if threshold is None else threshold)
            filled[confidence.argmax()] = True
            x = torch.where(filled, x0, x)
    return x[len(prompt) :].tolist()


def ours(model: HFMaskedLM, prompt: list[int], length: int, block: int, threshold: float | None) -> list[int]:
    """The same with the installed methods, nothing recorded."""
    slug, extra = ("llada", {}) if threshold is None else ("threshold", {"threshold": threshold})
    given = {"max_new_tokens": length, "block_length": block, **extra}
    return engines.run(slug, model, prompt, params=given, detail="none").output_ids


def main() -> None:
    """Print one line per loop. Raises AssertionError if outputs differ."""
    model = tiny_llada()
    model.warm_up()
    for name, threshold in (("base", None), ("threshold", 0.9)):
        walls, processors, outputs = [], [], set()
        for loop in (ours, textbook) * 5:
            wall, busy = time.perf_counter(), time.process_time()
            outputs.add(tuple(loop(model, [*range(100, 116)], 64, 32, threshold)))
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - busy)
        assert len(outputs) == 1, f"{name}: the outputs differ"
        for clock, took in (("wall", walls), ("processor", processors)):
            a, b = median(took[::2]), median(took[1::2])
            print(f"{name:10s} {clock:9s} ours {a:.2f} s, textbook {b:.2f} s, ratio {a / b:.2f}", flush=True)


if __name__ == "__main__":
    main()
