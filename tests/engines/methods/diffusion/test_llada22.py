"""LLaDA2.2: sglang's own cases are in `tests/golden`; here its parts by hand, what no case shows, a person's edits."""

from functools import cache
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.methods.diffusion._editing import Edits, Past
from engines.methods.diffusion.llada22 import NEW, Block, fill, follow, leave_circle, moved, words_alone
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import board

FOLDER = GOLDEN / "diffusion2026" / "llada2" / "checkpoint"
MASK, B = 127, 8
DELETE, SPLIT = 60, 81
PROMPT = [13, 113, 25, 112, 74]


@cache
def model():
    loaded = engines.load_model(FOLDER, kind="block", block_size=B, dtype="float32")
    loaded.eos_ids = frozenset()
    return loaded


def decode(edits=(), prompt=PROMPT, **params):
    usual = {"max_new_tokens": 11, "threshold": 0.5, "editing_threshold": 0.0, "max_post_steps": 6}
    orders = {"delete_token_id": DELETE, "split_token_id": SPLIT}
    return engines.run("llada22", model(), prompt, params={**usual, **orders, **params}, edits=edits)


def block(stood):
    """What the functions read of a block: which tokens stand where."""
    stood = torch.tensor(stood)
    return SimpleNamespace(stood=stood, masked=stood == MASK, past=SimpleNamespace(mask_id=MASK))


def obeyed(stood, says, causes):
    places = moved(block(stood), torch.tensor(says), causes, (DELETE, SPLIT))
    return [(place.origin, place.token) for place in places]


def test_delete_closes_the_gap_and_split_puts_a_mask_in_front():
    """Only what was chosen is obeyed: a prompt may hold the tokens that are orders here."""
    both = {1: "changed", 2: "changed"}
    closed = [(0, 5), (2, 9), (3, MASK), (NEW, MASK)]
    assert obeyed([5, 6, 7, MASK], [5, DELETE, 9, DELETE], both) == closed, "the last one was not chosen"
    assert obeyed([5, MASK, 7], [5, SPLIT, 8], {1: "quota", 2: "changed"}) == [(0, 5), (NEW, MASK), (1, MASK), (2, 8)]
    assert obeyed([5, 6, 7], [SPLIT, DELETE, SPLIT], {0: "changed", 1: "changed"}) == [(NEW, MASK), (0, 5), (2, 7)]
    assert obeyed([DELETE, SPLIT], [DELETE, SPLIT], {0: "changed"}) == [(0, DELETE), (1, SPLIT)]


def test_an_original_mask_is_filled_in_each_forward():
    stood, chance = block([MASK, MASK, 5, MASK]), torch.tensor([0.9, 0.8, 0.99, 0.1])
    owed = torch.tensor([False, False, False, True])  # two masks came in by moves, and are more probable
    assert fill(stood, owed, chance, 0.5, False)[0].tolist() == [0, 1, 3]
    assert fill(stood, ~owed & stood.masked, chance, 0.5, False)[0].tolist() == [0, 1]
    assert sorted(fill(stood, owed & False, chance, 0.95, False)[0].tolist()) == [0, 1, 3], "none owed: all are filled"
    assert sorted(fill(stood, ~owed & stood.masked, chance, 0.95, True)[0].tolist()) == [0, 1, 3], "the last forward"


def test_the_last_forward_writes_words_alone():
    z = torch.zeros(3, 128)
    z[:, DELETE], z[:, 9], z[:, SPLIT] = 5, 4, 4.5
    v = torch.tensor([DELETE, SPLIT, DELETE])
    words_alone(z, v, torch.tensor([0, 1]), (DELETE, SPLIT))
    assert v.tolist() == [9, 9, DELETE], "the third is not written"
    v = torch.tensor([DELETE, 9, 9])
    words_alone(z, v, torch.tensor([0, 1]), (-1, SPLIT))
    assert v.tolist() == [DELETE, 9, 9], "without such an order it is a word like any other"


