"""The shared text cache: a model's own answers with its hidden states at some layers and the tokens that it thought
most probable, in the user's cache folder. Every head learns from it, so that no head runs the large model again.

A folder holds cache.json (which weights and layers) and shards of a few answers each, `00000.safetensors` and on: ids
of prompt and answer in a row, `hidden.L` in bfloat16 for every layer L, and per token the 16 most probable next tokens.
Layer numbers are those of `extend`: L is the stream behind L layers, the model's depth the one behind the final norm,
which the output head reads. So the whole distribution of the teacher is there too, as `hidden[depth] @ E.T` (see
`Teacher`), in a hundredth of the room of the logits.
Shapes: n tokens of one text, N of a shard, S texts, d hidden size, v draft vocabulary."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from engines.core.errors import UserError
from engines.core.kinds import CausalLM
from engines.core.machine import computes_bfloat16
from engines.models.files.smollm2 import cache_folder
from engines.training.core.commands import PROGRAM

TOP = 16
NAME = "text-cache"
COMMAND = f"{PROGRAM} {NAME} --minutes 30"


@dataclass(frozen=True)
class Text:
    """A prompt with the model's answer. tokens [n]; the first `prompt` of them are the prompt's. hidden: [n, d] in
    bfloat16 by layer. Row i of top_ids and top_logprobs [n, 16] is what the model expects behind token i, at
    temperature 1. about: class, prompt, temperature."""

    tokens: Tensor
    prompt: int
    hidden: dict[int, Tensor]
    top_ids: Tensor
    top_logprobs: Tensor
    about: dict[str, Any]

    def rows(self, shift: int = 0) -> range:
        """The rows t for which token t + 1 + shift belongs to the answer."""
        return range(self.prompt - 1, max(self.prompt - 1, len(self.tokens) - 1 - shift))


@dataclass(frozen=True)
class Answer:
    """What is cached next: ids of prompt and answer, and what is told of it; `held_out` is never trained on."""

    prompt: list[int]
    answer: list[int]
    held_out: bool
    about: dict[str, Any]


@dataclass(frozen=True)
class Made:
    """What one call of `fill` added, and how large the cache is now. seconds: of processor time, of reading alone."""

    texts: int
    tokens: int
    seconds: float
    bytes_now: int


def folder_of(model: str) -> Path:
    """Where the cache of a model is."""
    return cache_folder().parent / NAME / model.rpartition("/")[2]


def shards(folder: Path) -> list[Path]:
    """The whole shards, in order."""
    return sorted(folder.glob("[0-9]*.safetensors"))


def size(folder: Path) -> int:
    """Bytes of the shards."""
    return sum(file.stat().st_size for file in shards(folder))


def begin(folder: Path, model: CausalLM, layers: Sequence[int]) -> None:
    """Open a cache for writing. Raises UserError for a layer that the model lacks, or a cache of other weights or
    layers."""
    if wrong := [layer for layer in layers if not 0 <= layer <= model.num_layers]:
        raise UserError(f"layer {wrong[0]} is out of range; {model.record.name} has layers 0 to {model.num_layers}.")
    wanted = {"model": model.record.name, "sha256": model.record.sha256, "layers": sorted(set(layers)), "top": TOP}
    file = folder / "cache.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(wanted, indent=1) + "\n")
    elif json.loads(file.read_text()) != wanted:
        raise UserError(
            f"the text cache {folder} was made with other weights or layers ({file.read_text().strip()}); give the "
            "same layers, or remove the folder."
        )


def fill(
    folder: Path,
    model: CausalLM,
    layers: Sequence[int],
    groups: Iterable[Sequence[Answer]],
    more: Callable[[], bool],
) -> Made:
    """Cache the answers group by group, a shard each, as long as `more()` says so. A shard is written as a whole, so an
    interrupted call leaves those before it. Raises UserError as `begin`."""
    begin(folder, model, layers)
    texts = tokens = 0
    seconds, number = 0.0, len(shards(folder))
    for group in groups:
        began = time.process_time()
        shard = _shard(model, sorted(set(layers)), group)
        told = [answer.about | {"held_out": answer.held_out} for answer in group]
        partial = folder / ".partial"
        save_file(shard, partial, metadata={"texts": json.dumps(told)})
        partial.rename(folder / f"{number:05}.safetensors")
        seconds, number = seconds + time.process_time() - began, number + 1
        texts, tokens = texts + len(group), tokens + len(shard["tokens"])
        if not more():
            break
    return Made(texts, tokens, seconds, size(folder))


@torch.inference_mode()
def _shard(model: CausalLM, layers: Sequence[int], group: Sequence[Answer]) -> dict[str, Tensor]:
    columns: dict[str, list[Tensor]] = {}
    for answer in group:
        ids = [*answer.prompt, *answer.answer]
        out = model.extend(ids, model.new_cache(len(ids)), hidden=layers)
        top, top_ids = out.logits.topk(TOP)
        found = {
            "tokens": torch.tensor(ids, dtype=torch.int32),
            "lengths": torch.tensor([len(ids)], dtype=torch.int32),
            "prompts": torch.tensor([len(answer.prompt)], dtype=torch.int32),
            "top_ids": top_ids.int(),
            "top_logprobs": (top - out.logits.logsumexp(-1, keepdim=True)).half(),
            **{f"hidden.{layer}": out.hidden[layer].bfloat16() for layer in layers},
        }
        for key, value in found.items():
            columns.setdefault(key, []).append(value.cpu())
    return {key: torch.cat(parts) for key, parts in columns.items()}


class TextCache:
    """Reads a cache. Raises UserError, with the command that makes it, where there is none."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or folder_of("smollm2")
        self.files = shards(self.folder)
        if not self.files:
            raise UserError(f"there is no text cache at {self.folder}; make it: {COMMAND}")
        about = json.loads((self.folder / "cache.json").read_text())
        self.model, self.sha256, self.layers = about["model"], about["sha256"], tuple(about["layers"])

    def texts(
        self, layers: Sequence[int], *, held_out: bool = False, seed: int | None = None, skip: int = 0
    ) -> Iterator[Text]:
        """Every text once with its states at `layers`, those behind the first `skip`; with a seed the shards, and the
        texts in each, in an order of its own. Raises UserError for a layer that is not cached."""
        if missing := [layer for layer in layers if layer not in self.layers]:
            raise UserError(
                f"layer {missing[0]} is not in the text cache, which has {', '.join(map(str, self.layers))}; make one "
                f"with it: {COMMAND} --layers {' '.join(map(str, sorted({*self.layers, *layers})))}"
            )
        rng, files = random.Random(seed), list(self.files)
        if seed is not None:
            rng.shuffle(files)
        for file in files:
            with safe_open(file, "pt") as shard:
                told = json.loads(shard.metadata()["texts"])
                order = [i for i, one in enumerate(told) if one["held_out"] == held_out]
                if seed is not None:
                    rng.shuffle(order)
                wanted, skip = order[skip:], max(0, skip - len(order))
                yield from self._read(shard, told, wanted, layers) if wanted else ()

    def _read(self, shard: Any, told: list[dict[str, Any]], wanted: list[int], layers: Sequence[int]) -> Iterator[Text]:
        lengths, prompts = shard.get_tensor("lengths").tolist(), shard.get_tensor("prompts").tolist()
        keys = ["tokens", "top_ids", "top_logprobs", *(f"hidden.{layer}" for layer in layers)]
        columns = {key: shard.get_tensor(key).split(lengths) for key in keys}
        for i in wanted:
            hidden = {layer: columns[f"hidden.{layer}"][i] for layer in layers}
            top_ids, top = columns["top_ids"][i].long(), columns["top_logprobs"][i].float()
            yield Text(columns["tokens"][i].long(), prompts[i], hidden, top_ids, top, told[i])

    def endless(self, layers: Sequence[int], seed: int, start: tuple[int, int] = (0, 0)) -> Iterator[Text]:
        """The texts to learn from, epoch after epoch, from a place (epoch, number in it)."""
        epoch, skip = start
        while True:
            yield from self.texts(layers, seed=seed + epoch, skip=skip)
            epoch, skip = epoch + 1, 0

    def count(self, *, held_out: bool = False) -> int:
        """How many texts there are to learn from, or held out."""
        found = 0
        for file in self.files:
            with safe_open(file, "pt") as shard:
                found += sum(one["held_out"] == held_out for one in json.loads(shard.metadata()["texts"]))
        return found

    def frequent(self, v: int, vocabulary: int, always: Iterable[int] = ()) -> Tensor:
        """Ids [v] of the tokens that the answers have most often, in rising order, `always` among them: a draft
        vocabulary."""
        counts = torch.zeros(vocabulary)
        for text in self.texts(()):
            counts += torch.bincount(text.tokens[text.prompt :], minlength=vocabulary)
        counts[list(always)] = torch.inf
        return counts.argsort(descending=True, stable=True)[:v].sort().values


class Teacher:
    """The model's own distribution from its cached last states, over all tokens or a draft vocabulary: what every head
    learns from. weight [V, d]: of the output head; ids [v]: the draft vocabulary. The head's weights are rounded to
    bfloat16; products are made in it too where the processor has instructions for it."""

    def __init__(self, weight: Tensor, ids: Tensor | None = None) -> None:
        self.ids = torch.arange(len(weight)) if ids is None else ids
        self.type = torch.bfloat16 if computes_bfloat16() else torch.float32
        self.weight = weight.detach()[self.ids].bfloat16().to(self.type).contiguous()

    def logits(self, states: Tensor) -> Tensor:
        """States [m, d] on the scale of the last norm -> logits [m, v] in float32; gradients flow to the states."""
        return (states.to(self.type) @ self.weight.T).float()


def soft_cross_entropy(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean cross-entropy, in nats, of logits [m, v] with the distribution of the teacher's logits [m, v]."""
    return -(teacher.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
