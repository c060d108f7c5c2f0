"""A language model that sees scenes: `tiny-vlm`, trained to say what a picture of 24 x 24 pixels shows
(engines.models.networks.scene_text).

Three batches of four show a picture and ask for a caption, a filled form or either; the fourth has no picture, only the
words of a scene in any order, to be put into sentences, so that the model also knows its language without seeing.
Scenes are drawn by engines/tasks/grid_scenes.py, a fiftieth of them is held out by a hash.

A side task stands in for the tower of vision that larger models bring with them: behind two layers the last patch of
each cell is asked for size, colour and shape of what stands there, by a linear map that is thrown away."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from engines.models.networks.scene_text import EOS, PAD, SCENE, TEXT, SceneTextConfig, SceneTextForCausalLM
from engines.models.tokenizers.scene_words import WORDS
from engines.tasks.grid_scenes import COLOURS, SHAPES, SIZES, Scene, caption, drawn, form, right, scenes, shuffled
from engines.tasks.pictures import ASKED
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags
from engines.training.core.data import IGNORED
from engines.training.core.loop import Loss, Training, attention
from engines.training.core.weights import replaced, write_network
from engines.training.pictures.command import trains
from engines.training.tiny.tokenizer import FOLDER

NAME, TITLE = "tiny-vlm", "Tiny model that sees (says what a scene of 24 x 24 pixels shows)"
NOTE = "says what a small picture shows; asked with a scene such as scene 12, or small red circle top left, ..."
BATCH, STEPS, RATE, RISE = 32, 2400, 3e-3, 0.1
SIDE_TASK, BEHIND = 1.0, 2  # weight of the side task, and the layers behind which it is asked
ASKED_OF_A_CELL = (SIZES, tuple(COLOURS), tuple(SHAPES))
SHAPE_WORDS = 4.0  # weight of these words, which are learned last
POSITIONS = 160  # of the board, picture and answer together
MARKED = 200  # held-out scenes that the card's figures are of
IDS = {word: i for i, word in enumerate(WORDS)}


def ids_of(text: str) -> list[int]:
    """Ids of words with blanks between them."""
    return [IDS[word] for word in text.split()]


def build(seed: int = 0, patch: int = 4) -> SceneTextForCausalLM:
    """A network of 0.48 M weights that were not learnt."""
    torch.manual_seed(seed)
    return SceneTextForCausalLM(
        SceneTextConfig(
            patch=patch,
            vocab_size=len(WORDS),
            hidden_size=96,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            intermediate_size=256,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=EOS,
            pad_token_id=PAD,
        )
    )


def pixels_of(some: Sequence[Scene], salts: Sequence[str]) -> Tensor:
    """Pictures [n, 24, 24, 3] of scenes."""
    return torch.from_numpy(np.stack([drawn(scene, salt) for scene, salt in zip(some, salts, strict=True)]))


def answer_of(scene: Scene, asked: str, rng: random.Random) -> str:
    """A right answer to what is asked of a scene."""
    filled = asked == "form" or (asked == "answer" and rng.random() < 0.5)
    return form(scene) if filled else caption(scene, rng)


class Batch:
    """Rows of a step: pictures [B, 24, 24, 3] or None with what stands in their cells, ids [B, n] behind them, and how
    many of each row's ids are asked (the rest is the answer and its end)."""

    def __init__(
        self,
        pixels: Tensor | None,
        asked: Sequence[Sequence[int]],
        answers: Sequence[Sequence[int]],
        cells: Tensor | None = None,
    ) -> None:
        rows = [torch.tensor([*a, *b, EOS]) for a, b in zip(asked, answers, strict=True)]
        self.pixels, self.cells, self.ids = pixels, cells, pad_sequence(rows, batch_first=True, padding_value=PAD)
        self.targets = torch.full_like(self.ids, IGNORED)  # what each place is to be, where that is learnt
        for i, (a, row) in enumerate(zip(asked, rows, strict=True)):
            self.targets[i, len(a) : len(row)] = row[len(a) :]

    def embedded(self, network: SceneTextForCausalLM) -> Tensor:
        """The rows that enter the first layer: [B, n, d], with a picture [B, 1 + V + n, d]."""
        words: Tensor = network.model.embed_tokens(self.ids)
        return words if self.pixels is None else torch.cat([seen(network, self.pixels), words], 1)


