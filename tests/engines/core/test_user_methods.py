"""Methods of a person's own: the templates as they are printed, and what a mistake in a file says."""

import re
from pathlib import Path

import pytest

import engines
from engines.core.registry import registry
from engines.core.trace import check_consistency
from tests.engines.fakes import board
from tests.engines.refusals import refuses

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
def test_a_template_runs_and_shows_all_it_declares_and_takes_an_edit(path):
    info = own(path)
    assert info.kind == path.stem and info.file == str(path) and info in engines.list_methods()
    assert set(re.findall(r"^(?:from|import) (\S+)", path.read_text(), re.M)) == {"engines.kit"}
    assert all(f"p.{param.name}" in path.read_text() for param in info.params)
    trace = engines.run(info.slug, MODELS[info.kind], PROMPT, seed=3)
    assert trace.text == "Ada Leo Mia" and trace.end.reason == "complete" and board(trace) == trace.output_ids
    check_consistency(trace)
    assert {g for s in trace.steps for g in info.emits if getattr(s, g, None)} == set(info.emits)
    assert {lane.name for s in trace.steps for lane in s.scores} == set(info.lanes)
    assert trace.header.versions["method file"].startswith("sha256 ")
    assert engines.read_trace(trace.to_json()) == trace
    start, (token,) = len(trace.header.prompt_ids), engines.load_model(MODELS[info.kind]).tokenizer.encode(" Kim")[:1]
    made = engines.run(info.slug, MODELS[info.kind], PROMPT, seed=3, edits=[(0, engines.Edit(force={start: token}))])
    assert made.output_ids[0] == token != trace.output_ids[0] and made.end.reason == "complete"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("run: Recorder) -> Steps:", "run: Recorder) -> Steps", r"my.py' is not Python: .*line LINE: def decode"),
        ('"my-masked",  #', '"greedy",  #', "'greedy', and that name is taken"),
        ("import (\n    Float,", "import (\n    Flaot,", r"be loaded: ImportError: .*\(my.py, line LINE: from engines"),
        ('emits={"commits", "scores", "candidates", "note"},', "", r"keyword-only argument: 'emits'.*Name there what"),
        ('"candidates", "note"}', '"candidates", "nots"}', r"emits unknown groups \['nots'\]"),
        ("        edit = yield run.step(", "        edit = run.step(", "'my-masked' in .* never yields"),
        ('@method(\n    "my-masked"', 'declared = dict(\n    slug="my-masked"', "declares no method; put @method"),
    ],
)
def test_a_file_that_does_not_load_says_why(tmp_path, old, new, sentence):
    before = list(registry().methods)
    with pytest.raises(engines.UserError, match=sentence.replace("LINE", line_of(old))):
        engines.load_method_file(written(tmp_path, old, new))
    refuses(engines.UserError, r"there is no file .*none.py';", engines.load_method_file, tmp_path / "none.py")
    refuses(engines.UserError, r"is a folder without __init__.py; give the Python", engines.load_method_file, tmp_path)
    assert list(registry().methods) == before


SURE = "chosen = confidence >= threshold "
APPLIED = "x = run.apply_edit(edit, x)"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (SURE, "chosen = confidence / 0 >= p.treshold ", r"AttributeError: .*treshold.* \(my.py, line LINE: chosen = "),
        ("edit = yield run.step(", "edit = yield dict(", "yielded dict instead of a step; write `yield run.step"),
        ('"scores", "candidates", "note"}', '"note"}', "records candidates, scores, which its declaration does not"),
        ('lanes={"confidence": ', 'lanes={"sureness": ', "score lane 'confidence' is not declared; add it to lanes="),
        (f"{APPLIED}  #", f"{APPLIED}; model(x)  #", "called a model after its last step"),
        (SURE, "raise __import__('engines').UserError('so')\n#", "^so$"),
    ],
)
def test_a_mistake_in_decode_is_a_sentence_for_its_author(tmp_path, old, new, sentence):
    info = own(written(tmp_path, old, new))
    run = engines.stream(info.slug, "tiny-dlm", PROMPT)
    sentence = sentence.replace("LINE", line_of(old))
    refuses(engines.UserError, sentence, list, run)
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
    refuses(engines.UserError, "'my-masked', and that name is taken", engines.load_method_file, other)


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
    first, rest = MASKED.split("@method(", 1)
    path.write_text(f"{first}{mute}\n@method({rest}".replace(SURE, f"raise {raised}\n        {SURE}"))
    run = engines.stream(own(path).slug, "tiny-dlm", PROMPT)
    refuses(engines.UserError, r"failed after 0 steps: .*my.py, line", list, run)
    assert run.trace().end.reason == "failed" and "failed after 0 steps" in run.trace().end.message


def folder(tmp_path: Path, rule: str = "def ready(sure, line):\n    return sure >= line\n") -> Path:
    """The template's method as a folder whose rule stands in a file of its own."""
    place = tmp_path / "my_folder"
    place.mkdir(exist_ok=True)
    text = MASKED.replace(SURE.strip(), "chosen = rule.ready(confidence, threshold)")
    (place / "__init__.py").write_text(text.replace("\nfrom engines.kit", "\nfrom . import rule\nfrom engines.kit", 1))
    (place / "rule.py").write_text(rule)
    return place


def test_a_method_may_be_a_folder_with_helpers_whose_mistakes_are_told_with_their_line(tmp_path):
    plain = own(written(tmp_path, '"my-masked",', '"my-plain",'))
    few = engines.run(plain.slug, "tiny-dlm", PROMPT, seed=3)
    place = folder(tmp_path)
    for given in (place, place / "__init__.py"):
        info = own(given)
        assert (info.slug, info.file, info.own_file) == ("my-masked", str(place / "__init__.py"), "my_folder/")
        one = engines.run(info.slug, "tiny-dlm", PROMPT, seed=3)
        assert (one.text, one.totals.forwards) == (few.text, few.totals.forwards)
    assert not list(place.glob("__pycache__")), "nothing is left beside a person's files"
    texts = engines.method_texts(info.file)
    assert set(texts) == {"my_folder/__init__.py", "my_folder/rule.py"}
    assert engines.method_texts(str(place / "rule.py")) == {"rule.py": texts["my_folder/rule.py"]}
    second = own(folder(tmp_path, "def ready(sure, line):\n    return sure >= 9999\n"))  # read anew with its helpers
    assert info.version != second.version and info.file == second.file
    assert engines.run(second.slug, "tiny-dlm", PROMPT, seed=3).totals.forwards > few.totals.forwards
    refuses(engines.UserError, r"loaded: ZeroDiv.* \(rule.py, line 2: 1 / 0", own, folder(tmp_path, "\n1 / 0\n"))
    info = own(folder(tmp_path, "def ready(sure, line):\n    return sure + {}\n"))
    refuses(engines.UserError, r"after 0 steps: .* \(rule.py, line 2", engines.run, info.slug, "tiny-dlm", PROMPT)
