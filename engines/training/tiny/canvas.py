"""A small model of canvases without masks, in transformers' own class: `python -m engines.training tiny-canvas`.

It is DiffusionGemma's network at 1.3 M weights, without the vision tower and with one expert that every token takes.
The encoder reads a prompt causally; the decoder reads a canvas of 32 tokens of which each survived with probability α
and else was drawn uniformly from the whole vocabulary, and says what every one of them was (behind the end mark:
padding). α is uniform in 0 ... 1, and 0 for a quarter of the rows, since every canvas begins there. Half of the steps
first look at the canvas without conditions and feed the logits that come of it, sharpened by a random temperature as
the sampler sharpens them (self-conditioning, Chen et al., arXiv:2208.04202).

Tasks: copy and reverse of two to four names, sort of two to five, sums of two or three digits with the columns said
aloud, which all have one answer; and shuffle of three or four names, which has many, so that positions that are drawn
at once can contradict each other. What does not fit into a canvas is cut off, as of many sums of three digits the end.
Rows of a batch have prompts of one length, so that no row needs a mask. Every batch is made from its step's number."""

from __future__ import annotations

import copy
import random
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

from engines.core.kinds import Model
from engines.core.trace import ModelRecord
from engines.driver.run import Run
from engines.methods.diffusion import entropy_bound
from engines.models.adapters.canvas import HFCanvasLM
from engines.models.loading.loader import load_folder
from engines.models.tokenizers.tokens import HFTokenizer
from engines.tasks import TASKS, Example, Split, check
from engines.tasks.rows import answer_text, prompt_text
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.optimizer import Optimizer, cosine
from engines.training.core.weights import replaced, write_network
from engines.training.tiny.tokenizer import FOLDER, give_tokenizer, load_tokenizer

NAME = "tiny-canvas"
CANVAS, POSITIONS = 32, 256
STEPS, ROWS, RATE, RISE = 9000, 64, 2e-3, 100
SIZES = {"copy": (2, 3, 4), "reverse": (2, 3, 4), "sort": (2, 3, 4, 5), "add": (2, 3), "shuffle": (3, 4)}
SHARES = {"copy": 0.5, "reverse": 1.0, "sort": 2.5, "add": 3.5, "shuffle": 1.5}
GOALS = {"copy": 0.9, "reverse": 0.9, "sort": 0.7, "add": 0.6}  # held-out exact, of the sizes in MARKED_SIZES
MARKED_SIZES = {**SIZES, "sort": (2, 3, 4), "add": (2,)}
HARDEST = {"sort": (5,), "add": (3,)}
PURE, CONDITIONED = 0.25, 0.5  # rows of pure noise; steps with self-conditioning
SHARPEST = 0.4  # the lowest temperature of what conditions
PAD_WEIGHT = 0.1  # of a place of padding in the loss: there are many, and they are easy
MARK_EVERY, MARKED = 1000, 12  # steps; validation prompts of each task
HELD_OUT = 100  # prompts of each task on the card
DECODED = {"max_new_tokens": CANVAS, "max_denoising_steps": 16}
TEXT = {  # of the config
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "global_head_dim": 32,
    "num_global_key_value_heads": 4,
    "num_experts": 1,
    "top_k_experts": 1,
    "moe_intermediate_size": 32,
    "sliding_window": 64,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"],
    "max_position_embeddings": POSITIONS,
}
NO_VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 0,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "patch_size": 1,
    "position_embedding_size": 1,
}


class Noisy(NamedTuple):
    """Rows of a batch: prompts [R, m], canvases as they were [R, 32] and as they are read, and whether the step is
    conditioned, with the temperature of what conditions it."""

    prompts: Tensor
    clean: Tensor
    read: Tensor
    conditioned: bool
    temperature: float


def build(vocabulary: int, eos_id: int, pad_id: int) -> DiffusionGemmaForBlockDiffusion:
    """The network without weights that were learnt. Queries begin as short as scaled attention would have them: the
    class scales by 1."""
    special = {"vocab_size": vocabulary, "eos_token_id": eos_id, "pad_token_id": pad_id, "bos_token_id": None}
    ids = {"boi_token_id": None, "eoi_token_id": None, "image_token_id": None, "eos_token_id": eos_id}
    config = DiffusionGemmaConfig(text_config={**TEXT, **special}, vision_config=NO_VISION, canvas_length=CANVAS, **ids)
    network = DiffusionGemmaForBlockDiffusion(config)
    network.model.encoder.vision_tower = network.model.encoder.embed_vision = None
    with torch.no_grad():
        for layer in network.model.decoder.layers:  # the encoder's are tied to these
            layer.self_attn.q_norm.weight.fill_(TEXT["head_dim"] ** -0.5)
    return network


