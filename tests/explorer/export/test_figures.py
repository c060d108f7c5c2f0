"""Figures: the board they show is the player's, both writers draw one layout, hostile text stays text, bad wishes are
refused in a sentence."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

import engines
from engines import Trace, UserError
from engines.core.trace import Piece
from explorer.export import fonts, look, raster
from explorer.export.drawing import Drawing, svg
from explorer.export.figures import cursor_of, figure, layout
from explorer.export.overview import nice, overview, shared_scale
from explorer.export.playback import CLOCKS, FIELDS, Playback, characters
from explorer.export.trees import MAX_NODES, Node, folded, place, tree_nodes
from explorer.runs.gallery import gallery
from tests.explorer.figures.lookback import invented, moving
from tests.player.handmade import both_at_once, drafting, hostile, masked
from tests.player.node import js

__all__ = ["js"]

SVG = "{http://www.w3.org/2000/svg}"
READ = """(() => {
  const run = M.Run.from(text), out = [];
  for (let t = 0; t <= run.length; t++) out.push({ tokens: run.tokens(t), board: run.board(t).map((c) => [c.position,
    c.token, c.state]),
    axes: ["steps", "forwards", "seconds", "work"].map((unit) => run.axes[unit][t]) });
  return out;
})()"""


def recorded() -> Iterator[Trace]:
    return (gallery().get(card.id) for card in gallery().cards)


def texts(drawn: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_the_board_is_the_players(js):
    """State, token, gained tokens and clocks of every cell after every step, as store.js has them."""
    traces = [*map(invented, range(12)), *map(moving, range(24)), drafting(), masked(), *recorded()]
    for trace in traces:
        run = Playback(trace)
        for t, theirs in enumerate(js("store.js", READ, text=trace.to_json())):
            ours = [[cell.position, cell.token, cell.state] for cell in run.board(t)]
            assert ours == theirs["board"][run.start :], (trace.header.title, t)
            assert run.tokens(t) == theirs["tokens"]
            clocks = [clock for clock in CLOCKS if FIELDS.get(clock) not in trace.header.missing]
            axes = dict(zip(CLOCKS, theirs["axes"], strict=True))
            assert [run.axes[clock][t] for clock in clocks] == pytest.approx([axes[c] for c in clocks], abs=1e-6)


def test_a_clock_that_a_run_did_not_record_is_refused():
    with pytest.raises(UserError, match="recorded nothing for clock=work"):
        figure([next(one for one in recorded() if FIELDS["work"] in one.header.missing)], view="curve", clock="work")
    assert figure([drafting()], view="curve", clock="work").startswith("<svg")


def test_work_of_two_runs_on_one_scale_of_seconds():
    """Bars stand where the calls ran, the row of both at once where two did, and the scale is that of the longest
    run."""
    short, long = both_at_once(), both_at_once()
    long.steps = [msgspec.structs.replace(step, method_seconds=0.7) for step in long.steps]
    d = layout([short, long], view="work")
    bars = [mark.places for mark in d.marks if hasattr(mark, "places")]
    left, unit = bars[0][0][0], bars[0][0][2] / 0.2
    at = [[(round((x - left) / unit, 6), round((x - left + w) / unit, 6)) for x, _, w, _ in row] for row in bars]
    assert at[:3] == [[(0.0, 0.2), (0.6, 1.0)], [(0.2, 0.5), (0.7, 0.9)], [(0.7, 0.9)]]
    assert at[3:] == [[(0.0, 0.2), (1.2, 1.6)], [(0.2, 0.5), (1.3, 1.5)], [(1.3, 1.5)]]
    assert left + 3.6 * unit == pytest.approx(d.width - 8)
    drawn = texts(svg(d))
    assert "draft 0.600 s, target 0.500 s, at once 0.200 s (22 %); ends at 1.800 s; 3 tokens" in drawn


def test_the_overview_marks_each_write_at_its_step_and_place():
    """A cell's place in the picture is its step on the clock and its position; every write of the run has one."""
    trace = masked()
    run = Playback(trace)
    for clock in ("steps", "seconds"):
        d = Drawing(504, 0)
        scale = shared_scale([run], clock, 504)
        overview(d, run, run.length, 0, 0, 504, scale)
        fill = look.state("new", "fill")
        cells = [mark for mark in d.marks if getattr(mark, "fill", "") == fill and hasattr(mark, "places")]
        places = {(round(x, 2), round(y, 2)) for mark in cells for x, y, _, _ in mark.places}
        wanted = {
            (round(24 + (position - run.start) * scale.cell, 2), round(9 + run.axes[clock][step.index] * scale.unit, 2))
            for step in trace.steps
            for position in step.commits.positions
        }
        assert places == wanted


