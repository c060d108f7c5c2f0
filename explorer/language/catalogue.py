"""The catalogues: which messages there are, and what each language has of them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import engines
from engines import ASSETS
from engines.tasks import TASKS
from explorer import about, lecture
from explorer.export.bundle import views
from explorer.figures.definitions import played
from explorer.language import javascript, python
from explorer.own_files import own_json
from explorer.runs import scenarios

WORDS = ASSETS / "words"
LANGUAGES = ("en", "zh-Hans")  # as assets/client/page/language.js offers them
SCRIPTS = (
    "assets/client/player/*.js", "assets/client/views/*.js", "assets/client/page/*.js", "assets/client/learn/*.js",
)  # fmt: skip
SENTENCES = (
    "explorer/page/**/*.py", "explorer/attach/*.py", "explorer/forking.py", "explorer/own_pictures.py",
    "explorer/importers/answers.py", "explorer/importers/choices.py", "explorer/importers/endings.py",
    "explorer/lecture.py", "explorer/runs/*.py", "explorer/figures/*.py",
)  # fmt: skip
ERRORS = (
    "engines/core/**/*.py",
    "engines/models/**/*.py",
    "engines/methods/**/*.py",
    "engines/tasks/blocks.py",
    "engines/driver/*.py",
    "engines/studies/*.py",
    "engines/tools/*.py",
    "explorer/export/*.py",
    "explorer/importers/*.py",
    "explorer/bench/advise.py",
    "explorer/bench/chosen.py",
    "explorer/bench/sweep.py",
    "explorer/papers/*.py",
    "explorer/own_files.py",
)
PHRASES = {
    "engines/core/params.py": ("allowed", "_article"),
    "engines/models/gguf/c_interface.py": ("install", "instead", "for_cards", "for_other_processors"),
    "engines/models/gguf/trial.py": ("_end",),
    "engines/models/loading/zoo.py": ("_not_yet",),
    "explorer/bench/chosen.py": ("reason",),
    "explorer/bench/quality.py": ("rows", "against_curve", "declared"),
    "explorer/bench/classes.py": ("rows", "_verdict"),
}
"""Functions whose texts stand in a place of an error that another one raises, or head and fill a table of the page."""
NOT_SHOWN = {
    "Bearer {0}", "text/event-stream, application/json", "Attached",
    "Segoe UI", "Roboto", "Noto Sans", "Menlo", "Consolas", "Noto Sans Mono", "Application Support", "Local",
    "Library", "False", "top left", "middle left", "bottom center", "bottom right",
    "Decoding Explorer", "# {0}", "sort: Mia, Leo, Ada", "insert any",
    "`decoding-explorer template --kind {0} > my.py` ```python {1}```",
}  # fmt: skip
RECORDED = tuple(json.loads((WORDS / "recorded.json").read_text("utf-8")))
"""Words that a record holds and the page shows: kinds of numbers, families, roles, fates, ends, causes, spans; classes
of prompts, settings, and what heads a table of them."""
_PLACE = re.compile(r"\{\w+\}")


def messages_of_code() -> dict[str, str]:
    """All messages, by their text; the values say where each stands first."""
    places: dict[str, str] = {}
    for path, texts in _sources():
        for text in texts:
            if text not in NOT_SHOWN:
                places.setdefault(text, path)
    return dict(sorted(places.items(), key=lambda item: (item[1], item[0].lower(), item[0])))


def _sources() -> Iterator[tuple[str, Iterator[str]]]:
    top = ASSETS.parent
    files = lambda globs: sorted(path for pattern in globs for path in top.glob(pattern))  # noqa: E731
    for path in files(SCRIPTS):
        yield path.relative_to(top).as_posix(), javascript.messages(path.read_text("utf-8"))
    yield "assets/client/views", (view.title for view in views() if view.title)
    yield "explorer/figures/definitions.py", _sentences(played())
    yield "assets/theme.json", (state["label"] for state in own_json("theme.json")["states"].values())
    yield "engines/core/trace", iter(RECORDED)
    yield "engines/tasks", (task.title for task in TASKS.values())
    yield "assets/docs/measuring.md", python.paragraphs(about.SWEEPS)
    yield "assets/scenarios.json", iter(scenarios.texts())
    yield "assets/lecture.json", iter(lecture.texts())
    for path in files(SENTENCES):
        yield path.relative_to(top).as_posix(), python.messages(path.read_text("utf-8"))
    yield "assets/papers", _of_methods()
    for path in files(ERRORS):
        yield path.relative_to(top).as_posix(), python.messages(path.read_text("utf-8"), errors_only=True)
    for name, functions in PHRASES.items():
        yield name, python.phrases((top / name).read_text("utf-8"), functions)


def _of_methods() -> Iterator[str]:
    """What the page says of the methods that ship: what departs from the paper, what each parameter does, and what the
    scores are called. Nothing shows what a lane is."""
    for info in (info for info in engines.list_methods() if not info.file):
        if info.departures != "none":
            yield info.departures
        yield from (param.help for param in info.params)
        yield from info.lanes


def _sentences(value: Any) -> Iterator[str]:
    """The texts of the player's definitions; numbers are named by single small words."""
    if isinstance(value, str):
        yield from [value] if " " in value or value[:1].isupper() else []
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _sentences(item)


def read(language: str) -> dict[str, str]:
    """A catalogue as it is stored: English text to its translation; of English, to the place where it stands."""
    path = WORDS / f"{language}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def write() -> None:
    """en.json anew, and every other catalogue in its order; translations of messages that are gone are dropped."""
    messages = messages_of_code()
    _store("en", messages)
    for language in LANGUAGES[1:]:
        known = read(language)
        _store(language, {text: known[text] for text in messages if text in known})


def _store(language: str, content: dict[str, str]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=0)
    (WORDS / f"{language}.json").write_text(text + "\n", encoding="utf-8")


def faults() -> list[str]:
    """What is missing, left over, or names a place that its English text has not."""
    messages, wrong = messages_of_code(), []
    if read("en") != messages:
        wrong.append("assets/words/en.json is not what the code says; run `python -m explorer.language`.")
    for language in LANGUAGES[1:]:
        known = read(language)
        wrong += [f"{language} lacks: {text}  ({where})" for text, where in messages.items() if not known.get(text)]
        wrong += [f"{language} has one too many: {text}" for text in known if text not in messages]
        wrong += [f"{language} has other places: {text}" for text in messages.keys() & known.keys()
                  if not _fits(text, known[text])]  # fmt: skip
    return wrong


def _fits(text: str, translation: str) -> bool:
    """Numbered places may be left out, such as that of a plural; named ones are filled by name and must all be
    there."""
    there, here = set(_PLACE.findall(text)), set(_PLACE.findall(translation))
    named = {place for place in there if not place[1:-1].isdigit()}
    return here <= there and named <= here
