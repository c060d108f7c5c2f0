"""STAND: what the store keeps, samples that get cheaper. Drafts from a store and best nodes are golden cases."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.core.trees import from_child_counts
from engines.methods.speculative._verify import verify
from engines.methods.speculative.stand.store import Entry, Store, grow
from engines.methods.speculative.stand.templates import broad, count_accepted
from tests.engines.fakes import TableCausal, board, chi_square_p

SIDE = "stand-side-by-side"


def decode(model, slug="stand", prompt=(1, 2, 3), edits=(), **params):
    params = {"max_new_tokens": 40, "temperature": 1.0, **params}
    return engines.run(slug, model, list(prompt), params=params, edits=edits)


def wide(**options):
    return TableCausal(vocab_size=40, memory=2, **options)


def texts(trace):
    """Branch id -> its tokens, gathered from the record (for runs without edits)."""
    found = {}
    for step in trace.steps:
        for branch in step.branches:
            found[branch.id] = found.get(branch.id, []) + branch.tokens
    return found


def test_every_position_of_the_text_is_merged_once_per_key_length():
    """Counts of the keys of one length add up to the positions that it fits; refused rows leave nothing."""
    with pytest.raises(engines.UserError, match=r"shortest=4 is above longest=3; give a shortest key of at most 3"):
        decode(TableCausal(), shortest=4)
    trace = decode(TableCausal(memory=1, vocab_size=5, seed=3), template="32", trajectories=1)
    text = trace.header.prompt_ids + trace.output_ids
    store = Store()
    store.learn(text[:-1], 0, [{0: 1.0}] * (len(text) - 1), (3, 2, 1), 10)  # the last token was never fed
    assert trace.steps[-1].facts["store_keys"] == len(store.entries)
    for n in (1, 2, 3):
        assert sum(e.count for key, e in store.entries.items() if len(key) == n) == len(text) - n
    assert any(step.facts["accepted"] < step.facts["drafted"] for step in trace.steps)


def test_the_record_shows_the_keys_read_and_merged():
    trace = decode(TableCausal(memory=1, vocab_size=5))
    text = trace.header.prompt_ids + trace.output_ids
    for step in trace.steps:
        end = step.tree.start + 1
        read, written = ([tuple(m.key) for m in step.memory if getattr(m, what)] for what in ("read", "written"))
        assert tuple(text[end - 3 : end]) in written and bool(read) == bool(step.facts["hits"])
        if order := int(step.facts["hit_order"]):
            assert tuple(text[end - order : end]) in read
        assert all(m.source == f"{len(m.key)}-gram" for m in step.memory)
        assert all(m.weights == sorted(m.weights, reverse=True) for m in step.memory)


def test_later_samples_need_fewer_forwards():
    trace = decode(wide(scale=4.0), temperature=0.7, trajectories=4, max_new_tokens=60)
    spent = {}
    for step in trace.steps:
        spent[step.facts["trajectory"]] = spent.get(step.facts["trajectory"], 0) + 1
    assert list(spent) == [1, 2, 3, 4] and spent[4] < spent[1]
    ends = [step for step in trace.steps if step.branches[0].fate != "alive"]
    assert [step.branches[0].fate for step in ends] == ["finished", "finished", "finished", "chosen"]
    assert [step.facts["sample_forwards"] for step in ends] == list(spent.values())
    assert all(("overlap_2" in step.facts) == (step in ends[1:]) for step in trace.steps)


def test_the_board_holds_each_sample_in_turn():
    model = wide(eos_ids=(5,))
    trace = decode(model, trajectories=3)
    written = texts(trace)
    assert written[2] == trace.output_ids and written[0] != written[1]
    assert all(len(text) == 40 or text[-1] == 5 for text in written.values())
    assert sum(step.commits.causes.count("withdrawn") for step in trace.steps) == 2
    text = trace.header.prompt_ids
    for cached, _ in model.calls:
        assert cached[:2] == text[:2] or not cached  # the prompt's rows stay in the cache from sample to sample
    assert sum(not cached for cached, _ in model.calls) == 1


def test_an_edit_in_an_earlier_sample_goes_on_from_there():
    options = {"trajectories": 2, "max_new_tokens": 6}
    last = next(step.index for step in decode(wide(), **options).steps if step.branches[0].fate == "finished")
    trace = decode(wide(), edits=[(last, engines.Edit(force={3: 9}))], **options)
    assert trace.steps[last + 1].commits.tokens[:2] == [-1, 9] and trace.steps[last + 1].facts["trajectory"] == 1
    assert board(trace) == trace.output_ids and len(trace.output_ids) == 6


@pytest.mark.parametrize("drafting", ["stochastic", "deterministic"])
def test_one_sample_side_by_side_is_the_serial_run(drafting):
    serial, ours = (decode(wide(), slug, drafting=drafting, trajectories=1) for slug in ("stand", SIDE))
    assert [(s.commits, s.memory) for s in serial.steps] == [(s.commits, s.memory) for s in ours.steps]


def test_samples_side_by_side_are_all_recorded_and_the_first_one_stays():
    model = wide(eos_ids=(5,))
    trace = decode(model, SIDE, trajectories=4)
    written = texts(trace)
    assert written[0] == trace.output_ids and len({tuple(text) for text in written.values()}) == 4
    assert all(len(text) == 40 or text[-1] == 5 for text in written.values())
    last = {branch.id: branch.fate for step in trace.steps for branch in step.branches}
    assert last == {0: "chosen", 1: "finished", 2: "finished", 3: "finished"}
    assert len(trace.steps) == trace.totals.forwards <= max(len(text) for text in written.values())
    assert trace.steps[-1].facts["tokens_per_forward"] == sum(map(len, written.values())) / len(trace.steps)
    prompt, fed = trace.header.prompt_ids, model.calls[0][1]
    assert fed[: len(prompt)] == prompt and len(fed) < 2 * len(prompt) + 4 * 16  # fed once for all


def test_accepted_nodes_of_a_template_are_counted():
    counts, rng = broad(4, 5), torch.Generator().manual_seed(0)
    model = TableCausal(vocab_size=6, memory=1)
    accepted = count_accepted(model, [1, 2, 3], counts, rng, samples=2, length=60, temperature=1.0)
    parents, _ = from_child_counts(counts)
    assert accepted[0] > 0 and sum(accepted[1:]) > 10 and sum(accepted) <= 120
    assert all(accepted[row] <= accepted[parents[row]] for row in range(1, len(parents)) if parents[row])


@pytest.mark.parametrize(("slug", "params"), [("stand", {}), (SIDE, {"drafting": "deterministic"})])
def test_each_token_is_told_with_the_suffix_that_drafted_it(slug, params):
    """The record is what the store held before the step, what was drawn and what became of it."""
    trace = decode(TableCausal(memory=1), slug, trajectories=3, **params)
    texts, hits = {}, 0
    for step in trace.steps:
        for one in step.records["suffixes"]["samples"]:
            before = texts.get(one["sample"], list(trace.header.prompt_ids))
            text = texts[one["sample"]] = [*before, *one["tokens"]]
            assert one["length"] == len(text) - len(trace.header.prompt_ids)
            assert len(one["suffix"]) == len(one["tokens"])
            accepted = [n for n in one["suffix"] if n]
            for i, key in enumerate(one["keys"]):
                end = len(before) + i
                assert key["key"] == text[end - len(key["key"]) : end] and key["count"] > 0
                assert set(key["drawn"]) <= set(key["tokens"]) and 0 < sum(key["q"]) <= 1 + 1e-5
                assert key["q"] == sorted(key["q"], reverse=True) and len(key["why"]) == len(key["drawn"])
                if i < len(accepted):
                    kept = [x for x, why in zip(key["drawn"], key["why"], strict=True) if why == "accepted"]
                    assert kept == [text[end]] and len(key["key"]) == one["suffix"][i]
                    hits += 1
    assert hits > 10


@pytest.mark.parametrize("drafting", ["stochastic", "deterministic"])
def test_any_store_leaves_the_distribution_as_it_is(drafting):
    """First and second token of a step, where the store has nothing to do with the target, has fewer tokens than there
    are, and is certain of one."""
    model, rng = TableCausal(vocab_size=5, memory=None, scale=1.0), torch.Generator().manual_seed(0)
    store, text, (parents, _) = Store(), [2, 1], from_child_counts([3, 2, 1, 1])
    store.entries = {
        (1,): Entry(1, {0: 0.1, 2: 0.05, 4: 0.6}),
        (4,): Entry(9, {3: 1.0}),
        (1, 4): Entry(1, {0: 1e-9, 1: 0.5, 2: 0.2}),
        (0,): Entry(2, dict.fromkeys(range(5), 0.2)),
    }
    noise = lambda _, n: torch.rand(n, dtype=torch.float64, generator=rng).tolist()  # noqa: E731
    drawn = noise if drafting == "stochastic" else None
    first, second = torch.zeros(5), torch.zeros(5)
    for _ in range(1200):
        draft = grow(store, text, parents, (2, 1), vocab_size=5, noise=drawn, deepest=9).draft
        z = model.logits(*([*text, *draft.path(row)] for row in range(len(draft))))
        verdict = verify(z, draft, 1.0, rng)
        block = [*(draft.tokens[row] for row in verdict.path[1:]), verdict.emitted]
        first[block[0]] += 1
        if block[0] == 4 and len(block) > 1:
            second[block[1]] += 1
    assert chi_square_p(first, distribution(model.logits(text)[0].double(), 1.0)) > 1e-3 and second.sum() > 60
    assert chi_square_p(second, distribution(model.logits([*text, 4])[0].double(), 1.0)) > 1e-3
