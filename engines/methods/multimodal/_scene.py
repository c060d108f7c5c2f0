"""What the readers of scenes share: the picture, blocks of its mask, and crops as the word reader wants them.

Boxes are (row, column, height, width) in pixels of the picture [128, 256, 3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from engines.core.trace import Box, Packed, Probability, Record, pack
from engines.kit import (
    Choice,
    Float,
    Int,
    Params,
    Recorder,
    Steps,
    WordReaderLM,
    token_probability,
    torch,
)
from engines.methods.multimodal._word import spelled, until_end
from engines.tasks.scenes import KINDS, SceneLook, drawn
from engines.tasks.word_images import HEIGHT, WIDTH, dark_on_light

Rectangle = tuple[int, int, int, int]
Share = Annotated[float, Meta(ge=0, le=1)]
AREA, PADDING, BLOCKS, SMALLEST = 150, 6, 10, 5  # of a block in pixels; at most; sides that are too short to read
SCENES = (
    Choice("scene", "shop front", tuple(KINDS)),
    Int("chance", 0, 0, 9999),
    Float("rotation", 0.0, -30.0, 30.0, step=1.0),
    Float("blur", 0.0, 0.0, 4.0, step=0.1),
    Float("noise", 0.0, 0.0, 0.4, step=0.02),
    Float("contrast", 1.0, 0.05, 1.0, step=0.05),
    Float("mask", 0.5, 0.2, 0.8, step=0.05),
)


class Reading(Record):
    """What was read where. source: "picture" for the whole of it, "box 1" and so on, or "heavy". confidence: of the
    text as a whole. S, L, C: how well meaning and spelling fit the caption, and both together, where that was asked;
    run: the words of the caption that the spelling was held against. chosen: whether it is the best of its kind."""

    source: str
    text: str
    confidence: Probability
    S: Share | None = None
    L: Share | None = None
    C: Share | None = None
    run: str = ""
    chosen: bool = False


class Scene(Record):
    """A stage of reading a scene. picture [rows, 3 columns], red, green and blue of each pixel, and mask [rows,
    columns], both from 0 to 1 and only where they are new, as boxes on the picture in pixels are. caption: as far as it
    is written. readings: those of this stage. tau: the line that C is held against; bypass: whether the heavy reader is
    left out. answer: the text that is taken, from the reading named by `source`."""

    stage: Literal["segment", "caption", "read", "score", "heavy"]
    picture: Packed | None = None
    mask: Packed | None = None
    boxes: list[Box] = []
    caption: str = ""
    readings: list[Reading] = []
    tau: float | None = None
    bypass: bool | None = None
    answer: str = ""
    source: str = ""


def picture(model: WordReaderLM, prompt: Sequence[int], p: Params, run: Recorder) -> torch.Tensor:
    """The scene, uint8 [128, 256, 3], with the word that the prompt's tokens spell. Raises UserError for what is no
    word."""
    word = spelled(model, prompt)
    noise = torch.randn(128, 256, 3, generator=run.rng).numpy() if p.noise > 0 else None
    look = SceneLook(p.scene, p.chance, p.rotation, p.blur, p.noise, p.contrast)
    return torch.from_numpy(drawn(word, look, noise).pixels.copy())


def blocks(mask: torch.Tensor, threshold: float) -> list[Rectangle]:
    """Boxes around what hangs together in a mask [H, W] above the threshold: of at least `AREA` pixels, padded, the
    largest first, at most `BLOCKS`."""
    on = mask > threshold
    H, W = on.shape
    names = torch.where(on, torch.arange(1, H * W + 1, dtype=torch.float32).reshape(H, W), 0.0)
    while True:  # the largest number of a piece spreads over it, diagonals too
        wider = torch.nn.functional.max_pool2d(names[None], 3, 1, 1)[0] * on
        if torch.equal(wider, names):
            break
        names = wider
    rectangles = list[Rectangle]()
    for name in names.unique().tolist():
        rows, columns = (names == name).nonzero().T if name else (on.new_zeros(0), on.new_zeros(0))
        h, w = (span(rows), span(columns)) if name else (0, 0)
        if h * w >= AREA and min(h, w) + 2 * PADDING >= SMALLEST:
            rectangles.append(padded(int(rows.min()), int(columns.min()), h, w, H, W))
    return sorted(rectangles, key=lambda box: -box[2] * box[3])[:BLOCKS]


def span(at: torch.Tensor) -> int:
    """How many rows or columns lie between the first and the last."""
    return int(at.max() - at.min()) + 1


def padded(row: int, column: int, h: int, w: int, H: int, W: int) -> Rectangle:
    """A box with its padding, as far as the picture goes."""
    top, left = max(0, row - PADDING), max(0, column - PADDING)
    return top, left, min(H, row + h + PADDING) - top, min(W, column + w + PADDING) - left


def crop(pixels: Any, box: Rectangle, angle: float = 0.0, scale: float = 1.0) -> torch.Tensor:
    """What stands in a box as the reader was taught to see words: uint8 [32, 128], dark on light, at the left. turn:
    degrees that are taken back; scale: above 1 looks closer."""
    from PIL import Image

    top, left, h, w = box
    grey = Image.fromarray(np.asarray(pixels)).convert("L")
    y, x = top + h / 2, left + w / 2
    if angle:
        grey = grey.rotate(-angle, Image.Resampling.BILINEAR, center=(x, y), fillcolor=int(np.median(np.asarray(grey))))
    h, w = h / scale, w / scale
    factor = min(HEIGHT / h, WIDTH / w)
    size = (max(1, round(w * factor)), max(1, round(h * factor)))
    edges = (max(0, x - w / 2), max(0, y - h / 2), min(grey.width, x + w / 2), min(grey.height, y + h / 2))
    small = np.asarray(grey.resize(size, Image.Resampling.BICUBIC, box=edges), dtype=np.float32)
    return torch.from_numpy(dark_on_light(small))


def shown(pixels: torch.Tensor, mask: torch.Tensor, boxes: Sequence[Rectangle]) -> Scene:
    """The first stage for the record."""
    return Scene(
        "segment",
        picture=pack(pixels.reshape(len(pixels), -1).numpy() / 255, 0.0, 1.0),
        mask=pack(mask.numpy(), 0.0, 1.0),
        boxes=[Box(*box, label=f"box {i + 1}") for i, box in enumerate(boxes)],
    )


@dataclass(frozen=True)
class Answer:
    """What is written. tokens: with the end mark; cause: why; seen: where it was read, uint8 [32, 128]; chances: of the
    tokens, where they are known."""

    tokens: list[int]
    cause: str
    seen: torch.Tensor
    chances: list[float] | None = None


def write_answer(
    reader: WordReaderLM, run: Recorder, p: Params, ids: list[int], answer: Answer, groups: Mapping[str, Any]
) -> Steps:
    """Write an answer behind the letters that stand, in a step with these groups. What a person changes of it is kept,
    and what is behind is read again where it was read, in one pass."""
    start, end = run.prompt_length, min(reader.eos_ids)
    last = start + min(reader.places, p.max_new_tokens)
    while len(ids) < last and not (len(ids) > start and ids[-1] in reader.eos_ids):
        some = slice(len(ids) - start, last - start)
        tokens, chances = answer.tokens[some] or [end], answer.chances[some] if answer.chances else []
        at = list(range(len(ids), len(ids) + len(tokens)))
        edit = yield run.step(commits=(at, tokens, answer.cause, chances or None), **groups)
        ids = run.apply_edit(edit, [*ids, *tokens])
        if edit is not None:
            z = reader.glance(reader.see(answer.seen, start)).logits  # [P, C]
            best = z.argmax(-1)
            tokens, chances = until_end(best.tolist(), reader.eos_ids), token_probability(z, best).tolist()
            answer = Answer(tokens, "place", answer.seen, chances[: len(tokens)])
            groups = {"note": "Behind the change: one pass where it was read."}