def seen(network: SceneTextForCausalLM, pixels: Tensor) -> Tensor:
    """The rows [B, 1 + V, d] of pictures, <scene> before them."""
    embedding: Any = network.model.embed_tokens
    begin = embedding.weight[SCENE].expand(len(pixels), 1, -1)
    return torch.cat([begin, embedding.patches(pixels)], 1)


def batch_of(seed: int, step: int, size: int = BATCH, split: str = "train") -> Batch:
    """The rows of a step: made from its number, so that a training that goes on sees what it would have seen."""
    rng = random.Random(f"{NAME}/{seed}/{step}")
    some = list(islice(scenes(split, seed=rng.getrandbits(40)), size))
    if step % 4 == 3:
        asked = [[TEXT, *ids_of(shuffled(scene, rng)), IDS[ASKED[0]]] for scene in some]
        return Batch(None, asked, [ids_of(caption(scene, rng)) for scene in some])
    how = rng.choices(ASKED, (0.7, 0.15, 0.15), k=size)
    pixels = pixels_of(some, [f"{seed}/{step}/{i}" for i in range(size)])
    answers = [ids_of(answer_of(scene, a, rng)) for scene, a in zip(some, how, strict=True)]
    return Batch(pixels, [[IDS[a]] for a in how], answers, cells_of(some))


def cells_of(some: Sequence[Scene]) -> Tensor:
    """What stands in the nine cells of scenes: [n, 9, 3], from 1 on the number of size, colour and shape, 0 for
    nothing."""
    found = torch.zeros(len(some), 9, len(ASKED_OF_A_CELL), dtype=torch.long)
    for i, scene in enumerate(some):
        for thing in scene:
            row, column = thing.cell
            for j, names in enumerate(ASKED_OF_A_CELL):
                found[i, 3 * row + column, j] = 1 + names.index(thing[j])
    return found


def last_patches(side: int) -> list[int]:
    """The last patch of each cell of a grid with so many patches on a side, in reading order."""
    n = side // 3
    return [(n * row + n - 1) * side + n * column + n - 1 for row in range(3) for column in range(3)]


class Captions(Training):
    """Next tokens of the answers."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.name, self.settings = NAME, repr((NAME, BATCH, RATE, seed, steps))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        self.network: SceneTextForCausalLM = build(seed)
        width, sizes = self.network.config.hidden_size, [1 + len(names) for names in ASKED_OF_A_CELL]
        self.probe, self.sizes = torch.nn.Linear(width, sum(sizes)), sizes
        learnt = [*self.network.parameters(), *self.probe.parameters()]
        self.optimizer = torch.optim.AdamW(learnt, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
        self.steps, self.seed = steps, seed

    def batch(self, share: float) -> Batch:
        """See `batch_of`."""
        return batch_of(self.seed, self.progress.step)

    def loss(self, batch: Batch) -> Loss:
        """Cross-entropy in nats per token of the answers."""
        x = batch.embedded(self.network)
        out = self.network.model(inputs_embeds=x, use_cache=False, output_hidden_states=True)
        h = out.last_hidden_state[:, -batch.ids.shape[1] : -1]
        wanted = batch.targets[:, 1:]
        z = self.network.lm_head(h[wanted != IGNORED])
        weights = torch.ones(len(WORDS)).index_fill(0, torch.tensor(ids_of(" ".join(SHAPES))), SHAPE_WORDS)
        value = cross_entropy(z, wanted[wanted != IGNORED], weights)
        name = "words" if batch.pixels is None else "pictures"
        facts = {name: value.item()}
        if batch.cells is not None:
            at = 1 + torch.tensor(last_patches(round(self.network.config.patches**0.5)))
            told = self.probe(out.hidden_states[BEHIND][:, at]).flatten(0, 1).split(self.sizes, -1)
            true = batch.cells.flatten(0, 1)
            side = torch.stack([cross_entropy(one, true[:, j]) for j, one in enumerate(told)]).sum()
            value, facts["cells"] = value + SIDE_TASK * side, side.item()
        return Loss(value, x.shape[0] * x.shape[1], len(z), facts)

    def weights(self) -> dict[str, Tensor]:
        """The network's, and the side task's map."""
        return super().weights() | {f"probe.{name}": t for name, t in self.probe.state_dict().items()}

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Both back."""
        own = {name.removeprefix("probe."): t for name, t in weights.items() if name.startswith("probe.")}
        self.probe.load_state_dict(own)
        super().load_weights({name: t for name, t in weights.items() if not name.startswith("probe.")})

    def rate(self, share: float) -> float:
        """One cycle: a rise, then half a cosine down to nothing; it goes by the steps."""
        return one_cycle(RATE, self.progress.step / self.steps)

    def context(self) -> AbstractContextManager[None]:
        """float32: a network this small gains nothing from less."""
        return attention("cpu")


