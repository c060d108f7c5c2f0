"""The monitors of imports and arguments: whatever the model wants, an imported name exists and a call with a known
signature gets arguments that fit."""

import itertools
import re

import pytest

from engines.methods.sampling.mgd.monitor import Completions
from engines.methods.sampling.mgd.names import Importing, importing
from engines.tools.calls import Brackets
from engines.tools.completion import Analyser, Parameter
from engines.tools.projects import files_of
from tests.engines.methods.sampling.test_mgd import EOS, STRINGS, Letters, decode, model

COMPLETIONS = "completions", Completions

BY = [[Parameter("by", "POSITIONAL_OR_KEYWORD", True)]]
LEDGER = "payer:POSITIONAL_OR_KEYWORD:1 cents:POSITIONAL_OR_KEYWORD:1"
TWO = "from book import Book\nrow = Book().push_row("
F = "a:POSITIONAL_ONLY:1 b:POSITIONAL_OR_KEYWORD:1 c:POSITIONAL_OR_KEYWORD:0 k:KEYWORD_ONLY:1"


def signature(text):
    split = (one.split(":") for one in text.split())
    return tuple(Parameter(name, kind, required == "1") for name, kind, required in split)


def brackets(text, form=F):
    return Brackets(text, lambda start: (signature(form),))


def binds(form, arguments):
    """Whether Python itself takes these arguments: the oracle of the rules."""
    source = {"a": "a, /", "b": "b", "c": "c=0", "k": "*, k"}
    names = [one.split(":")[0] for one in form.split()]
    space: dict = {}
    exec(f"def f({', '.join(source[n] for n in names)}): pass", space)
    try:
        eval(f"f({arguments})", space)
    except (TypeError, SyntaxError):
        return False
    return True


@pytest.mark.parametrize("form", [F, "a:POSITIONAL_ONLY:1", "b:POSITIONAL_OR_KEYWORD:1 k:KEYWORD_ONLY:1"])
def test_a_call_may_end_exactly_where_python_would_take_it(form):
    pieces = ["1", "2", "3", "4", "b=5", "c=6", "k=7", "z=8", "a=9"]
    taken = []
    for n in range(4):
        for parts in itertools.product(pieces, repeat=n):
            arguments = ", ".join(parts)
            taken.append(binds(form, arguments))
            assert brackets("f(", form).follows(f"{arguments})") == taken[-1], arguments
    assert any(taken)


@pytest.mark.parametrize(
    ("text", "token", "fine"),
    [
        ("f(1, 2, ", "k=[1, 2, 3])", True),
        ("f(1, 2, 3, ", "x", False),
        ("f(1, 2, 3, ", "k", True),
        ("f(1, 2, 3, k", ")", False),
        ("f(1, 2, k=3", ", k=4", False),
        ("f('),,,', 2, k=3", ")", True),
        ("f(1 # ),,\n, 2, k=3", ")", True),
        ("f(1 == 2, 2, k=3", ")", True),
        ("f(*rest", ")", True),
        ("f(lambda x, y, z, w: 1", ", 2, 3, 4, 5)", True),
        ("def f(", ")", True),
        ("if (", ")", True),
        ("f(1, g[2", "]", True),
    ],
)
def test_strings_brackets_and_definitions(text, token, fine):
    assert brackets(text).follows(token) == fine


def test_the_analyser_knows_signatures_and_modules():
    with Analyser(files_of("ledger")) as analyser:
        found = analyser.signatures(TWO)
        assert [(p.name, p.required) for p in found.signatures[0]] == [("payer", True), ("cents", True)]
        assert not analyser.signatures("nowhere(").signatures and analyser.signatures("nowhere(").why
        assert len(analyser.signatures("range(").signatures) == 2
        assert {"book", "gauge", "math"} <= set(analyser.members("import ").names)
        assert set(analyser.members("from book import ").names) == {"Book", "Gauge", "Row"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from book import ", Importing("from book import ", "")),
        ("x = 1\nfrom book import Bo", Importing("x = 1\nfrom book import ", "Bo")),
        ("from book import Book,", Importing("from book import Book, ", "", ("", " "))),
        ("import", Importing("import ", "", (" ",), soft=True)),
        ("import ma", Importing("import ", "ma")),
        *((text, None) for text in ("importlib", "import os as ", "import os.", "from book ", "y = import_")),
    ],
)
def test_where_a_text_ends_in_an_import(text, found):
    assert importing(text) == found


