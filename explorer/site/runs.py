"""Pages of recorded runs: one for each, one for each comparison, and the gallery that leads to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from engines import Trace
from explorer import papers
from explorer.export.bundle import views_of
from explorer.export.drawing import Drawing, svg
from explorer.export.figures import layout
from explorer.export.markup import Html, Node, cards, crumbs, h, join, lead, link, page, table
from explorer.export.thumbs import picture
from explorer.figures.calls import in_words, many, target_role
from explorer.figures.handed import shown
from explorer.figures.metrics import measure
from explorer.runs.gallery import Card
from explorer.words import step_lines

MOST_TOGETHER = 4
LONGEST_FIGURE = 200  # steps; a longer run gets the curve
CLOCK = (
    "one clock for all. On steps and model calls it counts work, on seconds it runs as measured; the shorter run ends "
    "earlier and waits."
)
NO_SCRIPT = "The player needs JavaScript. Without it, the figure, the numbers and all steps as text tell the same run."


@dataclass(frozen=True)
class Run:
    """A recorded run of the site: its card, its trace, and the name of its files."""

    card: Card
    trace: Trace
    name: str
    thumb: str = ""  # its small picture as SVG; drawn from the trace where there is none

    @property
    def title(self) -> str:
        """What it is called in the gallery."""
        return self.card.caption or self.card.title

    @property
    def path(self) -> str:
        """Its page."""
        return f"runs/{self.name}.html"

    @property
    def data(self) -> str:
        """Its trace as a script."""
        return f"data/{self.name}.js"

    def played(self, runs: Iterable[Run]) -> str:
        """Its trace for the player, with what is said of it beside those of the same prompt."""
        return shown(self.trace, [run.trace for run in runs if run is not self and run.card.prompt == self.card.prompt])

    @cached_property
    def views(self) -> tuple[str, ...]:
        """The views that its player loads beside those of every run."""
        always = views_of(())
        return tuple(file for file in views_of([self.trace.to_json()]) if file not in always)


def view_path(file: str) -> str:
    """The script of a view."""
    return f"views/{file}.js"


def safe_name(name: str, taken: set[str]) -> str:
    """A file name of letters, digits and dashes that is not taken yet; it is then."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "run"
    candidate, n = plain, 2
    while candidate in taken:
        candidate, n = f"{plain}-{n}", n + 1
    taken.add(candidate)
    return candidate


def comparisons(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """(name, runs) for every prompt on which several methods ran."""
    by_prompt: dict[str, list[Run]] = {}
    for run in runs:
        by_prompt.setdefault(run.card.prompt, []).append(run)
    taken: set[str] = set()
    return [
        (safe_name(prompt, taken), group)
        for prompt, group in by_prompt.items()
        if len({run.card.method for run in group}) > 1
    ]


def stage(runs: Sequence[Run], auto: bool = False) -> Html:
    """The place of the players and their toolbar."""
    play = " ".join(run.name for run in runs)
    plain = h("noscript", {}, h("p", {"class": "watch"}, NO_SCRIPT))
    inside = [h("div", {"class": "toolbar"}), h("div", {"class": "panels"}), plain]
    return h("section", {"class": "stage", "aria-label": "Player", "data-play": play, "data-auto": auto}, inside)


def scripts(runs: Sequence[Run]) -> list[str]:
    """What a page with these players loads."""
    needed = dict.fromkeys(view_path(file) for run in runs for file in run.views)
    return ["player.js", *needed, *(run.data for run in runs)]


def cost(run: Run) -> str:
    """The sums of a run in a line."""
    sums = run.trace.totals
    return (
        f"{many(sums.tokens, 'token')} in {in_words(run.trace.steps, target_role(run.trace))}, "
        f"{sums.model_seconds + sums.method_seconds:.3f} s (measured)"
    )


def card(run: Run) -> list[Html]:
    """A run as a card that leads to its page."""
    return [
        h("img", {"src": f"thumbs/{run.name}.svg", "alt": "", "loading": "lazy"}),
        h("h3", {}, link(run.path, run.title)),
        h("p", {"class": "muted"}, f"{run.card.title} · {' + '.join(run.card.models)}"),
        h("code", {}, run.card.prompt[:120]),
        h("p", {}, run.card.watch),
        h("p", {"class": "more"}, cost(run)),
    ]


def gallery_page(runs: Sequence[Run]) -> str:
    """All runs, and before them the comparisons."""
    groups = [
        [
            h("h3", {}, link(f"compare/{name}.html", _methods(group))),
            h("code", {}, group[0].card.prompt[:120]),
            h("p", {"class": "more"}, f"{len(group)} runs, {min(len(group), MOST_TOGETHER)} at a time on one clock"),
        ]
        for name, group in comparisons(runs)
    ]
    main = join(
        h("h1", {}, "Gallery"),
        lead(
            "Recorded runs of real models. Each opens with a player; nothing is computed in your browser, what you "
            "see was measured."
        ),
        [h("h2", {}, "Compare on one prompt"), cards(groups)] if groups else None,
        h("h2", {}, "Single runs"),
        cards(map(card, runs)),
    )
    return page("Gallery", "Recorded runs of decoding methods, to be played step by step.", main, here="gallery.html")


def _methods(group: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.card.title for run in group))
    more = len(names) - MOST_TOGETHER
    return ", ".join(names[:MOST_TOGETHER]) + (f" and {more} more" if more > 0 else "")


