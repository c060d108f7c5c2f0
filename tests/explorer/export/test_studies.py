"""Figures of studies by our own writer: every point stands where the axes say, gaps end lines, bars stack."""

import re

import pytest

from engines.core.study import Axis, Figure, Series
from explorer.export.drawing import Box, Line, Words
from explorer.export.look import series as look_of
from explorer.export.studies import figure_drawing, figure_svg


def figure(*series, x=None, y=None):
    return Figure("f", "A <title>", x or Axis("x"), y or Axis("y", "m"), list(series))


def polylines(drawing, i):
    colour = look_of(i)[0]
    return [m for m in drawing.marks if isinstance(m, Line) and m.colour == colour and not m.fill and m.thick > 1]


def test_a_gap_ends_a_line_and_is_no_point():
    drawn = figure_drawing(figure(Series("s", [1, 2, 3, 4, 5], [1, 2, None, 4, 5], "measured")))
    first, second, legend = polylines(drawn, 0)
    assert len(first.points) == len(second.points) == 2 and first.points[-1][0] < second.points[0][0]
    assert len({y for _, y in legend.points}) == 1


def test_bars_stand_on_their_bases_and_inside_the_frame():
    bars = Series("low", [0, 1], [1, 2], "modelled", "bars")
    above = Series("high", [0, 1], [3, 3], "modelled", "bars", base=[1, 2])
    drawn = figure_drawing(figure(bars, above, x=Axis("what", labels=["one", "two"])))
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
    drawn = figure_drawing(figure(Series("s", [1, 10, 100], [1, 100, 10_000], "derived"), **LOG))
    (a, b, c) = polylines(drawn, 0)[0].points
    assert b[0] - a[0] == pytest.approx(c[0] - b[0]) and b[1] - a[1] == pytest.approx(c[1] - b[1])
    odd = [31.9816, 60.1, 98.5661, 200.2, 255.853, 511.705, 1073.74, 2147.48, 17179.9]
    drawn = figure_drawing(figure(Series("s", odd, [2.0**i for i in range(9)], "derived"), **LOG))
    words = [mark.text for mark in drawn.marks if isinstance(mark, Words)]
    assert words[0] == "A <title>"
    ticks = [word for word in words if re.fullmatch(r"[\d.,]+", word)]
    assert {"100", "1,000", "10,000"} <= set(ticks) and not any("e+" in word for word in words)
    assert all(set(tick.replace(",", "")) <= set("1250.") for tick in ticks), ticks


def test_text_is_escaped_and_an_empty_figure_is_drawn():
    text = figure_svg(figure(Series("<b>", [], [], "published")))
    assert text.startswith("<svg") and "<b>" not in text and "A &lt;title&gt;" in text
    assert figure_svg(figure()).startswith("<svg")
