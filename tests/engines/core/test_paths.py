"""Several continuations in one cache: each sees its own text only, what is shared is fed once; and draft trees."""

import random
from types import SimpleNamespace

import msgspec
import pytest
import torch

import engines
from engines.core import trees
from engines.core.paths import Paths, shared
from engines.core.sampling import distribution, draw
from engines.core.trace import Edit
from tests.engines.fakes import TableCausal
from tests.engines.refusals import refuses

TEXT = [1, 2, 3]


def paths_of(model=None, text=TEXT, rows=64, n=0, seed=0):
    paths = Paths(model or TableCausal(memory=None), text, rows, torch.Generator().manual_seed(seed))
    return paths, [paths.add() for _ in range(n)]


def alone(model, text):
    """Logits [V] behind a text, from a cache of its own."""
    return model.extend(text, model.new_cache(len(text)), last_only=True).logits[0]


def tree(tokens, parents):
    return SimpleNamespace(tokens=tokens, parents=parents)


@pytest.mark.parametrize("name", ["tiny-ar-m", pytest.param("smollm2", marks=pytest.mark.smollm2)])
def test_forks_drops_and_drafts_leave_the_logits_as_they_are(name):
    model = engines.load_model(name, dtype="float32")
    paths, (a, b) = paths_of(model, model.tokenizer.encode_prompt("copy: Ada, Tom"), n=2)
    paths.feed()
    paths.write(a, [20, 21, 22])
    paths.write(b, [23])
    paths.feed()
    c, d = paths.fork(a), paths.fork(a, a.length - 1)
    for path, tokens in ((a, [24]), (c, [25, 26]), (d, [27]), (b, [28, 29])):
        paths.write(path, tokens)
    paths.feed()
    paths.drop(a)
    last = paths.read(c)[-1]
    found = paths.feed({c.id: tree([last, 30, 31, 32], [-1, 0, 0, 2])})[c.id]
    for row, below in enumerate(([], [30], [31], [31, 32])):
        torch.testing.assert_close(found.z[row], alone(model, paths.read(c) + below), atol=1e-4, rtol=1e-4)
    assert paths.accept(c, [2, 3], [33]) == [31, 32, 33]
    e = paths.fork(b, b.length - 2)
    paths.feed()
    for path in (b, c, d, e):
        torch.testing.assert_close(path.logits, alone(model, paths.read(path)), atol=1e-4, rtol=1e-4)


def test_a_single_path_draws_what_plain_sampling_draws_and_no_path_depends_on_their_number():
    model = TableCausal(memory=2, vocab_size=20)

    def drawn(n):
        paths, made = paths_of(model, rows=100, seed=3, n=n)
        for _ in range(12):
            paths.feed()
            for path in made:
                paths.write(path, [draw(distribution(path.logits, 1.0), path.rng)])
        return [paths.read(path) for path in made]

    few, many = drawn(2), drawn(6)
    rng, ids = torch.Generator().manual_seed(3), list(TEXT)
    for _ in range(12):
        ids.append(draw(distribution(model.logits(ids)[0], 1.0), rng))
    assert many[:2] == few and few[0] == ids != few[1]


def test_what_is_shared_is_fed_once():
    model = TableCausal(memory=None)
    paths, made = paths_of(model, n=3)
    paths.feed()
    assert all(path.logits is made[0].logits for path in made)
    for path in made:
        paths.write(path, [path.id])
    paths.feed()
    twin = paths.fork(made[0])
    paths.feed()
    assert torch.equal(twin.logits, made[0].logits)  # a fork of what was read costs none
    paths.write(twin, [4])
    paths.write(made[0], [5, 6])
    paths.feed()
    early = paths.fork(made[0], 5)
    with pytest.raises(ValueError, match=r"path 4 has grown since it was fed"):
        _ = early.logits
    paths.feed()
    assert [tokens for _, tokens in model.calls][:3] == [[1, 2, 3], [0, 1, 2], [5, 6, 4]]
    assert paths.read(early) == [1, 2, 3, 0, 5]
    for path in paths.living:
        assert torch.equal(path.logits, alone(model, paths.read(path)))
    for length in (2, 9):
        refuses(ValueError, f"cannot be cut to {length}", paths.fork, early, length)


def test_dropping_a_path_frees_its_rows_and_keeps_what_others_share():
    model = TableCausal(memory=None)
    paths, (a,) = paths_of(model, n=1)
    paths.write(a, [4, 5])
    b = paths.fork(a)
    paths.write(a, [6])
    paths.write(b, [7])
    paths.feed()
    paths.drop(a)
    paths.write(b, [1])
    paths.feed()
    assert model.calls[-1] == ([1, 2, 3, 4, 5, 7], [1]) and paths.read(a) == [1, 2, 3, 4, 5, 6]
    assert paths.living == [b]
    paths.resume(a)
    paths.feed()
    assert model.calls[-1] == ([1, 2, 3, 4, 5, 7, 1], [6]) and torch.equal(a.logits, alone(model, paths.read(a)))


