"""The picture models: what ships draws what it was asked, their prompts, and their data."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.picture import picture_of
from engines.tasks import example_of, picture_asked
from engines.training.core.loop import Until, run
from engines.training.pictures import digits, shapes
from engines.training.pictures.pixels import PixelTraining, drawn, nats
from explorer import ASSETS


def card(name):
    return json.loads((ASSETS / "models" / name / "card.json").read_text("utf-8"))


def test_what_ships_draws_captions_as_its_card_says():
    told, model = card("tiny-shapes"), engines.load_model("tiny-shapes", dtype="float32")
    assert min(told["drawn"].values()) >= 0.85
    seen = torch.Generator().manual_seed(7)
    words = shapes.captions(seen, 12)
    rows = torch.tensor([shapes.KIND.ids(one) for one in words])
    codes = torch.stack([shapes.picture(one, seen).flatten() for one in words])
    with torch.no_grad():
        loss = float(nats(model.model, shapes.KIND, torch.cat([rows, codes + shapes.KIND.first], 1))) * 256
    assert abs(loss - told["nats_per_picture"]) < 3
    made = drawn(model.model, shapes.KIND, rows, torch.Generator().manual_seed(1))
    named = [{1 + list(shapes.COLOURS).index(one[i]) for i in (0, 3)} for one in words]
    assert sum(colours <= set(grid.tolist()) for colours, grid in zip(named, made, strict=True)) >= 9
    assert card("tiny-digits")["read_as_wanted"]["drawn"] >= 0.9


@pytest.mark.parametrize(
    ("words", "middle"),
    [(["red", "square", "left of", "blue", "square"], 1), (["red", "triangle", "above", "blue", "circle"], 0)],
)
def test_a_picture_shows_its_caption(words, middle):
    for seed in range(20):
        grid = shapes.picture(words, torch.Generator().manual_seed(seed))
        first, second = ((grid == code).nonzero() for code in (1, 3))
        assert len(first) >= 10 and len(second) >= 10 and set(grid.unique().tolist()) == {0, 1, 3}
        assert first[:, middle].max() < 8 <= second[:, middle].min()
        assert shapes.apart(words, grid)


@pytest.mark.parametrize(
    ("name", "slug", "asked", "read"),
    [
        ("tiny-digits", "digit", " 7 ", ["7"]),
        ("tiny-shapes", "shapes", "Red  circle left of blue square", ["red", "circle", "left of", "blue", "square"]),
    ],
)
def test_prompts_are_words_and_others_are_refused(name, slug, asked, read):
    tokenizer = engines.load_model(name).tokenizer
    assert [tokenizer.piece(i).text.strip() for i in tokenizer.encode_prompt(asked)] == read
    for foreign in ("sort: Mia, Leo", "red dog left of blue square", "red circle", "12"):
        with pytest.raises(UserError, match="such as"):
            tokenizer.encode_prompt(foreign)
        assert picture_asked(foreign) == ""
    assert picture_asked(asked) == picture_asked(example_of(slug)) == slug
    assert {info.name: info.tasks for info in engines.list_models()}[name] == (slug,)


class Squares(PixelTraining):
    def rows(self, drawn, count):
        codes = torch.randint(2, (count, self.kind.cells), generator=drawn)
        return torch.full((count, 1), 2), codes


def test_a_training_sees_the_same_batches_again_and_learns():
    kind = replace(digits.KIND, name="squares", rows=3, columns=3, signs="·a", colours=("#ffffff", "#000000"), batch=8)
    one, two = (Squares(kind, 1, 6) for _ in range(2))
    run(one, Until(3))
    two.progress.step = 3
    assert torch.equal(one.batch(0.5), two.batch(0.5))
    words = torch.cat([two.batch(0.5)[:, 0] for two.progress.step in range(40)])
    assert 0 < (words == 1).float().mean() < 0.3, "a tenth of the prompts is left out"
    before = float(nats(Squares(kind, 1, 6).network, kind, one.batch(0)).detach())
    run(one, Until(6))
    assert float(nats(one.network, kind, one.batch(0)).detach()) < before


def test_a_config_that_says_no_picture_is_refused():
    told = {"rows": 2, "columns": 2, "first": 3, "colours": ["#ffffff"]}
    assert picture_of(SimpleNamespace(picture=told, vocab_size=10)) is not None
    wrong = ({"colours": None}, {"rows": "x"}, {"rows": 0}, {"rows": 400, "columns": 400}, {"colours": ["javascript:"]})
    for picture in ([], told | {"first": 9, "colours": ["#ffffff", "#000000"]}, *(told | one for one in wrong)):
        with pytest.raises(UserError, match="config says"):
            picture_of(SimpleNamespace(picture=picture, vocab_size=10))
