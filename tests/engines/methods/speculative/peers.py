"""Ours beside transformers' own speculative decoding, on the same prompts with the same models: the texts and the
times.

    python -m tests.engines.methods.speculative.peers [--model tiny-ar-l] [--length 64]

Two pairs: a chain of drafts against `generate(assistant_model=...)` with a constant number of assistant tokens and no
confidence rule, and prompt lookup against `generate(prompt_lookup_num_tokens=...)`. Printed are the medians over
prompts of the ratio ours / theirs of alternating runs, wall and processor seconds: below 1 is faster than transformers.
Greedy, float32, so all texts have to be the same.
"""

import argparse
import time
from collections.abc import Callable
from itertools import islice
from statistics import median
from typing import Any

import torch

import engines
from engines.tasks import TASKS
from explorer.bench.measure import prompts_for

GAMMA, LOOKED_UP, COPIED = 4, 2, 10
Writes = Callable[[list[int]], list[int]]


def theirs(target: Any, ids: list[int], length: int, **options: Any) -> list[int]:
    """The answer of transformers' assisted generation, end mark included."""
    row = torch.tensor([ids])
    options |= {"max_new_tokens": length, "do_sample": False, "eos_token_id": sorted(target.eos_ids), "pad_token_id": 0}
    with torch.inference_mode():
        return target.model.generate(row, attention_mask=torch.ones_like(row), **options)[0, len(ids) :].tolist()


def assisted(target: Any, draft: Any, ids: list[int], length: int) -> list[int]:
    """With a draft model: GAMMA tokens per round whatever its confidence."""
    config = draft.model.generation_config
    config.num_assistant_tokens, config.num_assistant_tokens_schedule = GAMMA, "constant"
    config.assistant_confidence_threshold = 0.0
    return theirs(target, ids, length, assistant_model=draft.model)


def looked_up(target: Any, ids: list[int], length: int) -> list[int]:
    """With copies from the text."""
    return theirs(target, ids, length, prompt_lookup_num_tokens=COPIED, max_matching_ngram_size=LOOKED_UP)


def timed(write: Writes, ids: list[int]) -> tuple[list[int], float, float]:
    """(answer, wall seconds, processor seconds)."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = write(ids)
    return answer, time.perf_counter() - wall, time.process_time() - cpu


def compare(name: str, ours: Writes, peer: Writes, prompts: list[list[int]]) -> None:
    """Print one line; raises AssertionError where the texts differ."""
    ratios = []
    for ids in prompts:
        pairs = [(timed(ours, ids), timed(peer, ids)) for _ in range(4)]
        assert all(a[0] == b[0] for a, b in pairs), f"{name}: the texts of {ids} differ"
        pairs = pairs[1:]  # the first round warms both
        ratios.append([median(a[clock] for a, _ in pairs) / median(b[clock] for _, b in pairs) for clock in (1, 2)])
    wall, cpu = map(median, zip(*ratios, strict=True))
    print(f"{name}: {wall:.2f} of transformers' wall seconds, {cpu:.2f} of its processor's, {len(prompts)} prompts")


def main() -> None:
    """Both pairs, on eight prompts; for SmolLM2 there is no smaller model, so prompt lookup alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tiny-ar-l")
    parser.add_argument("--length", type=int, default=64)
    args = parser.parse_args()
    tiny, target = args.model.startswith("tiny"), engines.load_model(args.model, dtype="float32")
    texts = prompts_for(args.model, 8)
    if tiny:
        long = (next(islice(TASKS[t].generate("held-out", seed=5), 1)) for t in ("python", "story", "add", "problem"))
        texts = [*(task.prompt for task in long), *texts][:8]
    prompts = [list(target.tokenizer.encode_prompt(text)) for text in texts]

    def ours(slug: str, models: Any, **params: Any) -> Writes:
        given = {**params, "max_new_tokens": args.length}
        return lambda ids: engines.run(slug, models, ids, params=given, detail="none").output_ids

    if tiny:
        draft = engines.load_model("tiny-ar-m", dtype="float32")
        chain = ours("speculative-sampling", {"target": target, "draft": draft}, gamma=GAMMA)
        compare("speculative sampling", chain, lambda ids: assisted(target, draft, ids, args.length), prompts)
    copies = ours("prompt-lookup", target, longest=LOOKED_UP, length=COPIED)
    compare("prompt lookup", copies, lambda ids: looked_up(target, ids, args.length), prompts)


if __name__ == "__main__":
    main()