def test_two_runs_share_one_scale():
    """In seconds a run that takes a quarter of the time is a quarter as high."""
    long, short = masked(), masked()
    for step in short.steps:
        step.model_seconds, step.method_seconds = step.model_seconds / 4, step.method_seconds / 4
    runs = [Playback(long), Playback(short)]
    scale = shared_scale(runs, "seconds", 240)
    heights = []
    for run in runs:
        d = Drawing(240, 0)
        overview(d, run, run.length, 0, 0, 240, scale)
        cells = [p for mark in d.marks if hasattr(mark, "places") for p in mark.places]
        heights.append(max(y + h for _, y, _, h in cells) - 9)
    assert heights[0] == pytest.approx(4 * heights[1], rel=0.02)


def test_hostile_text_stays_text():
    trace = hostile()
    for view in ("board", "step", "curve"):
        made = figure(trace, view=view)
        root = ET.fromstring(made)
        kinds = {node.tag.removeprefix(SVG) for node in root.iter()}
        assert kinds <= {"svg", "title", "desc", "rect", "path", "polyline", "polygon", "text"}
        assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", made)
        assert not [name for node in root.iter() for name in node.attrib if name.startswith("on")]
    assert len(figure(trace, view="step", format="png", dpi=72)) > 500


def test_what_no_font_has_is_shown_by_its_number():
    assert fonts.legible("🙂中a", "mono", spaces=False) == ("‹1F642›‹4E2D›a", "mono")
    assert fonts.legible(" a\n\u202e\x00", "mono", spaces=False)[0] == "␣a↵‹202E›‹0›"
    assert fonts.legible("שלום", "mono")[1] == "sans" and fonts.legible("שלום", "mono")[0] == "שלום"
    assert len(fonts.legible("a" * 10_000)[0]) == fonts.LONGEST + 1
    for name in look.theme()["states"]:
        shown, face = fonts.legible(look.glyph(name))
        assert len(shown) == 1 and fonts.has(shown, face)


def test_fit_and_wrap_keep_to_their_room():
    for room in (10, 33, 80):
        assert fonts.width(fonts.fit("a long text that does not fit", "sans", 7, room), "sans", 7) <= room
        lines = fonts.wrap("several words to be set in lines", "sans", 7, room, 2)
        assert all(fonts.width(line, "sans", 7) <= room for line in lines)
    assert fonts.fit("short", "sans", 7, 100) == "short"
    assert fonts.wrap("one two", "sans", 7, 500, 2) == ["one two"]


def test_both_writers_draw_the_same(browser: Browser):
    """The SVG in a browser and the PNG of Pillow: the same picture but for the smoothing of edges."""
    page = browser.new_page(viewport={"width": 700, "height": 600}, device_scale_factor=2)
    for trace, view in ((masked(), "board"), (masked(), "step"), (drafting(), "tree"), (drafting(), "curve")):
        drawing = layout([trace], view=view, width=5)
        page.set_content(f"<style>body{{margin:0}}svg{{display:block}}</style>{svg(drawing)}")
        box = page.locator("svg").bounding_box()
        wanted = (pytest.approx(480, abs=0.1), pytest.approx(drawing.height * 96 / 72, abs=0.1))
        assert (box["width"], box["height"]) == wanted
        theirs = Image.open(io.BytesIO(page.screenshot(clip=box | {"height": int(box["height"])}))).convert("L")
        ours = raster.image(drawing, 192, size=theirs.size).convert("L")
        small = [np.asarray(one.reduce(4), float) for one in (theirs, ours)]
        apart = np.abs(small[0] - small[1])
        assert apart.mean() < 3 and (apart > 60).mean() < 0.004, (view, apart.mean(), (apart > 60).mean())
        assert small[1].std() > 15  # it is not merely white on white
    page.close()


def test_a_png_knows_its_resolution():
    image = Image.open(io.BytesIO(figure(masked(), format="png", width=3.3, dpi=200)))
    assert image.width == 660 and round(image.info["dpi"][0]) == 200


