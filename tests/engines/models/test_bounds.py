"""Checkpoints that ask for too much are refused before they are built."""

from __future__ import annotations

import json
import shutil
import time

import pytest

import engines
from engines import UserError
from engines.core.meter import Meter, OverBudget
from engines.models.bounds import within
from engines.models.hub import assets

NAME = next(m.name for m in engines.list_models() if m.kind == "causal" and m.where == "embedded")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "model"
    shutil.copytree(assets() / "models" / NAME, place)
    return place


def change(file, **values) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.mark.parametrize(
    "values",
    [{"num_hidden_layers": 10**9}, {"vocab_size": 10**12}, {"hidden_size": 10**9}, {"num_hidden_layers": -1}],
)
def test_a_network_that_its_weights_cannot_fill_is_not_built(folder, values):
    change(folder / "config.json", **values)
    began = time.monotonic()
    with pytest.raises(UserError, match=next(iter(values))):
        engines.load_model(folder)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"model_type": 3}', "{}"])
def test_a_damaged_config_is_a_sentence(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(UserError):
        engines.load_model(folder)


@pytest.mark.parametrize("text", ['{"weight_map": {"a": "../x"}}', "{}", '{"weight_map": [1]}'])
def test_a_damaged_index_is_a_sentence(folder, text):
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UserError):
        engines.load_model(folder)


def test_what_does_not_end_is_given_up():
    def endless() -> None:
        while True:
            pass

    with pytest.raises(UserError, match="did not come to an end"):
        within(0.1, endless, "the template")
    assert within(1, lambda: 3, "a sum") == 3
    with pytest.raises(KeyError):
        within(1, lambda: {}["a"], "a look")


def test_no_call_begins_past_the_deadline():
    meter = Meter(deadline=time.perf_counter() - 1)
    with pytest.raises(OverBudget):
        meter.call("target", "cpu", 1, lambda: pytest.fail("called"))
