"""What a method must keep that writes several continuations at once: of those that declare how (`paths=` in their
declaration) the fork, forced, forbidden, budget and determinism tests, with what only several paths can break."""

import msgspec
import pytest

import engines
from engines.core.trace import check_consistency
from tests.contract.runs import LENGTHS, METHODS, MODELS, decode, facts, vocabulary, written
from tests.engines.fakes import board

SLUGS = [slug for slug, info in METHODS.items() if info.paths is not None]
assert SLUGS
every_such_method = pytest.mark.parametrize("slug", SLUGS, scope="module")  # a method's tests next to each other


LENGTH = {"max_new_tokens": 40}  # of a language model's answers: some paths end, and one of them is chosen


def several(slug, **options):
    long = {} if MODELS[slug] in LENGTHS else LENGTH
    hot = {"temperature": 1.5} if any(p.name == "temperature" for p in METHODS[slug].params) else {}
    return decode(slug, **hot, **long, **METHODS[slug].paths, **options)


def texts(steps):
    """Branch id -> its tokens behind the prompt after these steps, as the record tells them: a branch that was cut says
    so by its length."""
    found = {}
    for step in steps:
        for branch in step.branches:
            before = found.get(branch.id, found.get(branch.parent, []))
            found[branch.id] = before[: branch.length - len(branch.tokens)] + branch.tokens
            assert len(found[branch.id]) == branch.length, "a branch tells more tokens than it is long"
    return found


def fates(steps):
    return {branch.id: branch.fate for step in steps for branch in step.branches}


@every_such_method
def test_several_paths_are_written_at_once_and_the_board_shows_one_of_them(slug):
    trace = several(slug)
    check_consistency(trace)
    assert trace.end.reason == "complete" and board(trace) == trace.output_ids
    assert max(sum(branch.fate == "alive" for branch in step.branches) for step in trace.steps) > 1
    found = texts(trace.steps)
    assert len({tuple(text) for text in found.values()}) > 1
    for step in trace.steps:
        so_far = texts(trace.steps[: step.index + 1])
        shown = board(msgspec.structs.replace(trace, steps=trace.steps[: step.index + 1]))
        assert shown in so_far.values()
    chosen = [number for number, fate in fates(trace.steps).items() if fate == "chosen"]
    assert [found[number] for number in chosen] == [trace.output_ids]


@every_such_method
def test_equal_seeds_give_equal_runs_and_a_fork_without_a_change_is_one(slug):
    original = several(slug, seed=3)
    fork = engines.fork(original, len(original.steps) // 2)
    assert facts(fork) == facts(original) and not fork.end.message
    if any(p.name == "temperature" for p in METHODS[slug].params):  # it draws
        assert facts(several(slug, seed=4)) != facts(original)


@every_such_method
def test_a_fork_forces_the_token_in_every_path(slug):
    """At a written place, and behind the board: who is longer is cut, who is not there yet gets the token when it
    comes; only what was pruned, or ended before, goes without it."""
    original = several(slug)
    middle, first = len(original.steps) // 2, len(original.header.prompt_ids)
    shown = board(msgspec.structs.replace(original, steps=original.steps[:middle]))
    token = next(t for t in (*range(20, 60), *range(2, 20)) if t not in original.output_ids and t < vocabulary(slug))
    for place in (1, len(shown)):
        fork = engines.fork(original, middle, edit=engines.Edit(force={first + place: token}))
        assert written(fork.steps[:middle]) == written(original.steps[:middle]) and board(fork) == fork.output_ids
        check_consistency(engines.Trace.from_json(fork.to_json()))
        before, after = texts(fork.steps[:middle]), texts(fork.steps)
        pruned = {number for number, fate in fates(fork.steps).items() if fate == "pruned"}
        long_enough = [number for number in after if number not in pruned and len(after[number]) > place]
        assert {number for number, text in before.items() if len(text) >= place} <= {*long_enough, *pruned}
        assert len(long_enough) > 1 and all(after[number][place] == token for number in long_enough)
        assert all(after[n][: min(place, len(before[n]))] == before[n][:place] for n in before if n in long_enough)


@every_such_method
def test_a_forbidden_token_is_written_by_no_path(slug):
    original = several(slug)
    first = len(original.header.prompt_ids)
    place = max(len(text) for text in texts(original.steps[:1]).values())
    banned = sorted({text[place] for text in texts(original.steps).values() if len(text) > place})
    fork = decode(slug, edits=[(0, engines.Edit(forbid={first + place: banned}))], **original.header.params)
    assert not any(text[place] in banned for text in texts(fork.steps).values() if len(text) > place)
