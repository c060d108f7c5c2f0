"""The view of a scene that a model sees: what it draws and says, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import engines
from engines.core.trace import Commits, End, Piece, Step, Trace, Tree, pack
from engines.methods.multimodal._seen import Vision
from tests.player.handmade import header, records

Open = Callable[..., Any]
WORDS = ["<end>", " a", " red", " circle", " left", " blue"]
PIECES = [Piece(i, word, "special" if not i else "text") for i, word in enumerate(WORDS)]


def rounds(readers: list[str]) -> Trace:
    """A first round that only reads, a second in which the draft's " blue" is refused, a third that is all accepted."""
    written = [([1], ["bonus"], ["function"]), ([2], ["residual"], ["attribute"])]
    written += [([3, 4, 0], ["accepted", "accepted", "bonus"], ["attribute", "place", "function"])]
    steps, at = [], 12
    for i, (tokens, causes, kinds) in enumerate(written):
        step = Step(i, {"target": 1}, 11, 0.01, 0.001, {"target": 9})
        step.commits = Commits(list(range(at, at + len(tokens))), tokens, causes)
        pixels = None if i else pack(np.full((6, 6, 3), [1.0, 0.0, 0.5]), 0.0, 1.0)
        looks = pack(np.eye(4)[[i % 4, 3][: len(readers)]], 0.0, 1.0) if i else None
        entries = {"picture": 4, "text": i} if i else {}
        seen = Vision(pixels, [2, 2], looks, readers if i else [], entries, 500, kinds)
        step.records = records(vision=seen)
        if i == 1:
            step.tree = Tree(at - 1, [-1, 0], [1, 5], [True, False], ["root", "mismatch"], [2])
        steps.append(step)
        at += len(tokens)
    top = header("msd", "MSD", "multimodal")
    top.prompt_ids, top.eos_ids = [1] * 12, [0]
    return Trace(top, steps, PIECES, End("complete", [1, 2, 3, 4, 0], "a red circle left", 0.1, 0.01))


def part(page: Any, selector: str) -> Any:
    return page.page.locator(f'[data-view="Seen"] {selector}')


def seek(page: Any, step: int) -> None:
    page.page.evaluate("step => handles[0].seek(step)", step)


def heats(page: Any) -> list[list[float]]:
    maps = part(page, "svg > g:nth-child(3) > g")
    opacity = "all => all.map(e => +e.getAttribute('opacity'))"
    return [maps.nth(i).locator("> g").first.locator("rect").evaluate_all(opacity) for i in range(maps.count())]


def shown(page: Any, selector: str) -> list[str]:
    return part(page, selector).evaluate_all(
        "all => all.filter(e => e.style.display !== 'none').map(e => e.textContent)"
    )


def test_rounds_refusals_and_what_the_draft_keeps(opened: Open) -> None:
    page = opened([rounds(["draft"])])
    assert part(page, "svg > image").is_visible(), "the picture is there before it is looked at"
    assert part(page, ".dx-readout").first.text_content() == "The picture that is looked at."
    assert shown(page, ".dx-seen-round") == []
    seek(page, 2)
    assert shown(page, ".dx-seen-round") == ["a", "redblue"], "below the model's word what the draft had guessed"
    assert part(page, ".dx-readout").first.text_content() == "2 tokens after 2 forwards of the model."
    tiles = part(page, "svg > g:nth-child(4) rect")
    assert (tiles.count(), part(page, ".dx-seen-patch").count()) == (10, 8), "the target's and the draft's"
    assert "4 of the picture (2.0 kB), 1 of text" in str(part(page, ".dx-seen-side").text_content())
    assert "size, colour, shape 0 / 1" in str(part(page, ".dx-seen-side").text_content())
    seek(page, 3)
    said = str(part(page, ".dx-seen-side").text_content())
    assert "size, colour, shape 1 / 2, place 1 / 1, other words 0 / 1" in said
    assert shown(page, ".dx-seen-round")[-1] == "circleleftend"
    assert heats(page) == [[0, 0, 0.9, 0]]
    page.check_quiet()


def test_each_reader_has_a_map_of_its_own(opened: Open) -> None:
    page = opened([rounds(["compact token", "global vector"])])
    seek(page, 2)
    assert heats(page) == [[0, 0.9, 0, 0], [0, 0, 0, 0.9]]
    names = shown(page, "svg > g:last-child text") + shown(page, "svg > g:nth-child(6) text")
    assert "compact token: made from here" in names and "global vector g: made from here" in names
    assert not any("g joins every word" in name for name in names), "no vector was added in this run"


@pytest.mark.parametrize("params", [{}, {"global_vector": False}, {"compact": False}], ids=str)
def test_what_reaches_the_draft_is_what_the_run_gave_it(opened: Open, params: dict[str, Any]) -> None:
    trace = engines.run("vispec", "tiny-vlm", "scene 12", params={"max_new_tokens": 12, **params})
    page = opened([trace], folded=True)
    seek(page, 2)
    heads = shown(page, "svg > g:nth-child(6) text")
    draft = "1 compact token instead of 36, then" if params.get("compact", True) else "no image token, only"
    assert heads == [
        "Target model: all 36 image tokens, then the text",
        f"Draft: {draft} the text" + "; g joins every word" * params.get("global_vector", True),
    ]
    ways = len(shown(page, "svg > g:nth-child(5) path"))
    text = trace.steps[1].records["vision"]["entries"]["text"]
    assert ways == params.get("compact", True) + text * params.get("global_vector", True)


@pytest.mark.parametrize("width", [390, 1440])
def test_it_fits_its_panel(opened: Open, width: int) -> None:
    page = opened([rounds(["draft"])])
    page.page.set_viewport_size({"width": width, "height": 900})
    seek(page, 3)
    page.page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    box = part(page, "svg").bounding_box()
    assert box and 300 < box["width"] <= width