def written(trace):
    return Letters().decode([*trace.header.prompt_ids, *[i for i in trace.output_ids if i != EOS]])


@pytest.mark.parametrize("seed", range(4))
def test_an_imported_name_exists(seed):
    trace = decode(seed, "from book import ", watches="imports", temperature=1.5)
    names = re.match(r"from book import (\w+)(\W|$)", written(trace))
    assert names and any(one.startswith(names[1]) for one in ("Book", "Gauge", "Row"))
    assert names[1] in ("Book", "Gauge", "Row") or not names[2]
    assert trace.steps[0].facts["questions"] == 1 and trace.steps[0].record(*COMPLETIONS).total == 3


def test_a_call_without_parameters_is_closed_at_once_whatever_the_model():
    prompt = "from gauge import Gauge\nGauge("
    held = [written(decode(s, prompt, watches="arguments", temperature=2.0))[len(prompt)] for s in range(4)]
    free = [written(decode(s, prompt, monitor="off", temperature=2.0))[len(prompt)] for s in range(4)]
    assert held == [")"] * 4 != free


@pytest.mark.parametrize(("argument", "state"), [("q.", "unknown"), ("Gauge().zz", "astray")])
def test_a_call_is_held_where_the_name_in_it_is_not(argument, state):
    prompt = f"from gauge import Gauge\nGauge().bump({argument}"
    step = decode(0, prompt, watches="all", temperature=2.0).steps[0]
    told = step.record(*COMPLETIONS)
    assert told.state == state and told.held and 0 < told.allowed < len(STRINGS)
    assert Brackets(prompt, lambda at: BY if at > 30 else None).follows(STRINGS[step.commits.tokens[0]])
    first = decode(0, "from gauge import Gauge\nGauge().bump([nowhere(", watches="arguments").steps[0]
    inside = first.record(*COMPLETIONS)
    assert inside.state == "unknown" and inside.call and first.facts["questions"] == 2, "the outer call is held"


def test_what_a_call_allows_stays_as_the_model_weighs_it_and_is_recorded():
    first = decode(3, TWO, watches="arguments").steps[0]
    told = first.record(*COMPLETIONS)
    p = model(3).logits(tuple(Letters().encode_prompt(TWO)))[0].softmax(-1)
    legal = [i for i, text in enumerate(STRINGS) if brackets(TWO, LEDGER).follows(text)]
    assert told.call and told.names == ["payer", "cents"] and told.state == "asked" and told.name == ""
    assert told.allowed == len(legal) and told.mass == pytest.approx(float(p[legal].sum()), abs=1e-6)
    assert told.refused[0] == max(set(range(EOS + 1)) - set(legal), key=lambda i: float(p[i]))
    asked = [lane for lane in first.intervals if lane.track == "analyser"]
    assert len(asked) == first.facts["questions"] == 1  # not about Book() of the prompt, which is closed


def test_a_call_that_is_broken_already_is_held_to_nothing():
    for text in ("f(1, 2, 3, 4", "f(z=3", "f(k=3, 1", "f(1, 2, k=3, k=4", "f(a=1, ", "f(1, 2, 3, x"):
        found = brackets(text)
        assert found.frames[0].broken and all(found.follows(token) for token in (")", ", 5", "=6", "x"))
    assert not brackets("f(1, 2, 3, ").frames[0].broken and not brackets("f(1, 2, k=").frames[0].broken
    first = decode(0, TWO + "1, 2, 3", watches="arguments", monitor="watch").steps[0]
    assert first.record(*COMPLETIONS).state == "astray", "a plain run that leaves the signature is told"


def test_names_with_two_underscores_come_on_request_or_where_one_stands():
    prompt = "from book import Book\nprint([Book()."
    without, on = (decode(0, prompt, dunder=d).steps[0].record(*COMPLETIONS) for d in (False, True))
    assert without.total == 6 < on.total and not any(name.startswith("__") for name in without.names)
    started = decode(0, prompt + "__").steps[0].record(*COMPLETIONS)
    assert "__init__" in started.names and all(name.startswith("__") for name in started.names)
    alone = decode(1, "object().").steps[0].record(*COMPLETIONS)
    assert alone.state == "unknown" and not alone.held, "where only such names exist nothing is held"
