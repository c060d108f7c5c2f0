"""Films, read back from their bytes: they last as long as the runs were measured, and no run is stretched."""

import io
import sys

import pytest
from PIL import Image

from engines import Trace, UserError
from explorer.cli import main
from explorer.export import film
from explorer.export.film import PAUSE, RATES, Caps, animation, plan
from explorer.export.playback import Playback
from tests.explorer.commands import call, refused
from tests.player.handmade import drafting, hostile, masked

SMALL = {"dpi": 60}


def timed(trace: Trace, seconds: float) -> Trace:
    """The same run as if it had taken so many seconds, unevenly."""
    whole = sum(1 + step.index % 3 for step in trace.steps)
    for step in trace.steps:
        step.model_seconds, step.method_seconds = seconds * (1 + step.index % 3) / whole, 0.0
    return trace


def frames(data: bytes) -> list[tuple[float, Image.Image]]:
    """(seconds for which it stands, picture) of every frame."""
    image = Image.open(io.BytesIO(data))
    found = []
    for number in range(image.n_frames):
        image.seek(number)
        found.append((image.info["duration"] / 1000, image.convert("RGB")))
    return found


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_a_gif_lasts_as_long_as_the_run_was_measured(speed: float):
    data, report = animation(timed(masked(), 1.37), speed=speed, **SMALL)
    shown = frames(data)
    assert sum(stand for stand, _ in shown) == pytest.approx(1.37 / speed + PAUSE, abs=0.011)
    assert shown[-1][0] == pytest.approx(PAUSE, abs=0.011)
    assert min(stand for stand, _ in shown) >= 0.03  # browsers slow down what is faster than 0.02
    assert report.seconds == pytest.approx(1.37 / speed) and Image.open(io.BytesIO(data)).info["loop"] == 0


def test_nothing_is_shown_before_it_happened():
    """In a comparison each run keeps its own length."""
    runs = [Playback(timed(masked(), 0.9)), Playback(timed(drafting(), 0.4))]
    assert animation([run.trace for run in runs], **SMALL)[1].runs == (pytest.approx(0.9), pytest.approx(0.4))
    rate = RATES["seconds"] * 0.7
    shots = plan([run.axes["seconds"] for run in runs], rate, Caps())
    assert shots[0].begin == 0 and shots[-1].stand == PAUSE
    assert shots[-1].begin == pytest.approx(max(run.end("seconds") for run in runs) / rate)
    for shot in shots:
        assert shot.x <= shot.begin * rate + 1e-9
        assert all(run.axes["seconds"][run.cursor("seconds", shot.x)] / rate <= shot.begin + 1e-6 for run in runs)
    assert {0, runs[0].length} <= {runs[0].cursor("seconds", shot.x) for shot in shots}


def test_pictures_never_follow_faster_than_the_cap_and_never_exceed_it():
    axes = [[0.0, *(0.001 * i for i in range(1, 3001))]]
    shots = plan(axes, 1.0, Caps(frames=40, rate=10))
    assert len(shots) <= 42 and min(shot.stand for shot in shots) >= 3 / 40 - 1e-9
    assert shots[-1].begin == pytest.approx(3.0)
    assert len(plan([[0.0, 0.0]], 1.0, Caps())) == 2  # a run that took no time at all
    with pytest.raises(UserError, match="at most 300"):
        plan([[0.0, 1000.0]], 1.0, Caps())


@pytest.mark.parametrize("view", ["step", "board", "tree"])
def test_every_view_can_be_filmed(view: str):
    trace = drafting() if view == "tree" else hostile()
    data, report = animation(trace, view=view, clock="steps", speed=4, **SMALL)
    shown = frames(data)
    assert shown[0][1].size == report.size and len({picture.tobytes() for _, picture in shown}) > 3
    assert animation(trace, view=view, clock="steps", speed=4, **SMALL)[0] == data


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"traces": [masked()] * 5}, "5 traces"),
        ({"view": "curve"}, "step, board, tree"),
        ({"dpi": 500, "caps": Caps(pixels=1000)}, "at most 1,000"),
        ({"format": "mp4"}, r'pip install "decoding-explorer\[video\]"'),
        ({"caps": Caps(seconds=3)}, r"3 of its \d+ pictures were drawn in 3 seconds"),
    ],
)
def test_bad_wishes_a_missing_extra_and_a_film_that_takes_too_long_are_refused(monkeypatch, wish: dict, said: str):
    clock = iter(range(1000))
    monkeypatch.setattr(film, "monotonic", lambda: float(next(clock)))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=said):
        animation(**{"traces": timed(masked(), 1.2), **wish})


def test_an_mp4_lasts_as_long_too(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    data, _ = animation([timed(masked(), 1.2), timed(masked(), 0.4)], format="mp4", **SMALL)
    (tmp_path / "film.mp4").write_bytes(data)
    pictures, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "film.mp4"))
    assert seconds == pytest.approx(1.2 + PAUSE, abs=0.05) and pictures == pytest.approx(25 * (1.2 + PAUSE), abs=1)


def test_an_ffmpeg_that_fails_is_a_sentence(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    program = tmp_path / "ffmpeg"
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(program))
    for script in (None, "echo no such codec >&2; exit 1", "cat >/dev/null; exit 0"):
        if script:
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        with pytest.raises(UserError, match=r"ffmpeg failed and wrote no film .* Make a GIF"):
            animation(timed(masked(), 0.2), format="mp4", **SMALL)


def test_from_the_command_line(tmp_path, capsys):
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, seconds in zip(files, (0.6, 0.2), strict=True):
        file.write_text(timed(masked(), seconds).to_json())
    first, both = str(files[0]), map(str, files)
    assert main(["export", *both, "--gif", str(tmp_path / "x.gif"), "--speed", "0.5", "--dpi", "60"]) == 0
    assert "Confidence threshold 1.20 s, Confidence threshold 0.40 s" in capsys.readouterr().out
    assert sum(stand for stand, _ in frames((tmp_path / "x.gif").read_bytes())) == pytest.approx(1.2 + PAUSE, abs=0.011)
    assert main(["export", first, "--png", str(tmp_path / "x.png"), "--clock", "seconds", "--dpi", "100"]) == 0
    with Image.open(tmp_path / "x.png") as image:
        assert image.width == 700 and round(image.info["dpi"][0]) == 100
    out = call(capsys, "export", first, "--svg", "-", "--view", "step", "--step", "3", "--width", "3.3")[1]
    assert out.startswith("<svg ") and "after 4 of 16 steps" in out and out.endswith("</svg>\n")
    assert "--speed belongs to" in refused(capsys, "export", first, "--svg", "x", "--speed", "2")
    assert "--view belongs to" in refused(capsys, "export", first, "--html", "x", "--view", "board")
