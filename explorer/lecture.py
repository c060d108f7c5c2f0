"""A lecture: scenes in the order of a presenter, each a link to recorded or kept runs. `assets/lecture.json` ships;
`--lecture FILE` and EXPLORER_LECTURE name another one, and a browser may bring its own.

[{"link": "?gallery=NAME,NAME", "title": "What goes wrong", "minutes": 2, "question": "...", "say": "..."}]
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import msgspec

import engines
from engines import TraceError, UserError
from explorer.links import parts_of, read_query
from explorer.own_files import own_text
from explorer.papers.lessons import lessons
from explorer.runs.gallery import Card, Gallery
from explorer.runs.scenarios import Say, Scenario, scenarios, scene

OWN = "lecture.json"
ENVIRONMENT = "EXPLORER_LECTURE"
MOST, LONGEST = 60, 100_000  # scenes of a lecture, bytes of its file
FORM = "give a list of scenes in JSON, each with a link such as ?gallery=03-threshold-sum"
PROMPT = 240  # characters of a prompt that a scene shows
Line = Annotated[str, msgspec.Meta(max_length=400)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A scene of the file. link: an address of the page, or its part from `?` on, that names runs (`?gallery=`,
    `?run=`), a scene, a method or a lesson. question, say: what stands above the players where the scene has no voice
    of its own, or another one is wanted; says: the sentences that follow `say` while the runs play, each from a step
    on. minutes: how long it takes."""

    link: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    title: Line = ""
    minutes: Annotated[float, msgspec.Meta(ge=0, le=600)] | None = None
    question: Line = ""
    say: Line = ""
    says: Annotated[tuple[Say, ...], msgspec.Meta(max_length=MOST)] = ()


