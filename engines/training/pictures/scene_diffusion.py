"""The second stage of a model that sees: `tiny-vlm-dimple`, the weights of tiny-vlm trained on by masked diffusion, as
Dimple's after its autoregressive stage (arXiv 2505.16990; yu-rp/Dimple).

The causal mask is gone, the rows stay shifted: row i still says what stands at i + 1. An answer lies on 48 places and
is filled up with end marks; of each a share drawn between 0 and 1 is masked and learnt, weighted by one over the share.

Departs from the paper in size, and in that no twin was trained by diffusion from the start."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from engines.models.loading.zoo import load_model
from engines.models.networks.scene_text import EOS, MASK, SceneTextForCausalLM
from engines.tasks.grid_scenes import Scene, right, scenes
from engines.tasks.pictures import ASKED
from engines.training.core.card import read_card, spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.loop import Loss
from engines.training.core.weights import replaced, write_network
from engines.training.pictures.command import trains
from engines.training.pictures.grid_scenes import (
    BATCH,
    IDS,
    Captions,
    answer_of,
    ids_of,
    one_cycle,
    pixels_of,
    seen,
    text_of,
)
from engines.training.tiny.tokenizer import FOLDER

NAME, BASE = "tiny-vlm-dimple", "tiny-vlm"
TITLE = "Tiny model that sees, trained on by masked diffusion (second stage of tiny-vlm)"
NOTE = "fills in what a small picture shows, on 48 places; asked with a scene such as scene 12 or answer: scene 12"
STEPS, RATE, CANVAS, LEAST = 900, 2e-3, 48, 0.02


def canvas_of(answer: str) -> list[int]:
    """An answer on its places, end marks behind it."""
    ids = ids_of(answer)
    return ids + [EOS] * (CANVAS - len(ids))


class Diffusion(Captions):
    """Masked places of the answers."""

    def __init__(self, base: SceneTextForCausalLM, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        self.name, self.settings = NAME, repr((NAME, BATCH, RATE, seed, steps))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        self.network.load_state_dict(base.state_dict())
        for key, value in (("is_causal", False), ("mask_token_id", MASK), ("shift_logits", True)):
            setattr(self.network.config, key, value)

    def batch(self, share: float) -> Any:
        """(pictures, ids [B, 1 + CANVAS] with masks, what they are, the share masked of each row [B])."""
        rng = random.Random(f"{NAME}/{self.seed}/{self.progress.step}")
        some = list(islice(scenes("train", seed=rng.getrandbits(40)), BATCH))
        how = rng.choices(ASKED, (0.5, 0.2, 0.3), k=BATCH)
        pixels = pixels_of(some, [f"{NAME}/{self.seed}/{self.progress.step}/{i}" for i in range(BATCH)])
        rows = [[IDS[a], *canvas_of(answer_of(scene, a, rng))] for scene, a in zip(some, how, strict=True)]
        true, t = torch.tensor(rows), torch.tensor([LEAST + (1 - LEAST) * rng.random() for _ in some])
        chance = torch.tensor([[rng.random() for _ in range(CANVAS)] for _ in some])
        hidden = torch.nn.functional.pad(chance < t[:, None], (1, 0))
        return pixels, true.masked_fill(hidden, MASK), true, t

    def loss(self, batch: Any) -> Loss:
        """Cross-entropy in nats at the masked places, over the share masked."""
        pixels, ids, true, t = batch
        x = torch.cat([seen(self.network, pixels), self.network.model.embed_tokens(ids)], 1)
        h = self.network.model(inputs_embeds=x, use_cache=False).last_hidden_state[:, -ids.shape[1] : -1]
        hidden = ids[:, 1:] == MASK
        losses = cross_entropy(self.network.lm_head(h[hidden]), true[:, 1:][hidden], reduction="none")
        weights = (1 / t)[:, None].expand_as(hidden)[hidden]
        value = (losses * weights).sum() / (len(ids) * CANVAS)
        return Loss(value, x.shape[0] * x.shape[1], int(hidden.sum()), {"loss": value.item()})

    def rate(self, share: float) -> float:
        """One cycle, by the steps."""
        return one_cycle(RATE, self.progress.step / self.steps)


@torch.no_grad()
def filled(network: SceneTextForCausalLM, pixels: Tensor, asked: str) -> list[str]:
    """What it fills in for pictures, one place per forward, the surest first."""
    ids = torch.full((len(pixels), 1 + CANVAS), MASK)
    ids[:, 0] = IDS[asked]
    picture = seen(network, pixels)
    for _ in range(CANVAS):
        x = torch.cat([picture, network.model.embed_tokens(ids)], 1)
        z = network(inputs_embeds=x, use_cache=False, logits_to_keep=1 + CANVAS).logits[:, :-1]
        z[..., MASK] = -torch.inf
        p, best = z.softmax(-1).max(-1)
        at = p.masked_fill(ids[:, 1:] != MASK, -1).argmax(-1)
        ids[range(len(ids)), 1 + at] = best[range(len(ids)), at]
    return [text_of(row) for row in ids[:, 1:].tolist()]


def marks(network: SceneTextForCausalLM, count: int = 32) -> dict[str, Any]:
    """On held-out scenes: the share of objects named with size, colour, shape and place, one place per forward."""
    network.eval()
    some: list[Scene] = list(islice(scenes("held-out", seed=3), count))
    pixels, objects = pixels_of(some, [""] * count), sum(map(len, some))
    found = {}
    for asked in ASKED[:2]:
        hits = sum(right(scene, text) for scene, text in zip(some, filled(network, pixels, asked), strict=True))
        found[asked] = {"scenes": count, "objects": objects, "objects_right": round(hits / objects, 4)}
    return found


def install(training: Diffusion, out: Path | None) -> Path:
    """Weights in bfloat16, config and card into `out` (assets/models/tiny-vlm-dimple)."""
    progress, network, folder = training.progress, training.network, out or FOLDER.parent / NAME
    base = read_card(FOLDER.parent / BASE)
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network.to(torch.bfloat16), "lossless")
        (partial_folder / "generation_config.json").unlink(missing_ok=True)
        network = network.float()
        facts = {
            "name": NAME,
            "title": TITLE,
            "kind": "masked",
            "note": NOTE,
            "data": "as tiny-vlm, with captions and forms on 48 places",
            "stages": [{key: base[key] for key in ("name", "steps", "command", "sha256") if key in base}],
            "seed": training.seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here, on pictures drawn here)",
            "command": training.command,
            "parameters": sum(p.numel() for p in network.parameters()),
            "tasks": ["scene"],
            "held_out": marks(network),
        }
        write_card(partial_folder, facts)
    print(json.dumps(facts["held_out"]), flush=True)
    return folder


def _begun(seed: int, steps: int) -> Diffusion:
    base: Any = load_model(BASE, dtype="float32")
    return Diffusion(base.model, seed, steps)


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return trains(NAME, TITLE, str(__doc__), STEPS, _begun, install)
