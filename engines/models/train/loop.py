"""The training loop of every tiny model: bf16 autocast, checkpoint and resume, held-out exact match, weights and a card at the end."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
import time
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from engines.models.train.data import batches, encode
from engines.models.train.recipes import RECIPES, Recipe
from engines.models.train.tokenizer import build_tokenizer, save_tokenizer
from engines.tasks import TASKS, Split, check

MODELS = Path(__file__).resolve().parents[3] / "assets" / "models"


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    """A stock Llama of the recipe's size; bidirectional if masked. Starts from `init_from`'s shipped weights where one is named."""
    torch.manual_seed(recipe.seed)
    config = LlamaConfig(
        vocab_size=math.ceil(len(tokenizer) / 32) * 32,
        hidden_size=recipe.hidden,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        intermediate_size=recipe.mlp,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    if recipe.kind == "masked":
        config.update({"is_causal": False, "mask_token_id": tokenizer.mask_token_id, "shift_logits": True})
    model = LlamaForCausalLM(config)
    if recipe.init_from:
        model.load_state_dict(LlamaForCausalLM.from_pretrained(MODELS / recipe.init_from).state_dict())
    return model


@torch.inference_mode()
def exact_match(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, kind: str, task: str, n: int, split: Split) -> float:
    """Share of `n` prompts answered exactly: greedy for a causal model, one most-confident token per forward for a masked one."""
    device = next(model.parameters()).device
    model.eval()
    examples = list(islice(TASKS[task].generate(split, seed=1), n))
    right = 0
    for start in range(0, n, 64):
        chunk = examples[start : start + 64]
        for example, (prompt, answer) in zip(chunk, encode(tokenizer, chunk), strict=True):
            length = 48 if kind == "masked" else len(answer) + 2
            x = torch.tensor([prompt + [tokenizer.mask_token_id] * length], device=device)
            if kind == "causal":
                x = model.generate(x[:, : len(prompt)], attention_mask=torch.ones(1, len(prompt), device=device), max_new_tokens=length, do_sample=False)
            else:
                fill_one_by_one(model, x, tokenizer.mask_token_id)
            output = x[0, len(prompt) :].tolist()
            output = output[: output.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in output else output
            right += check(example, tokenizer.decode(output)).correct
    return right / n


def fill_one_by_one(model: LlamaForCausalLM, x: torch.Tensor, mask_id: int) -> None:
    """Fill the masks of x [1, L] in place, the most confident position first, one per forward (shifted logits)."""
    while (masked := x[0] == mask_id).any():
        logits = model(input_ids=x).logits[0].float()
        logits = torch.cat([logits[:1], logits[:-1]])
        logits[:, mask_id] = -torch.inf
        confidence, tokens = logits.softmax(-1).max(-1)
        position = torch.where(masked, confidence, -1.0).argmax()
        x[0, position] = tokens[position]


def train(name: str, *, device: str = "cpu", minutes: float | None = None, resume: bool = False, steps: int | None = None, out: Path | None = None) -> Path:
    """Train one recipe and write weights, tokenizer, config and card to `out` (default: assets/models/NAME). Returns the folder."""
    recipe = RECIPES[name]
    folder = out or MODELS / name
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"
    tokenizer = build_tokenizer()
    model = build_model(recipe, tokenizer).to(device)
    total = steps or recipe.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    first, spent = 0, 0.0
    if resume and checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, spent = state["step"], state["seconds"]
    began = time.monotonic() - spent
    stream = batches(recipe, tokenizer, first)
    done = first
    for step in range(first, total):
        share = step / total if minutes is None else max(step / total, (time.monotonic() - began) / 60 / minutes)
        if share >= 1:
            break
        rate = recipe.learning_rate * min(1, (step + 1) / recipe.warmup) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * share)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        ids, targets = (t.to(device) for t in next(stream))
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done = step + 1
        if done % 50 == 0 or done == total:
            marks = ""
            if done % 1000 == 0:
                marks = " ".join(f"{t} {exact_match(model, tokenizer, recipe.kind, t, 32, 'validation'):.0%}" for t in recipe.mixture)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": done, "seconds": time.monotonic() - began}, checkpoint)
            end = "\n" if marks or not sys.stderr.isatty() else "\r"
            print(f"{name} {done}/{total} {(time.monotonic() - began) / 60:5.1f} min loss {loss.item():.4f} {marks}", end=end, file=sys.stderr, flush=True)
    finish(recipe, model, tokenizer, folder, done, (time.monotonic() - began) / 60, device)
    checkpoint.unlink(missing_ok=True)
    return folder


def finish(recipe: Recipe, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path, steps: int, minutes: float, device: str) -> None:
    """Round the weights to bfloat16, mark those on the held-out split, and save them with the tokenizer and a card that holds the marks."""
    model = model.float().cpu()
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()  # what is shipped is what is marked
    marks = {task: exact_match(model, tokenizer, recipe.kind, task, 128, "held-out") for task in recipe.mixture}
    model.to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(folder)
    card = {
        "name": recipe.name,
        "kind": recipe.kind,
        "parameters": sum(p.numel() for p in model.parameters()),
        "data": "engines/tasks.py, train split, mixture " + json.dumps(recipe.mixture),
        "seed": recipe.seed,
        "steps": steps,
        "minutes": round(minutes, 1),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, {device}, torch {torch.__version__}",
        "init_from": recipe.init_from,
        "held_out_exact_match": marks,
        "held_out_prompts": 128,
        "decoding": "greedy" if recipe.kind == "causal" else "one most-confident token per forward, 48 positions",
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "licence": "Apache-2.0 (synthetic data, trained here)",
        "command": f"python -m engines.models.train {recipe.name}",
    }
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    write_table(folder.parent)
    print(json.dumps(marks), file=sys.stderr)


def write_table(models: Path) -> None:
    """Write README.md beside the model folders: one line per card, from what the cards say."""
    cards = [json.loads(path.read_text()) for path in sorted(models.glob("*/card.json"))]
    tasks = list(cards[0]["held_out_exact_match"])
    lines = [
        "# The embedded models",
        "",
        "Written by the training program from the cards; trained on the synthetic tasks of `engines/tasks.py`, Apache-2.0. Exact match on 128 held-out",
        "prompts per task, causal models greedily, masked ones with one most-confident token per forward. `shuffle` has many right answers, and a model that",
        "picks greedily among them easily repeats a name; it is here to show what parallel commits break.",
        "",
        f"| model | kind | parameters | steps | minutes | {' | '.join(tasks)} | made again by |",
        f"|---|---|---|---|---|{'---|' * len(tasks)}---|",
    ]
    for card in cards:
        marks = " | ".join(f"{card['held_out_exact_match'][task]:.1%}" for task in tasks)
        lines.append(f"| {card['name']} | {card['kind']} | {card['parameters']:,} | {card['steps']} | {card['minutes']} | {marks} | `{card['command']}` |")
    (models / "README.md").write_text("\n".join(lines) + "\n")
