"""SmolLM2's own answers to bundled prompts, one JSON object a line in the user's cache: what its block-diffusion
version learns from without other texts.

Half of the prompts ask for very short stories with drawn heroes (`stories.py`), half are the bundled chat prompts, each
answered many times at a temperature."""

from __future__ import annotations

import json
import random
from pathlib import Path

from engines.models.files.smollm2 import cache_folder, ensure
from engines.tasks.words import NAMES, THINGS
from engines.training.tiny.stories import ASK

BUNDLED = Path(__file__).resolve().parents[3] / "assets" / "tasks" / "chat_prompts.json"
BATCH, NEW_TOKENS, TEMPERATURE, TOP_K = 64, 160, 0.7, 50


def answers_file() -> Path:
    """Where they are kept."""
    return cache_folder().parent / "smollm2-answers.jsonl"


def drawn_prompt(rng: random.Random, bundled: list[str]) -> str:
    """One of the bundled prompts, or a story to ask for."""
    if rng.random() < 0.5:
        return rng.choice(bundled)
    first, second = rng.sample(THINGS, 2)
    return ASK.format(name=rng.choice(NAMES), first=first, second=second)


def write_answers(n: int, device: str = "cpu", seed: int = 0) -> int:
    """Write answers until the file holds n; returns how many were added. Answers that do not end within their tokens
    are left out."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = answers_file()
    there = len(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else 0
    if there >= n:
        return 0
    folder, _ = ensure()
    tokenizer = AutoTokenizer.from_pretrained(
        folder, padding_side="left", local_files_only=True, trust_remote_code=False
    )
    model = (
        AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, local_files_only=True, trust_remote_code=False
        )
        .to(device)
        .eval()
    )
    bundled = [entry["prompt"] for entry in json.loads(BUNDLED.read_text())["prompts"]]
    rng = random.Random(f"{seed}/{there}")
    torch.manual_seed(rng.getrandbits(48))
    written = 0
    with file.open("a", encoding="utf-8") as opened:
        while there + written < n:
            prompts = [drawn_prompt(rng, bundled) for _ in range(min(BATCH, n - there - written))]
            turns = [[{"role": "user", "content": prompt}] for prompt in prompts]
            inputs = tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
            ).to(device)
            out = model.generate(
                **inputs, max_new_tokens=NEW_TOKENS, do_sample=True, temperature=TEMPERATURE, top_k=TOP_K
            )
            for prompt, ids in zip(prompts, out[:, inputs["input_ids"].shape[1] :].tolist(), strict=True):
                if tokenizer.eos_token_id in ids[1:]:
                    end = ids.index(tokenizer.eos_token_id)
                    opened.write(json.dumps({"prompt": prompt, "answer": tokenizer.decode(ids[:end])}) + "\n")
                    written += 1
            opened.flush()
    return written