class Scene(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scene as a page shows it. query: the link to its runs; voice: what is said of them; prompt: what they were
    asked; dead: why there is nothing to show, "" where there is."""

    title: str
    link: str
    minutes: float | None = None
    query: str = ""
    voice: Scenario | None = None
    prompt: str = ""
    dead: str = ""


@dataclass(frozen=True)
class Lecture:
    """The scenes of a file, and its text as it was given."""

    entries: tuple[Entry, ...]
    text: str

    def scenes(self, recorded: Gallery, kept: Callable[[str], None] | None = None) -> list[Scene]:
        """What each link leads to here. kept: raises TraceError unless a run of that id is kept; None keeps none."""
        return [_scene(number, entry, recorded, kept) for number, entry in enumerate(self.entries, 1)]


def texts() -> list[str]:
    """Every sentence of the lecture that ships, for those who translate."""
    groups = ((entry.title, entry.question, entry.say, *(say.say for say in entry.says)) for entry in own().entries)
    return [text for group in groups for text in group if text]


def own() -> Lecture:
    """The lecture that ships. Raises UserError where its file is damaged."""
    return read(own_text(OWN), OWN)


def chosen(file: str | Path = "") -> Lecture:
    """That of a file, else of the one that EXPLORER_LECTURE names, else the one that ships. Raises UserError."""
    name = str(file) or os.environ.get(ENVIRONMENT, "").strip()
    if not name:
        return own()
    path = Path(name)
    try:
        if not path.is_file():
            raise UserError(f"there is no lecture file '{name}'; give a file like assets/{OWN}.")
        if path.stat().st_size > LONGEST:
            raise UserError(f"the lecture '{path.name}' has more than {LONGEST:,} bytes; make it shorter.")
        text = engines.texts.decoded(path.read_bytes())
    except OSError as error:
        raise UserError(f"the lecture '{name}' cannot be read: {error.strerror}.") from None
    except UnicodeError:
        raise UserError(f"the lecture '{path.name}' is not text in UTF-8; {FORM}.") from None
    return read(text, path.name)


def read(text: object, name: str) -> Lecture:
    """A lecture from its text. name: what the file is called. Raises UserError in one sentence."""
    if not isinstance(text, str):
        raise UserError(f"the lecture '{name}' is not text; {FORM}.")
    try:
        data = text.removeprefix("\ufeff").encode("utf-8")
    except UnicodeError:
        raise UserError(f"the lecture '{name}' is not text in UTF-8; {FORM}.") from None
    if len(data) > LONGEST:
        raise UserError(f"the lecture '{name}' has more than {LONGEST:,} bytes; make it shorter.")
    try:
        entries = msgspec.json.decode(data, type=list[Entry])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UserError(f"the lecture '{name}' is not understood ({error}); {FORM}.") from None
    if not entries:
        raise UserError(f"the lecture '{name}' has no scene; {FORM}.")
    if len(entries) > MOST:
        raise UserError(f"the lecture '{name}' has {len(entries)} scenes; at most {MOST} are taken.")
    return Lecture(tuple(entries), text)


def _scene(number: int, entry: Entry, recorded: Gallery, kept: Callable[[str], None] | None) -> Scene:
    cards = {card.id: card for card in recorded.cards}
    try:
        names, query = _runs_of(entry.link, cards)
        for name in names:
            if name in cards:
                continue
            if kept is None:
                raise TraceError(f"there is no recorded trace '{name[:60]}'.")
            kept(name)
    except (UserError, TraceError) as error:
        title = entry.title or entry.link
        return Scene(title, entry.link, entry.minutes, dead=f"Scene {number} is left out: {error}")
    voice = _voice(entry, names, cards)
    prompt = next((cards[name].prompt for name in names if name in cards), "")
    return Scene(voice.title, entry.link, entry.minutes, query, voice, " ".join(prompt.split())[:PROMPT])


def _runs_of(link: str, cards: dict[str, Card]) -> tuple[tuple[str, ...], str]:
    """The runs that a link names, and the query that shows them. Raises UserError."""
    query = link.rpartition("?")[2].partition("#")[0]
    parsed = read_query(query)
    if parsed:
        view = {name: str(value) for name, value in parsed.view.items()}
        names = parsed.names or scene(parsed.scene, cards).traces
        return names, _query(names, view)
    names = _told(parts_of(query), cards)
    return names, _query(names, {})


def _query(names: tuple[str, ...], view: dict[str, str]) -> str:
    return f"?run={','.join(names)}" + (f"&{urlencode(view)}" if view else "")


def _told(asked: dict[str, str], cards: dict[str, Card]) -> tuple[str, ...]:
    """The recorded runs of a lesson or a method. Raises UserError."""
    about = asked.get("lesson") or asked.get("method") or ""
    if not about:
        raise UserError("the link names no run, scene, lesson or method; write ?gallery=NAME, or copy a link here.")
    own_run = next((lesson.trace for lesson in lessons() if lesson.method == about and lesson.trace in cards), "")
    if not own_run and "method" in asked:
        own_run = next((card.id for card in cards.values() if card.method == about), "")
    if not own_run:
        raise UserError(f"there is no recorded run of '{about[:60]}' here; write ?gallery=NAME.")
    return tuple(name for name in (own_run, cards[own_run].beside) if name)


def _voice(entry: Entry, names: tuple[str, ...], cards: dict[str, Card]) -> Scenario:
    """What is said of the runs: as the scene with these runs says it, unless the entry says something else."""
    known = next((scenario for scenario in scenarios(cards) if scenario.traces == names), None)
    card = cards.get(names[0])
    title = entry.title or (known.title if known else card and (card.caption or card.title)) or entry.link
    watch = entry.say or (known.watch if known else next((cards[n].watch for n in names if n in cards), ""))
    question = entry.question or (known.question if known else "") or title
    opening = (Say(0, entry.say),) if entry.say and entry.says else ()
    if known is None:
        return Scenario(title, watch, names, question, (*opening, *entry.says))
    says = (*opening, *entry.says) or known.says
    if entry.say and not entry.says and says:  # it stands where the scene begins to speak; lever and the others stay
        says = (msgspec.structs.replace(says[0], say=entry.say), *says[1:])
    return Scenario(title, watch, names, question, says, known.lever, roles=known.roles)
