"""The sentences of a declaration: in the method file, in its paper's file, in both, in neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engines
from engines.core import registry, sentences
from engines.core.extra import VARIABLE
from engines.core.method import LaneInfo, method

METHOD = """
from engines.kit import Float, LaneInfo, method

@method("{slug}", title="T", family="{family}", paper="", summary="S.", needs="causal", emits=set(), {more})
def decode(model, prompt, p, run):
    yield run.step()
"""
INLINE = """params=[Float("t", 0.5, 0, 1, help="Inline t.")], lanes={"sure": LaneInfo("nats", "Inline lane.")},
departures="Inline departure." """
BARE = """params=[Float("t", 0.5, 0, 1)], lanes={"sure": "nats"}"""
SAYS = {"departures": "From JSON.", "params": {"t": "JSON t."}, "lanes": {"sure": "JSON lane."}}


def text(slug: str, more: str, family: str = "strange") -> str:
    return METHOD.replace("{slug}", slug).replace("{family}", family).replace("{more}", more)


def said(info: engines.MethodInfo) -> list[str]:
    return [info.departures, *(p.help for p in info.params), *(lane.meaning for lane in info.lanes.values())]


@pytest.fixture
def papers(family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the papers of that family, as if it were `assets/papers`."""
    monkeypatch.setattr(sentences, "ASSETS", tmp_path / "assets")
    (tmp_path / "assets" / "papers").mkdir(parents=True)
    return tmp_path / "assets" / "papers"


def write(papers: Path, says: object, *methods: str, name: str = "paper") -> None:
    (papers / f"{name}.json").write_text(json.dumps({"title": "P", "methods": methods, "says": says}))


def walk() -> registry.Registry:
    return registry.registry.__wrapped__()


def only_fault() -> str:
    (broken,) = walk().broken
    return f"{broken.module}: {broken.reason}"


@pytest.mark.parametrize(
    ("more", "says", "expected"),
    [
        (INLINE, None, ["Inline departure.", "Inline t.", "Inline lane."]),
        (BARE, SAYS, ["From JSON.", "JSON t.", "JSON lane."]),
        (INLINE, SAYS, ["Inline departure.", "Inline t.", "Inline lane."]),
        (BARE + ', departures="Inline departure."', SAYS, ["Inline departure.", "JSON t.", "JSON lane."]),
    ],
    ids=["inline", "paper", "both", "mixed"],
)
def test_a_sentence_stands_in_the_method_file_or_in_the_papers(family, papers, more, says, expected):
    (family / "one.py").write_text(text("one", more))
    if says:
        write(papers, says, "one")
    found = walk()
    assert not found.broken and said(found.methods["one"].info) == expected


@pytest.mark.parametrize("named", [True, False])
def test_a_sentence_that_stands_in_neither_is_named(family, papers, named):
    (family / "one.py").write_text(text("one", BARE))
    write(papers, {}, *(["one"] if named else []))
    fault = only_fault()
    for what in (
        "engines.methods.strange.one: ", "'one' has no sentence for", "what departs from the paper (departures=)",
        "the parameter 't' (help=)", "the lane 'sure' (LaneInfo(unit, meaning))",
        "`says` of assets/papers/paper.json" if named else "`says` of the paper's file, whose `methods` name it",
    ):  # fmt: skip
        assert what in fault
    write(papers, {**SAYS, "departures": ""}, "one")
    assert "no sentence for what departs from the paper (departures=); write" in only_fault()


def test_a_papers_file_that_cannot_be_read_is_named_where_a_sentence_is_missing(family, papers):
    (family / "one.py").write_text(text("one", BARE))
    (papers / "torn.json").write_text('{"methods": ["one"], "says"')
    assert "; assets/papers/torn.json cannot be read: Input data was truncated" in only_fault()
    write(papers, {"param": {}}, "one", name="torn")
    assert "unknown field `param` - at `$.says`" in only_fault()
    write(papers, {"params": {"t": 3}}, "one", name="torn")
    assert "Expected `str`, got `int` - at `$.says.params[...]`" in only_fault()
    (papers / "torn.json").write_bytes(b'{"methods": ["\xff"]}')
    assert "torn.json cannot be read: 'utf-8' codec can't decode byte 0xff" in only_fault()
    (family / "two.py").write_text(text("two", INLINE))
    assert {*walk().methods} == {"two"}, "what a method file says itself needs no other"


@pytest.mark.parametrize(
    ("says", "fault"),
    [
        ({"params": {"u": "No."}}, "names the parameter 'u', which is not declared by 'one' or 'two'; declared is t"),
        ({"lanes": {"shy": "No."}}, "names the lane 'shy', which is not declared by 'one' or 'two'; declared is sure"),
        (
            {"methods": {"two": {"params": {"u": "No."}}}},
            "names the parameter 'u', which is not declared by 'two'; declared is t",
        ),
    ],
)
def test_a_sentence_about_nothing_is_named_with_its_file_and_the_methods_stay(family, papers, says, fault):
    for slug in ("one", "two"):
        (family / f"{slug}.py").write_text(text(slug, INLINE))
    write(papers, says, "one", "two")
    assert f"assets/papers/paper.json: `says` {fault}" in only_fault() and {*walk().methods} == {"one", "two"}


