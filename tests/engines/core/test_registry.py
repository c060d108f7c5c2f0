"""Finding methods: what does not work is reported; the kinds of models that they name; what a declaration says."""

import json
import math
from pathlib import Path

import pytest

import engines
from engines.core import kinds, registry, sentences
from engines.core.errors import UserError
from engines.core.extra import VARIABLE
from engines.core.kinds import KINDS
from engines.core.method import LaneInfo, method
from engines.core.params import Bool, Choice, Code, Float, Int, Text, max_new_tokens, resolve
from tests.engines.refusals import refuses

GOOD = """
from engines.core.method import method
@method("{slug}", title="", family="{family}", paper="", summary="", needs="causal", params=[], emits=set(),
        departures="none")
def decode(model, prompt, p, run):
    yield run.step()
"""


def walk():
    return registry.registry.__wrapped__()


def test_broken_files_are_reported_and_the_others_still_load(family):
    good = GOOD.format(slug="good", family="strange")
    (family / "a_good.py").write_text(good)
    (family / "_private.py").write_text("1 / 0")
    broken = {
        "b_syntax": ("def (", "SyntaxError"),
        "c_import": ("import no_such_module_anywhere", "no_such_module_anywhere"),
        "d_empty": ("x = 1", "declares no method"),
        "e_other": (GOOD.format(slug="other", family="diffusion"), "family 'diffusion'"),
        "f_twice": (good, "taken"),
        "g_group": (good.replace("emits=set()", "emits={'fireworks'}"), "fireworks"),
    }
    for name, (text, _) in broken.items():
        (family / f"{name}.py").write_text(text)
    found = walk()
    reasons = {b.module.rsplit(".", 1)[1]: b.reason for b in found.broken}
    assert list(found.methods) == ["good"] and set(reasons) == set(broken)
    assert all(words in reasons[name] for name, (_, words) in broken.items())
    (family / "__init__.py").unlink()
    assert walk().methods == {}, "folders without it are no families"


def test_a_method_may_be_a_folder(family):
    folder = family / "whole"
    folder.mkdir()
    rule = "from engines.methods.strange.whole.rule import TITLE"
    (folder / "__init__.py").write_text(rule + GOOD.format(slug="whole", family="strange").replace('""', "TITLE", 1))
    (folder / "rule.py").write_text("TITLE = 'from its own file'\n" + GOOD.format(slug="hidden", family="strange"))
    (family / "_shared").mkdir()
    (family / "_shared" / "__init__.py").write_text("1 / 0")
    (family / "broken").mkdir()
    (family / "broken" / "__init__.py").write_text("from engines.methods.strange.broken import rule")
    (family / "broken" / "rule.py").write_text("1 / 0")
    found = walk()
    assert {slug: one.info.title for slug, one in found.methods.items()} == {"whole": "from its own file"}
    (broken,) = found.broken
    assert broken.module == "engines.methods.strange.broken" and "(rule.py:1)" in broken.reason


def test_an_unknown_slug_names_the_known_ones():
    refuses(engines.UserError, r"unknown method 'no'; choose one of .*greedy", engines.get_method, "no")
    with pytest.raises(engines.UserError) as caught:
        engines.get_method("x" * 10_000)
    assert "x" * 61 not in str(caught.value)
    assert [i.slug for i in engines.list_methods()] == list(registry.registry().methods)


def declare(params=("t",), **more):
    told = dict.fromkeys(("title", "paper", "summary"), "")
    given = [Float(name, 0.5, 0.0, 1.0, help="") for name in params]
    method("x", **told, family="x", needs="causal", params=given, emits={"commits"}, **more)


