"""Makes early exits of a model speak: python -m engines.training exit-adapters MODEL, or exit-maps MODEL

The model is frozen. It answers prompts of the training split at temperature 1; the streams behind its layers are cached
(`core/text_cache.py`). exit-maps: a ridge regression from the stream behind every exit to the last state, which needs
no gradient. exit-adapters: one layer of attention without a feed-forward part (arXiv 2404.18911), begun from that
regression, learns by soft cross-entropy what the whole model says at the same place, all exits on the same texts.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from tqdm import tqdm

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.files import smollm2, stored
from engines.models.loading.zoo import load_model
from engines.models.networks.exit_adapter import ExitAdapter
from engines.models.networks.exits import scaled
from engines.models.parts import folder_of
from engines.training.core import text_cache
from engines.training.core.coding import coded, convert
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.head import HeadTraining
from engines.training.core.loop import Loss, Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part, prompts_of
from engines.training.core.text_cache import Answer, Teacher, Text, TextCache, soft_cross_entropy
from engines.training.heads.accept_head import answer, chats

ADAPTERS, MAPS = "exit-adapters", "exit-maps"
LARGE, DRAFT_VOCABULARY, RIDGE_ROWS = 16_384, 8192, 50_000
PER_SHARD, EVERY = 40, 9  # answers of a shard; one prompt of so many is held out
DEFAULTS = {"prompts": 400, "length": 72, "epochs": 4, "minutes": 8.0, "seed": 0}
OF_SMOLLM2 = {ADAPTERS: (2, 6, 22, 26), MAPS: (8, 15, 20, 24, 26)}
LARGEST = {ADAPTERS: 7_000_000, MAPS: 2_000_000}  # bytes of a part; a larger one is stored in int8 by row
WIDTH = 8  # guesses that an exit is given


class Exits(nn.ModuleDict):
    """An adapter for each exit, by its number as text."""

    def __init__(self, exits: tuple[int, ...], d: int) -> None:
        super().__init__({str(i): ExitAdapter(d) for i in exits})


class ExitTraining(HeadTraining):
    """All exits on the same texts; the teacher's logits of a text are computed once."""

    shift = 0
    learning_rate = 5e-4

    def __init__(self, name: str, exits: Exits, cache: TextCache, teacher: Teacher, seed: int) -> None:
        self.layers = tuple(int(i) for i in exits)
        super().__init__(name, exits, cache, teacher, seed)

    def start(self) -> None:
        """The linear path of every exit by ridge regression."""
        for i, R in ridge_maps(self.cache, self.layers, self.seed).items():
            self.network[str(i)].R.data.copy_(R)  # type: ignore[index]

    def said(self, text: Text) -> tuple[Tensor, dict[int, Tensor]]:
        """The teacher's logits [m, v] and each exit's, on the rows that take the loss."""
        rows = torch.tensor(text.rows(0), dtype=torch.long)
        wanted = self.teacher.logits(text.hidden[self.last][rows])
        adapters = self.network.items()  # type: ignore[operator]
        return wanted, {int(i): self.teacher.logits(a(text.hidden[int(i)].float())[rows]) for i, a in adapters}

    def loss(self, batch: list[Text]) -> Loss:
        """The sum over the exits, each the mean over its rows."""
        found = [self.said(text) for text in batch]
        wanted = torch.cat([one for one, _ in found])
        losses = [soft_cross_entropy(torch.cat([said[i] for _, said in found]), wanted) for i in self.layers]
        return Loss(torch.stack(losses).sum(), sum(len(text.tokens) for text in batch), len(wanted))

    @torch.inference_mode()
    def marks(self) -> dict[str, float]:
        """Share of held-out rows where an exit's first choice is the model's, by exit."""
        hits, n = dict.fromkeys(self.layers, 0), 0
        for text in self.cache.texts(self._read, held_out=True):
            wanted, said = self.said(text)
            n += len(wanted)
            for i, z in said.items():
                hits[i] += int((z.argmax(-1) == wanted.argmax(-1)).sum())
        return {str(i): round(found / n, 4) for i, found in hits.items()}


def ridge_maps(cache: TextCache, exits: tuple[int, ...], seed: int, share: float = 0.01) -> dict[int, Tensor]:
    """R [d, d] of each exit with last state ~ R scaled(h), from the answer rows of the training texts; the penalty is
    `share` of the mean diagonal."""
    last, rows = max(cache.layers), 0
    grams: dict[int, Tensor] = {}
    crossed: dict[int, Tensor] = {}
    for text in cache.texts((*exits, last), seed=seed):
        at = torch.tensor(text.rows(0), dtype=torch.long)
        y = text.hidden[last][at].float()
        for i in exits:
            x = scaled(text.hidden[i][at])
            grams[i], crossed[i] = grams.get(i, 0) + x.T @ x, crossed.get(i, 0) + x.T @ y
        rows += len(at)
        if rows >= RIDGE_ROWS:
            break
    eye = torch.eye(len(grams[exits[0]]))
    return {i: torch.linalg.solve(A + share * A.diagonal().mean() * eye, crossed[i]).T for i, A in grams.items()}


