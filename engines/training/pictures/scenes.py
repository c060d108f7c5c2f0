"""What looks at a scene: `tiny-scenes`, a segmenter of words and a captioner (engines.models.networks.scene_eye), for
Context-STR. Both learn from the same drawn scenes in the same steps and share no weight.

The scenes are those of engines/tasks/scene_painters.py in colours, places and distortions by chance; nine words of ten
are of the scene's kind or look like one, the others of another kind. The captioner is told what is drawn and not the
word that is written there."""

from __future__ import annotations

import json
import random
from contextlib import AbstractContextManager
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from engines.models.networks.cppd import IGNORED
from engines.models.networks.scene_eye import SCALE, SPECIAL, SceneEye, build
from engines.tasks.scene_painters import HEIGHT, WIDTH
from engines.tasks.scenes import KINDS, SIDES, Scene, SceneLook, caption, drawn, word_for
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.loop import Loss, Training, attention
from engines.training.core.weights import replaced, write_weights
from engines.training.pictures.command import trains
from engines.training.tiny.tokenizer import FOLDER

NAME, TITLE = "tiny-scenes", "Tiny scenes (tells where words are and what is seen)"
NOTE = "looks at a drawn scene: where words are, and a caption of it; plays beside tiny-reader"
STEPS, BATCH, RATE, RISE = 600, 16, 2e-3, 0.08
HELD = 10**9  # chance numbers from here on are not trained on
ROTATION, BLUR, NOISE, CONTRAST = (-12.0, 12.0), (0.0, 1.5), (0.0, 0.1), (0.4, 1.0)


def vocabulary() -> list[str]:
    """The words of captions."""
    said = [caption(kind, colour, side) for kind, one in KINDS.items() for colour in one.colours for side in SIDES]
    return sorted(set(" ".join(said).split()))


CONFIG = {
    "model_type": "scene-eye",
    "words": vocabulary(),
    "longest": 16,
    "hidden_size": 96,
    "heads": 3,
    "channels": [16, 24, 32, 48],
}