def test_a_draft_below_a_path_that_was_read_already_and_before_it_was():
    model = TableCausal(memory=None)
    paths, (a, b) = paths_of(model, n=2)
    found = paths.feed({a.id: tree([3, 4], [-1, 0])})
    assert found[a.id].before == [1, 2] and torch.equal(found[a.id].z_before[1], alone(model, [1, 2]))
    assert found[b.id].before == [] and len(found[b.id].z_before) == 0
    found = paths.feed({a.id: tree([3, 4, 5], [-1, 0, 1]), b.id: tree([3, 4], [-1, 0])})
    for row, text in enumerate(([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5])):
        assert torch.equal(found[a.id].z[row], alone(model, text))
    assert paths.accept(a, [1, 2]) == [4, 5] and paths.accept(b, [], [7]) == [7]
    paths.feed()
    for path in (a, b):
        assert torch.equal(path.logits, alone(model, paths.read(path)))


def test_too_little_room_is_refused_in_a_sentence():
    paths, made = paths_of(rows=3, n=4)
    paths.feed()
    for path in made:
        paths.write(path, [1])
    refuses(engines.UserError, r"4 paths need 7 rows of a cache that was made for 6; take fewer", paths.feed)
    paths.drop(made[0])
    paths.feed()  # now it fits
    paths, (a,) = paths_of(TableCausal(max_positions=5), rows=40, n=1)
    paths.write(a, [1, 1, 1])
    refuses(engines.UserError, r"reaches position 5 and the model has 5; use a shorter prompt", paths.feed)


def edited(paths, path, **edit):
    seen = []
    run = SimpleNamespace(apply_edit=lambda edit, ids, *caches: seen.append((edit, ids)) or ids)
    before = paths.read(path)
    paths.apply_edit(run, Edit(**edit), path)
    assert seen == [(Edit(**edit), before)]


def test_a_forced_token_cuts_every_path_at_its_place():
    model = TableCausal(memory=None)
    paths, (a, b, d, e) = paths_of(model, n=4)
    for path, tokens in ((a, [4, 5, 6, 7]), (b, [1, 2, 3]), (d, [6]), (e, [0, 0, 0])):
        paths.write(path, tokens)
    c = paths.fork(a, 5)
    paths.write(c, [5])
    paths.feed()
    paths.drop(c, "finished")
    paths.drop(e)
    edited(paths, a, force={5: 7})
    assert [paths.read(p)[3:] for p in (a, b, c, d, e)] == [[4, 5, 7], [1, 2, 7], [4, 5, 7], [6], [0, 0, 0]]
    assert [p.fate for p in (a, b, c, d, e)] == ["alive"] * 4 + ["pruned"]
    paths.feed()
    assert model.calls[-1][1] == [7, 7]  # a and c are the same now, and fed once
    for path in paths.living:
        assert torch.equal(path.logits, alone(model, paths.read(path)))
    assert paths.write(d, [1, 2, 3]) == [1, 7]  # it gets there later; what would have followed is not written
    assert paths.write(d, [2]) == [2]


def test_a_forced_token_ends_what_is_accepted_there():
    paths, (a, b) = paths_of(n=2)
    paths.write(a, [4, 4, 4])
    edited(paths, a, force={5: 7})
    paths.feed({b.id: tree([3, 1, 2, 5, 6], [-1, 0, 1, 2, 3])})
    assert paths.accept(b, [1, 2, 3, 4], [0]) == [1, 2, 7] and paths.read(b) == [1, 2, 3, 1, 2, 7]
    edited(paths, a, force={4: 6})  # an earlier cut takes the later one back
    assert paths.write(b, [1]) == [1] and [paths.read(p)[3:] for p in (a, b)] == [[4, 6], [1, 6, 1]]
    paths.feed()
    edited(paths, a, forbid={5: [2, 5]})
    assert a.logits[[2, 5]].tolist() == [-torch.inf] * 2 and torch.isfinite(b.logits).all()
    edited(paths, a, force={1: 7, 2: 7})  # where a method took over from a text, a person may change that too
    assert [paths.read(p) for p in (a, b)] == [[1, 7, 7]] * 2


def test_the_record_of_branches_and_of_the_board():
    paths, (a,) = paths_of(n=1)
    paths.write(a, [4, 5])
    b = paths.fork(a, 4)
    paths.write(b, [6])
    a.scores["f"] = 0.5
    first = [msgspec.structs.astuple(branch) for branch in paths.branches()]
    assert first == [(0, -1, [4, 5], 2, {"f": 0.5}, "alive"), (1, 0, [6], 2, {}, "alive")]
    paths.write(a, [7])
    paths.drop(b)
    assert [(x.id, x.tokens, x.fate) for x in paths.branches()] == [(0, [7], "alive"), (1, [], "pruned")]
    paths.cut(a, 4)
    assert [(x.id, x.tokens, x.length) for x in paths.branches()] == [(0, [], 1)]
    paths.write(a, [5, 7])
    paths.branches()
    assert [(x.id, x.tokens) for x in paths.branches()] == [(0, [])]
    board = [1, 2, 3]
    assert paths.commits(board, a) == ([3, 4, 5], [4, 5, 7], ["sampled"] * 3)
    assert paths.commits(paths.read(a), b, "beam") == ([4, 4], [-1, 6], ["withdrawn", "beam"])
    assert paths.commits(paths.read(b), b) == ([], [], []) and shared([1, 2], [1, 2, 3]) == 2


RANDOM = [[-1, *(random.Random(seed).randrange(row) for row in range(1, 3 + seed % 12))] for seed in range(20)]


@pytest.mark.parametrize("parents", [[-1], *RANDOM])
def test_children_hang_below_their_parents(parents):
    below = trees.children(parents)
    assert sorted(c for rows in below for c in rows) == list(range(1, len(parents)))
    assert all(parents[c] == row for row, rows in enumerate(below) for c in rows)