@torch.inference_mode()
def agreement(cache: TextCache, teacher: Teacher, maps: dict[int, Tensor]) -> dict[str, float]:
    """Share of held-out rows where a mapped exit's first choice is the model's, by exit."""
    last, hits, n = max(cache.layers), dict.fromkeys(maps, 0), 0
    for text in cache.texts((*maps, last), held_out=True):
        at = torch.tensor(text.rows(0), dtype=torch.long)
        wanted = teacher.logits(text.hidden[last][at]).argmax(-1)
        n += len(at)
        for i, R in maps.items():
            hits[i] += int((teacher.logits(scaled(text.hidden[i][at]) @ R.T).argmax(-1) == wanted).sum())
    return {str(i): round(found / n, 4) for i, found in hits.items()}


@torch.inference_mode()
def guesses(cache: TextCache, model: Any, maps: dict[int, Tensor]) -> dict[str, dict[str, dict[str, float]]]:
    """On held-out rows, of the WIDTH likeliest tokens of every exit, with its map and as the model has it (`raw`): how
    often the model's first choice is among them, and the model's probability of all of them together (omega of
    arXiv 2510.13161)."""
    teacher, last = Teacher(model.model.get_output_embeddings().weight.float()), max(cache.layers)
    found = {kind: {i: torch.zeros(2, dtype=torch.float64) for i in maps} for kind in ("mapped", "raw")}
    n = 0
    for text in cache.texts((*maps, last), held_out=True):
        at = torch.tensor(text.rows(0), dtype=torch.long)
        q = teacher.logits(text.hidden[last][at]).softmax(-1)
        n += len(at)
        for i, R in maps.items():
            h = text.hidden[i][at].float()
            for kind, x in (("mapped", scaled(h) @ R.T), ("raw", model.normed(h))):
                top = teacher.logits(x).topk(WIDTH).indices
                hit = (top == q.argmax(-1, keepdim=True)).any(-1).sum()
                found[kind][i] += torch.stack([hit.double(), q.gather(1, top).sum().double()])
    names = (f"first_choice_in_top_{WIDTH}", f"omega_{WIDTH}")
    return {
        name: {kind: {str(i): round(float(x[k]) / n, 4) for i, x in one.items()} for kind, one in found.items()}
        for k, name in enumerate(names)
    }


def answers(model: Any, prompts: int, length: int, seed: int) -> Iterator[list[Answer]]:
    """What the model writes for prompts of the training split, PER_SHARD at a time."""
    if model.record.name == smollm2.NAME:
        asked, said = chats(prompts, length, seed)
        pairs = iter(zip(asked, said, strict=True))
    else:
        rng = Generator().manual_seed(seed)
        told = tqdm(islice(prompts_of(seed), prompts), desc="answers", total=prompts)
        encoded = ((text, model.tokenizer.encode_prompt(text)) for text in told)
        pairs = ((t, answer(model, x, min(length, model.max_positions - len(x)), rng)) for t, x in encoded)
    numbered = enumerate(pairs)
    while some := list(islice(numbered, PER_SHARD)):
        encode = model.tokenizer.encode_prompt
        yield [Answer(list(encode(t)), list(x), n % EVERY == 0, {"prompt": t}) for n, (t, x) in some]


def cache_of(model: Any, given: dict[str, Any], folder: Path | None) -> TextCache:
    """The cached answers of a model with the streams behind its exits, made when they are first needed."""
    folder = folder or text_cache.folder_of(f"{model.record.name}-exits")
    layers = sorted({*exits_of(ADAPTERS, model), *exits_of(MAPS, model), model.num_layers})
    if not text_cache.shards(folder):
        made = answers(model, given["prompts"], given["length"], given["seed"])
        text_cache.fill(folder, model, layers, made, lambda: True)
    cache = TextCache(folder)
    if cache.sha256 != model.record.sha256:
        raise UserError(f"{folder} was made with other weights than {model.record.name} has; remove it.")
    return cache


def told_of(given: dict[str, Any], folder: Path | None, cache: TextCache) -> str:
    """Which answers those are: written for this, or those of a text cache that was named."""
    if folder is None:
        return f"at temperature 1, of up to {given['length']} tokens"
    return f"(a text cache with the streams behind layers {', '.join(map(str, cache.layers))})"