@lru_cache(maxsize=2)
def encoded(seed: int, pool: int, size: int = 2048) -> list[tuple[tuple[int, ...], list[int]]]:
    """(ids of a prompt, its canvas) of a pool of training examples in the shares of the tasks."""
    rng, tokenizer = random.Random(f"{NAME}/{seed}/{pool}"), load_tokenizer()
    streams = {(task, n): TASKS[task].generate("train", rng.getrandbits(48), n) for task in SIZES for n in SIZES[task]}
    tasks = rng.choices(list(SHARES), list(SHARES.values()), k=size)
    examples = [next(streams[task, rng.choice(SIZES[task])]) for task in tasks]
    prompts = tokenizer([prompt_text(one.prompt) for one in examples])["input_ids"]
    answers = [ids[:CANVAS] for ids in tokenizer([answer_text(one.answer) for one in examples])["input_ids"]]
    pad = tokenizer.pad_token_id
    return [
        (tuple(prompt), answer + [pad] * (CANVAS - len(answer)))
        for prompt, answer in zip(prompts, answers, strict=True)
    ]


def batch_of(seed: int, step: int) -> Noisy:
    """The rows of a step: those of a pool that have prompts as long as that of one drawn from it, with their noise."""
    rng = random.Random(f"{NAME}/{seed}/step {step}")
    pool = encoded(seed, step // 16)
    length = len(rng.choice(pool)[0])
    rows = rng.choices([row for row in pool if len(row[0]) == length], k=ROWS)
    generator = torch.Generator().manual_seed(rng.getrandbits(48))
    clean = torch.tensor([canvas for _, canvas in rows])
    survive = torch.rand(ROWS, 1, generator=generator)
    survive[torch.rand(ROWS, 1, generator=generator) < PURE] = 0.0
    noise = torch.randint(len(load_tokenizer()), clean.shape, generator=generator)
    read = torch.where(torch.rand(clean.shape, generator=generator) < survive, clean, noise)
    temperature = SHARPEST + (1 - SHARPEST) * rng.random()
    return Noisy(torch.tensor([prompt for prompt, _ in rows]), clean, read, rng.random() < CONDITIONED, temperature)


def logits_of(network: DiffusionGemmaForBlockDiffusion, batch: Noisy) -> Tensor:
    """Logits [R, 32, V] of a batch, conditioned on a first look where the step is."""
    cache = network.model.encoder(input_ids=batch.prompts).past_key_values
    conditioning = None
    if batch.conditioned:
        with torch.no_grad():
            first = network(decoder_input_ids=batch.read, past_key_values=cache).logits
        conditioning = first / batch.temperature
    logits: Tensor = network(
        decoder_input_ids=batch.read, past_key_values=cache, self_conditioning_logits=conditioning
    ).logits
    return logits


def loss_of(logits: Tensor, clean: Tensor, pad: int) -> Tensor:
    """Mean cross-entropy, in nats, over the canvases, where padding weighs a tenth."""
    weight = torch.where(clean == pad, PAD_WEIGHT, 1.0)
    each = F.cross_entropy(logits.flatten(0, 1), clean.flatten(), reduction="none")
    return (each * weight.flatten()).sum() / weight.sum()


class CanvasTraining(Training):
    """The steps."""

    name = NAME

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.seed, self.steps = seed, steps
        self.settings = repr((seed, steps, ROWS, RATE, RISE, SIZES, SHARES, TEXT, PURE, CONDITIONED, PAD_WEIGHT))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        torch.manual_seed(seed)
        tokenizer = load_tokenizer()
        self.pad = tokenizer.pad_token_id
        self.network: DiffusionGemmaForBlockDiffusion = build(len(tokenizer), tokenizer.eos_token_id, self.pad)
        self.optimizer = Optimizer(self.network, RATE, stacked=True)
        self.curve: list[dict[str, float]] = []

    def batch(self, share: float) -> Noisy:
        """Made from the step's number."""
        return batch_of(self.seed, self.progress.step)

    def loss(self, batch: Noisy) -> Loss:
        """See `loss_of`; tokens are those of prompts and canvases."""
        value = loss_of(logits_of(self.network, batch), batch.clean, self.pad)
        return Loss(value, batch.prompts.numel() + batch.clean.numel(), int((batch.clean != self.pad).sum()))

    def rate(self, share: float) -> float:
        """A rise, then half a cosine."""
        return cosine(RATE, self.progress.step, RISE, share)

    def context(self) -> AbstractContextManager[None]:
        """float32, plain attention."""
        return attention("cpu")

    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Exact match on validation prompts now and then."""
        step = self.progress.step
        if step % MARK_EVERY:
            return
        model = as_model(self.network)
        marks = {task: round(exact(model, task, MARKED, "validation"), 3) for task in SIZES}
        self.curve.append({"step": step, "loss": round(shown, 4), **marks})
        tqdm.write(f"{NAME} step {step}, {self.progress.seconds / 60:.1f} min, {self.curve[-1]}")

    def state(self) -> dict[str, Any]:
        """The curve so far."""
        return {"curve": self.curve}

    def load(self, state: dict[str, Any]) -> None:
        """Go on with the curve of a checkpoint."""
        self.curve = state["curve"]


def asked(task: str, n: int, split: Split, sizes: tuple[int, ...] = ()) -> list[Example]:
    """n different prompts of a split, in turn of each size that has any, as far as there are so many. sizes: those of
    MARKED_SIZES if none is given."""
    streams = [_different(TASKS[task].generate(split, 1, size), n) for size in sizes or MARKED_SIZES[task]]
    found = [one for several in zip(*streams, strict=False) for one in several]
    return found[:n]


def _different(examples: Iterator[Example], n: int) -> list[Example]:
    """The first n different ones among 20 n examples; short lists repeat."""
    return list({one.prompt: one for one in islice(examples, 20 * n)}.values())[:n]


def fits(example: Example) -> bool:
    """Whether the answer fits into a canvas; its end mark may stand outside."""
    return len(load_tokenizer()(answer_text(example.answer))["input_ids"]) - 1 <= CANVAS


def as_model(network: DiffusionGemmaForBlockDiffusion) -> Model:
    """A copy of the network as it is now, ready to run."""
    tokenizer = load_tokenizer()
    record, ends = ModelRecord("model", NAME, "canvas"), frozenset({tokenizer.eos_token_id})
    return HFCanvasLM(copy.deepcopy(network), HFTokenizer(tokenizer), record, ends)


def exact(model: Model, task: str, n: int, split: Split = "held-out", sizes: tuple[int, ...] = ()) -> float:
    """Share of prompts of a task that the entropy bound answers exactly; see `asked`."""
    examples = asked(task, n, split, sizes)
    return sum(check(one, answer(model, one.prompt)).correct for one in examples) / len(examples)


def answer(model: Model, prompt: str) -> str:
    """What the entropy bound writes, by its defaults in 16 steps."""
    steps = Run(entropy_bound.decode, {"model": model}, prompt, params=DECODED, detail="none")
    for _ in steps:
        pass
    return steps.end().text


def train(
    *,
    seed: int = 0,
    steps: int | None = None,
    minutes: float | None = None,
    resume: bool = False,
    out: Path | None = None,
) -> Path:
    """Train it and put weights, tokenizer, config and card into `out` (assets/models/tiny-canvas). minutes: an upper
    limit; the learning rate falls to match. Raises UserError for a checkpoint of other settings."""
    training = CanvasTraining(seed, steps or STEPS)
    if resume:
        restore(training, checkpoint_file(NAME))
    run(training, Until(training.steps, minutes), checkpoint=checkpoint_file(NAME))
    folder = out or FOLDER.parent / NAME
    with replaced(folder) as partial_folder:
        write_network(partial_folder, training.network.to(torch.bfloat16))
        give_tokenizer(partial_folder)
        model = load_folder(partial_folder, NAME, dtype="float32")  # what is marked is what is kept
        write_card(partial_folder, _facts(training, model, minutes))
    checkpoint_file(NAME).unlink(missing_ok=True)
    return folder


def _facts(training: CanvasTraining, model: Model, minutes: float | None) -> dict[str, Any]:
    """What the card says: how it was trained, and the share of held-out prompts answered exactly, beside the goals."""
    return {
        "name": NAME,
        "title": "Tiny canvas model (uniform noise that settles)",
        "kind": "canvas",
        "note": "copies, reverses and shuffles up to four names, sorts up to five, adds up to 999 + 999; nothing else",
        "data": "train split of engines/tasks (shares in engines/training/tiny/canvas.py)",
        "seed": training.seed,
        **spent(training.progress),
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": training.command + flags([("minutes", minutes, None)]),
        "parameters": model.record.parameters,
        "tasks": list(SIZES),
        "decoding": f"entropy bound, by its defaults in {DECODED['max_denoising_steps']} steps",
        "held_out_prompts": {task: len(asked(task, HELD_OUT, "held-out")) for task in SIZES},
        "held_out_exact_match": {task: round(exact(model, task, HELD_OUT), 4) for task in SIZES},
        "held_out_sizes": MARKED_SIZES,
        "goals": GOALS,
        "held_out_exact_match_of_the_hardest": {
            task: {
                "sizes": sizes,
                "fit_into_a_canvas": sum(map(fits, asked(task, HELD_OUT, "held-out", sizes))),
                "exact": round(exact(model, task, HELD_OUT, sizes=sizes), 4),
            }
            for task, sizes in HARDEST.items()
        },
        "curve": training.curve,
    }


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "minutes", "resume", "out")


def _run(a: Namespace) -> None:
    print(train(seed=a.seed, steps=a.steps, minutes=a.minutes, resume=a.resume, out=a.out))


def commands() -> dict[str, Command]:
    """The one."""
    return {NAME: Command("Tiny canvas model: uniform noise with self-conditioning", str(__doc__), _options, _run)}
