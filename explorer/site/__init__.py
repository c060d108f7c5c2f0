"""The static site: gallery, lessons, methods, sweeps and the player as plain files that open from a folder and from any
web server.

report = build(Path("site"))
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from engines import TraceError, UserError
from explorer import papers
from explorer.export.bundle import (
    CLIENT,
    bundle,
    registry,
    scenes_script,
    scenes_styles,
    script_of,
    styles,
    view_script,
    views_of,
)
from explorer.export.look import declared
from explorer.export.markup import PAGES, cards, h, join, lead, link, page
from explorer.export.thumbs import of_recording
from explorer.lecture import Lecture, own
from explorer.own_files import own_json
from explorer.runs.gallery import Gallery, gallery
from explorer.runs.scenarios import scenarios
from explorer.site import docs, learning, runs, sweeps

LEAD = (
    "Every position of every step, what else the model considered, and what it cost: decoding methods of "
    "many papers, run for real and recorded."
)
INVERTED = "invert(0.92) hue-rotate(180deg) saturate(1.2) brightness(1.35)"
"""Of pictures that are drawn for a light ground: ground and ink change places, hues stay."""
MARKER = ".decoding-explorer-site"  # lists what we wrote, so that a later build may replace it


@dataclass(frozen=True)
class Report:
    """What was written: pages, files, bytes, and recorded runs that cannot be read with the reason."""

    pages: int
    files: int
    size: int
    broken: dict[str, str]


def build(out: Path, recorded: Gallery | None = None, given: Lecture | None = None) -> Report:
    """Write the site into a folder that is empty, new, or holds a site of ours. The same traces give the same bytes.
    given: what `?lecture` shows, by itself what ships. Raises UserError otherwise."""
    old = _claim(out)
    shown = recorded or gallery()
    files = compose(shown, given)
    for name in old - set(files):
        (out / name).unlink(missing_ok=True)
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    (out / MARKER).write_text("\n".join(sorted(files)) + "\n", encoding="utf-8")
    size = sum(len(text.encode("utf-8")) for text in files.values())
    return Report(sum(name.endswith(".html") for name in files), len(files), size, dict(shown.broken))


def _claim(out: Path) -> set[str]:
    """The files of an earlier site in this folder. Raises UserError for a folder with anything else in it."""
    if out.exists() and not out.is_dir():
        raise UserError(f"'{out}' is a file; give the name of a folder.")
    marker = out / MARKER
    if marker.is_file():
        root = out.resolve()
        listed = marker.read_text(encoding="utf-8").split("\n")
        return {
            name for name in listed if name and (out / name).resolve().is_relative_to(root) and (out / name).is_file()
        }
    if out.exists() and any(out.iterdir()):
        raise UserError(
            f"the folder '{out}' is not empty and was not written by this command; give another one, or empty it first."
        )
    if not out.parent.is_dir():
        raise UserError(f"there is no folder '{out.parent}' to make '{out.name}' in; make it first.")
    return set()


def compose(recorded: Gallery, given: Lecture | None = None) -> dict[str, str]:
    """Path -> text of every file of the site. Raises UserError where there is no run to show."""
    taken: set[str] = set()
    shown = [
        runs.Run(card, trace, runs.safe_name(card.id, taken), of_recording(recorded.path(card.id), trace))
        for card in recorded.cards
        if card.listed and _readable(recorded, card.id) and (trace := recorded.get(card.id))
    ]
    if not shown:
        raise UserError("there is no recorded run to make a site of; record one with `run --json FOLDER/name.json`.")
    scenes = (given or own()).scenes(recorded)
    known, names = scenarios([card.id for card in recorded.cards]), tuple(recorded.opening())
    voices = [scenario for scenario in known if scenario.traces == names]  # of the first page: one, or none
    every_scene = (*voices, *(scene.voice for scene in scenes))
    needed = {name for scenario in every_scene if scenario for name in scenario.needs}
    others = [
        runs.Run(card, trace, runs.safe_name(card.id, taken))
        for card in recorded.cards
        if not card.listed and card.id in needed and (trace := recorded.get(card.id))
    ]
    every, opened = [*shown, *others], recorded.opening()
    first = [run for run in shown if run.card.id in opened] or shown[:1]
    lessons = learning.lesson_pages(shown)
    by_method = {shown_lesson.lesson.method: shown_lesson.path for shown_lesson in lessons}
    files = {
        "index.html": index_page(len(shown), len(lessons), first),
        "gallery.html": runs.gallery_page(shown),
        "methods.html": learning.methods_page(shown),
        "lessons.html": learning.lessons_page(shown),
        "glossary.html": learning.glossary_page(),
        "numbers.html": learning.numbers_page(shown),
    }
    files |= docs.pages()
    files["sweeps.html"], figures = sweeps.build()
    files |= figures | runs.pictures(shown)
    files |= {run.path: runs.run_page(run, by_method.get(run.card.method)) for run in shown}
    files |= {f"compare/{name}.html": runs.compare_page(name, group) for name, group in runs.comparisons(shown)}
    for i, shown_lesson in enumerate(lessons):
        before, behind = (lessons[k] if 0 <= k < len(lessons) else None for k in (i - 1, i + 1))
        files[shown_lesson.path] = learning.lesson_page(shown_lesson, before, behind)
    for run in every:
        files[run.data] = f"(window.dxTraces ??= {{}})[{_script(run.name)}] = {_script(run.played(every))};\n"
        files |= {runs.view_path(file): view_script(file) for file in run.views}
    there = [run for run in every if run.card.id in needed or run in first]
    views = {run.card.id: {"name": run.name, "views": run.views} for run in there}
    content = msgspec.to_builtins({"scenes": scenes, "known": voices, "runs": views})
    files["scenes.js"] = f"{scenes_script()}window.dxScenes = {_script(content)};\n"
    files["site.js"] = registry() + script_of(["page/sorting.js", "player/remember.js"], ()) + _own("site.js")
    theme = json.dumps(own_json("theme.json"), ensure_ascii=True, separators=(",", ":"))
    files["player.js"] = f"{bundle(views_of(()))}const dxTheme = {theme};\n"
    return files | {"site.css": _css(), "mode.js": _own("mode.js")}


def _readable(recorded: Gallery, name: str) -> bool:
    try:
        return bool(recorded.get(name).steps)
    except TraceError as error:
        recorded.broken[name] = str(error)
        return False


def index_page(shown: int, lessons: int, first: list[runs.Run]) -> str:
    """What this is, and the opening comparison, playing. shown, lessons: how many runs and lessons there are."""
    about = {
        "gallery.html": f"{shown} recorded runs, each with its player, its figure and all its numbers.",
        "lessons.html": f"{lessons} methods and studies, told one at a time on a recorded run, with stops and a "
        "question.",
        "methods.html": f"{papers.tally()}.",
        "sweeps.html": "Quality against cost on held-out prompts, with the plain threshold behind every method.",
        "glossary.html": "The words of the field as they are used here.",
        "docs.html": "Using the page, the command line and Python; what runs, what was measured, how it was trained.",
        "numbers.html": "Measured, derived, modelled or published: how each number was obtained.",
    }
    doors = [[h("h3", {}, link(path, name)), h("p", {}, about[path])] for path, name in PAGES if path in about]
    doing = [["; " if i else "", link(r.path, r.title), f", {runs.cost(r)}"] for i, r in enumerate(first)]
    main = join(
        h("h1", {}, "Watch language models decode, step by step"),
        lead(LEAD),
        runs.stage(first, auto=True),
        h("p", {"class": "facts"}, "Above: ", doing, "."),
        h("h2", {}, "Go on"),
        cards(doors),
    )
    summary = "Watch language models decode: recorded runs of decoding methods, played step by step."
    played = [*runs.scripts(first), "scenes.js"]
    return page("Decoding Explorer", summary, main, here="index.html", scripts=played)


def _script(value: Any) -> str:
    """A value as a JavaScript literal that cannot end a script or a line."""
    return json.dumps(value).replace("<", "\\u003c")


@lru_cache(maxsize=1)
def _css() -> str:
    dark = f"color-scheme:dark;{declared('dark')};--picture:{INVERTED}"
    wish = f"@media(prefers-color-scheme:dark){{:root:not(.light){{{dark}}}}}"
    modes = f":root{{color-scheme:light;{declared('light')};--picture:none}}\n{wish}\n:root.dark{{{dark}}}\n"
    return modes + styles() + scenes_styles() + _own("document.css") + _own("site.css")


def _own(name: str) -> str:
    return (CLIENT / "site" / name).read_text(encoding="utf-8")