def test_a_tree_is_placed_and_folded():
    run = Playback(drafting())
    nodes = tree_nodes(run, 4)
    columns, _ = place(nodes)
    states = {node.state for node in nodes}
    assert states >= {"old", "accepted", "rejected"} and states & {"correction", "bonus"}
    assert columns == 1 + max(node.column for node in nodes) and len({(n.column, n.row) for n in nodes}) == len(nodes)
    many = [Node(0, -1, "old", 1), *(Node(0, max(0, i // 3), "unreached", 1) for i in range(300))]
    kept = folded(many)
    assert len(kept) == MAX_NODES and sum(node.folded for node in kept) == 301 - MAX_NODES
    assert all(node.parent < i for i, node in enumerate(kept))


def test_round_ticks():
    assert nice(0, 50, 5) == [0, 10, 20, 30, 40, 50] and nice(0, 0.3, 3) == [0, 0.1, 0.2, 0.3] and nice(0, 0, 3) == [0]
    for high in (0.0007, 0.013, 1.1, 7, 48, 999, 123456):
        places = nice(0, high, 5)
        assert 2 <= len(places) <= 12 and places[-1] <= high and places == sorted(places)


def repeated(steps: int) -> Trace:
    """A run of so many steps."""
    trace = masked()
    return msgspec.structs.replace(
        trace, steps=[msgspec.structs.replace(trace.steps[0], index=i) for i in range(steps)]
    )


WIDE = msgspec.structs.replace(masked(24, 30).header, canvas=2**20)


@pytest.mark.parametrize(
    ("traces", "wish", "said"),
    [
        ([masked()], {"view": "cake"}, "choose board, step"),
        ([masked()], {"format": "bmp"}, "svg or png"),
        ([masked()], {"clock": "moon"}, "steps, forwards, seconds"),
        ([masked()], {"width": 900}, "2 to 20 inches"),
        ([masked()], {"width": "7"}, "2 to 20 inches"),
        ([masked()], {"format": "png", "dpi": 99999}, "50 to 1200"),
        ([masked()], {"format": "png", "width": 20, "dpi": 1200}, "pixels"),
        ([masked()], {"view": "step", "step": 99}, "steps 0 to 15"),
        ([masked()], {"view": "step", "step": True}, "steps 0 to 15"),
        ([masked()], {"view": "tree"}, "no draft trees"),
        ([masked()], {"view": "work"}, "no trace holds measured calls"),
        ([both_at_once()], {"view": "work", "clock": "steps"}, "no clock=steps; choose seconds"),
        ([], {}, "0 traces"),
        ([masked()] * 9, {}, "9 traces"),
        ([repeated(0)], {}, "no steps"),
        ([repeated(401)], {}, "at most 400"),
        # a board too wide for a picture is refused before it is drawn
        ([msgspec.structs.replace(masked(24, 30), header=WIDE)], {"view": "board"}, "cells; at most 200,000 are drawn"),
        ([msgspec.structs.replace(masked(24, 30), header=WIDE)], {"view": "step"}, "cells; at most 20,000 are drawn"),
    ],
)
def test_bad_wishes_are_refused(traces: list[Trace], wish: dict, said: str):
    with pytest.raises(UserError, match=said):
        figure(traces, **wish)


def test_a_step_without_a_tree_names_the_nearest():
    with pytest.raises(UserError, match="the nearest one that has is"):
        cursor_of(Playback(drafting()), "tree", 4)


def test_tokens_without_an_entry_are_named():
    trace = msgspec.structs.replace(masked(), pieces=[Piece(0, "<mask>", "special")])
    assert any("token" in text for text in texts(figure(trace, view="step")))


def test_runs_of_one_method_are_told_apart():
    one, two, three = masked(), masked(), drafting()
    two.header.params = {"threshold": 0.5}
    one.header.params = {"threshold": 0.9}
    drawn = texts(figure([one, two, three], view="curve"))
    assert [text.split(":")[0] for text in drawn if "tokens," in text] == [
        "Confidence threshold (threshold=0.9)",
        "Confidence threshold (threshold=0.5)",
        "Tree drafting",
    ]


def test_the_text_under_a_board_is_what_stood_then():
    run = Playback(masked(150, 30))
    scale = shared_scale([run], "steps", 200)

    def said(t: int) -> str:
        d = Drawing(200, 400, "a board")
        overview(d, run, t, 0, 0, 200, scale)
        return " ".join(texts(svg(d)))

    final = run.trace.text.split()
    assert run.text(run.length) == run.trace.text and final[0] in said(run.length)
    open_ = f"▢×{run.widest - run.start}"
    assert run.text(0) == open_ and open_ in said(0) and final[0] not in said(0)
    for t in (1, 15):
        standing = [run.text_of(cell.token) for cell in run.board(t) if cell.token is not None]
        assert [word for word in run.text(t).split() if not word.startswith("▢")] == "".join(standing).split() != final
        assert run.text(t).split()[0] in said(t)


def test_bytes_under_a_board_are_joined_into_characters():
    assert characters("0xE2 0x98 0x83 0x61") == "☃a" and characters("0x83 0xE2 0x98") == "⟨0x83⟩⟨0xE2⟩⟨0x98⟩"
    trace = engines.run("greedy", "tiny-ar-l", "add: 1 + 2", params={"max_new_tokens": 8})
    first, second, *_ = trace.output_ids
    broken = {first: "0xE2", second: "0x98 0x83"}
    for piece in trace.pieces:
        if piece.id in broken:
            piece.text, piece.kind = broken[piece.id], "byte"
    run = Playback(trace)
    assert first != second and run.text(1) == "⟨0xE2⟩" and run.text(2) == "☃"