def test_a_sentence_of_a_method_that_does_not_load_is_no_fault(family, papers):
    (family / "one.py").write_text(text("one", INLINE))
    (family / "two.py").write_text("1 / 0")
    write(papers, {"params": {"u": "Two's."}}, "one", "two")
    assert "two.py" in only_fault()


def test_methods_of_one_paper_share_sentences_and_have_their_own(family, papers):
    for slug in ("one", "two"):
        (family / f"{slug}.py").write_text(text(slug, BARE))
    write(papers, SAYS | {"methods": {"two": {"departures": "Two's.", "params": {"t": "Two's t."}}}}, "one", "two")
    found = walk()
    assert not found.broken
    assert said(found.methods["one"].info) == ["From JSON.", "JSON t.", "JSON lane."]
    assert said(found.methods["two"].info) == ["Two's.", "Two's t.", "JSON lane."]


def test_an_extra_folder_has_its_own_papers(family, papers, tmp_path, monkeypatch):
    extra = tmp_path / "extra"
    (extra / "methods" / "own").mkdir(parents=True)
    (extra / "papers").mkdir()
    (extra / "methods" / "own" / "mine.py").write_text(text("mine", BARE, "own"))
    monkeypatch.setenv(VARIABLE, str(extra))
    assert "'mine' has no sentence for the parameter 't' (help=), the lane 'sure'" in only_fault()
    write(extra / "papers", SAYS, "mine")
    found = walk()
    assert not found.broken and said(found.methods["mine"].info) == ["From JSON.", "JSON t.", "JSON lane."]
    write(extra / "papers", SAYS | {"params": {"t": "JSON t.", "u": "No."}}, "mine")
    assert f"{extra}/papers/paper.json: `says` names the parameter 'u'" in only_fault()


def test_an_extra_folder_has_methods_in_folders_of_their_own(family, papers, tmp_path, monkeypatch):
    extra = tmp_path / "extra"
    mine = extra / "methods" / "own" / "mine"
    mine.mkdir(parents=True)
    (extra / "papers").mkdir()
    (mine / "__init__.py").write_text("from .words import TITLE\n" + text("mine", BARE, "own").replace('"T"', "TITLE"))
    (mine / "words.py").write_text("TITLE = 'From its own file'\n")
    for name in ("_shared", "no_method"):  # a helper, and what declares nothing
        (mine.parent / name).mkdir()
        (mine.parent / name / "rule.py").write_text("1 / 0")
    (mine.parent / "_shared" / "__init__.py").write_text("1 / 0")
    write(extra / "papers", SAYS, "mine")
    monkeypatch.setenv(VARIABLE, str(extra))
    found = walk()
    assert not found.broken and found.methods["mine"].info.title == "From its own file"
    assert said(found.methods["mine"].info)[0] == "From JSON."
    assert found.methods["mine"].info.file == str(mine / "__init__.py")
    assert engines.extra_methods() == [mine / "__init__.py"]


@pytest.mark.usefixtures("registry_unchanged")
def test_a_process_that_only_decodes_needs_no_sentences(tmp_path):
    (tmp_path / "mine.py").write_text(text("mine", BARE, "own"))
    (info,) = engines.load_method_file(tmp_path / "mine.py", sentences=False)
    assert said(info) == ["", "", ""]


@pytest.mark.usefixtures("registry_unchanged")
def test_a_persons_own_file_needs_no_paper_and_may_leave_departures_out(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(text("mine", INLINE.split("departures")[0], "own"))
    (info,) = engines.load_method_file(mine)
    assert said(info) == ["none", "Inline t.", "Inline lane."]
    mine.write_text(text("mine", BARE, "own"))
    with pytest.raises(engines.UserError) as caught:
        engines.load_method_file(mine)
    assert str(caught.value) == (
        f"'{mine}': 'mine' has no sentence for the parameter 't' (help=), the lane 'sure' (LaneInfo(unit, meaning)); "
        "write it there, or into `says` of the paper's file, whose `methods` name it."
    )


def test_a_lane_is_a_unit_or_has_its_sentence_with_it():
    def lanes(given):
        told = dict.fromkeys(("title", "family", "paper", "summary"), "")
        return method("x", **told, needs="causal", params=[], emits=set(), lanes=given)(lambda *_: None).info.lanes

    assert lanes({"a": "bits", "b": LaneInfo("nats", "B.")}) == {"a": LaneInfo("bits"), "b": LaneInfo("nats", "B.")}
    with pytest.raises(ValueError, match=r"lane 'a' in 'How sure it is\.'; a unit is probability, nats"):
        lanes({"a": "How sure it is."})


def test_what_ships_says_its_sentences_in_the_papers_files():
    """What method files of several papers share is said where it is shared: there the name begins with _."""
    ours = [one for one in engines.list_methods() if not one.file]
    assert ours and all(map(all, map(said, ours)))
    files = sentences.paper_files()
    assert not files.unread
    for info in ours:
        path, paper = files.naming(info.slug)
        assert paper.says.of(info.slug).departures == info.departures, path
