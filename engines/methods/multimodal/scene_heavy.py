"""A word in a scene, read by the heavy reader alone: the control of Context-STR (arXiv:2503.15639), which pays for it
on every picture. Boxes come from the same segmenter; there is no caption, no gate and no light reading.

Departures: the autoregressive decoder of the word reader with five beams, over every box and six sliding windows, each
turned five ways and at three scales, stands for an end-to-end spotter. Nothing of it
is skipped or slept through.

Shapes: n pictures at once, w beams, C tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.kit import Params, Recorder, Roles, Steps, WordReaderLM, many, max_new_tokens, method, torch
from engines.methods.multimodal import _scene as scenes

TURNS, SCALES, BEAMS = (0.0, -5.0, 5.0, -10.0, 10.0), (1.0, 0.9, 1.1), 5
WINDOWS: tuple[scenes.Rectangle, ...] = tuple((row, column, 48, 144) for row in (0, 40, 80) for column in (0, 112))
VIEWS = len(TURNS) * len(SCALES)


def beam_search(
    model: WordReaderLM, pictures: torch.Tensor, width: int, start: int
) -> list[dict[tuple[int, ...], float]]:
    """For each of n pictures the `width` likeliest texts, as ids without the end mark, with their log-probability."""
    seen = model.see(pictures, start)
    cache: Any = model.new_cache(seen)
    n, end = len(pictures), min(model.eos_ids)
    z = model.extend(torch.full((n, 1), model.start_id), cache).logits[:, -1].log_softmax(-1)  # [n, C]
    logs, first = z.topk(width, -1)  # [n, w]
    ids = first[..., None]  # [n, w, letters]
    cache.take(torch.arange(n).repeat_interleave(width))
    while ids.shape[-1] < model.places and not bool((ids[..., -1] == end).all()):
        z = model.extend(ids[..., -1].reshape(-1, 1), cache).logits[:, -1].log_softmax(-1)
        z = z.nan_to_num(-torch.inf).reshape(n, width, -1)
        ended = torch.full_like(z[0, 0], -torch.inf)
        ended[end] = 0.0  # a text that is over stays as it is
        z = torch.where(ids[..., -1:] == end, ended, z)
        logs, best = (logs[..., None] + z).flatten(1).topk(width, -1)  # [n, w] of w C
        parent, token = best // z.shape[-1], best % z.shape[-1]
        ids = torch.cat([ids.gather(1, parent[..., None].expand(-1, -1, ids.shape[-1])), token[..., None]], -1)
        cache.take((parent + width * torch.arange(n)[:, None]).flatten())
    return [
        {tuple(i for i in row if i != end): float(log) for row, log in zip(rows, beam, strict=True)}
        for rows, beam in zip(ids.tolist(), logs.tolist(), strict=True)
    ]


@dataclass
class Heavy:
    """The texts so far, by region of the picture: the probability of each, added up over the views that were read. The
    first `boxes` regions are boxes, the others windows."""

    pixels: Any
    regions: Sequence[scenes.Rectangle]
    boxes: int
    start: int
    views: int = 0
    texts: dict[int, dict[tuple[int, ...], float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )

    def read_rotated(self, model: WordReaderLM, angle: float) -> int:
        """Read every region at this turn and at all scales; how many pictures that were."""
        at = [(i, scale) for scale in SCALES for i in range(len(self.regions))]
        pictures = torch.stack([scenes.crop(self.pixels, self.regions[i], angle, scale) for i, scale in at])
        for (i, _), texts in zip(at, beam_search(model, pictures, BEAMS, self.start), strict=True):
            for ids, log in texts.items():
                self.texts[i][ids] += float(torch.tensor(log).exp())
        self.views += len(SCALES)
        return len(at)

    def best(self) -> tuple[tuple[int, ...], float, int]:
        """(ids of the text that the views of one region agree on most, its mean probability there, the region): of a
        box where one holds a text, else of a window."""
        some = [
            (i < self.boxes, total, ids, i) for i, texts in self.texts.items() for ids, total in texts.items() if ids
        ]
        _, total, ids, i = max(some, key=lambda vote: vote[:2], default=(False, 0.0, (), 0))
        return ids, total / max(1, self.views), i

    def forget(self, forbidden: Mapping[int, Collection[int]], end: int) -> None:
        """Drop the texts that have a token where a person forbids it; what is read from now on has none."""
        for texts in self.texts.values():
            for ids in list(texts):
                if any(token in forbidden.get(self.start + i, ()) for i, token in enumerate((*ids, end))):
                    del texts[ids]

    def readings(self, model: WordReaderLM) -> list[scenes.Reading]:
        """The best text of every region, for the record."""
        chosen = self.best()
        listed = list[scenes.Reading]()
        for i, texts in sorted(self.texts.items()):
            ids, total = max(texts.items(), key=lambda item: item[1], default=((), 0.0))
            name = f"box {i + 1}" if i < self.boxes else f"window {i - self.boxes + 1}"
            listed.append(
                scenes.Reading(
                    name, model.tokenizer.decode(ids), min(1.0, total / self.views), chosen=(ids, i) == chosen[::2]
                )
            )
        return listed


def heavily(reader: WordReaderLM, run: Recorder, p: Params, ids: list[int], heavy: Heavy) -> Steps:
    """A step for each turn; the last writes the answer."""
    for angle in TURNS:
        n = heavy.read_rotated(reader, angle)
        text, sure, region = heavy.best()
        answer = reader.tokenizer.decode(text) if angle == TURNS[-1] else ""
        scene = scenes.Scene("heavy", readings=heavy.readings(reader), answer=answer, source="heavy" if answer else "")
        groups: dict[str, Any] = {
            "records": {"scene": scene},
            "intervals": run.calls(),
            "facts": {"pictures": n, "views": heavy.views, "sure": sure},
            "note": f"{many(n, 'crop')}, rotated by {angle:g} degrees: {reader.tokenizer.decode(text)}.",
        }
        if angle != TURNS[-1]:
            edit = yield run.step(**groups)
            ids = run.apply_edit(edit, ids)
            heavy.forget(edit.forbid if edit else {}, min(reader.eos_ids))
    tokens = [*text, min(reader.eos_ids)]
    yield from scenes.write_answer(
        reader, run, p, ids, scenes.Answer(tokens, "beam", scenes.crop(heavy.pixels, heavy.regions[region])), groups
    )


@method(
    "scene-heavy",
    title="A word in a scene, always the heavy reader",
    paper="arXiv:2503.15639",
    summary="Reads every box and sliding windows of a scene, rotated and scaled, letter by letter with beams, and "
    "takes the text that the views agree on most. The control of Context-STR.",
    needs={"reader": "reader", "scene": "scene"},
    params=[max_new_tokens(11, 11), *scenes.SCENES],
    signature="scene",
    emits={"commits", "intervals", "facts", "note"},
    records={"scene": scenes.Scene},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step to look, one for each turn; the last writes the answer."""
    start = run.prompt_length
    pixels = scenes.picture(models.reader, prompt[:start], p, run)
    mask = models.scene.look(pixels).mask
    boxes = scenes.blocks(mask, p.mask)
    edit = yield run.step(
        records={"scene": lambda: scenes.shown(pixels, mask, boxes)},
        intervals=run.calls(),
        note=f"Boxes with text: {len(boxes)}.",
    )
    heavy = Heavy(pixels, [*boxes, *WINDOWS], len(boxes), start)
    yield from heavily(models.reader, run, p, run.apply_edit(edit, prompt), heavy)
