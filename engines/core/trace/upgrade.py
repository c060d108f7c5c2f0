"""Traces of earlier schema versions, brought to the one that is read. The values come from anywhere: what does not have
the expected form is left as it is, for the validation behind this to refuse.

    1 -> 2   commits get their authors, branches a length and named scores, routing is packed, `origin.parted` is
             `origin.diverged`; work in layer-rows was not recorded and is said to be missing.
    2 -> 3   eight groups that one or two methods filled are records now; what they hold is told in the header. Lanes of
             work are intervals on tracks, and what stood in their names and labels alone is read from `about`.

In any version corrections and bonus tokens may be called alike (until November 2026): `told_apart`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import msgspec
import numpy as np

from engines.core.trace.authors import accepted_sources, authors_of
from engines.core.trace.packed import pack_exact
from engines.core.trace.step import Step
from engines.core.trees import behind

Json = dict[str, Any]
ALIKE = frozenset({"bonus", "residual"})  # causes that once stood for either
ROOM = 2**22  # numbers in a packed routing group


def upgraded(trace: Json, version: int) -> Json:
    """The decoded JSON of a trace in the newest form, changed in place."""
    while version in UPGRADES:
        UPGRADES[version](trace)
        version += 1
        trace["header"]["schema"] = version
    return trace


def told_apart(steps: Iterable[Step]) -> None:
    """Corrections and bonus tokens of traces that called both the same, or the former by the distribution that they
    were drawn from; in place. The tree says which it was."""
    for step in steps:
        if step.tree is None or step.commits is None or ALIKE.isdisjoint(step.commits.causes):
            continue
        plain = "greedy" if step.tree.emitted_source == "argmax" else "sampled"
        kept = [row for row, why in enumerate(step.tree.why) if why in ("root", "accepted")]
        own = behind(step.tree.parents, kept[-1] if kept else 0) or plain
        step.commits.causes[:] = [own if cause in ALIKE else cause for cause in step.commits.causes]


def _from_1(trace: Json) -> None:
    header, lengths = trace["header"], dict[int, int]()
    header["missing"] = [*_list(header.get("missing")), "work"]
    if isinstance(origin := header.get("origin"), dict) and "parted" in origin:
        origin["diverged"] = origin.pop("parted")
    models = _list(header.get("models"))
    roles = [m["role"] for m in models if isinstance(m, dict) and isinstance(m.get("role"), str)] or ["model"]
    for step in _list(trace.get("steps")):
        if not isinstance(step, dict):
            continue
        if isinstance(commits := step.get("commits"), dict) and _texts(causes := commits.get("causes")):
            commits["authors"] = authors_of(causes, _decider(step, roles), _accepted(step))
        for branch in _list(step.get("branches")):
            _branch(branch, lengths)
        if _list(step.get("routing")):
            step["routing"] = _routing(step["routing"])


def _decider(step: Json, roles: list[str]) -> str:
    """The role that wrote in this step: the one that it chose, where it chose between models, else the first."""
    choice = step.get("choice")
    chosen = choice.get("chosen") if isinstance(choice, dict) else None
    return chosen if isinstance(chosen, str) and chosen in roles else roles[0]


def _accepted(step: Json) -> list[str]:
    tree = step.get("tree")
    if not isinstance(tree, dict) or not _texts(why := tree.get("why")) or not _texts(tree.get("sources")):
        return []
    return accepted_sources(why, tree["sources"])


def _branch(branch: Any, lengths: dict[int, int]) -> None:
    """The one score gets a name, and the length is what the branch and those it grew from added so far."""
    if not isinstance(branch, dict) or not isinstance(tokens := branch.get("tokens"), list):
        return
    if isinstance(score := branch.pop("score", None), (int, float)):
        branch["scores"] = {"score": score}
    number, parent = branch.get("id"), branch.get("parent")
    if isinstance(number, int) and isinstance(parent, int):
        lengths[number] = lengths.get(number, lengths.get(parent, 0)) + len(tokens)
        branch["length"] = lengths[number]


def _routing(entries: list[Any]) -> list[Any]:
    """One packed record per kind of the entries of version 1, which had one for each position and layer."""
    try:
        kinds = dict.fromkeys(str(entry["kind"]) for entry in entries)
        return [_packed(kind, [entry for entry in entries if entry["kind"] == kind]) for kind in kinds]
    except (KeyError, TypeError, ValueError, OverflowError):
        return entries


def _packed(kind: str, entries: list[Json]) -> Json:
    positions = sorted({int(entry["position"]) for entry in entries})
    layers = sorted({int(entry["layer"]) for entry in entries})
    k = max(len(entry["chosen"]) for entry in entries)
    if len(positions) * len(layers) * k > ROOM:
        raise ValueError("entries that are spread over so many positions and layers come from no model")
    row, column = {p: i for i, p in enumerate(positions)}, {one: i for i, one in enumerate(layers)}
    chosen = np.full((len(positions), len(layers), k), -1, dtype=np.int32)
    weights = np.full(chosen.shape, np.nan, dtype=np.float32)
    for entry in entries:
        at = row[entry["position"]], column[entry["layer"]]
        chosen[at][: len(entry["chosen"])] = entry["chosen"]
        weights[at][: len(entry.get("weights", ()))] = entry.get("weights", ())
    body: Json = {"kind": kind, "positions": positions, "layers": layers, "chosen": _json(pack_exact(chosen))}
    return body if np.isnan(weights).all() else body | {"weights": _json(pack_exact(weights))}


def _json(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


MOVED: Json = {
    "truncation": {"position": "position", "tokens": "token", "probabilities": "probability"},
    "completions": {"position": "position", "refused": "token", "refused_probabilities": "probability"},
    "vote": {},
    "sight": {"filled": "probability"},
    "operators": {"decoders.tokens": "token"},
    "opinions": {"tokens": "token"},
    "scene": {"readings.confidence": "probability"},
    "vision": {"entry_bytes": "bytes"},
}  # groups of version 2 that are records, and what their fields hold


def _from_2(trace: Json) -> None:
    found = dict.fromkeys(MOVED, False)
    for step in _list(trace.get("steps")):
        if isinstance(step, dict) and "records" not in step:
            groups = {name: step.pop(name) for name in MOVED if name in step}
            if isinstance(groups.get("operators"), list):
                groups["operators"] = {"decoders": groups["operators"]} if groups["operators"] else None
            step["records"] = {name: group for name, group in groups.items() if group is not None}
            found |= dict.fromkeys(step["records"], True)
            if isinstance(lanes := step.get("lanes"), list):
                step["intervals"] = step.pop("lanes")
                _intervals([one for one in lanes if isinstance(one, dict)])
    header = trace["header"]
    header["records"] = {name: {"units": MOVED[name]} for name, there in found.items() if there}
    if isinstance(emits := header.get("emits"), list):
        header["emits"] = ["intervals" if group == "lanes" else group for group in emits]


LABELS = [
    (re.compile(r"microbatch (?P<microbatch>\d+), layer (?P<layer>\d+)$"), "seconds"),
    (re.compile(r"(?P<part>attention|feed-forward), layer (?P<layer>\d+)$"), "seconds"),
    (re.compile(r"(?P<phase>encode|cross_kv|prefill|decode) (?P<layer>\d+)$"), "seconds"),
    (re.compile(r"(?P<phase>token) (?P<token>[\s\S]*)$"), "seconds"),
    (re.compile(r"head (?P<head>\d+), tiles (?P<first>\d+)–(?P<last>\d+)(?:, (?P<found>.*))?$"), "tiles"),
    (re.compile(r"(?P<expert>[^:]+)(?:: (?P<miss>miss)(?:, throws out (?P<out>.*))?)?$"), "tokens"),
]  # what labels of version 2 say, by the unit of their intervals
TRACKS = {"tiles": ("way", "worker"), "tokens": ("rule", "slot"), "bytes": ("group", "name")}  # "way: worker" ...
SCHEDULED = "scheduled: "  # before the label of a modelled one


def _intervals(lanes: list[Json]) -> None:
    """Intervals of version 2, in place: the lane is a track, and `about` says what was in its name and its label."""
    lanes = [one for one in lanes if isinstance(one.get("lane"), str) and isinstance(one.get("label", ""), str)]
    known = {one["lane"] for one in lanes}
    for one in lanes:
        one["track"] = track = one.pop("lane")
        label, unit = one.get("label", ""), one.get("unit", "seconds")
        if label.startswith(SCHEDULED):
            one["label"] = label = label.removeprefix(SCHEDULED)
        about: Json = {}
        first, colon, rest = track.partition(": ")
        if unit == "seconds" and colon and first in known:
            about["part_of"] = first
        if (names := TRACKS.get(str(unit))) and (colon or unit == "bytes"):
            about |= dict(zip(names, (first, rest or label), strict=True))
        if unit == "bytes" and label == "limit":
            about = {"limit": True}
        said = next((found for form, of in LABELS if of == unit and (found := form.match(label))), None)
        if said and (unit != "tokens" or colon):
            about |= {name: value for name, value in said.groupdict().items() if value is not None}
        about = {name: int(v) if name in WHOLE and str(v).isdigit() else v for name, v in about.items()}
        if "miss" in about:
            about["miss"] = True
        if about:
            one["about"] = about


WHOLE = {"microbatch", "layer", "head", "first", "last", "worker", "slot"}


UPGRADES: dict[int, Callable[[Json], None]] = {1: _from_1, 2: _from_2}
"""Version -> what brings a trace of it to the next one, in place."""
