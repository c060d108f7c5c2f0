"""Cuts a model into experts and trains their router: python -m engines.training domain-experts MODEL

Read-ME (arXiv 2410.19123) without tuning the experts. Masks need no training: over a few windows of each domain the
mean size of every feed-forward channel is taken, and the ranks by it are kept, so that the share of channels that an
expert keeps can be chosen later. The router, a causal transformer of one layer over the model's own frozen embedding,
learns from labels by the overlap of each token's own channels with the masks, as the published code makes them; its
texts hold several domains one behind the other, every other one in the chat form of the model.
"""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from engines.core.errors import UserError
from engines.core.kinds.layered import Taps
from engines.core.machine import trained_on
from engines.methods.routing.read_me.experts import channel_ranks, label, masks, permanent
from engines.models.loading.zoo import load_model
from engines.models.networks.pregate import ROUTER, PreGate
from engines.models.parts import folder_of
from engines.tasks.base import Split
from engines.tasks.domains import Texts, domains_of, tokens
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, checkpoint_file, restore, run
from engines.training.core.parts import install_part, recorded

NAME = "domain-experts"
WINDOW, PER_STEP = 192, 8
LABEL_KEEP, HARD, SMOOTH = 0.5, 0.75, 0.5  # of the published code
KEEPS = (0.95, 0.85, 0.7, 0.5)
DEFAULTS = {"tokens": 1024, "texts": 72, "steps": 400, "held": 512, "seed": 0}


@dataclass
class Told:
    """A text for the router: its tokens [n], and what it should say of each [n, E], the mean over the layers."""

    ids: Tensor
    target: Tensor


@torch.inference_mode()
def watched(model: Any, ids: Sequence[int]) -> list[Tensor]:
    """The sizes of the channels of every layer [n, F] as the model reads these tokens."""
    found: list[Tensor] = []
    taps = Taps(channels=lambda _layer, u: found.append(u.abs().float()))
    model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)
    return found


