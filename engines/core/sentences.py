"""The sentences of a method that stand in its paper's file: what departs from the paper, what a viewer sees when a
parameter moves, what a score lane is. A method file declares names, types and ranges; `says` in `papers/<id>.json`
holds the words. What a method file says itself wins, so that a person's own file needs no other.

Of a file's common sentences each goes to all of its methods that declare the name; `methods` holds those of one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engines.core.errors import UserError
from engines.core.extra import extra_folder
from engines.core.method import Method, MethodInfo
from engines.core.places import ASSETS
from engines.core.texts import utf8


class OfMethod(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """departures: from the paper. params, lanes: a sentence by the name of the parameter or the score lane."""

    departures: str = ""
    params: dict[str, str] = {}
    lanes: dict[str, str] = {}


class Sentences(OfMethod, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`says` of a paper's file: what all its methods have in common, and by slug what one of them has of its own."""

    methods: dict[str, OfMethod] = {}

    def of(self, slug: str) -> OfMethod:
        """What a method has of both; its own wins."""
        own = self.methods.get(slug, OfMethod())
        return OfMethod(own.departures or self.departures, self.params | own.params, self.lanes | own.lanes)


class _Paper(msgspec.Struct, frozen=True):
    """What is read here of a paper's file; `explorer.papers.schema` has all of it."""

    methods: list[str] = []
    says: Sentences = Sentences()


@dataclass(frozen=True)
class PaperFiles:
    """The files that were read, and those that could not be with the fault. Of two that name one method the first
    counts, and `explorer.papers` names the second."""

    read: dict[Path, _Paper] = field(default_factory=dict)
    unread: dict[Path, str] = field(default_factory=dict)

    def naming(self, slug: str) -> tuple[Path, _Paper] | None:
        """The file of the paper that a method belongs to."""
        return next(((path, paper) for path, paper in self.read.items() if slug in paper.methods), None)

    def strange(self, methods: Mapping[str, Method]) -> Iterator[tuple[str, str]]:
        """(file, fault) of every sentence about a parameter or a lane that is not there. A paper with a method that did
        not load is left out: its sentences may be that one's."""
        for path, paper in self.read.items():
            by_slug = {slug: methods[slug].info for slug in paper.methods if slug in methods}
            if len(by_slug) < len(paper.methods):
                continue
            parts: list[tuple[OfMethod, list[MethodInfo]]] = [(paper.says, [*by_slug.values()])]
            parts += [(own, [by_slug[slug]]) for slug, own in paper.says.methods.items() if slug in by_slug]
            for sentences, infos in parts:
                for kind, given, known in (
                    ("parameter", sentences.params, [p.name for info in infos for p in info.params]),
                    ("lane", sentences.lanes, [name for info in infos for name in info.lanes]),
                ):
                    owners = " or ".join(repr(info.slug) for info in infos) or "any method"
                    for name in (name for name in given if name not in known):
                        yield (
                            short(path),
                            f"`says` names the {kind} '{name}', which is not declared by {owners}; declared is "
                            f"{', '.join(dict.fromkeys(known)) or 'none'}",
                        )


def paper_files() -> PaperFiles:
    """The papers of `assets` and of the extra folder, read anew. Raises UserError for an extra folder that is not
    there."""
    extra, files = extra_folder(), PaperFiles()
    for path in (path for place in (ASSETS, extra) if place for path in sorted((place / "papers").glob("*.json"))):
        try:
            files.read[path] = msgspec.json.decode(utf8(path.read_bytes()), type=_Paper)
        except (OSError, ValueError) as error:  # no JSON, not its form, no UTF-8
            files.unread[path] = str(error)
    return files


def short(path: Path) -> str:
    """A paper's file as it is named to a person."""
    return path.relative_to(ASSETS.parent).as_posix() if path.is_relative_to(ASSETS) else str(path)


def with_sentences(method: Method, papers: Callable[[], PaperFiles]) -> Method:
    """The method with all its sentences. papers: asked only where the declaration lacks one. Raises UserError that says
    what is missing. A person's own file may leave its departures out."""
    info = method.info
    if not list(_lacking(info)):
        return method
    path_and_paper = papers().naming(info.slug)
    sentences = path_and_paper[1].says.of(info.slug) if path_and_paper else OfMethod()
    whole = replace(
        info,
        departures=info.departures or sentences.departures or ("none" if info.file else ""),
        params=tuple(p if p.help else replace(p, help=sentences.params.get(p.name, "")) for p in info.params),
        lanes={
            name: lane if lane.meaning else replace(lane, meaning=sentences.lanes.get(name, ""))
            for name, lane in info.lanes.items()
        },
    )
    if lacking := list(_lacking(whole)):
        unread = "".join(f"; {short(path)} cannot be read: {fault}" for path, fault in papers().unread.items())
        where = (
            f"`says` of {short(path_and_paper[0])}"
            if path_and_paper
            else "`says` of the paper's file, whose `methods` name it"
        )
        raise UserError(
            f"'{info.slug}' has no sentence for {', '.join(lacking)}; write it there, or into {where}{unread}."
        )
    return Method(whole, method.decode, method.check)


def _lacking(info: MethodInfo) -> Iterator[str]:
    """What has no sentence, each with the place in a method file where it may stand."""
    if not info.departures:
        yield "what departs from the paper (departures=)"
    yield from (f"the parameter '{p.name}' (help=)" for p in info.params if not p.help)
    yield from (f"the lane '{name}' (LaneInfo(unit, meaning))" for name, lane in info.lanes.items() if not lane.meaning)
