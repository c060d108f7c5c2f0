"""When the models of several runs computed, on one scale of seconds: a row for each model, one for the time in which
two of them did."""

from collections.abc import Sequence

from engines import UserError
from explorer.export import look
from explorer.export.drawing import Drawing
from explorer.export.overview import nice
from explorer.export.playback import Playback
from explorer.export.views import SMALL, TINY, heading, names
from explorer.figures.calls import many
from explorer.figures.work import Work, work

BAR, ROW, LEFT = 9.0, 12.0, 46.0
AT_ONCE = "at once"
FOOT = (
    "Seconds of model and method, on one scale: solid where a measured call ran; recording, sending and drawing "
    "are left out. Upright line: the run ends."
)


def timeline(d: Drawing, runs: Sequence[Playback], x: float, y: float, w: float) -> float:
    """Draw the rows of all runs and return the height. Raises UserError where no run recorded the calls of its
    models."""
    all_work = [work(run.trace) for run in runs]
    if not any(done.rows for done in all_work):
        raise UserError(
            "no trace holds measured calls of several models; choose runs that draft and verify, or the view board, "
            "step or curve."
        )
    top, end = y, max(done.seconds for done in all_work) or 1.0
    unit, sentences = (w - LEFT - 4) / end, []
    for run, name, done in zip(runs, names(runs), all_work, strict=True):
        y += heading(d, run, name, x, y, w)
        y += _rows(d, done, x, y, unit)
        line = f"{sums(done)}; {many(run.tokens(run.length), 'token')}"
        d.text(x + LEFT, y + 7, line, SMALL, look.surface("text"), room=w - LEFT)
        sentences.append(f"{run.header.title}: {line}.")
        y += 16
    d.line([(x + LEFT, y), (x + LEFT + end * unit, y)], look.surface("line"), 0.6)
    for place in nice(0, end, max(2, int(w / 60))):
        at = x + LEFT + place * unit
        d.line([(at, y), (at, y + 3)], look.surface("line"), 0.6)
        d.text(at, y + 9, f"{place:g} s", TINY, look.surface("muted"), anchor="middle" if place else "start")
    d.text(x, y + 20, FOOT, SMALL, look.surface("muted"), room=w)
    d.about = " ".join(sentences)
    return y + 26 - top


def sums(done: Work) -> str:
    """How long each model computed, how long two did at once, and where the run ended."""
    if not done.rows:
        return f"calls not recorded; ends at {done.seconds:.3f} s"
    busy = ", ".join(f"{role} {done.busy(role):.3f} s" for role in done.rows)
    both = (
        f", at once {done.shared:.3f} s ({100 * done.shared / done.any:.0f} %)"
        if len(done.rows) > 1 and done.any
        else ""
    )
    return f"{busy}{both}; ends at {done.seconds:.3f} s"


def _rows(d: Drawing, done: Work, x: float, y: float, unit: float) -> float:
    rows = [*done.rows.items(), *([(AT_ONCE, done.at_once)] if len(done.rows) > 1 else [])]
    left, top = x + LEFT, y
    for i, (role, spells) in enumerate(rows):
        d.text(left - 4, y + 0.75 * BAR, role, SMALL, look.surface("text"), anchor="end", room=LEFT - 6)
        d.box(left, y, done.seconds * unit, BAR, look.mix(look.surface("line"), "#ffffff", 0.6))
        colour = look.surface("text") if role == AT_ONCE else look.series(i)[0]
        d.cells([(left + start * unit, y, max(0.3, (end - start) * unit), BAR) for start, end in spells], colour)
        y += ROW
    d.line([(left + done.seconds * unit, top - 1), (left + done.seconds * unit, y - 1)], look.surface("text"), 0.9)
    return y - top
