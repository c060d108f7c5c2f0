"""A word in a scene, read by the heavy reader alone: the control of Context-STR (arXiv:2503.15639), which pays for it
on every picture. Boxes come from the same segmenter; there is no caption, no gate and no light reading.

Departures: the autoregressive decoder of the word reader with five beams, over every box and six sliding windows, each
turned five ways and at three scales, stands for an end-to-end spotter."""

from engines.kit import Params, Recorder, Roles, Steps, max_new_tokens, method
from engines.methods.multimodal._heavy import WINDOWS, Heavy, heavily
from engines.methods.multimodal._scene import SCENES, Scene, blocks, picture, shown


@method(
    "scene-heavy",
    title="A word in a scene, always the heavy reader",
    paper="arXiv:2503.15639",
    summary="Reads every box and sliding windows of a scene, rotated and scaled, letter by letter with beams, and "
    "takes the text that the views agree on most. The control of Context-STR.",
    needs={"reader": "reader", "scene": "scene"},
    params=[max_new_tokens(11, 11), *SCENES],
    signature="scene",
    emits={"commits", "intervals", "facts", "note"},
    records={"scene": Scene},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step to look, one for each turn; the last writes the answer."""
    start = run.prompt_length
    pixels = picture(models.reader, prompt[:start], p, run)
    mask = models.scene.look(pixels).mask
    boxes = blocks(mask, p.mask)
    edit = yield run.step(
        records={"scene": lambda: shown(pixels, mask, boxes)},
        intervals=run.calls(),
        note=f"Boxes with text: {len(boxes)}.",
    )
    heavy = Heavy(pixels, [*boxes, *WINDOWS], len(boxes), start)
    yield from heavily(models.reader, run, p, run.apply_edit(edit, prompt), heavy)