def test_a_declaration_names_its_own_parameters():
    declare(curve=("t", (0.9, 0.1)), lanes={"a": "bits", "b": LaneInfo("nats", "B.")})
    refuses(ValueError, r"lane 'a' in 'How sure it is\.'; a unit is", declare, lanes={"a": "How sure it is."})
    for curve in (("u", (0.9,)), ("t", ())):
        refuses(ValueError, "needs to be one of its parameters", declare, curve=curve)
    refuses(UserError, "t=", declare, curve=("t", (1.5,)))
    for lossless in ({"loud": 1}, {}, [], [{}]):
        refuses(ValueError, "lossless", declare, (), lossless=lossless)


def declared(needs):
    told = {"title": "", "family": "x", "summary": ""}
    return method("x", **told, needs=needs, params=[max_new_tokens(8)], emits=set())(lambda: None).info


@pytest.mark.parametrize("name", sorted(name for name, kind in KINDS.items() if kind.example))
def test_a_kind_s_example_is_embedded_and_of_that_kind(name):
    listed = next(m for m in engines.list_models() if m.name == KINDS[name].example)
    assert listed.where == "embedded" and name in listed.kinds and listed.kind == KINDS[name].board
    model = engines.load_model(listed.name, kind=name)
    assert isinstance(model, KINDS[name].protocol) and kinds.kinds_of(model) == set(listed.kinds)


def test_what_a_method_may_need():
    found = [declared(needs).needs for needs in ("causal", "layered", "masked")]
    assert found == [{"target": "causal"}, {"target": "layered"}, {"model": "masked"}]
    pair = declared({"small": "causal", "large": "layered"})
    assert (pair.role, pair.kind, pair.needs) == ("small", "causal", {"small": "causal", "large": "layered"})
    assert declared("layered").kind == "causal"  # it writes what a causal method writes
    for needs in ("layers", {"target": "layers"}):
        refuses(ValueError, r"needs unknown kinds of models \['layers'\]; known are \['block', ", declared, needs)


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

    (papers / "torn.json").write_bytes(b'{"methods": ["\xff"]}')
    assert "torn.json cannot be read: 'utf-8' codec can't decode byte 0xff" in only_fault()
    (family / "two.py").write_text(text("two", INLINE))
    assert {*walk().methods} == {"two"}, "what a method file says itself needs no other"


@pytest.mark.parametrize(
    ("says", "fault"),
    [
        ({"params": {"u": "No."}}, "the parameter 'u', which is not declared by 'one' or 'two'; declared is t"),
        ({"lanes": {"shy": "No."}}, "the lane 'shy', which is not declared by 'one' or 'two'; declared is sure"),
        ({"methods": {"two": {"params": {"u": "No."}}}}, "the parameter 'u', which is not declared by 'two'; declared"),
    ],
)
def test_a_sentence_about_nothing_is_named_with_its_file_and_the_methods_stay(family, papers, says, fault):
    for slug in ("one", "two"):
        (family / f"{slug}.py").write_text(text(slug, INLINE))
    write(papers, says, "one", "two")
    assert f"assets/papers/paper.json: `says` names {fault}" in only_fault() and {*walk().methods} == {"one", "two"}


def test_methods_of_one_paper_share_sentences_and_have_their_own(family, papers):
    for slug in ("one", "two"):
        (family / f"{slug}.py").write_text(text(slug, BARE))
    write(papers, SAYS | {"methods": {"two": {"departures": "Two's.", "params": {"t": "Two's t."}}}}, "one", "two")
    found = walk()
    assert not found.broken
    assert said(found.methods["one"].info) == ["From JSON.", "JSON t.", "JSON lane."]
    assert said(found.methods["two"].info) == ["Two's.", "Two's t.", "JSON lane."]


