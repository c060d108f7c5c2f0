"""Scenes on the site: what the first page says of its runs, and lecture mode (`index.html?lecture`). Runs that only a
scene shows have data and no page."""

import json
from collections.abc import Sequence

import msgspec

from explorer.export.bundle import scenes_script
from explorer.lecture import Lecture, Scene
from explorer.runs.gallery import Gallery
from explorer.runs.scenarios import Scenario, scenarios
from explorer.site.runs import Run


def shown_scenes(recorded: Gallery, lecture: Lecture) -> tuple[list[Scene], list[Scenario]]:
    """The scenes of a lecture, and what is said of the runs that the first page shows: one scene, or none."""
    opening = tuple(recorded.opening())
    known = scenarios([card.id for card in recorded.cards])
    return lecture.scenes(recorded), [scenario for scenario in known if scenario.traces == opening]


def needed(scenes: Sequence[Scene], first: Sequence[Scenario]) -> set[str]:
    """The ids of all runs that these show."""
    return {name for scenario in (*first, *(scene.voice for scene in scenes)) if scenario for name in scenario.needs}


def script(scenes: Sequence[Scene], first: Sequence[Scenario], runs: Sequence[Run]) -> str:
    """What the first page loads: the modules and `dxScenes`, {scenes, known, runs: {id: {name, views}}}. runs: those
    that it shows and those that the scenes need."""
    content = msgspec.to_builtins(
        {
            "scenes": scenes,
            "known": first,
            "runs": {run.card.id: {"name": run.name, "views": run.views} for run in runs},
        }
    )
    inert = json.dumps(content).replace("<", "\\u003c")
    return f"{scenes_script()}window.dxScenes = {inert};\n"
