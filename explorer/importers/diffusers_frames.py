"""diffusers: the canvases that a discrete diffusion pipeline showed its step callback, as JSON.

Written from `animate_sampling.py capture` of huggingface/diffusers pull request 14164 (examples/discrete_diffusion,
2026): an object with `method`, `label`, `subtitle`, `model_id`, `prompt`, `gen_length`, `block_length`, `mask_token_id`
(null for mask-free models), `frames` ([{step, ids}], one canvas after each denoising step, -1 where a block has not
begun) and `vocab` (id -> text, empty for the mask).

A frame becomes a step that writes what differs from the frame before. The record has no confidence, no times, no end
marks and no prompt ids.

Mask-free canvases: every step of EntropyBoundScheduler and BlockRefinementScheduler draws noise anew wherever it leaves
no token of the model's. So a token that still stands in the next frame is the model's there, accepted, but for the one
time in a vocabulary that the noise is the same. A token that does not may have been noise or the model's, and one that
gives way may do so to either: neither is told. DiscreteDDIMScheduler leaves noise where it is, so of it nothing is."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from engines import Trace, TraceError
from explorer.importers.build import MAX_CELLS, Table, convert, step, trace

TITLE = "diffusers, recorded canvases of a discrete diffusion pipeline"
SOURCE = "diffusers' recorded canvases"
PENDING = -1


class Frame(msgspec.Struct):
    """A canvas: the ids of all generated positions after a step."""

    step: int
    ids: list[Annotated[int, Meta(ge=PENDING, lt=2**31)]]


class Recording(msgspec.Struct):
    """The file."""

    frames: list[Frame]
    vocab: dict[str, str]
    method: str = ""
    label: str = ""
    subtitle: str = ""
    model_id: str = ""
    prompt: str = ""
    gen_length: Annotated[int, Meta(ge=0, le=10**6)] | None = None
    block_length: Annotated[int, Meta(ge=0, le=10**6)] | None = None
    mask_token_id: Annotated[int, Meta(ge=0, lt=2**31)] | None = None


def looks(body: Any) -> bool:
    """Whether the JSON is such a recording."""
    return isinstance(body, dict) and isinstance(body.get("frames"), list) and isinstance(body.get("vocab"), dict)


def read(body: Any) -> Trace:
    """The trace of a recording. Raises TraceError."""
    recording = convert(body, Recording, "the recording")
    if not recording.frames:
        raise TraceError("the recording holds no frames.")
    width = len(recording.frames[0].ids)
    if any(len(frame.ids) != width for frame in recording.frames):
        raise TraceError("the frames of the recording have different lengths.")
    if width * len(recording.frames) > MAX_CELLS:
        raise TraceError(f"the recording has {width * len(recording.frames):,} cells; at most {MAX_CELLS:,} are read.")
    table, mask = Table(), recording.mask_token_id
    redrawn = mask is None and "ddim" not in f"{recording.method} {recording.label} {recording.subtitle}".lower()
    steps, stood = [], list[int]()
    before = [PENDING if mask is None else mask] * width
    for index, frame in enumerate(recording.frames):
        for token in frame.ids:
            if token >= 0:
                text = "[MASK]" if token == mask else recording.vocab.get(str(token), f"‹token {token}›")
                table.known(token, text, special=token == mask)
        groups, kept, gone = board_changes(before, frame.ids, mask), list[int](), 0
        if redrawn:
            gone = sum(frame.ids[place] != before[place] for place in stood)
            kept = stood = standing(before, frame.ids)
        note = f"Denoising step {frame.step}."
        note += f" {gone} that had been accepted {'is' if gone == 1 else 'are'} no longer there." if gone else ""
        steps.append(step(index, note=note, **accepted(groups, kept, frame.ids)))
        before = frame.ids
    if mask is not None:
        table.known(mask, "[MASK]", special=True)
    output = [token for token in before if token >= 0]
    text = "".join(table.pieces[token]["text"] for token in output if token != mask).strip()
    params = {name: value for name in ("gen_length", "block_length") if (value := getattr(recording, name)) is not None}
    about = f"{recording.subtitle}; only the canvases were recorded, not the sampler's settings".removeprefix("; ")
    about += ". A token that stands in two frames in a row counts as accepted in the second one" if redrawn else ""
    return trace(
        source=SOURCE,
        title=recording.label or "Discrete diffusion",
        model=recording.model_id,
        prompt=recording.prompt,
        steps=steps,
        table=table,
        output_ids=output,
        text=text,
        missing=["end_marks", "tokens"],
        about=about,
        params=params,
        **({} if mask is None else {"mask_id": mask, "canvas": width}),
    )


def board_changes(before: list[int], now: list[int], mask: int | None) -> dict[str, Any]:
    """The commits that lead from one board to the next: filled, changed or remasked positions."""
    at = [place for place, (old, new) in enumerate(zip(before, now, strict=True)) if old != new and new >= 0]
    causes = ["remasked" if now[p] == mask else "filled" if before[p] in (mask, PENDING) else "changed" for p in at]
    return {"commits": {"positions": at, "tokens": [now[p] for p in at], "causes": causes}} if at else {}


def standing(before: list[int], now: list[int]) -> list[int]:
    """The places whose token is that of the frame before."""
    return [place for place, (old, new) in enumerate(zip(before, now, strict=True)) if old == new and new >= 0]


def accepted(groups: dict[str, Any], places: list[int], now: list[int]) -> dict[str, Any]:
    """The commits of a step with those of the tokens that were accepted where they stood."""
    if not places:
        return groups
    commits = groups.get("commits", {"positions": [], "causes": []})
    causes = dict(zip(commits["positions"], commits["causes"], strict=True)) | dict.fromkeys(places, "accepted")
    at = sorted(causes)
    return {"commits": {"positions": at, "tokens": [now[p] for p in at], "causes": [causes[p] for p in at]}}
