"""A drawing as pixels, by Pillow: the same marks as in the SVG. Shapes and letters are painted larger and averaged
down, which smooths their edges."""

import io
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from engines import UserError
from explorer.export import fonts
from explorer.export.drawing import Box, Cells, Curve, Drawing, Line, Place, Words

SMOOTH = 2  # painted so many times larger
MAX_PIXELS = 40_000_000
CURVE_PARTS = 24
PAD = 4  # pixels beside a text, for letters that reach out


def png(drawing: Drawing, dpi: int = 300) -> bytes:
    """The drawing as a PNG that knows its resolution. Raises UserError where it would be larger than 40 million
    pixels."""
    out = io.BytesIO()
    image(drawing, dpi).save(out, "PNG", dpi=(dpi, dpi))
    return out.getvalue()


def image(drawing: Drawing, dpi: float, size: tuple[int, int] | None = None) -> Any:
    """The drawing as an RGB image of Pillow; `size` in pixels cuts or pads it."""
    from PIL import Image, ImageDraw

    w, h = size or (math.ceil(drawing.width * dpi / 72), math.ceil(drawing.height * dpi / 72))
    if w * h > MAX_PIXELS:
        raise UserError(
            f"the picture would have {w:,} x {h:,} pixels; at most {MAX_PIXELS:,} are painted. Choose a smaller width "
            "or fewer dots per inch."
        )
    canvas = Image.new("RGB", (w * SMOOTH, h * SMOOTH), "#ffffff")
    painter = _Painter(canvas, ImageDraw.Draw(canvas), dpi / 72 * SMOOTH)
    for mark in drawing.marks:
        painter.paint(mark)
    return canvas.reduce(SMOOTH)


class _Painter:
    def __init__(self, canvas: Any, pen: Any, scale: float) -> None:
        self.canvas, self.pen, self.scale = canvas, pen, scale

    def paint(self, mark: Any) -> None:
        if isinstance(mark, Box):
            self.box(mark)
        elif isinstance(mark, Cells):
            for x, y, w, h in mark.places:
                self.pen.rectangle(self.corners(x, y, w, h), fill=mark.fill)
        elif isinstance(mark, Line):
            if mark.fill:
                self.pen.polygon([(x * self.scale, y * self.scale) for x, y in mark.points], fill=mark.fill)
            points = (*mark.points, mark.points[0]) if mark.fill else mark.points
            self.line(points, mark.colour, mark.thick, mark.dash)
        elif isinstance(mark, Curve):
            flat = mark.points[0][1] == mark.points[-1][1]
            points = (mark.points[0], mark.points[-1]) if flat else tuple(_bezier(mark.points))
            self.line(points, mark.colour, mark.thick, mark.dash)
        else:
            self.words(mark)

    def corners(self, x: float, y: float, w: float, h: float) -> tuple[float, float, float, float]:
        """Pillow counts the last pixel in."""
        s = self.scale
        left, top = round(x * s), round(y * s)
        return left, top, max(left, round((x + w) * s) - 1), max(top, round((y + h) * s) - 1)

    def box(self, mark: Box) -> None:
        half = mark.thick / 2 if mark.line else 0.0
        place = self.corners(mark.x - half, mark.y - half, mark.w + 2 * half, mark.h + 2 * half)
        if place[2] <= place[0] or place[3] <= place[1]:
            return
        line, thick = (mark.line or None), max(1, round(mark.thick * self.scale)) if mark.line else 0
        if mark.dash and line:
            x, y, w, h = mark.x, mark.y, mark.w, mark.h
            self.pen.rectangle(self.corners(x, y, w, h), fill=mark.fill or None)
            self.line(((x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)), mark.line, mark.thick, mark.dash)
        else:
            self.pen.rounded_rectangle(
                place, radius=(mark.radius + half) * self.scale, fill=mark.fill or None, outline=line, width=thick
            )

    def line(self, points: Sequence[Place], colour: str, thick: float, dash: Sequence[float]) -> None:
        if not colour:
            return
        wide = max(1, round(thick * self.scale))
        for part in _dashes(points, dash) if dash else [points]:
            self.pen.line([(x * self.scale, y * self.scale) for x, y in part], fill=colour, width=wide, joint="curve")

    def words(self, mark: Words) -> None:
        """Pasted from a cache: in a film the same tokens come again in every picture."""
        mask, length, above = _letters(mark.text, mark.face, mark.size * self.scale)
        start = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor] * length
        x, y = mark.x * self.scale, mark.y * self.scale
        if mark.upright:
            from PIL import Image

            turned = mask.transpose(Image.Transpose.ROTATE_90)
            self.canvas.paste(mark.colour, (round(x - above), round(y + start + PAD - mask.width)), turned)
        else:
            self.canvas.paste(mark.colour, (round(x - start - PAD), round(y - above)), mask)


@lru_cache(maxsize=2048)
def _letters(text: str, face: str, size: float) -> tuple[Any, float, int]:
    """(mask, advance, pixels above the baseline) of a text; the mask has a margin of PAD on both sides."""
    from PIL import Image, ImageDraw

    font = fonts.font(face, size)
    above, below = font.getmetrics()
    length = font.getlength(text)
    mask = Image.new("L", (math.ceil(length) + 2 * PAD, above + below), 0)
    ImageDraw.Draw(mask).text((PAD, above), text, fill=255, font=font, anchor="ls")
    return mask, length, above


def _bezier(points: Sequence[Place]) -> Iterator[Place]:
    for part in range(CURVE_PARTS + 1):
        t = part / CURVE_PARTS
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        yield (
            sum(k * x for k, (x, _) in zip(weights, points, strict=True)),
            sum(k * y for k, (_, y) in zip(weights, points, strict=True)),
        )


def _dashes(points: Sequence[Place], dash: Sequence[float]) -> Iterator[list[Place]]:
    """The drawn parts of a dashed polyline; the pattern runs on around corners."""
    which, left, part = 0, dash[0], [points[0]]
    for a, b in pairwise(points):
        length = math.dist(a, b)
        done = 0.0
        while length - done > left:
            done += left
            at = (a[0] + (b[0] - a[0]) * done / length, a[1] + (b[1] - a[1]) * done / length)
            if which % 2 == 0:
                yield [*part, at]
            which, part = which + 1, [at]
            left = dash[which % len(dash)]
        left -= length - done
        part.append(b)
    if which % 2 == 0 and len(part) > 1:
        yield part
