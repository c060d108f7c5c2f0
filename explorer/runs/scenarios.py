"""Comparisons of recorded runs that show one idea each; the first one opens the page. Data: `assets/scenarios.json`."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from explorer.own_files import own_json


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A short title, a sentence on what to watch, and the ids of two to four recorded runs on one prompt."""

    title: str
    watch: str
    traces: tuple[str, ...]


def scenarios(recorded: Collection[str]) -> list[Scenario]:
    """Those whose runs are all among the recorded ones, in the order of the file. Raises UserError for a file
    that is not understood."""
    found = own_json("scenarios.json", list[Scenario])
    return [one for one in found if set(one.traces) <= set(recorded)]
