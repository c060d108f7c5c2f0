"""Ours beside transformers' own speculative decoding, on the same prompts with the same models: the texts and the
times.

    python -m tests.engines.methods.speculative.peers [--model tiny-ar-l] [--length 64]

Two pairs: a chain of drafts against `generate(assistant_model=...)` with a constant number of assistant tokens and no
confidence rule, and prompt lookup against `generate(prompt_lookup_num_tokens=...)`. Printed are the medians over
prompts of the ratio ours / theirs of alternating runs, wall and
processor seconds: below 1 is faster than transformers. Greedy, float32, so all texts have to be the same.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch

import engines
from engines.tasks import TASKS
from explorer.bench.measure import prompts_for

GAMMA, LOOKED_UP, COPIED = 4, 2, 10


def theirs(target: Any, ids: list[int], length: int, **options: Any) -> list[int]:
    """The answer of transformers' assisted generation, end mark included. `target` and an assistant are engines' models
    around stock ones."""
    row = torch.tensor([ids])
    with torch.inference_mode():
        out = target.model.generate(
            row,
            attention_mask=torch.ones_like(row),
            max_new_tokens=length,
            do_sample=False,
            eos_token_id=sorted(target.eos_ids),
            pad_token_id=0,
            **options,
        )
    return out[0, len(ids) :].tolist()


def assisted(target: Any, draft: Any, ids: list[int], length: int) -> list[int]:
    """With a draft model: GAMMA tokens per round whatever its confidence."""
    config = draft.model.generation_config
    config.num_assistant_tokens, config.num_assistant_tokens_schedule, config.assistant_confidence_threshold = (
        GAMMA,
        "constant",
        0.0,
    )
    return theirs(target, ids, length, assistant_model=draft.model)


def looked_up(target: Any, ids: list[int], length: int) -> list[int]:
    """With copies from the text."""
    return theirs(target, ids, length, prompt_lookup_num_tokens=COPIED, max_matching_ngram_size=LOOKED_UP)


def timed(work: Callable[[], list[int]]) -> tuple[list[int], float, float]:
    """(answer, wall seconds, processor seconds)."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.perf_counter() - wall, time.process_time() - cpu


def compare(
    name: str,
    ours: Callable[[list[int]], list[int]],
    peer: Callable[[list[int]], list[int]],
    prompts: list[list[int]],
    repeats: int,
) -> None:
    """Print one line; raises AssertionError where the texts differ."""
    walls, cpus = [], []
    for ids in prompts:
        pairs = []
        for _ in range(repeats + 1):
            (a, *mine), (b, *their) = timed(lambda ids=ids: ours(ids)), timed(lambda ids=ids: peer(ids))
            assert a == b, f"{name}: the texts differ: {a} and {b}"
            pairs.append((mine, their))
        mine, their = (
            list(zip(*side, strict=True)) for side in zip(*pairs[1:], strict=True)
        )  # the first round warms both
        walls.append(statistics.median(mine[0]) / statistics.median(their[0]))
        cpus.append(statistics.median(mine[1]) / statistics.median(their[1]))
    print(
        f"{name}: {statistics.median(walls):.2f} of transformers' wall seconds, {statistics.median(cpus):.2f} of its "
        f"processor seconds, {len(prompts)} prompts"
    )


def main() -> None:
    """Both pairs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tiny-ar-l")
    parser.add_argument("--draft", default="tiny-ar-m")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    target = engines.load_model(args.model, dtype="float32")
    long = [
        next(islice(TASKS[t].generate("held-out", seed=5), 1)).prompt for t in ("python", "story", "add", "problem")
    ]
    texts = (
        (long + prompts_for(args.model, args.prompts))[: args.prompts]
        if args.model.startswith("tiny")
        else prompts_for(args.model, args.prompts)
    )
    prompts = [list(target.tokenizer.encode_prompt(text)) for text in texts]

    def run(slug: str, models: Any, ids: list[int], **params: Any) -> list[int]:
        return engines.run(
            slug, models, ids, params={**params, "max_new_tokens": args.length}, detail="none"
        ).output_ids

    if args.model.startswith("tiny"):
        draft = engines.load_model(args.draft, dtype="float32")
        pair = {"target": target, "draft": draft}
        compare(
            "speculative sampling",
            lambda ids: run("speculative-sampling", pair, ids, gamma=GAMMA),
            lambda ids: assisted(target, draft, ids, args.length),
            prompts,
            args.repeats,
        )
    compare(
        "prompt lookup",
        lambda ids: run("prompt-lookup", target, ids, longest=LOOKED_UP, length=COPIED),
        lambda ids: looked_up(target, ids, args.length),
        prompts,
        args.repeats,
    )


if __name__ == "__main__":
    main()
