"""Word images, read in one pass and letter by letter: `tiny-reader`, one encoder with CPPD's decoder and an
autoregressive one behind it (engines.models.networks.word_reader).

Both decoders learn from the same images in the same steps, and both losses reach the encoder. The words are those of
2 to 10 letters in Python's own documentation (pydoc_data.topics), an eighth of them held out by a hash; a quarter of
the images show letters drawn by chance, so that a reader reads what stands there and not the likeliest word."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engines.models.networks.cppd import IGNORED, character_loss, count_loss, place_loss, targets, text_of
from engines.models.networks.word_reader import WordReader, build
from engines.tasks.word_images import FONTS, HEIGHT, LETTERS, LONGEST, SIZES, WIDTH, Look, drawn, words
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.loop import Loss, Training, attention
from engines.training.core.weights import replaced, write_weights
from engines.training.pictures.command import trains
from engines.training.tiny.tokenizer import FOLDER

NAME, TITLE = "tiny-reader", "Tiny reader (reads the picture of a word)"
NOTE = "reads a word of 2 to 10 small letters that is drawn as a picture; asked with that word, such as address"
CONFIG = {"model_type": "word-reader", "letters": LETTERS, "longest": LONGEST, "hidden_size": 96, "heads": 3}
STEPS, BATCH, RATE, RISE, SIDE = 3000, 32, 1.2e-3, 0.08, 1.0
BY_CHANCE = 0.25  # share of images without a word
RANGES: dict[str, tuple[float, float]] = {  # of a look, drawn evenly; blur and noise are 0 in half of the images
    "rotation": (-5.0, 5.0),
    "blur": (0.0, 1.0),
    "noise": (0.0, 0.1),
    "contrast": (0.4, 1.0),
    "stretch": (0.8, 1.15),
    "slant": (0.0, 0.3),
}


def by_chance(generator: torch.Generator) -> str:
    """A string of 2 to 10 letters, all equally likely."""
    length = int(torch.randint(2, LONGEST + 1, (), generator=generator))
    return "".join(LETTERS[i] for i in torch.randint(len(LETTERS), (length,), generator=generator).tolist())


def look(generator: torch.Generator) -> Look:
    """A look by chance, of the kinds that are trained on."""
    u = torch.rand(len(RANGES) + 3, generator=generator).tolist()
    said = {name: low + (high - low) * u[i] for i, (name, (low, high)) in enumerate(RANGES.items())}
    coins, (right, down, size, font) = u[-3:], torch.randint(2**20, (4,), generator=generator).tolist()
    said |= {name: 0.0 for name, coin in zip(("blur", "noise", "slant"), coins, strict=True) if coin < 0.5}
    shift = (right % 7 - 2, down % 7 - 3)
    return Look(font=list(FONTS)[font % len(FONTS)], size=SIZES[1] - size % 9, shift=shift, **said)


def images(texts: list[str], generator: torch.Generator) -> Tensor:
    """Pictures [n, 32, 128] of words in looks by chance."""
    noise = torch.randn(len(texts), HEIGHT, WIDTH, generator=generator).numpy()
    return torch.stack(
        [torch.from_numpy(drawn(text, look(generator), n)) for text, n in zip(texts, noise, strict=True)]
    )


class Reading(Training):
    """Both decoders on the same images."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.name, self.settings = NAME, repr((CONFIG, RANGES, BATCH, RATE, seed, steps))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        torch.manual_seed(seed)
        self.network: WordReader = build(CONFIG)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.01)
        self.steps, self.seed = steps, seed

    def batch(self, share: float) -> tuple[list[str], Tensor]:
        """Made from the step's number, so that a training that goes on sees what it would have seen."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.progress.step)
        known = words()[0]
        picked = torch.randint(len(known), (BATCH,), generator=generator).tolist()
        chance = (torch.rand(BATCH, generator=generator) < BY_CHANCE).tolist()
        texts = [by_chance(generator) if c else known[i] for i, c in zip(picked, chance, strict=True)]
        return texts, images(texts, generator)

    def loss(self, batch: tuple[list[str], Tensor]) -> Loss:
        """CPPD's loss and the autoregressive decoder's, added."""
        texts, pictures = batch
        wanted, network = targets(texts, LETTERS, LONGEST), self.network
        x = network.features(pictures)
        seen = network.parallel(x)
        assert seen.counts is not None
        side = count_loss(seen.counts, wanted.counts) + place_loss(seen.occupied, wanted.filled)
        parallel = character_loss(seen.logits, wanted.labels)
        one_by_one = character_loss(written(network, x, wanted.labels), wanted.labels)
        facts = {"parallel": parallel.item(), "one_by_one": one_by_one.item(), "side": side.item()}
        return Loss(parallel + SIDE * side + one_by_one, int((wanted.labels != IGNORED).sum()), facts=facts)

    def rate(self, share: float) -> float:
        """A rise, then half a cosine down to nothing."""
        share = self.progress.step / self.steps
        return RATE * (share / RISE if share < RISE else 0.5 * (1 + cos(pi * min(1.0, (share - RISE) / (1 - RISE)))))

    def context(self) -> AbstractContextManager[None]:
        """float32: a network this small gains nothing from less."""
        return attention("cpu")


def written(network: WordReader, x: Tensor, labels: Tensor) -> Tensor:
    """Logits [B, P, C] of the autoregressive decoder that is fed the right characters."""
    begin = torch.full_like(labels[:, :1], network.writer.begin)
    fed = torch.cat([begin, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, 0)], 1)
    logits: Tensor = network.writer(fed, network.writer.nothing(x), network.writer.image(x))[0]
    return logits


@torch.no_grad()
def read(network: WordReader, pictures: Tensor) -> tuple[list[str], list[str], Tensor, Tensor]:
    """(texts in one pass, texts letter by letter, counts [n, C], occupied [n, P]) of pictures."""
    x, writer = network.features(pictures), network.writer
    seen = network.parallel(x)
    fed, past, image = torch.full((len(x), 1), writer.begin), writer.nothing(x), writer.image(x)
    ids = fed[:, :0]
    for _ in range(network.longest + 1):
        z, past, _ = writer(fed, past, image)
        fed = z.argmax(-1)
        ids = torch.cat([ids, fed], 1)
    assert seen.counts is not None
    texts = ([text_of(row, network.letters) for row in rows.tolist()] for rows in (seen.logits.argmax(-1), ids))
    return next(texts), next(texts), seen.counts.argmax(-1), seen.occupied > 0


def marks(network: WordReader) -> dict[str, Any]:
    """On held-out words, each drawn once by chance, and on as many strings by chance: the share read wholly right by
    either decoder; of the former also the share with all counts right, and all places."""
    network.eval()
    out, found = list(words()[1]), dict[str, Any]()
    generator = torch.Generator().manual_seed(10**9)
    for what, texts in (("held_out_words", out), ("letters_by_chance", [by_chance(generator) for _ in out])):
        parallel, one_by_one, counts, filled = read(network, images(texts, generator))
        wanted = targets(texts, LETTERS, LONGEST)
        found[what] = {
            "number": len(texts),
            "in_one_pass": share(parallel, texts),
            "letter_by_letter": share(one_by_one, texts),
            "all_counts_right": round(float((counts == wanted.counts).all(1).float().mean()), 3),
            "all_places_right": round(float((filled == (wanted.filled > 0)).all(1).float().mean()), 3),
        }
    return found


def share(read_as: list[str], texts: list[str]) -> float:
    """How many were read as they stand."""
    return round(sum(a == b for a, b in zip(read_as, texts, strict=True)) / len(texts), 3)


def install(training: Reading, out: Path | None) -> Path:
    """Weights in bfloat16, config and card into `out` (assets/models/tiny-reader)."""
    network, progress, folder = training.network, training.progress, out or FOLDER.parent / NAME
    state = {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in network.state_dict().items()}
    with replaced(folder) as partial_folder:
        write_weights(partial_folder, {name: t for name, t in state.items() if t.dim()}, "lossless")
        (partial_folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
        network.load_state_dict(state)
        facts = {
            "name": NAME,
            "title": TITLE,
            "kind": "reader",
            "note": NOTE,
            "data": f"{len(words()[0]):,} words of Python's documentation (pydoc_data.topics) and letters by chance, "
            "drawn by engines/tasks/word_images.py in DejaVu Sans, Bold and Mono",
            "seed": training.seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here)",
            "command": training.command,
            "parameters": sum(t.numel() for t in network.state_dict().values() if t.is_floating_point()),
            "tasks": ["word"],
            "companions": {"language": ["smollm2", "tiny-ar-m"]},
            **marks(network),
        }
        write_card(partial_folder, facts)
    return folder


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return trains(NAME, TITLE, str(__doc__), STEPS, Reading, install)
