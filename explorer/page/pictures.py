"""Figures and films of what the players show, made on the server and saved by the browser. Part of *Save and open*."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from engines import Trace, UserError
from explorer.page.handlers import Handlers
from explorer.page.handlers.keeping import named
from explorer.page.parts import fresh, refusals, say

VIEWS = [
    ("Board over all steps", "board"),
    ("Tokens after a step", "step"),
    ("Draft tree of a step", "tree"),
    ("Tokens over cost (no film)", "curve"),
    ("Draft and target over seconds (no film)", "work"),
]
CLOCKS = [
    ("Seconds (measured)", "seconds"),
    ("Model calls", "forwards"),
    ("Work in layer-rows", "work"),
    ("Steps", "steps"),
]
WIDTHS = [("Page, 7 in", "7"), ("Column, 3.3 in", "3.3")]
FITTED = 8.0  # seconds that a film lasts unless a person chooses its speed
SPEEDS = [
    (f"lasts {FITTED:.0f} s", "0"),
    ("2×", "2"),
    ("1× (as measured)", "1"),
    ("0.5×", "0.5"),
    ("0.25×", "0.25"),
    ("0.1×", "0.1"),
    ("0.05×", "0.05"),
]
TYPES = {"svg": "image/svg+xml", "png": "image/png", "gif": "image/gif"}
FILM = {
    "frames": 160,
    "rate": 20.0,
    "width": 420.0,
    "pixels": 1_200_000,
    "seconds": 30.0,
}  # what one film may cost a server that others use too
MAX_STEPS = 400  # of all chosen runs together, in a film

Saved = tuple[Any, Any]


def section(handlers: Handlers, what: gr.Dropdown, outputs: list[Any]) -> None:
    """The controls and their buttons; `what` says which players, outputs are the downloader and the status line."""
    gr.Markdown(
        "#### Figures and films\nAn SVG or PNG fit for a paper; a GIF, in which a shorter run ends earlier and then "
        "stays still, and which says its clock and speed."
    )
    with gr.Row():
        view = gr.Dropdown(VIEWS, value="board", label="View", min_width=170, elem_id="picture-view")
        clock = gr.Dropdown(CLOCKS, value="seconds", label="Clock", min_width=150, elem_id="picture-clock")
        step = gr.Number(
            0, label="After step", info="0: the last one", precision=0, min_width=100, elem_id="picture-step"
        )
        width = gr.Dropdown(WIDTHS, value="7", label="Width of a figure", min_width=120, elem_id="picture-width")
        speed = gr.Dropdown(SPEEDS, value="0", label="Speed of a film", min_width=130, elem_id="picture-speed")
    with gr.Row():
        for kind, label in (
            ("svg", "Save figure (SVG)"),
            ("png", "Save figure (PNG)"),
            ("gif", "Save animation (GIF)"),
        ):
            button = gr.Button(label, min_width=140)
            button.click(
                _saver(handlers, kind),
                [what, view, clock, step, width, speed],
                outputs,
                show_progress="hidden",
                concurrency_limit=1,
                concurrency_id="pictures",
                api_visibility="private",
            )


def _saver(handlers: Handlers, kind: str) -> Callable[..., Iterator[Saved]]:
    @refusals(1, 2)
    def save(
        what: Any, view: Any, clock: Any, step: Any, width: Any, speed: Any, request: gr.Request
    ) -> Iterator[Saved]:
        yield gr.skip(), say("Drawing …")
        chosen = handlers.chosen(what, request)
        traces = list(chosen.values())
        data = draw(kind, traces, view, clock, step, _number("width", width), _number("speed", speed))
        name = named(chosen, kind)
        file = {"name": name, "type": TYPES[kind], "base64": base64.b64encode(data).decode("ascii")}
        yield fresh(files=[file]), say(f"Saved {name} ({len(data) / 1000:,.0f} kB).", "ok")

    return save


def draw(kind: str, traces: list[Trace], view: Any, clock: Any, step: Any, width: float, speed: float) -> bytes:
    """The picture as bytes; every wish is checked by what draws it. step: as the player counts it, 1 is the first, 0
    stands for the last. Raises UserError."""
    if kind == "gif":
        from explorer.export.film import animation
        from explorer.export.film_files import Caps

        steps = sum(len(trace.steps) for trace in traces)
        if steps > MAX_STEPS:
            raise UserError(
                f"the chosen runs have {steps} steps; a film made here shows at most {MAX_STEPS}. Save the traces and "
                "use `export --gif`."
            )
        pace = speed or fitted(traces, clock)
        return animation(traces, view=view, clock=clock, speed=pace, dpi=120, caps=Caps(**FILM))[0]  # type: ignore[arg-type]
    from explorer.export.figures import figure

    made = figure(traces, view=view, clock=clock, step=_step(step), width=width, format=kind, dpi=300)
    return made.encode("utf-8") if isinstance(made, str) else made


def fitted(traces: list[Trace], clock: Any) -> float:
    """The speed at which the longest run lasts FITTED seconds, with two figures, among those that a film can have; 1
    on a clock that gives no length."""
    from explorer.export.film import MAX_SPEED, MIN_SPEED, RATES
    from explorer.export.playback import Playback

    if not isinstance(clock, str) or clock not in RATES:
        return 1.0
    longest = max(Playback(trace).axes[clock][-1] for trace in traces)  # type: ignore[index]
    return min(MAX_SPEED, max(MIN_SPEED, float(f"{longest / RATES[clock] / FITTED:.2g}"))) if longest else 1.0


def _step(given: Any) -> int | None:
    if given is None or given == 0:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 1 <= given < 2**31 or given != int(given):
        raise UserError(f"step {str(given)[:20]} is not allowed; give a whole number from 1 on, or 0 for the last one.")
    return int(given) - 1


def _number(name: str, given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise UserError(f"{name}={str(given)[:20]} is not a number; choose one of the list.") from None
