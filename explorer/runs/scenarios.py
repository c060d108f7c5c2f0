"""Scenes: comparisons of recorded runs that show one idea each, with what is said on the way and a lever; the first one
opens the page. Data: `assets/scenarios.json`."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from engines import UserError
from explorer.own_files import own_json


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts: an unknown field is an error."""


class Say(Part, frozen=True):
    """A sentence that stands from the moment when the longer run has made `at` steps. written: how many tokens each run
    has then, which a test checks."""

    at: int
    say: str
    written: tuple[int, ...] = ()


class Stop(Part, frozen=True):
    """A place of a lever: the recorded run with this value, its model calls, whether its answer is right (None where
    none can be checked), and what is said of it."""

    value: float
    trace: str
    calls: int
    say: str
    right: bool | None = None


class Lever(Part, frozen=True):
    """One parameter of the run in player `slot` (from 0), at the values that are recorded. low, high: what its ends
    give."""

    label: str
    slot: int
    low: str
    high: str
    stops: tuple[Stop, ...]


class Scenario(Part, frozen=True):
    """A short title, a sentence on what to watch, and the ids of two to four recorded runs on one prompt. question:
    what the scene asks; says: what is told while it plays; lever: what a viewer can move; roles: what part each run
    plays, in a few words that stand above the name of its method. They may be left out."""

    title: str
    watch: str
    traces: tuple[str, ...]
    question: str = ""
    says: tuple[Say, ...] = ()
    lever: Lever | None = None
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.roles and len(self.roles) != len(self.traces):
            raise ValueError(
                f"'{self.title}' has {len(self.traces)} runs but {len(self.roles)} roles; give each run one"
            )

    @property
    def name(self) -> str:
        """What an address calls it: its title in small letters, words joined by hyphens."""
        return _named(self.title)

    @property
    def needs(self) -> set[str]:
        """The ids of all runs that it shows."""
        return {*self.traces, *(stop.trace for stop in (self.lever.stops if self.lever else ()))}


def scenarios(recorded: Collection[str]) -> list[Scenario]:
    """Those whose runs are all among the recorded ones, in the order of the file. Raises UserError for a file
    that is not understood."""
    every_scenario = own_json("scenarios.json", list[Scenario])
    return [scenario for scenario in every_scenario if scenario.needs <= set(recorded)]


def _named(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def scene(name: str, recorded: Collection[str]) -> Scenario:
    """The scene that an address names, as `Scenario.name` or by its title. Raises UserError for one that is not here,
    with the nearest that is."""
    there = scenarios(recorded)
    known = {scenario.name: scenario for scenario in there}
    wanted = _named(name)
    if wanted in known:
        return known[wanted]
    near = get_close_matches(wanted, known, n=1, cutoff=0.6)
    what = f"the nearest is ?scene={near[0]}" if near else "the chips at the prompt show all that there are"
    shown = "".join(character if character.isprintable() else " " for character in name)[:60]
    raise UserError(f"there is no scene '{shown}' here; {what}.")


def texts() -> list[str]:
    """Every sentence and label of the file, for those who translate."""
    return [text for scenario in own_json("scenarios.json") for text in _texts(scenario)]


def _texts(scenario: Mapping[str, Any]) -> list[str]:
    lever = scenario.get("lever", {})
    labels = [lever[part] for part in ("label", "low", "high") if part in lever]
    remarks = [part["say"] for part in (*scenario.get("says", ()), *lever.get("stops", ()))]
    named = (scenario["title"], scenario["watch"], scenario.get("question", ""), *scenario.get("roles", ()))
    return [text for text in (*named, *labels, *remarks) if text]
