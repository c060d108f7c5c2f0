"""The commands that measure: certify says what it found, and bench by class prints and writes one benchmark."""

import json
import re

import msgspec
import pytest

import engines
from engines.core.method import Method, MethodInfo
from explorer.bench import certified, classes
from tests.explorer.commands import call, refused

BY_CLASS = ("bench", "--by-class", "--model", "tiny-ar-s")


def certify(model, *, prompts, tokens):
    """The command line that holds token recycling against greedy."""
    asked = ("certify", "--model", model, "--method", "token-recycling")
    return (*asked, "--prompts", str(prompts), "--max-new-tokens", str(tokens))


def test_certify_writes_what_it_found(capsys, tmp_path):
    file = tmp_path / "c.json"
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=2, tokens=8), "--json", str(file))
    found = msgspec.json.decode(file.read_bytes(), type=certified.Certified)
    assert code == 0 and out.count("token-recycling: ") == 2 and out.count("Same ") == 4 and "float32" in out
    (method,), (control,) = found.kept, found.network
    assert (method.method, method.same, method.prompts, method.first) == ("token-recycling", 2, 2, [])
    assert control.method == "greedy" and control.same == 2 and method.tokens > 0
    assert found.command.startswith("decoding-explorer certify --model tiny-ar-s") and found.machine and found.date
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=1, tokens=4), "--json")
    assert code == 0 and json.loads(out)["kept"][0]["same"] == 1, "standard output has the record alone"


def test_certify_holds_the_control_itself_against_the_network_without_a_cache(capsys, monkeypatch):
    """A cache that says something else: method and control agree on a text that is not the model's."""
    asked = certify("tiny-ar-s", prompts=2, tokens=8)
    code, out, _ = call(capsys, *asked)
    assert code == 0 and out.count("greedy against the network without a cache") == 2 and out.count("Same ") == 4
    adapter = type(engines.load_model("tiny-ar-s"))
    real = adapter.unembed
    monkeypatch.setattr(adapter, "unembed", lambda self, h, *more, **named: -real(self, h, *more, **named))
    code, out, _ = call(capsys, *asked)
    assert code == 1 and out.count("Same ") == 2 and out.count("Parts at token 1") == 2


def test_certify_fails_for_a_method_that_only_claims_it(capsys, monkeypatch):
    """A liar: a sampling run under the name of a lossless method."""
    honest = engines.get_method("token-recycling")
    info = msgspec.structs.replace(honest.info)
    assert isinstance(info, MethodInfo)

    def decode(model, prompt, p, run):
        p.temperature = 1.5
        yield from honest.decode(model, prompt, p, run)

    real = engines.driver.run.get_method
    liar = Method(info, decode, honest.check)
    monkeypatch.setattr(engines.driver.run, "get_method", lambda slug: liar if slug == info.slug else real(slug))
    code, out, _ = call(capsys, *certify("tiny-ar-s", prompts=4, tokens=24))
    assert code == 1 and "Parts at token" in out and "gap" in out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("certify", "--model", "tiny-ar-l", "--method", "ead"), "does not claim its control's text"),
        (("certify", "--model", "tiny-ar-l", "--method", "greedy"), "'greedy' is a control itself and has none"),
        (("certify", "--model", "tiny-ar-l", "--method", "rapid"), "give it eta=0.0 by --param"),
        (("certify", "--model", "tiny-ar-l", "--method", "stand", "--param", "stand:temperature=1"), "leave it at 0"),
        ((*BY_CLASS, "--method", "token-recycling", "--param", "k=3"), "write METHOD:NAME=VALUE"),
        ((*BY_CLASS, "--prompts", "0"), "not a whole number above 0"),
    ],
)
def test_bad_input_costs_one_line(capsys, argv, says):
    assert says in refused(capsys, *argv)


def test_bench_by_class_prints_and_writes(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(classes, "class_prompts", lambda: {"sums": ["add: 45 + 86"], "lists": ["copy: Mia, Leo"]})
    file = tmp_path / "b.json"
    argv = (*BY_CLASS, "--method", "token-recycling", "--param", "token-recycling:template=7", "--repeats", "1")
    code, out, _ = call(capsys, *argv, "--max-new-tokens", "12", "--json", str(file))
    assert code == 0 and "sums" in out and "lists" in out and "milliseconds of a forward by rows" in out
    assert " 1 threads" not in out
    found = msgspec.json.decode(file.read_bytes(), type=classes.Bench)
    assert found.scores[0].params == {"template": "7"} and found.classes() == ["sums", "lists"]
    assert json.loads(file.read_text())["control"] == "greedy"
    assert found.command.startswith("decoding-explorer bench --by-class --model tiny-ar-s ") and found.machine
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)
