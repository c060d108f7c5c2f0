"""Finding methods: what works is listed, what does not is reported, nothing is hidden."""

import pytest

import engines
from engines.core import registry
from engines.core.errors import UserError
from engines.core.method import Former, method
from engines.core.params import Float
from engines.core.trace import Edit

GOOD = """
from engines.core.method import Former, method
@method("{slug}", title="", family="{family}", paper="", summary="", needs="causal", params=[], emits=set(),
        departures="none")
def decode(model, prompt, p, run):
    yield run.step()
"""


def walk():
    return registry.registry.__wrapped__()


def test_broken_files_are_reported_and_the_others_still_load(family):
    (family / "a_good.py").write_text(GOOD.format(slug="good", family="strange"))
    (family / "b_syntax.py").write_text("def (")
    (family / "c_import.py").write_text("import no_such_module_anywhere")
    (family / "d_empty.py").write_text("x = 1")
    (family / "e_other.py").write_text(GOOD.format(slug="other", family="diffusion"))
    (family / "f_twice.py").write_text(GOOD.format(slug="good", family="strange"))
    (family / "g_group.py").write_text(
        GOOD.format(slug="group", family="strange").replace("emits=set()", "emits={'fireworks'}")
    )
    (family / "_private.py").write_text("1 / 0")
    found = walk()
    assert list(found.methods) == ["good"]
    reasons = {b.module.rsplit(".", 1)[1]: b.reason for b in found.broken}
    assert set(reasons) == {"b_syntax", "c_import", "d_empty", "e_other", "f_twice", "g_group"}
    for name, words in {
        "b_syntax": "SyntaxError",
        "c_import": "no_such_module_anywhere",
        "d_empty": "declares no method",
        "e_other": "family 'diffusion'",
        "f_twice": "taken",
        "g_group": "fireworks",
    }.items():
        assert words in reasons[name]


def test_a_method_may_be_a_folder(family):
    """Its `__init__.py` declares it; what lies beside is its own and declares nothing."""
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


def test_folders_without_init_are_no_families(family):
    (family / "__init__.py").unlink()
    assert walk().methods == {}


def test_an_unknown_slug_names_the_known_ones():
    with pytest.raises(engines.UserError, match=r"unknown method 'no'; choose one of .*greedy"):
        engines.get_method("no")
    with pytest.raises(engines.UserError) as caught:
        engines.get_method("x" * 10_000)
    assert "x" * 61 not in str(caught.value)
    assert [i.slug for i in engines.list_methods()] == list(registry.registry().methods)


def test_a_curve_is_over_a_parameter_that_is_there():
    def declare(curve):
        method(
            "x",
            title="",
            family="diffusion",
            paper="",
            summary="",
            needs="masked",
            params=[Float("t", 0.5, 0.0, 1.0, help="")],
            emits=set(),
            curve=curve,
        )

    declare(("t", (0.9, 0.1)))
    for curve in (("u", (0.9,)), ("t", ())):
        with pytest.raises(ValueError, match="needs to be one of its parameters"):
            declare(curve)
    with pytest.raises(UserError, match="t="):
        declare(("t", (1.5,)))


@pytest.mark.parametrize("lossless", [{"loud": 1}, {}, [], [{}]])
def test_lossless_names_parameters_of_the_method(lossless):
    with pytest.raises(ValueError, match="lossless"):
        method("x", title="X", family="x", paper="", summary="", needs="causal", params=[], emits={"commits"},
               lossless=lossless)  # fmt: skip


# --- what earlier versions called it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "today"),
    [
        (("stand", {"side_by_side": True, "trajectories": 3}), ("stand-side-by-side", {"trajectories": 3})),
        (("stand", {"side_by_side": "true"}), ("stand-side-by-side", {"trajectories": 1})),
        (("stand", {"side_by_side": "0", "template": "8"}), ("stand", {"template": "8"})),
        (("stand", {"template": "8"}), ("stand", {"template": "8"})),
        (("stand", {"side_by_side": "perhaps"}), ("stand", {"side_by_side": "perhaps"})),
        (("no-method", {"x": 1}), ("no-method", {"x": 1})),
    ],
)
def test_a_method_that_became_two_is_found_by_what_it_was_called(given, today):
    assert registry.current(*given) == today == registry.current(*today)


def test_edits_of_earlier_versions_are_read_in_the_same_way():
    edits = [
        (4, Edit(params={"side_by_side": False, "template": "8"})),
        (2, Edit(method="stand", params={"side_by_side": True})),
        (0, Edit(force={5: 1})),
    ]
    assert registry.current_edits("greedy", edits) == [
        (0, Edit(force={5: 1})),
        (2, Edit(method="stand-side-by-side", params={"trajectories": 1})),
        (4, Edit(params={"template": "8"})),
    ]


def test_a_former_declaration_contradicts_nothing():
    def declare(*former):
        told = dict.fromkeys(("title", "paper", "summary"), "")
        params = [Float("t", 0.5, 0.0, 1.0, help="")]
        method("x", **told, family="x", needs="causal", params=params, emits=set(), former=former)

    declare(Former("y", {"old": True}, {"t": 0.2}))
    with pytest.raises(ValueError, match="are gone"):
        declare(Former("y", {"t": 0.1}))
    with pytest.raises(UserError, match="unknown parameter 'u'"):
        declare(Former("y", {"old": True}, {"u": 1}))