def test_a_state_that_was_before_takes_another_token():
    z = torch.zeros(2, 128)
    z[0, 7], z[0, 8], z[0, 9], z[1, 3] = 6, 5, 4, 9
    found = SimpleNamespace(stood=torch.tensor([1, 2]), z=z)
    past, chance, both = Block(), torch.tensor([0.6, 0.9]), torch.tensor([0, 1])
    for said in ([7, 3], [8, 3], [9, 3]):
        v = torch.tensor([7, 3])
        leave_circle(past, found, v, chance, both)
        assert v.tolist() == said


@pytest.fixture(scope="module")
def runs():
    """Two of sglang's cases, which go through everything that can become of a position."""
    slow = {"threshold": 0.7, "editing_threshold": 0.3, "max_post_steps": 8, "max_new_tokens": 20}
    return [decode(), decode(prompt=[87, 101, 4, 62, 15, 53, 54, 96, 40, 113, 47, 27], **slow)]


def test_a_block_ends_without_an_order_within_its_budget(runs):
    for trace in runs:
        assert board(trace) == trace.output_ids and not {MASK, DELETE, SPLIT} & set(trace.output_ids)
    for most in (0, 6):
        starts = [s.start for step in decode(max_post_steps=most).steps for s in step.spans if s.kind == "block"]
        assert max(starts.count(a) for a in set(starts)) <= B + most + 1


def test_the_record_says_what_became_of_each_position(runs):
    fates = set()
    for step in (step for trace in runs for step in trace.steps if "edits" in step.records):
        edits = Edits(**step.records["edits"])
        removed, inserted = (step.commits.removed, step.commits.inserted) if step.commits else ([], [])
        told = list(zip(edits.positions, edits.fates, edits.says, strict=True))
        assert removed == [q for q, fate, _ in told if fate in ("deleted", "pushed")]
        assert len(removed) == len(inserted), "the block stays as long as it is"
        for q, fate, says in told:
            assert fate != "deleted" or says == DELETE
            if fate == "split":
                at = step.commits.moved(q) - 1
                token = step.commits.tokens[step.commits.positions.index(at)]
                assert says == SPLIT and at in inserted and token == MASK
        counted = [step.facts[name] for name in ("changed", "deleted")]
        assert counted == [edits.fates.count(fate) for fate in ("changed", "deleted")]
        fates.update(edits.fates)
    assert fates >= {"deleted", "split", "pushed", "changed", "written"}


def test_a_token_that_a_person_forced_is_not_replaced_and_moves_along():
    first = len(PROMPT)
    whole = decode()
    early = next(step.index for step in whole.steps if step.commits)
    trace = decode(edits=[(early, engines.Edit(force={first + 1: 99}))])
    assert 99 in trace.output_ids[:2] and board(trace) == trace.output_ids
    assert trace.output_ids != whole.output_ids


def test_the_past_moves_with_its_positions():
    past = Past(torch.tensor([1, 2, MASK, MASK]), MASK)
    past.see(torch.tensor([1, 5, 6, MASK]), engines.Edit(force={2: 6}))
    follow(past, 1, [NEW, 1, 0])  # of the block [1, 4)
    assert past.fixed == {2} and past.last == [1, MASK, 6, 5]
    assert past.times(3, 2) == 1 and past.times(1, 2) == 0
    follow(past, 1, [0, 2, NEW])
    assert past.fixed == set(), "what has no room is forgotten"


def test_ids_that_cannot_be_orders_are_refused():
    for params, said in (
        ({"delete_token_id": 500}, "delete_token_id 500 is no token of this model; take one of 0 to 127"),
        ({"split_token_id": MASK}, f"split_token_id {MASK} is the mask"),
        ({"split_token_id": DELETE}, f"delete_token_id and split_token_id are both {DELETE}; take two tokens"),
    ):
        with pytest.raises(engines.UserError, match=said):
            decode(**params)