def by_chance(number: int, kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[str, SceneLook]:
    """The word and the look of the scene with this number."""
    pick = random.Random(number)
    kind = pick.choice(kinds)
    low = {"blur": BLUR, "noise": NOISE}
    said = {name: pick.uniform(*span) * (pick.random() < 0.5) for name, span in low.items()}
    look = SceneLook(kind, pick.randrange(2**30), pick.uniform(*ROTATION), contrast=pick.uniform(*CONTRAST), **said)
    return word_for(kind, pick), look


def scene(number: int) -> tuple[str, Scene]:
    """The word and the scene with this number."""
    word, look = by_chance(number)
    generator = torch.Generator().manual_seed(number)
    noise = torch.randn(HEIGHT, WIDTH, 3, generator=generator).numpy() if look.noise else None
    return word, drawn(word, look, noise)


def labels(captions: list[str], words: list[str], longest: int) -> Tensor:
    """Ids [n, longest + 1] of captions, the end mark, then `IGNORED`."""
    rows = torch.full((len(captions), longest + 1), IGNORED)
    for row, said in zip(rows, captions, strict=True):
        ids = [SPECIAL + words.index(word) for word in said.split()]
        row[: len(ids) + 1] = torch.tensor([*ids, 0])
    return rows


def mask_loss(logits: Tensor, region: Tensor) -> Tensor:
    """Binary cross-entropy of pixels, and one less the soft overlap of the whole (Dice)."""
    p, each = logits.sigmoid(), F.binary_cross_entropy_with_logits(logits, region)
    overlap = (2 * (p * region).sum((1, 2)) + 1) / (p.sum((1, 2)) + region.sum((1, 2)) + 1)
    return each + 1 - overlap.mean()


class Looking(Training):
    """Both networks on the same scenes."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.name, self.settings = NAME, repr((CONFIG, KINDS, BATCH, RATE, seed, steps))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        torch.manual_seed(seed)
        self.network: SceneEye = build(CONFIG)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.01)
        self.steps, self.seed = steps, seed

    def batch(self, share: float) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures, regions as small as the segmenter tells them, labels. Made from the step's number, so that a
        training that goes on sees what it would have seen."""
        first = self.seed * 10_000_019 + self.progress.step * BATCH
        made = [scene(first + i)[1] for i in range(BATCH)]
        regions = torch.stack([torch.from_numpy(one.region.astype("float32")) for one in made])
        captions = [one.caption for one in made]
        pictures = torch.stack([torch.from_numpy(one.pixels.copy()) for one in made])
        return pictures, F.avg_pool2d(regions[:, None], SCALE)[:, 0], labels(captions, *self._words())

    def _words(self) -> tuple[list[str], int]:
        return self.network.words, self.network.longest

    def loss(self, batch: tuple[Tensor, Tensor, Tensor]) -> Loss:
        """Of the segmenter and of the captioner, added."""
        pictures, regions, wanted = batch
        x = self.network.scaled(pictures)
        mask = mask_loss(self.network.segmenter(x), regions)
        z = told(self.network, x, wanted)
        words = F.cross_entropy(z.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)
        facts = {"mask": mask.item(), "caption": words.item()}
        return Loss(mask + words, int((wanted != IGNORED).sum()), facts=facts)

    def rate(self, share: float) -> float:
        """A rise, then half a cosine down to nothing."""
        share = self.progress.step / self.steps
        return RATE * (share / RISE if share < RISE else 0.5 * (1 + cos(pi * min(1.0, (share - RISE) / (1 - RISE)))))

    def context(self) -> AbstractContextManager[None]:
        """float32: a network this small gains nothing from less."""
        return attention("cpu")


def told(network: SceneEye, x: Tensor, wanted: Tensor) -> Tensor:
    """Logits [B, n, C] of the captioner that is fed the right words."""
    eye = network.captioner
    begin = torch.full_like(wanted[:, :1], eye.writer.begin)
    fed = torch.cat([begin, wanted[:, :-1].masked_fill(wanted[:, :-1] == IGNORED, 0)], 1)
    seen = eye.features(x)
    z: Tensor = eye.writer(fed, eye.writer.nothing(seen), eye.writer.image(seen))[0]
    return z


@torch.no_grad()
def described(network: SceneEye, pictures: Tensor) -> list[str]:
    """Captions of pictures, uint8 [n, 128, 256, 3], the likeliest word each time."""
    x, writer = network.captioner.features(network.scaled(pictures)), network.captioner.writer
    fed, past, image = torch.full((len(x), 1), writer.begin), writer.nothing(x), writer.image(x)
    ids = fed[:, :0]
    for _ in range(network.longest + 1):
        z, past, _ = writer(fed, past, image)
        fed = z.argmax(-1)
        ids = torch.cat([ids, fed], 1)
    rows = [row[: row.index(0) if 0 in row else len(row)] for row in ids.tolist()]
    return [" ".join(network.words[i - SPECIAL] for i in row) for row in rows]


@torch.no_grad()
def marks(network: SceneEye, n: int = 300) -> dict[str, Any]:
    """On n scenes held out: how far the mask and the word's rectangle overlap (intersection over union), the share
    where it is half or more, and captions told wholly right."""
    network.eval()
    made = [scene(HELD + i)[1] for i in range(n)]
    overlaps, right = list[float](), 0
    for at in range(0, n, 50):
        some = made[at : at + 50]
        pictures = torch.stack([torch.from_numpy(one.pixels.copy()) for one in some])
        found = network.mask(network.segmenter(network.scaled(pictures))) > 0.5
        wanted = torch.stack([torch.from_numpy(one.region.copy()) for one in some])
        overlaps += ((found & wanted).sum((1, 2)) / (found | wanted).sum((1, 2)).clamp(min=1)).tolist()
        captions = described(network, pictures)
        right += sum(a == one.caption for a, one in zip(captions, some, strict=True))
    return {
        "held_out_scenes": {
            "number": n,
            "mask_overlap": round(sum(overlaps) / n, 3),
            "mask_overlap_half_or_more": round(sum(one >= 0.5 for one in overlaps) / n, 3),
            "captions_right": round(right / n, 3),
        }
    }


def install(training: Looking, out: Path | None) -> Path:
    """Weights in bfloat16, config and card into `out` (assets/models/tiny-scenes)."""
    network, progress, folder = training.network, training.progress, out or FOLDER.parent / NAME
    state = {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in network.state_dict().items()}
    with replaced(folder) as partial_folder:
        write_weights(partial_folder, {name: t for name, t in state.items() if t.dim()}, "lossless")
        (partial_folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
        network.load_state_dict(state)
        facts = {
            "name": NAME,
            "title": TITLE,
            "kind": "scene",
            "note": NOTE,
            "data": f"scenes of {len(KINDS)} kinds, drawn by engines/tasks/scenes.py with the fonts that ship",
            "seed": training.seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here)",
            "command": training.command,
            "parameters": sum(t.numel() for t in state.values() if t.dim()),
            "tasks": [],
            "companion_of": {"tiny-reader": "scene"},
            **marks(network),
        }
        write_card(partial_folder, facts)
    return folder


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return trains(NAME, TITLE, str(__doc__), STEPS, Looking, install)
