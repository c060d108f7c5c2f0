"""The pictures of `assets/docs`: figures of recorded runs and of measurements, by the writers of every export.

    python -m explorer.site.pictures            makes all of them anew
    python -m explorer.site.pictures --check    only compares; exit status 1 if one is not what the data say

The same runs and records give the same bytes; a test holds that they agree."""

import gzip
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import engines
from engines import ASSETS
from explorer.arguments import Parser, made_anew, of_module
from explorer.bench import classes, quality
from explorer.export import look
from explorer.export.drawing import Drawing, svg
from explorer.export.figures import figure
from explorer.export.plot import marker
from explorer.papers.documents import PICTURES
from explorer.site.sweeps import quality_figure

WIDTH, ROW, NAMES = 504.0, 15.0, 170.0  # points: of the drawing, of a method, of the names


def runs(*names: str, **options: Any) -> str:
    """A figure of recorded runs, named as in `assets/traces`."""
    files = [ASSETS / "traces" / f"{name}.json.gz" for name in names]
    return str(figure([engines.read_trace(gzip.decompress(file.read_bytes())) for file in files], **options))


def speeds(new_tokens: int) -> str:
    """Tokens per second over greedy's by method: the median over the classes with its 95 % interval, and greedy's
    1."""
    bench = next(record for record in classes.recorded() if record.max_new_tokens == new_tokens)
    order = sorted(bench.labels(), key=bench.overall, reverse=True)
    spans = [bench.interval(label) or (bench.overall(label), bench.overall(label)) for label in order]
    most = 1.05 * max(high for _, high in spans)
    title = f"Tokens per second over greedy's, {bench.models[0].name}, {new_tokens} new tokens"
    d = Drawing(WIDTH, ROW * (len(order) + 3), title, "Median over the classes with its 95 % interval, measured.")
    text, muted = look.surface("text"), look.surface("muted")
    d.text(4, 11, title, 7.5, text)

    def across(speed: float) -> float:
        return NAMES + speed / most * (WIDTH - NAMES - 40)

    end = ROW * (len(order) + 1.6)
    d.line([(across(1), ROW * 1.4), (across(1), end)], muted, 0.7, (2, 2))
    d.text(across(1), end + 9, "1 = greedy", 6.6, muted, anchor="middle")
    for i, (label, (low, high)) in enumerate(zip(order, spans, strict=True)):
        down, (colour, _, sign) = ROW * (i + 2), look.series(0)
        d.text(NAMES - 8, down + 2.4, label, 6.8, text, anchor="end", room=NAMES - 10)
        d.line([(across(low), down), (across(high), down)], colour, 1.3)
        marker(d, sign, across(bench.overall(label)), down, 2.6, colour)
        d.text(across(high) + 6, down + 2.4, f"{bench.overall(label):.2f}×", 6.6, text)
    return svg(d)


DRAWN: dict[str, Callable[[], str]] = {
    "boards": partial(runs, "02-credit-sum", "03-threshold-sum"),
    "step": partial(runs, "40-threshold-names", view="step", step=4),
    "tree": partial(runs, "110-eagle-sum", view="tree"),
    "race": partial(runs, "34-greedy-notices", "35-lookup-notices", "36-rasd-notices", view="curve"),
    "work": partial(runs, "29-pearl-story", "37-pearl-threads", view="work"),
    "speeds": partial(speeds, 48),
    "quality": lambda: quality_figure(quality.recorded()[0]),
}


def _options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if one is out of date")


def main(argv: Sequence[str] | None = None) -> int:
    """Write every picture; with --check say which are not what the data say."""
    asked = of_module("explorer.site.pictures", __doc__, argv, _options)
    PICTURES.mkdir(exist_ok=True)
    return made_anew({PICTURES / f"{name}.svg": draw() for name, draw in DRAWN.items()}, asked.check)


if __name__ == "__main__":
    sys.exit(main())
