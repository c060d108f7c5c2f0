"""What a film may be at most, one picture of it, and what became of it; and its pictures written as a GIF by Pillow, or
as an MP4 by ffmpeg."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engines import UserError
from explorer.export import look
from explorer.export.playback import Cell
from explorer.export.views import small_fill

CLEAR = 255  # the palette's entry that no picture uses
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Caps:
    """What a film may cost: pictures, pictures a second, points of width, pixels of one picture, and seconds in which
    it is drawn and written."""

    frames: int = 900
    rate: float = 25.0
    width: float = 480.0
    pixels: int = 2_000_000
    seconds: float = 900.0


@dataclass(frozen=True)
class Shot:
    """One picture: when it appears and how long it stands (seconds of film), and the place on the clock that it
    shows."""

    begin: float
    stand: float
    x: float


@dataclass(frozen=True)
class Report:
    """What was made: pictures, seconds of film before the pause, each run's own seconds of film, and pixels."""

    frames: int
    seconds: float
    runs: tuple[float, ...]
    size: tuple[int, int]


def write_gif(
    pictures: Iterator[Any], shots: Sequence[Shot], size: tuple[int, int], caps: Caps, progress: Progress
) -> bytes:
    """A GIF that begins again after its pause. Stands are hundredths of a second; rounding does not add up over the
    film."""
    from PIL import Image

    frames, palette = [], _palette()
    for number, picture in enumerate(pictures):
        frames.append(picture.quantize(palette=palette, dither=Image.Dither.NONE))
        progress(number + 1, len(shots))
    at = [round(100 * shot.begin) for shot in shots] + [round(100 * (shots[-1].begin + shots[-1].stand))]
    stands = [10 * (b - a) for a, b in pairwise(at)]
    out = io.BytesIO()
    # What does not change is written as transparent, which makes the file a fraction as large.
    small = {"optimize": True, "disposal": 1, "transparency": CLEAR}
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=stands, loop=0, **small)
    return out.getvalue()


def _palette() -> Any:
    """One palette for all pictures: every colour that the theme can bring, and shades between the letters and what they
    stand on."""
    from PIL import Image

    states = look.theme()["states"]
    plain = [look.state(name, part) for name in states for part in ("fill", "text", "line")]
    plain += [look.surface(name) for name in ("text", "muted", "line", "raised", "accent", "panel")]
    plain += [look.span(kind) for kind in look.SERIES]
    plain += [look.heat(i / (look.LEVELS - 1))[0] for i in range(look.LEVELS)] + ["#000000", "#ffffff"]
    plain += [small_fill(Cell(0, None, state, 0), {}) for state in ("old", "eos")]
    letters = [(look.state(name, "fill"), look.state(name, "text")) for name in states]
    shades = [look.mix(fill, ink, part) for fill, ink in letters for part in (0.35, 0.65)]
    inks = [look.surface(name) for name in ("text", "muted")]
    shades += [look.mix("#ffffff", ink, part) for ink in inks for part in (0.2, 0.4, 0.6, 0.8)]
    colours: list[str] = []
    for colour in ("#ffffff", *plain, *shades):  # two that are nearly alike would only be confused
        if len(colours) < CLEAR and all(look.distance(colour, other) > 14 for other in colours):
            colours.append(colour)
    flat = [int(colour[i : i + 2], 16) for colour in colours for i in (1, 3, 5)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(flat)
    return palette


def write_mp4(
    pictures: Iterator[Any], shots: Sequence[Shot], size: tuple[int, int], caps: Caps, progress: Progress
) -> bytes:
    """An MP4 (H.264) with a fixed rate of pictures. Raises UserError where the extra `video` is not installed, or
    ffmpeg fails."""
    import tempfile

    try:
        import imageio_ffmpeg
    except ImportError:
        raise UserError(
            'an MP4 needs the extra "video"; install it with  pip install "decoding-explorer[video]"  or make a GIF.'
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        options = {"fps": caps.rate, "codec": "libx264", "macro_block_size": 2, "quality": 8}
        options |= {"pix_fmt_in": "rgb24", "pix_fmt_out": "yuv420p"}
        output = ["-movflags", "+faststart", "-fflags", "+bitexact"]
        writer = imageio_ffmpeg.write_frames(str(path), size, **options, output_params=output)
        try:
            writer.send(None)
            for number, (shot, picture) in enumerate(zip(shots, pictures, strict=True)):
                data = picture.tobytes()
                for _ in range(round((shot.begin + shot.stand) * caps.rate) - round(shot.begin * caps.rate)):
                    writer.send(data)
                progress(number + 1, len(shots))
            writer.close()
            return _written(path)
        except (OSError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                f"ffmpeg failed and wrote no film ({lines[-1][:200]}). Make a GIF, which needs no ffmpeg, or name a "
                "working one in IMAGEIO_FFMPEG_EXE."
            ) from None
        finally:
            writer.close()


def _written(path: Path) -> bytes:
    """The film. Raises OSError where a program that said nothing left none."""
    data = path.read_bytes()
    if not data:
        raise OSError("the file is empty")
    return data
