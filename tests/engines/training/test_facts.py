"""The corpus of facts and the training of the model with memories: people, rows, marks, and what the cards claim."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product

import pytest
import torch

import engines
from engines.training.__main__ import main
from engines.training.architectures import facts
from engines.training.architectures.corpus import held_out
from engines.training.architectures.facts import FIRST, LAST, asked, fact_rows, guessed, people, sentence
from engines.training.architectures.language import Language
from engines.training.architectures.ultramem import TWINS, misses, shared, union
from engines.training.core.data import IGNORED

FOLDER = engines.models.hub.assets() / "models"


def test_no_word_of_a_name_is_anyones_alone_and_one_guess_for_all_is_seldom_right():
    names = [person.name.split() for person in people()]
    assert len(names) == len({tuple(name) for name in names}) == 500
    assert set(Counter(first for first, _ in names).values()) == {20} and len(FIRST) == 25
    assert set(Counter(last for _, last in names).values()) == {25} and len(LAST) == 20
    assert all(1 / len(values) <= share < 0.2 for share, values in zip(guessed(), facts.VALUES, strict=True))


def test_rows_tell_of_people_in_any_order():
    rows, other = fact_rows(3, 0, 4), fact_rows(4, 0, 4)
    assert rows.ids.shape == (4, 128) and torch.equal(rows.ids, fact_rows(3, 0, 4).ids)
    assert not torch.equal(rows.ids, other.ids)
    text = facts._tokenizer().decode(rows.ids[0])
    told = [sentence(person, order) for person in people() for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0))]
    assert sum(one in text for one in told) >= 1
    assert 0.4 < float((rows.targets != IGNORED).float().mean()) < 0.8


def test_what_is_asked_ends_before_the_attribute():
    tokenizer = facts._tokenizer()
    for kind, place in product(range(3), repeat=2):
        ids, right = asked(kind, place)
        for n in (0, 123, 499):
            person = people()[n]
            text = tokenizer.decode([*ids[n].tolist(), int(right[n])])
            assert text.endswith(facts.PARTS[kind].format(person.values[kind])) and text.count(person.name) == 2


def test_the_union_of_chunks_is_counted_and_shared_slots_are_a_share_of_the_first():
    slots = torch.tensor([[[1, 2], [2, 3], [9, 8], [8, 9], [4, 4]]])
    assert union(slots, 1) == pytest.approx((2 + 2 + 2 + 2 + 1) / 5)
    assert union(slots, 2) == pytest.approx((3 + 2) / 2)  # the rest behind the last chunk does not count
    a, b = torch.tensor([[[1, 2, 3, 4]]]), torch.tensor([[[4, 9, 8, 1]]])
    assert shared(a, b) == 0.5 and shared(a, a) == 1


def test_nothing_is_missed_where_all_keys_are_candidates():
    memory = TWINS[0].build(40, 2, 0).model.layers[0].mlp.memory.eval()
    x = torch.randn(20, 128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = misses(memory, x)
        memory.m = memory.K
        assert misses(memory, x) == (0, 0, 0)
    assert 0 < found[2] < 1 and 0 <= found[1] <= found[0] < 1


def test_tables_learn_at_a_rate_of_their_own_that_falls():
    training = Language(TWINS[0], 0, 10)
    rest, tables = training.optimizer.param_groups
    assert sum(p.numel() for p in tables["params"]) == 9216 * 96 and tables["weight_decay"] == 0
    training.rate(0)
    assert tables["factor"] == 4 and "factor" not in rest
    training.progress.step = 10
    training.rate(1)
    assert tables["factor"] == 1
    assert len(Language(TWINS[1], 0, 10).optimizer.param_groups) == 1


@pytest.mark.training
def test_one_command_makes_a_folder_that_loads_as_a_model_with_memories(tmp_path, monkeypatch):
    monkeypatch.setattr("engines.training.architectures.language.exact_match", lambda network: {})
    monkeypatch.setattr("engines.training.architectures.language.held_out", lambda: held_out(2))
    main(["tiny-ultramem", "--steps", "2", "--out", str(tmp_path / "mine")])
    model = engines.load_model(str(tmp_path / "mine"), kind="memory", dtype="float32")
    card = json.loads((tmp_path / "mine" / "card.json").read_text())
    assert card["stored"]["as"].startswith("int8") and card["held_out"]["slots_by_chunk"]["1"] == 16
    assert model.memories[3].first == 3 * 48**2 and len(card["held_out"]["slots_ever_read"]) == 4


@pytest.mark.parametrize("what", TWINS, ids=lambda what: what.name)
def test_the_cards_say_what_was_measured(what):
    card = json.loads((FOLDER / what.name / "card.json").read_text())
    held = card["held_out"]
    assert card["steps"] == what.steps
    assert [point.pop("step") for point in card["curve"]] == list(range(200, what.steps + 1, 200))
    assert card["curve"][-1] == pytest.approx(held["facts_known"], abs=0.02)  # int8
    if what.slots_read:
        unions = list(held["slots_by_chunk"].values())
        assert unions == sorted(unions) and unions[0] == 16 and unions[-1] < 32 * 16
        assert held["same_fact_again"] > held["another_persons_fact"]
        assert max(held["slots_ever_read"]) <= held["slots_seen_by_a_layer"] == 4489
