"""The kinds of models are what stands in their folder, and a method names them."""

from pathlib import Path

import pytest

import engines
from engines.core import kinds
from engines.core.kinds import KINDS
from engines.core.method import method
from engines.core.params import max_new_tokens


def declared(needs):
    return method("x", title="", family="", paper="", summary="", needs=needs, params=[max_new_tokens(8)], emits=set())(
        lambda: None
    ).info


def test_a_kind_is_a_file_and_every_file_is_a_kind():
    files = {path.stem for path in Path(kinds.__file__).parent.glob("*.py")} - {"__init__", "base"}
    assert {name.replace("_", "-") for name in files} == set(KINDS)
    assert all(kind.name == name and (not kind.of or KINDS[kind.of].board == kind.of) for name, kind in KINDS.items())


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
        with pytest.raises(ValueError, match=r"needs unknown kinds of models \['layers'\]; known are \['block', "):
            declared(needs)
