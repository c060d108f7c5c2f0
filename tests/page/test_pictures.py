"""Figures and films from *Save and open*: what arrives in the browser is the picture, and no wish from outside can hurt
the server."""

import io

import pytest
from PIL import Image

from engines import UserError
from explorer.page import pictures
from tests.player.handmade import masked


@pytest.mark.pages
def test_figures_and_a_film_are_saved(visit, tmp_path, traces):
    screen = visit()
    screen.tab("Save and open")
    saved = {}
    for kind, button in (("svg", "Save figure (SVG)"), ("png", "Save figure (PNG)"), ("gif", "Save animation (GIF)")):
        with screen.page.expect_download(timeout=120_000) as download:
            screen.press(button)
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        saved[kind] = path.read_bytes()
        screen.says(f"Saved {path.name}")
    assert saved["svg"].startswith(b"<svg ")
    assert all(trace.header.title.encode() in saved["svg"] for trace in traces[:2])
    assert Image.open(io.BytesIO(saved["png"])).size[0] == 2100
    assert Image.open(io.BytesIO(saved["gif"])).n_frames > 2
    screen.choose("save-what", "player 3")
    screen.press("Save figure (SVG)")
    screen.says("There is nothing to save in that player")


@pytest.mark.parametrize(
    ("kind", "wish", "said"),
    [
        ("svg", {"view": "cake"}, "view=cake"),
        ("svg", {"view": "step", "step": "1"}, "whole number"),
        ("svg", {"view": "step", "step": 17}, "steps 0 to 15"),
        ("png", {"width": 1e9}, "2 to 20"),
        ("gif", {"speed": float("inf")}, "speed=inf"),
        ("gif", {"view": "curve"}, "step, board, tree"),
        ("gif", {"clock": ["seconds"]}, "steps, forwards, seconds"),
    ],
)
def test_wishes_are_checked_behind_the_page(kind: str, wish: dict, said: str):
    usual = {"view": "step", "clock": "seconds", "step": None, "width": 7.0, "speed": 1.0}
    with pytest.raises(UserError, match=said):
        pictures.draw(kind, [masked()], **{**usual, **wish})


def test_a_long_film_is_refused_and_the_players_count_of_steps_is_taken():
    with pytest.raises(UserError, match="at most 400"):
        pictures.draw("gif", [masked(steps=16, board=32)] * 26, "step", "steps", None, 7.0, 1.0)
    assert b"after 3 of 16 steps" in pictures.draw("svg", [masked()], "step", "steps", 3, 7.0, 1.0)
