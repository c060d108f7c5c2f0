"""Methods of a person's own: the templates as they are printed, and what a mistake in a file says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import engines
from engines.core.registry import registry
from engines.core.trace import check_consistency
from tests.engines.fakes import board

TEMPLATES = sorted((Path(__file__).resolve().parents[3] / "assets" / "templates").glob("*.py"))
MODELS = {"masked": "tiny-dlm", "causal": "tiny-ar-m"}
PROMPT = "sort: Mia, Leo, Ada"
MASKED = (TEMPLATES[0].parent / "masked.py").read_text()


pytestmark = pytest.mark.usefixtures("registry_unchanged")


def own(path: Path) -> engines.MethodInfo:
    (info,) = engines.load_method_file(path)
    return info


def written(tmp_path: Path, old: str, new: str) -> Path:
    assert MASKED.count(old) == 1, old
    path = tmp_path / "my.py"
    path.write_text(MASKED.replace(old, new))
    return path


def line_of(old: str) -> str:
    """The number of the line that was spoiled."""
    return str(MASKED[: MASKED.index(old)].count("\n") + 1)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_a_template_runs_and_shows_all_it_declares(path):
    info = own(path)
    assert info.kind == path.stem and info.file == str(path) and info in engines.list_methods()
    trace = engines.run(info.slug, MODELS[info.kind], PROMPT, seed=3)
    assert trace.text == "Ada Leo Mia" and trace.end.reason == "complete" and board(trace) == trace.output_ids
    check_consistency(trace)
    assert {g for s in trace.steps for g in info.emits if getattr(s, g, None)} == set(info.emits)
    assert {lane.name for s in trace.steps for lane in s.scores} == set(info.lanes)
    assert trace.header.versions["method file"].startswith("sha256 ")
    assert engines.read_trace(trace.to_json()) == trace
    again = engines.run(info.slug, MODELS[info.kind], PROMPT, seed=3)
    assert again.output_ids == trace.output_ids


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_a_template_can_be_forked(path):
    info = own(path)
    run = engines.stream(info.slug, MODELS[info.kind], PROMPT, seed=3)
    first = next(run)
    start, model = len(run.header.prompt_ids), engines.load_model(MODELS[info.kind])
    (token,) = model.tokenizer.encode(" Kim")[:1]
    assert first.commits.tokens[0] != token
    run.send(engines.Edit(force={start: token}))
    for _ in run:
        pass
    assert run.trace().output_ids[0] == token and run.trace().end.reason == "complete"


@pytest.mark.parametrize(
    ("kind", "name", "values", "beside"),
    [
        ("masked", "max_new_tokens", (4, 40), {}),
        ("masked", "threshold", (0.1, 0.99), {}),
        ("causal", "max_new_tokens", (4, 40), {}),
        ("causal", "temperature", (0.0, 2.0), {"part": 0.0}),
        ("causal", "part", (0.0, 1.0), {"temperature": 2.0}),
    ],
)
def test_every_parameter_of_a_template_has_an_effect(kind, name, values, beside):
    info = own(TEMPLATES[0].parent / f"{kind}.py")
    assert name in {p.name for p in info.params}
    one, other = (
        engines.run(info.slug, MODELS[kind], "add: 457 + 286", params={name: v, **beside}, seed=1, detail="none")
        for v in values
    )
    assert (one.output_ids, one.totals.forwards) != (other.output_ids, other.totals.forwards)


def test_the_falling_threshold_that_the_template_names_decides_and_is_drawn(tmp_path):
    """It takes the place of the fixed one in a single line."""
    named = re.search(r"limit = p\.threshold  # HERE: or (.+), which falls", MASKED)
    assert named
    info = own(written(tmp_path, "limit = p.threshold  #", f"limit = {named[1]}  #"))
    trace = engines.run(info.slug, "tiny-dlm", "add: 457 + 286", params={"threshold": 0.99})
    drawn = [lane.threshold for step in trace.steps for lane in step.scores]
    assert len(drawn) > 2 and drawn == pytest.approx([0.99 * 0.9**n for n in range(len(drawn))])
    passed = []
    for step, limit in zip(trace.steps, drawn, strict=True):
        lane, wrote = step.scores[0], step.commits.positions
        left = [sure for at, sure in enumerate(lane.values.array(), lane.start) if at not in wrote]
        assert len(wrote) == 1 or min(step.commits.probabilities) >= limit
        assert not any(sure > limit + 0.01 for sure in left)  # kept in 8 bits; NaN where a token stands
        passed += step.commits.probabilities if len(wrote) > 1 else []
    assert min(passed) < 0.99, "some passed that the first threshold would have held back"


def test_a_template_is_about_twenty_lines_of_method():
    for path in TEMPLATES:
        body = path.read_text().split("def decode(")[1].splitlines()
        assert 14 <= len(body) <= 25 and all(len(line) <= 130 for line in path.read_text().splitlines())
        assert set(re.findall(r"^(?:from|import) (\S+)", path.read_text(), re.M)) == {"engines.kit"}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "p: Params, run: Recorder) -> Steps:",
            "p: Params, run: Recorder) -> Steps",
            r"my.py' is not Python: .*line LINE: def decode",
        ),
        ('"my-masked",  #', '"greedy",  #', "'greedy', and that name is taken"),
        (
            "import (\n    Float,",
            "import (\n    Flaot,",
            r"cannot be loaded: ImportError: .*\(my.py, line LINE: from engines",
        ),
        (
            '    emits={"commits", "scores", "candidates", "note"},',
            "",
            r"missing 1 required keyword-only argument: 'emits'.*Name there what",
        ),
        ('"candidates", "note"}', '"candidates", "nots"}', r"emits unknown groups \['nots'\]"),
        ("        edit = yield run.step(", "        edit = run.step(", "'my-masked' in .* never yields"),
        ('@method(\n    "my-masked"', 'declared = dict(\n    slug="my-masked"', "declares no method; put @method"),
    ],
)
def test_a_file_that_does_not_load_says_why(tmp_path, old, new, sentence):
    before = list(registry().methods)
    with pytest.raises(engines.UserError, match=sentence.replace("LINE", line_of(old))):
        engines.load_method_file(written(tmp_path, old, new))
    assert list(registry().methods) == before


def test_what_is_no_file_says_so(tmp_path):
    with pytest.raises(engines.UserError, match=r"there is no file .*none.py'; `decoding-explorer template > none.py`"):
        engines.load_method_file(tmp_path / "none.py")
    with pytest.raises(engines.UserError, match="is a folder"):
        engines.load_method_file(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "ready = sure >= limit ",
            "ready = sure / 0 >= p.treshold ",
            r"failed after 0 steps: AttributeError: .*treshold.* \(my.py, line LINE: ready = ",
        ),
        ("edit = yield run.step(", "edit = yield dict(", "yielded dict instead of a step; write `yield run.step"),
        (
            'emits={"commits", "scores", "candidates", "note"}',
            'emits={"commits", "note"}',
            "records candidates, scores, which its declaration does not name",
        ),
        (
            'lanes={"confidence": ',
            'lanes={"sureness": ',
            "the score lane 'confidence' is not declared; add it to lanes=",
        ),
        (
            "x = run.apply_edit(edit, x)  #",
            "x = run.apply_edit(edit, x); model(x)  #",
            "called a model after its last step",
        ),
    ],
)
def test_a_mistake_in_decode_is_a_sentence_for_its_author(tmp_path, old, new, sentence):
    info = own(written(tmp_path, old, new))
    run = engines.stream(info.slug, "tiny-dlm", PROMPT)
    sentence = sentence.replace("LINE", line_of(old))
    with pytest.raises(engines.UserError, match=sentence):
        list(run)
    assert run.trace().end.reason == "failed" and re.search(sentence, run.trace().end.message)


def test_the_same_file_again_replaces_its_method(tmp_path):
    path = written(tmp_path, "title=", "title=")
    first = own(path)
    path.write_text(MASKED.replace("My masked method", "Another title"))
    second = own(path)
    assert (second.slug, second.title) == (first.slug, "Another title") and second.version != first.version
    assert engines.get_method(first.slug).info.title == "Another title"
    other = tmp_path / "other.py"
    other.write_text(MASKED)
    with pytest.raises(engines.UserError, match="'my-masked', and that name is taken"):
        engines.load_method_file(other)


def test_the_code_version_is_of_all_engines():
    assert re.fullmatch(r"[0-9a-f]{64}", engines.code_version())


MUTE = "class Mute(KIND):\n    def __str__(self):\n        raise KeyError('no text')\n"
ENDS = ["GeneratorExit", "SystemExit", "SystemExit(3)", "Mute", "Mute()"]


@pytest.mark.parametrize("raised", ENDS)
@pytest.mark.parametrize("kind", ["Exception", "GeneratorExit"])
def test_whatever_a_file_raises_is_a_sentence(tmp_path, raised, kind):
    mute = MUTE.replace("KIND", kind)
    path = tmp_path / "my.py"
    path.write_text(f"{mute}\nraise {raised}\n")
    with pytest.raises(engines.UserError, match=r"cannot be loaded: .*my.py, line") as caught:
        engines.load_method_file(path)
    assert "text cannot be made" in str(caught.value) or "Mute" not in raised
    line = "ready = sure >= limit "
    assert MASKED.count(line) == 1
    first, rest = MASKED.split("@method(", 1)
    path.write_text(f"{first}{mute}\n@method({rest}".replace(line, f"raise {raised}\n        {line}"))
    info = own(path)
    run = engines.stream(info.slug, "tiny-dlm", PROMPT)
    with pytest.raises(engines.UserError, match=r"failed after 0 steps: .*my.py, line"):
        list(run)
    assert run.trace().end.reason == "failed" and "failed after 0 steps" in run.trace().end.message


def test_a_sentence_of_a_method_s_own_stays_as_it_is(tmp_path):
    path = written(tmp_path, "ready = sure >= limit ", "raise __import__('engines').UserError('so')\n#")
    info = own(path)
    with pytest.raises(engines.UserError, match=r"^so$"):
        list(engines.stream(info.slug, "tiny-dlm", PROMPT))


# --- a folder of one method ------------------------------------------------------------------------------------------


def folder(tmp_path: Path, rule: str) -> Path:
    """The template's method as a folder whose rule stands in a file of its own."""
    place = tmp_path / "my_folder"
    place.mkdir(exist_ok=True)
    spoiled = MASKED.replace("ready = sure >= limit", "ready = rule.ready(sure, limit)")
    assert spoiled != MASKED
    (place / "__init__.py").write_text(
        spoiled.replace("\nfrom engines.kit", "\nfrom . import rule\nfrom engines.kit", 1)
    )
    (place / "rule.py").write_text(rule)
    return place


