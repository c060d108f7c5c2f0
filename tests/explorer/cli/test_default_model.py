"""Without --model a method runs on the first model that ships and has all that it needs, or says which one to give."""

import json

import pytest
from msgspec.structs import replace

import engines
from engines import Trace, UserError, tasks
from engines.models.files import smollm2
from explorer.cli.run import default_model
from explorer.fitting import fits
from explorer.page.catalogue import Catalogue
from tests.explorer.commands import call, refused

METHODS = {info.slug: info for info in engines.list_methods()}
MODELS = {model.name: model for model in engines.list_models()}
FEW = ("--max-steps", "2", "--detail", "none", "--json", "-")


@pytest.fixture(autouse=True)
def only_what_ships(monkeypatch):
    monkeypatch.setattr(smollm2, "ready", lambda: False)


def default(info, *beside, drafted=False, given=()):
    return default_model(info, [info, *beside], drafted, given)


@pytest.mark.parametrize("slug", METHODS)
def test_every_method_runs_without_a_model(capsys, slug):
    model = MODELS[default(METHODS[slug])]
    prompt = tasks.example_of(model.tasks[0]) if model.tasks else "sort: Mia, Leo, Ada"
    code, out, _ = call(capsys, "run", "--method", slug, "--prompt", prompt, *FEW)
    trace = Trace.from_json(out)
    assert code == 0 and trace.steps and trace.header.models[0].name == model.name and model.where == "embedded"


def test_it_is_the_one_that_a_slot_of_the_page_begins_with():
    page = Catalogue.read(False)
    assert {slug: default(info) for slug, info in METHODS.items()} == {
        slug: page.first_model(info) for slug, info in page.methods.items()
    }


def test_methods_that_are_compared_share_a_model_where_one_fits_both(capsys):
    plain, apart, board = (METHODS[slug] for slug in ("greedy", "falcon", "threshold"))
    argv = ("compare", "--method", "greedy", "--method", "falcon", "--prompt", "copy: Mia", "--max-steps", "2")
    rows = json.loads(call(capsys, *argv, "--json")[1])
    assert {row["model"] for row in rows} == {default(apart)} != {default(plain)}
    assert default(board, apart) == default(board) and default(apart, board) == default(apart)
    stranger = next(i for i in METHODS.values() if i.kind == "causal" and not fits(i, MODELS[default(apart)]))
    assert default(apart, stranger) == default(apart) and default(stranger, apart) == default(stranger)


def test_what_is_given_beside_it_need_not_ship_with_it():
    pair = next(i for i in METHODS.values() if [*i.needs] == ["target", "draft"] and not i.optional)
    other = replace(pair, needs={**pair.needs, "referee": "causal"})
    with pytest.raises(
        UserError, match="which no listed model is or has; give --model NAME, and --model ROLE=NAME for"
    ):
        default(other)
    assert default(other, given=["referee"]) == default(pair)
    drafting = next(i for i in METHODS.values() if i.drafters)
    elsewhere = replace(drafting, parts=dict.fromkeys(drafting.parts, "no-such-part"))
    assert default(elsewhere, drafted=True) == "tiny-ar-l"
    with pytest.raises(UserError, match="needs a layered model and its no-such-part, which no listed model is or has"):
        default(elsewhere)


def test_a_model_that_has_to_be_fetched_is_named_and_not_taken(capsys, monkeypatch):
    ours = {part for model in MODELS.values() if model.where == "embedded" for part in model.parts}
    part = next(part for part in MODELS["smollm2"].parts if part not in ours)
    fetched = replace(METHODS["greedy"], parts={"store": part})
    with pytest.raises(UserError, match=f"a causal model and its {part}, .* give --model smollm2, whose weights are"):
        default(fetched)
    monkeypatch.setattr(smollm2, "ready", lambda: True)
    assert default(fetched) == "smollm2"


def test_a_model_that_lacks_the_part_is_told_which_one_has_it(capsys):
    said = refused(capsys, "run", "--method", "falcon", "--model", "tiny-ar-l", "--prompt", "x")
    assert said.endswith(f"or choose {default(METHODS['falcon'])}, which has one.\n")