def exits_of(name: str, model: Any) -> tuple[int, ...]:
    """The exits that are made: all of a small model, the card's of SmolLM2."""
    return OF_SMOLLM2[name] if model.num_layers == 30 else tuple(range(1, model.num_layers))


def make(
    name: str, model: Any, given: dict[str, Any], folder: Path | None, out: Path, command: str, resume: bool
) -> Path:
    """Train or fit the part, mark it on held-out prompts and write it into `out`. Returns it."""
    cache, began = cache_of(model, given, folder), time.monotonic()
    head, exits = model.model.get_output_embeddings().weight, exits_of(name, model)
    ids = cache.frequent(DRAFT_VOCABULARY, model.vocab_size, model.eos_ids) if model.vocab_size > LARGE else None
    teacher = Teacher(head.float(), ids)
    maps = ridge_maps(cache, exits, given["seed"])
    held_out: dict[str, Any] = {"same_first_token_ridge_alone": agreement(cache, teacher, maps)}
    told: dict[str, Any] = {}
    if name == ADAPTERS:
        training = ExitTraining(out.name, Exits(exits, head.shape[1]), cache, teacher, given["seed"])
        training.command, file = command, checkpoint_file(out.name)
        training.start()
        if resume and file.is_file():
            restore(training, file)
        per_epoch = training.per_epoch // training.texts_per_step
        run(training, Until(given["epochs"] * per_epoch, given["minutes"]), checkpoint=file)
        state = {n: t.detach().bfloat16() for n, t in training.network.named_parameters()}
        told = {"steps": training.progress.step, "tokens": training.progress.tokens}
        file.unlink(missing_ok=True)
    else:
        state = {f"{i}.R": R.bfloat16().contiguous() for i, R in maps.items()}
    parameters = sum(t.numel() for t in state.values())
    card = {
        "name": out.name,
        "kind": name.replace("-", " "),
        "bases": {"target": model.record.sha256},
        "data": f"{cache.count()} answers of {model.record.name} {told_of(given, folder, cache)}",
        "seed": given["seed"],
        "exits": list(exits),
        "parameters": parameters,
        **told,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "machine": trained_on("cpu"),
        "draft_vocabulary": None if ids is None else len(ids),
        "held_out": {"texts": cache.count(held_out=True), **held_out},
        "licence": "Apache-2.0 (trained here, on what the model wrote)",
        "command": command,
    }
    how = "int8" if 2 * parameters > LARGEST[name] else "plain"
    kept = {n: t.float() for n, t in stored.decoded(coded(state, how)).items()}
    if name == ADAPTERS:
        training.network.load_state_dict(kept)
        held_out["same_first_token"] = training.marks()
    else:
        maps = {i: kept[f"{i}.R"] for i in exits}
        held_out |= {"same_first_token": agreement(cache, teacher, maps), **guesses(cache, model, maps)}
    print(held_out, flush=True)
    card["held_out"] |= held_out
    install_part(out, state | ({} if ids is None else {"vocabulary": ids.int()}), card)
    return out if how == "plain" else convert(out, how)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="a causal model by name, as tiny-ar-l or smollm2")
    parser.add_argument("--cache", type=Path, help="the folder of the cached answers, instead of the usual one")
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default {value:g}")
    usual(parser, "out", "resume")


def _run(name: str, a: Namespace) -> None:
    """Check what was asked, load the model and make the part."""
    given = {key: getattr(a, key) for key in DEFAULTS}
    if a.epochs < 1 or a.minutes <= 0 or a.prompts < EVERY:
        raise UserError(
            f"--epochs {a.epochs} --minutes {a.minutes:g} --prompts {a.prompts} trains nothing; give at least 1 epoch, "
            f"a time above 0 and {EVERY} prompts."
        )
    model: Any = load_model(a.model, kind="layered", dtype="float32")
    command = f"{PROGRAM} {name} {model.record.name}{flags((k, v, DEFAULTS[k]) for k, v in given.items())}"
    command += " --cache FOLDER" if a.cache else ""
    print(make(name, model, given, a.cache, a.out or folder_of(name, a.model), command, a.resume))


def commands() -> dict[str, Command]:
    """Adapters and maps for the early exits of any layered model."""
    text = str(__doc__)
    return {
        ADAPTERS: Command("MODEL's early exits that draft (attention)", text, _options, partial(_run, ADAPTERS)),
        MAPS: Command("MODEL's early exits that draft (linear)", text, _options, partial(_run, MAPS)),
    }