def test_a_method_may_be_a_folder_with_helpers_beside_its_file(tmp_path):
    plain = own(written(tmp_path, '"my-masked",', '"my-plain",'))
    place = folder(tmp_path, "def ready(sure, line):\n    return sure >= line\n")
    for given in (place, place / "__init__.py"):
        info = own(given)
        assert (info.slug, info.file, info.own_file) == ("my-masked", str(place / "__init__.py"), "my_folder/")
        one, other = (engines.run(slug, "tiny-dlm", PROMPT, seed=3) for slug in (info.slug, plain.slug))
        assert (one.text, one.totals.forwards) == (other.text, other.totals.forwards)
    assert not list(place.glob("__pycache__")), "nothing is left beside a person's files"


def test_a_folder_that_changed_is_read_anew_with_its_helpers(tmp_path):
    first = own(folder(tmp_path, "def ready(sure, line):\n    return sure >= line\n"))
    few = engines.run(first.slug, "tiny-dlm", PROMPT, seed=3).totals.forwards
    second = own(folder(tmp_path, "def ready(sure, line):\n    return sure >= 9999\n"))
    assert first.version != second.version and first.file == second.file
    assert engines.run(second.slug, "tiny-dlm", PROMPT, seed=3).totals.forwards > few


def test_a_mistake_in_a_helper_is_told_with_its_line(tmp_path):
    with pytest.raises(engines.UserError, match=r"__init__.py' cannot be loaded: ZeroDiv.* \(rule.py, line 2: 1 / 0\)"):
        own(folder(tmp_path, "\n1 / 0\n"))
    info = own(folder(tmp_path, "def ready(sure, line):\n    return sure + {}\n"))
    with pytest.raises(engines.UserError, match=r"failed after 0 steps: .* \(rule.py, line 2: return sure \+ \{\}\)"):
        engines.run(info.slug, "tiny-dlm", PROMPT)


def test_a_folder_without_a_declaration_says_so(tmp_path):
    with pytest.raises(engines.UserError, match=r"is a folder without __init__.py; give the Python file"):
        engines.load_method_file(tmp_path)


def test_what_a_method_needs_elsewhere_is_all_of_its_folder(tmp_path):
    place = folder(tmp_path, "def ready(sure, line):\n    return sure >= line\n")
    texts = engines.method_texts(own(place).file)
    assert set(texts) == {"my_folder/__init__.py", "my_folder/rule.py"}
    assert engines.method_texts(str(tmp_path / "my_folder" / "rule.py")) == {"rule.py": texts["my_folder/rule.py"]}