def test_an_extra_folder_has_its_own_papers_and_methods_in_folders_of_their_own(family, papers, tmp_path, monkeypatch):
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
    monkeypatch.setenv(VARIABLE, str(extra))
    assert "'mine' has no sentence for the parameter 't' (help=), the lane 'sure'" in only_fault()
    write(extra / "papers", SAYS, "mine")
    found = walk()
    assert not found.broken and found.methods["mine"].info.title == "From its own file"
    assert said(found.methods["mine"].info) == ["From JSON.", "JSON t.", "JSON lane."]
    assert found.methods["mine"].info.file == str(mine / "__init__.py")
    assert engines.extra_methods() == [mine / "__init__.py"]
    write(extra / "papers", SAYS | {"params": {"t": "JSON t.", "u": "No."}}, "mine")
    assert f"{extra}/papers/paper.json: `says` names the parameter 'u'" in only_fault()


@pytest.mark.usefixtures("registry_unchanged")
def test_a_persons_own_file_needs_no_paper_and_may_leave_departures_out(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(text("mine", INLINE.split("departures")[0], "own"))
    (info,) = engines.load_method_file(mine)
    assert said(info) == ["none", "Inline t.", "Inline lane."]
    mine.write_text(text("mine", BARE, "own"))
    (info,) = engines.load_method_file(mine, sentences=False)  # a process that only decodes needs none
    assert said(info) == ["", "", ""]
    refuses(engines.UserError, "'mine' has no sentence for the parameter 't'", engines.load_method_file, mine)


def test_what_ships_says_its_sentences_in_the_papers_files():
    files = sentences.paper_files()
    assert not files.unread
    for info in (one for one in engines.list_methods() if not one.file):
        assert all(said(info)) and files.naming(info.slug)[1].says.of(info.slug).departures == info.departures


N, X = Int("n", 4, 1, 9, help=""), Float("x", 0.5, 0.0, 1.0, help="")
B, C, T = Bool("b", True, help=""), Choice("c", "red", ["red", "blue"], help=""), Text("t", "", help="")
K = Code("k", "one", {"one": "x = 1\n", "two": "y = 2\n"}, help="")
HUGE = [10**400, -(10**400), 10**6000, "9" * 6000, float("inf"), float("-inf"), float("nan"), "nan", "inf", "1e999"]


@pytest.mark.parametrize(
    ("p", "kind", "values"),
    [(N, int, [1, 9, 4.0, "4", " 7 ", 1e0]), (X, float, [0, 1, 0.25, "0.25", "1e-3"])],
    ids=["whole numbers", "numbers"],
)
def test_text_means_what_the_typed_value_means(p, kind, values):
    for value in values:
        got = p.check(value)
        assert type(got) is kind and got == float(value) and p.check(got) == got
    assert "from 1 to 9" in N.allowed() and "red, blue" in C.allowed()
    assert [B.check(given) for given in (True, "on", "No", 0, "1")] == [True, True, False, False, True]
    refuses(UserError, "whole number", N.check, 1.5)
    refuses(UserError, "", X.check, math.nextafter(1.0, 2))


@pytest.mark.parametrize("p", [N, X])
@pytest.mark.parametrize("value", [*HUGE, -1, 10, None, "", "a", True, [], {}, [1], b"\xff", 1j], ids=lambda value: "")
def test_what_is_no_number_in_range_is_a_sentence(p, value):
    with pytest.raises(UserError, match=f"{p.name}=.*from") as caught:
        p.check(value)
    assert len(str(caught.value)) < 200


def test_other_kinds_a_longer_text_and_names_that_a_method_has_not():
    for p, values in (
        (B, ["maybe", None, 2]),
        (C, ["green", None, 3]),
        (T, [3, "x" * 2001, "\ud800"]),
        (K, ["x" * 12_001]),
    ):
        for value in values:
            refuses(UserError, f"{p.name}", p.check, value)
    assert K.check("two") == "two" and K.check("z = 3\n" * 1000) == "z = 3\n" * 1000 and "one, two" in K.allowed()
    assert vars(resolve([N, X], {"n": "2"})) == {"n": 2, "x": 0.5}
    refuses(UserError, "unknown parameter 'm'; this method has n, x", resolve, [N, X], {"m": 1})
