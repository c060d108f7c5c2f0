"""Figures show the player's board, both writers draw one layout, and hostile text stays text."""

import io
import re
import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

import engines
from engines import Trace, UserError
from engines.core.study import Axis, Figure, Series
from explorer.export import fonts, look, raster
from explorer.export.drawing import Box, Drawing, Line, Words, svg
from explorer.export.figures import figure, layout
from explorer.export.look import series as look_of
from explorer.export.overview import overview, shared_scale
from explorer.export.playback import CLOCKS, FIELDS, Playback, characters
from explorer.export.studies import figure_drawing, figure_svg
from explorer.export.trees import MAX_NODES, Node, folded, place, tree_nodes
from explorer.figures.handed import shown
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


def texts(drawn: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(drawn).iter(f"{SVG}text")]


def test_the_board_is_the_players(js):
    """State, token, gained tokens and clocks of every cell after every step, as run.js has them."""
    traces = [*map(invented, range(12)), *map(moving, range(24)), drafting(), masked()]
    for trace in [*traces, *(gallery().get(card.id) for card in gallery().cards)]:
        run = Playback(trace)
        for t, theirs in enumerate(js("run.js", READ, text=shown(trace))):
            ours = [[cell.position, cell.token, cell.state] for cell in run.board(t)]
            assert ours == theirs["board"][run.start :], (trace.header.title, t)
            assert run.tokens(t) == theirs["tokens"]
            clocks = [clock for clock in CLOCKS if FIELDS.get(clock) not in trace.header.missing]
            axes = dict(zip(CLOCKS, theirs["axes"], strict=True))
            assert [run.axes[clock][t] for clock in clocks] == pytest.approx([axes[c] for c in clocks], abs=1e-6)


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
    run, d, wanted = Playback(masked()), Drawing(504, 0), set()
    scale = shared_scale([run], "seconds", 504)
    overview(d, run, run.length, 0, 0, 504, scale)
    fill = look.state("new", "fill")
    cells = [mark for mark in d.marks if getattr(mark, "fill", "") == fill and hasattr(mark, "places")]
    for step in run.trace.steps:
        y = round(9 + run.axes["seconds"][step.index] * scale.unit, 2)
        wanted |= {(round(24 + (position - run.start) * scale.cell, 2), y) for position in step.commits.positions}
    assert {(round(x, 2), round(y, 2)) for mark in cells for x, y, _, _ in mark.places} == wanted


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


WIDE = msgspec.structs.replace(masked(24, 30), header=msgspec.structs.replace(masked(24, 30).header, canvas=2**20))
UNCLOCKED = next(gallery().get(c.id) for c in gallery().cards if FIELDS["work"] in gallery().get(c.id).header.missing)


@pytest.mark.parametrize(
    ("traces", "wish", "said"),
    [
        ([masked()], {"width": 900}, "2 to 20 inches"),
        ([masked()], {"format": "png", "width": 20, "dpi": 1200}, "pixels"),
        ([masked()], {"view": "tree"}, "no draft trees"),
        ([drafting()], {"view": "tree", "step": 4}, "the nearest one that has is"),
        ([UNCLOCKED], {"view": "curve", "clock": "work"}, "recorded nothing for clock=work"),
        ([], {}, "0 traces"),
        ([msgspec.structs.replace(masked(), steps=[])], {}, "no steps"),
        # a board too wide for a picture is refused before it is drawn
        ([WIDE], {"view": "board"}, "cells; at most 200,000 are drawn"),
        ([WIDE], {"view": "step"}, "cells; at most 20,000 are drawn"),
    ],
)
def test_bad_wishes_are_refused(traces: list[Trace], wish: dict, said: str):
    with pytest.raises(UserError, match=said):
        figure(traces, **wish)


def test_the_text_under_a_board_is_what_stood_then():
    run = Playback(masked(150, 30))
    final = run.trace.text.split()
    assert run.text(run.length) == run.trace.text and run.text(0) == f"▢×{run.widest - run.start}"
    standing = [run.text_of(cell.token) for cell in run.board(15) if cell.token is not None]
    assert [word for word in run.text(15).split() if not word.startswith("▢")] == "".join(standing).split() != final
    for t in (0, 15, run.length):
        d = Drawing(200, 400, "a board")
        overview(d, run, t, 0, 0, 200, shared_scale([run], "steps", 200))
        assert run.text(t).split()[0] in " ".join(texts(svg(d)))


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


def of_study(*series, x=None, y=None):
    return Figure("f", "A <title>", x or Axis("x"), y or Axis("y", "m"), list(series))


def polylines(drawing, i):
    colour = look_of(i)[0]
    return [m for m in drawing.marks if isinstance(m, Line) and m.colour == colour and not m.fill and m.thick > 1]


def test_a_gap_ends_a_line_text_is_escaped_and_an_empty_figure_is_drawn():
    drawn = figure_drawing(of_study(Series("s", [1, 2, 3, 4, 5], [1, 2, None, 4, 5], "measured")))
    first, second, legend = polylines(drawn, 0)
    assert len(first.points) == len(second.points) == 2 and first.points[-1][0] < second.points[0][0]
    assert len({y for _, y in legend.points}) == 1
    text = figure_svg(of_study(Series("<b>", [], [], "published")))
    assert text.startswith("<svg") and "<b>" not in text and "A &lt;title&gt;" in text
    assert figure_svg(of_study()).startswith("<svg")


def test_bars_stand_on_their_bases_and_inside_the_frame():
    bars = Series("low", [0, 1], [1, 2], "modelled", "bars")
    above = Series("high", [0, 1], [3, 3], "modelled", "bars", base=[1, 2])
    drawn = figure_drawing(of_study(bars, above, x=Axis("what", labels=["one", "two"])))
    low, high = (
        [m for m in drawn.marks if isinstance(m, Box) and m.fill == look_of(i)[0] and m.w > 20] for i in (0, 1)
    )
    assert len(low) == len(high) == 2
    for below, above in zip(low, high, strict=True):
        assert above.y + above.h == pytest.approx(below.y) and above.x == below.x
    assert low[1].h == pytest.approx(2 * low[0].h) and high[0].h == pytest.approx(2 * high[1].h)
    assert min(box.x for box in low) > 34 and max(box.x + box.w for box in low) < drawn.width
    words = {mark.text for mark in drawn.marks if isinstance(mark, Words)}
    assert {"one", "two", "low (modelled)", "what", "y, m"} <= words


LOG = {"x": Axis("x", log=True), "y": Axis("y", log=True)}


def test_logarithmic_axes_are_straight_for_powers_and_say_round_numbers():
    drawn = figure_drawing(of_study(Series("s", [1, 10, 100], [1, 100, 10_000], "derived"), **LOG))
    (a, b, c) = polylines(drawn, 0)[0].points
    assert b[0] - a[0] == pytest.approx(c[0] - b[0]) and b[1] - a[1] == pytest.approx(c[1] - b[1])
    odd = [31.9816, 60.1, 98.5661, 200.2, 511.705, 17179.9]
    drawn = figure_drawing(of_study(Series("s", odd, [2.0**i for i in range(6)], "derived"), **LOG))
    words = [mark.text for mark in drawn.marks if isinstance(mark, Words)]
    ticks = [word for word in words if re.fullmatch(r"[\d.,]+", word)]
    assert {"100", "1,000", "10,000"} <= set(ticks) and not any("e+" in word for word in words)
    assert all(set(tick.replace(",", "")) <= set("1250.") for tick in ticks), ticks