def one_cycle(rate: float, share: float) -> float:
    """A rise over a tenth, then half a cosine."""
    if share < RISE:
        return rate * (0.04 + 0.96 * share / RISE)
    return rate * 0.5 * (1 + float(np.cos(np.pi * min(1.0, (share - RISE) / (1 - RISE)))))


@torch.no_grad()
def said(network: SceneTextForCausalLM, pixels: Tensor, asked: str, most: int = 48) -> list[str]:
    """What it says of pictures, token by token, always the likeliest."""
    start = torch.full((len(pixels), 1), IDS[asked])
    x = torch.cat([seen(network, pixels), network.model.embed_tokens(start)], 1)
    out = network(inputs_embeds=x, use_cache=True)
    ids = out.logits[:, -1:].argmax(-1)
    for _ in range(most - 1):
        out = network(input_ids=ids[:, -1:], past_key_values=out.past_key_values, use_cache=True)
        ids = torch.cat([ids, out.logits[:, -1:].argmax(-1)], 1)
    return [text_of(row) for row in ids.tolist()]


def text_of(ids: Sequence[int]) -> str:
    """The words of an answer up to its end mark."""
    return " ".join(WORDS[i] for i in ids[: ids.index(EOS) if EOS in ids else None])


def marks(network: SceneTextForCausalLM, count: int = MARKED) -> dict[str, Any]:
    """On held-out scenes of two and three objects: the share of objects named with size, colour, shape and place, and
    of scenes with nothing wrong or missing, by what was asked."""
    network.eval()
    some = list(islice(scenes("held-out", seed=3), count))
    pixels, found = pixels_of(some, [""] * count), dict[str, Any]()
    for asked in ASKED[:2]:
        answers = said(network, pixels, asked)
        wanted = [caption(scene) if asked == ASKED[0] else form(scene) for scene in some]
        hits = [right(scene, text) for scene, text in zip(some, answers, strict=True)]
        whole = sum(
            hit == len(scene) == text.count(wanted[i][-1])
            for i, (hit, scene, text) in enumerate(zip(hits, some, answers, strict=True))
        )
        found[asked] = {
            "scenes": count,
            "objects": sum(map(len, some)),
            "objects_right": round(sum(hits) / sum(map(len, some)), 4),
            "scenes_right": round(whole / count, 4),
        }
    return found


def install(training: Captions, out: Path | None) -> Path:
    """Weights in bfloat16, config and card into `out` (assets/models/tiny-vlm)."""
    progress, network, folder = training.progress, training.network, out or FOLDER.parent / NAME
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network.to(torch.bfloat16), "lossless")
        (partial_folder / "generation_config.json").unlink(missing_ok=True)
        network = network.float()
        facts = {
            "name": NAME,
            "title": TITLE,
            "kind": "causal",
            "note": NOTE,
            "data": "scenes of engines/tasks/grid_scenes.py (98 %) with captions, forms, and words in any order",
            "seed": training.seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here, on pictures drawn here)",
            "command": training.command,
            "parameters": sum(p.numel() for p in network.parameters()),
            "tasks": ["scene"],
            "held_out": marks(network),
        }
        write_card(partial_folder, facts)
    return folder


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return trains(NAME, TITLE, str(__doc__), STEPS, Captions, install)