def activity(model: Any, texts: Texts, n: int, seed: int) -> Tensor:
    """The mean size of each channel [L, F] over n tokens of a domain."""
    windows = islice(tokens(model, texts, "train", seed, WINDOW), -(-n // WINDOW))
    sums = [torch.stack([layer.mean(0) for layer in watched(model, ids)]) for ids in windows]
    return torch.stack(sums).mean(0)


def mixed(model: Any, domains: Mapping[str, Texts], split: Split, seed: int, count: int) -> list[list[int]]:
    """Texts of one to three domains one behind the other, at most WINDOW tokens each, every other one as a chat."""
    rng = random.Random(f"{split} {seed}")
    streams = {name: tokens(model, texts, split, seed + 1, WINDOW // 3) for name, texts in domains.items()}
    made = list[list[int]]()
    for i in range(count):
        parts = [part for name in rng.choices(list(domains), k=3) for part in next(streams[name])]
        asked = model.tokenizer.encode_prompt(model.tokenizer.decode(parts)) if i % 2 else parts
        made.append(asked[:WINDOW])
    return made


def labelled(model: Any, mask: Tensor, texts: Sequence[list[int]]) -> list[Told]:
    """Targets of the published loss: of every layer 0.75 times the best expert, smoothed, and 0.25 times the shares."""
    found, E = list[Told](), len(mask)
    for ids in tqdm(texts, desc="labels"):
        target = torch.zeros(len(ids), E)
        for layer, own in enumerate(watched(model, ids)):
            soft = label(own, mask[:, layer])
            hard = torch.nn.functional.one_hot(soft.argmax(-1), E) * (1 - SMOOTH) + SMOOTH / E
            target += HARD * hard + (1 - HARD) * soft
        found.append(Told(torch.tensor(ids), target / model.num_layers))
    return found


class RouterTraining(Training):
    """Soft cross-entropy over all tokens of a batch of texts; the embedding is the model's and stays."""

    def __init__(self, name: str, model: Any, experts: int, texts: Sequence[Told], settings: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.name, self.model, self.texts, self.settings = name, model, texts, settings
        self.network = PreGate(model.config.hidden_size, experts)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3, weight_decay=0.01)

    def context(self) -> AbstractContextManager[None]:
        """In float32: the network is so small that rounding would cost more time than it saves."""
        return nullcontext()

    def batch(self, share: float) -> list[Told]:
        """Some of the texts, drawn by the step's own number, so that a resumed training sees the same."""
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-3 * max(0.02, 1 - share)
        return random.Random(self.progress.step).choices(self.texts, k=PER_STEP)

    def loss(self, batch: list[Told]) -> Loss:
        """The mean over the tokens."""
        losses = [-(one.target * self.network(self.model.embed(one.ids)).log_softmax(-1)).sum(-1) for one in batch]
        return Loss(torch.cat(losses).mean(), sum(len(one.ids) for one in batch))


@torch.inference_mode()
def agreement(model: Any, router: PreGate, texts: Sequence[Told]) -> dict[str, float]:
    """How often the router names the expert that the labels put first, and how often the expert that is first most
    often would be right; the share of tokens whose expert is that of the token before, by router and labels."""
    said = [router(model.embed(one.ids)).argmax(-1) for one in texts]
    wanted = [one.target.argmax(-1) for one in texts]
    best = torch.cat(wanted)
    same = {
        name: float(torch.cat([(x[1:] == x[:-1]) for x in all_]).float().mean())
        for name, all_ in (("router", said), ("labels", wanted))
    }
    return {
        "agreement": round(float((torch.cat(said) == best).float().mean()), 4),
        "most_common_alone": round(float(best.bincount().max() / len(best)), 4),
        "stays_by_router": round(same["router"], 4),
        "stays_by_labels": round(same["labels"], 4),
    }


@torch.inference_mode()
def loss_of(model: Any, windows: Sequence[Sequence[int]], mask: Tensor | None) -> float:
    """Nats per token of raw windows, with the channels of one mask [L, F] only, or all."""
    taps = None if mask is None else Taps(channels=lambda layer, u: u * mask[layer])
    total, n = 0.0, 0
    for ids in windows:
        h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)
        z = model.unembed(h[:-1])
        total += float(torch.nn.functional.cross_entropy(z, torch.tensor(ids[1:]), reduction="sum"))
        n += len(ids) - 1
    return total / n


def losses(model: Any, domains: Mapping[str, Texts], ranks: Tensor, held: int, seed: int) -> dict[str, Any]:
    """On held-out windows of every domain: the dense model, its own expert by share kept, and foreign experts at half
    the channels."""
    found: dict[str, Any] = {}
    for i, (name, texts) in enumerate(tqdm(domains.items(), desc="losses")):
        windows = list(islice(tokens(model, texts, "held-out", seed, 128), -(-held // 128)))
        own = {f"{keep:g}": round(loss_of(model, windows, masks(ranks, keep)[i]), 3) for keep in KEEPS}
        half = masks(ranks, 0.5)
        foreign = {
            other: round(loss_of(model, windows, half[j]), 3) for j, other in enumerate(domains) if other != name
        }
        found[name] = {"dense": round(loss_of(model, windows, None), 3), "own": own, "foreign_at_0.5": foreign}
        print(name, found[name], flush=True)
    return found


def make(model: Any, given: Mapping[str, Any], out: Path, command: str, resume: bool) -> Path:
    """Cut, label, train, measure, and write the part into `out`. Returns it."""
    domains, began = domains_of(model), time.monotonic()
    seed = given["seed"]
    ranks = channel_ranks(torch.stack([activity(model, texts, given["tokens"], seed) for texts in domains.values()]))
    half = masks(ranks, LABEL_KEEP)
    cut_minutes = (time.monotonic() - began) / 60
    settings = " ".join(f"{k}={given[k]}" for k in ("tokens", "texts", "seed"))
    texts, _ = recorded(
        out.name,
        settings,
        Told,
        lambda: labelled(model, half, mixed(model, domains, "train", seed, given["texts"])),
        resume,
    )
    held = labelled(model, half, mixed(model, domains, "held-out", seed, max(2, given["texts"] // 6)))
    training = RouterTraining(out.name, model, len(domains), texts, settings)
    training.command, file = command, checkpoint_file(out.name)
    if resume and file.is_file():
        restore(training, file)
    run(training, Until(given["steps"], None), checkpoint=file)
    router = training.network
    state = {ROUTER + n: t.detach().bfloat16().contiguous() for n, t in router.named_parameters()}
    router.load_state_dict({n.removeprefix(ROUTER): t.float() for n, t in state.items()})  # as it will be used
    card = {
        "name": out.name,
        "kind": "domain experts",
        "bases": {"target": model.record.sha256},
        "domains": list(domains),
        "data": f"{given['tokens']} tokens of each domain for the ranks, {len(texts)} texts of several domains, of up "
        f"to {WINDOW} tokens, for the router",
        "seed": seed,
        "parameters": sum(t.numel() for t in state.values()),
        "steps": training.progress.step,
        "tokens": training.progress.tokens,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "minutes_of_the_masks": round(cut_minutes, 2),
        "machine": trained_on("cpu"),
        "permanent_share": {
            f"{keep:g}": round(float(permanent(masks(ranks, keep)).float().mean()), 4) for keep in KEEPS
        },
        "held_out": {
            "texts": len(held),
            "router": agreement(model, router, held),
            "nats_per_token": losses(model, domains, ranks, given["held"], seed),
        },
        "licence": "Apache-2.0 (trained here; nothing of the texts is kept)",
        "command": command,
    }
    print(card["permanent_share"], card["held_out"], flush=True)
    install_part(out, state | {"ranks": ranks.short()}, card)
    file.unlink(missing_ok=True)
    return out


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="a causal model by name, as tiny-ar-m or smollm2")
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    usual(parser, "out", "resume")


def _run(a: Namespace) -> None:
    """Check what was asked, load the model and make the part."""
    given = {key: getattr(a, key) for key in DEFAULTS}
    if bad := next((key for key in ("tokens", "texts", "steps", "held") if given[key] < 2), None):
        raise UserError(f"--{bad} {given[bad]} is too little to cut a model by; give at least 2.")
    model: Any = load_model(a.model, kind="layered", dtype="float32")
    command = f"{PROGRAM} {NAME} {model.record.name}{flags((k, v, DEFAULTS[k]) for k, v in given.items())}"
    print(make(model, given, a.out or folder_of(NAME, a.model), command, a.resume))


def commands() -> dict[str, Command]:
    """Experts of any layered model."""
    return {NAME: Command("MODEL cut into experts by domain, with their router", str(__doc__), _options, _run)}
