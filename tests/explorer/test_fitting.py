"""A model is offered for a method only where all that the method needs lies beside it."""

from functools import cache
from types import SimpleNamespace

import pytest

import engines
from engines.driver.roles import parts_of
from explorer.fitting import fits, runs_on
from explorer.page.catalogue import Catalogue

MODELS = {model.name: model for model in engines.list_models()}
METHODS = {info.slug: info for info in engines.list_methods()}


def test_a_part_or_a_companion_that_is_not_there_leaves_a_model_out():
    part = next(info for info in METHODS.values() if info.parts and info.kind == "causal")
    name = next(iter(part.parts.values()))
    found = [model.name for model in MODELS.values() if fits(part, model)]
    assert found and all(name in MODELS[one].parts for one in found)
    assert not fits(part, MODELS["tiny-ar-s"]) and part.needs[part.role] in MODELS["tiny-ar-s"].kinds
    pairs = [info for info in METHODS.values() if [*info.needs] == ["target", "draft"]]
    pair = next(info for info in pairs if not info.optional)
    assert fits(pair, MODELS["tiny-ar-l"]) and not fits(pair, MODELS["tiny-digits"])
    alone = next(info for info in pairs if info.optional == {"draft"})
    assert fits(alone, MODELS["tiny-ar-l"]) and fits(alone, MODELS["tiny-digits"])
    model = engines.load_model("tiny-ar-s", dtype="float32")
    assert runs_on(METHODS["greedy"], model) and not runs_on(METHODS["eagle"], model)
    stranger = SimpleNamespace(record=SimpleNamespace(name="a folder", kind="causal"))
    assert runs_on(METHODS["greedy"], stranger) and not runs_on(METHODS["speculative-sampling"], stranger)


@cache
def catalogue() -> Catalogue:
    return Catalogue.read(False)


@pytest.mark.parametrize("info", METHODS.values(), ids=lambda info: info.slug)
def test_the_model_that_a_slot_begins_with_has_all_that_the_method_needs(info):
    name = catalogue().first_model(info)
    assert {*info.needs} - {info.role} <= {*MODELS[name].roles} and {*info.parts.values()} <= {*MODELS[name].parts}
    loaded = engines.assign_roles(info, name)
    assert {*loaded} == {*info.needs} and {*parts_of(info, loaded[info.role])} == {*info.parts}