def run_page(run: Run, lesson: str | None) -> str:
    """One run: what to watch, the player, the figure, all numbers, all steps as text."""
    header = run.trace.header
    root = "../"
    figure = f"{root}figures/{run.name}.svg"
    linked = [" · ", link(root + lesson, "lesson")] if lesson else None
    drawn = h("img", {"src": figure, "alt": figure_of(run).about, "loading": "lazy"})
    caption = ["Fit for a paper: ", link(figure, "open the SVG", download=f"{run.name}.svg"), "."]
    main = join(
        crumbs(link(root + "gallery.html", "Gallery"), " / ", run.card.title),
        h("h1", {}, run.title),
        h("p", {"class": "facts"}, f"{header.title} on {' + '.join(run.card.models)}", paper_of(header.method), linked),
        h("p", {"class": "watch"}, h("b", {}, "Watch:"), run.card.watch) if run.card.watch else None,
        stage([run]),
        h("h2", {}, "The whole run in one figure"),
        h("figure", {}, drawn, h("figcaption", {}, caption)),
        answer_section(run),
    )
    about = f"{header.title} on {run.card.prompt}: {cost(run)}"
    return page(run.title, about, main, here=run.path, scripts=scripts([run]))


def answer_section(run: Run) -> Html:
    """The run in words: prompt, output, numbers, steps."""
    header = run.trace.header
    numbers = []
    for metric in measure(run.trace):
        holds = h("small", {}, metric.conditions) if metric.conditions else None
        numbers.append([metric.label, metric.shown, metric.kind, [metric.formula, holds]])
    every = table(["Number", "Value", "Obtained", "Formula and conditions"], numbers)
    steps = [h("pre", {}, "\n".join(step_lines(run.trace, step))) for step in run.trace.steps]
    return join(
        h("h2", {}, "Prompt and output"),
        h("pre", {}, header.prompt),
        h("pre", {}, run.trace.text or "(no text)"),
        h("p", {"class": "facts"}, f"{cost(run)}. {header.machine}. Seed {header.seed}."),
        h("p", {"class": "facts"}, f"Departs from the paper in: {header.departures}") if header.departures else None,
        h("details", {}, h("summary", {}, "All numbers, with how each was obtained"), every),
        h("details", {}, h("summary", {}, f"All {len(steps)} steps as text"), steps),
    )


def paper_of(method: str) -> Node:
    """Links to the papers that a method stands for."""
    cited = [paper for paper in papers.read().all() if method in paper.methods and paper.arxiv]
    return [[" · ", link(paper.address, f"arXiv:{paper.arxiv}")] for paper in cited]


def compare_page(name: str, group: Sequence[Run]) -> str:
    """Runs on one prompt side by side, and their curves."""
    first = list(group[:MOST_TOGETHER])
    others = f"The first {len(first)} play above; the others have pages of their own."
    about = "Tokens against model calls in these runs; the sums are in the table below."
    root = "../"
    rows = [
        [link(root + run.path, run.title), run.card.title, " + ".join(run.card.models), run.card.text[:80], cost(run)]
        for run in group
    ]
    main = join(
        crumbs(link(root + "gallery.html", "Gallery"), " / comparison"),
        h("h1", {}, ", ".join(dict.fromkeys(run.card.title for run in first))),
        h("pre", {}, group[0].card.prompt),
        h("p", {"class": "watch"}, h("b", {}, "Watch:"), CLOCK),
        stage(first),
        h("h2", {}, "Tokens over cost"),
        h("figure", {}, h("img", {"src": f"{root}figures/compare-{name}.svg", "alt": about})),
        table(["Run", "Method", "Model", "Output", "Cost"], rows),
        h("p", {"class": "muted"}, others) if len(group) > len(first) else None,
    )
    title, about = f"Comparison on {group[0].card.prompt[:60]}", f"{len(group)} decoding runs on one prompt."
    return page(title, about, main, here=f"compare/{name}.html", scripts=scripts(first))


def figure_of(run: Run) -> Drawing:
    """The figure of a run's page: the board over steps, or for a very long run the curve."""
    return layout([run.trace], view="board" if len(run.trace.steps) <= LONGEST_FIGURE else "curve")


def pictures(runs: Sequence[Run]) -> dict[str, str]:
    """Path -> SVG of every figure and thumbnail."""
    made = {}
    for run in runs:
        made[f"figures/{run.name}.svg"] = svg(figure_of(run))
        made[f"thumbs/{run.name}.svg"] = run.thumb or picture(run.trace)
    for name, group in comparisons(runs):
        made[f"figures/compare-{name}.svg"] = svg(layout([run.trace for run in group[:8]], view="curve"))
    return made
