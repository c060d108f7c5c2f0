"""STAND: the exact distribution whatever the store holds, what the store keeps, and samples that get cheaper."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.core.trees import children, from_child_counts, leaf_paths, row_depths
from engines.methods.speculative._verify import verify
from engines.methods.speculative.stand.rounds import TEMPLATES
from engines.methods.speculative.stand.store import Entry, Store, grow, largest
from engines.methods.speculative.stand.templates import broad, count_accepted, most_accepted, pruned
from tests.engines.fakes import TableCausal, board, chi_square_p

V = 5


SIDE = "stand-side-by-side"


def decode(model, slug="stand", prompt=(1, 2, 3), seed=0, **params):
    return engines.run(slug, model, list(prompt), params={"max_new_tokens": 40, **params}, seed=seed)


def noise(rng):
    return lambda _, n: torch.rand(n, dtype=torch.float64, generator=rng).tolist()


def adversarial():
    """A store whose distributions have nothing to do with the target, over fewer tokens than there are, one of them
    certain."""
    store = Store()
    store.entries = {
        (1,): Entry(1, {0: 0.1, 2: 0.05, 4: 0.6}),
        (4,): Entry(9, {3: 1.0}),
        (1, 4): Entry(1, {0: 1e-9, 1: 0.5, 2: 0.2}),
        (0,): Entry(2, {0: 0.2, 1: 0.2, 2: 0.2, 3: 0.2, 4: 0.2}),
    }
    return store


# --- the text


def test_an_empty_store_feeds_one_row():
    first = decode(TableCausal(), prompt=[1], temperature=1.0).steps[0]
    assert first.tokens_fed == 1 and len(first.tree.tokens) == 1 and len(first.commits.tokens) == 1
    grown = grow(Store(), [1, 2], [-1, 0, 0], (2, 1), vocab_size=V, noise=None, deepest=9)
    assert len(grown.draft) == 1 and grown.orders == {0: 0}


def test_the_shortest_key_is_not_above_the_longest():
    with pytest.raises(engines.UserError, match=r"shortest=4 is above longest=3; give a shortest key of at most 3"):
        decode(TableCausal(), shortest=4)


# --- the distribution


@pytest.mark.parametrize("drafting", ["stochastic", "deterministic"])
def test_any_store_leaves_the_distribution_as_it_is(drafting):
    """First and second token of a step, against the product of the target's distributions."""
    model, rng = TableCausal(vocab_size=V, memory=None, scale=1.0), torch.Generator().manual_seed(0)
    store, text, drawn = adversarial(), [2, 1], noise(rng) if drafting == "stochastic" else None
    parents, _ = from_child_counts([3, 2, 1, 1])
    p1 = distribution(model.logits(text)[0].double(), 1.0)
    counts, pairs = torch.zeros(V), torch.zeros(V)
    for _ in range(1200):
        draft = grow(store, text, parents, (2, 1), vocab_size=V, noise=drawn, deepest=9).draft
        z = model.logits(*([*text, *draft.path(row)] for row in range(len(draft))))
        verdict = verify(z, draft, 1.0, rng)
        block = [*(draft.tokens[row] for row in verdict.path[1:]), verdict.emitted]
        counts[block[0]] += 1
        if block[0] == 4 and len(block) > 1:
            pairs[block[1]] += 1
    assert chi_square_p(counts, p1) > 1e-3 and pairs.sum() > 60
    assert chi_square_p(pairs, distribution(model.logits([*text, 4])[0].double(), 1.0)) > 1e-3


# --- the store


def test_every_position_of_the_text_is_merged_once_per_key_length():
    """Sum of the counts over the keys of one length = positions stored that long a key fits; refused rows leave
    nothing."""
    trace = decode(TableCausal(memory=1, vocab_size=V, seed=3), temperature=1.0, template="32", trajectories=1)
    text = trace.header.prompt_ids + trace.output_ids
    store = Store()
    store.learn(text[:-1], 0, [{0: 1.0}] * (len(text) - 1), (3, 2, 1), 10)  # the last token was never fed
    assert trace.steps[-1].facts["store_keys"] == len(store.entries)
    for n in (1, 2, 3):
        assert sum(e.count for key, e in store.entries.items() if len(key) == n) == len(text) - n
    assert any(step.facts["accepted"] < step.facts["drafted"] for step in trace.steps)


def test_the_record_shows_the_keys_read_and_merged():
    trace = decode(TableCausal(memory=1, vocab_size=V), temperature=1.0)
    text = trace.header.prompt_ids + trace.output_ids
    for step in trace.steps:
        end = step.tree.start + 1
        read, written = ([tuple(m.key) for m in step.memory if getattr(m, what)] for what in ("read", "written"))
        assert tuple(text[end - 3 : end]) in written and bool(read) == bool(step.facts["hits"])
        if order := int(step.facts["hit_order"]):
            assert tuple(text[end - order : end]) in read
        assert all(
            m.source == f"{len(m.key)}-gram" and m.weights == sorted(m.weights, reverse=True) for m in step.memory
        )


def test_the_largest_entries_of_a_distribution():
    z = torch.tensor([[0.0, 2.0, 1.0, -torch.inf]])
    assert list(largest(z, 1.0, 2)[0]) == [1, 2] and largest(z, 0.0, 4) == largest(z, 1.0, 4)
    assert list(largest(z, 1.0, 4)[0]) == [1, 2, 0]  # what cannot be is not stored
    assert sum(largest(z, 0.5, 4)[0].values()) == pytest.approx(1)


def test_siblings_are_distinct_and_their_distributions_whole():
    rng, parents = torch.Generator().manual_seed(0), from_child_counts(TEMPLATES["80"])[0]
    for _ in range(20):
        grown = grow(adversarial(), [2, 1], parents, (2, 1), vocab_size=V, noise=noise(rng), deepest=3)
        draft = grown.draft
        assert max(row_depths(draft.parents)) <= 3
        for row, below in enumerate(children(draft.parents)):
            assert len({draft.tokens[c] for c in below}) == len(below) and (
                not below or float(draft.distributions[row].sum()) == pytest.approx(1)
            )
        assert all(grown.rows[draft.parents[row]] == parents[grown.rows[row]] for row in range(1, len(draft)))


# --- several samples


def test_later_samples_need_fewer_forwards():
    model = TableCausal(vocab_size=40, memory=2, scale=4.0)
    trace = decode(model, temperature=0.7, trajectories=4, max_new_tokens=60)
    spent = {}
    for step in trace.steps:
        spent[step.facts["trajectory"]] = spent.get(step.facts["trajectory"], 0) + 1
    assert list(spent) == [1, 2, 3, 4] and spent[4] < spent[1]
    ends = [step for step in trace.steps if step.branches[0].fate != "alive"]
    assert [step.branches[0].fate for step in ends] == ["finished", "finished", "finished", "chosen"]
    assert [step.facts["sample_forwards"] for step in ends] == list(spent.values())
    assert all(("overlap_2" in step.facts) == (step in ends[1:]) for step in trace.steps)


def test_the_board_holds_each_sample_in_turn():
    model = TableCausal(vocab_size=40, memory=2, eos_ids=(5,))
    trace = decode(model, temperature=1.0, trajectories=3)
    written = texts(trace)
    assert written[2] == trace.output_ids and written[0] != written[1]
    assert all(len(text) == 40 or text[-1] == 5 for text in written.values())
    assert sum(step.commits.causes.count("withdrawn") for step in trace.steps) == 2
    text = trace.header.prompt_ids
    for cached, _ in model.calls:
        assert cached[:2] == text[:2] or not cached  # the prompt's rows stay in the cache from sample to sample
    assert sum(not cached for cached, _ in model.calls) == 1


def test_an_edit_in_an_earlier_sample_goes_on_from_there():
    model = TableCausal(vocab_size=40, memory=2)
    plain = decode(model, temperature=1.0, trajectories=2, max_new_tokens=6)
    last = next(step.index for step in plain.steps if step.branches[0].fate == "finished")
    options = {"max_new_tokens": 6, "temperature": 1.0, "trajectories": 2}
    trace = engines.run("stand", model, [1, 2, 3], params=options, edits=[(last, engines.Edit(force={3: 9}))])
    assert trace.steps[last + 1].commits.tokens[:2] == [-1, 9] and trace.steps[last + 1].facts["trajectory"] == 1
    assert board(trace) == trace.output_ids and len(trace.output_ids) == 6


# --- side by side


def texts(trace):
    """Branch id -> its tokens, gathered from the record (for runs without edits)."""
    found = {}
    for step in trace.steps:
        for branch in step.branches:
            found[branch.id] = found.get(branch.id, []) + branch.tokens
    return found


def test_one_sample_side_by_side_is_the_serial_run():
    for params in ({"temperature": 1.0}, {"temperature": 1.0, "drafting": "deterministic"}):
        model = TableCausal(vocab_size=40, memory=2, eos_ids=(5,))
        serial, ours = decode(model, **params), decode(model, SIDE, **params, trajectories=1)
        assert serial.output_ids == ours.output_ids
        assert [s.commits for s in serial.steps] == [s.commits for s in ours.steps]
        assert [s.memory for s in serial.steps] == [s.memory for s in ours.steps]


def test_samples_side_by_side_are_all_recorded_and_the_first_one_stays():
    model = TableCausal(vocab_size=40, memory=2, eos_ids=(5,))
    trace = decode(model, SIDE, temperature=1.0, trajectories=4)
    written = texts(trace)
    assert written[0] == trace.output_ids and len({tuple(text) for text in written.values()}) == 4
    assert all(len(text) == 40 or text[-1] == 5 for text in written.values())
    last = {branch.id: branch.fate for step in trace.steps for branch in step.branches}
    assert last == {0: "chosen", 1: "finished", 2: "finished", 3: "finished"}
    longest = max(len(text) for text in written.values())
    assert trace.totals.forwards <= longest and len(trace.steps) == trace.totals.forwards
    assert trace.steps[-1].facts["tokens_per_forward"] == sum(map(len, written.values())) / len(trace.steps)
    assert model.calls[0][1][: len(trace.header.prompt_ids)] == trace.header.prompt_ids  # fed once for all
    assert len(model.calls[0][1]) < 2 * len(trace.header.prompt_ids) + 4 * 16


# --- templates


def test_the_best_nodes_make_a_tree():
    model, counts = TableCausal(vocab_size=6, memory=1), broad(4, 5)
    accepted = count_accepted(
        model, [1, 2, 3], counts, torch.Generator().manual_seed(0), samples=2, length=60, temperature=1.0
    )
    parents, _ = from_child_counts(counts)
    assert accepted[0] > 0 and sum(accepted[1:]) > 10 and sum(accepted) <= 120
    assert all(accepted[row] <= accepted[parents[row]] for row in range(1, len(parents)) if parents[row])
    for keep in (1, 5, 20):
        kept = most_accepted(accepted, keep)
        assert all(parents[row] in (0, *kept) for row in kept)
        assert len(from_child_counts(pruned(counts, kept))[0]) == keep + 1
    everything = from_child_counts(pruned(counts, most_accepted(accepted, len(parents) - 1)))
    assert everything == from_child_counts(counts) and len(leaf_paths(everything[0])) > 1


def test_a_recording_from_when_both_were_one_method_goes_on():
    """A run of `stand` with side_by_side: it is run again, forked and written as a script under today's name."""
    model = TableCausal(vocab_size=40, memory=2, eos_ids=(5,))
    trace = decode(model, SIDE, temperature=1.0, trajectories=3)
    old = engines.Trace.from_json(trace.to_json())
    old.header.method, old.header.params = "stand", {**trace.header.params, "side_by_side": True}
    h = old.header
    again = engines.run(h.method, model, h.prompt_ids, params=h.params, seed=h.seed)
    assert again.header.method == SIDE and again.header.params == trace.header.params
    assert [step.commits for step in again.steps] == [step.commits for step in old.steps]
    plain = engines.fork(old, 2, model=model)
    assert plain.output_ids == old.output_ids and plain.header.origin.diverged is None
    changed = engines.fork(old, 2, model=model, edit=engines.Edit(force={len(h.prompt_ids) + 1: 9}))
    assert changed.header.method == SIDE and changed.output_ids[1] == 9
    serial = {**trace.header.params, "side_by_side": False}
    assert engines.run("stand", model, [1, 2, 3], params=serial).header.method == "stand"
    with pytest.raises(engines.UserError, match="unknown parameter 'side_by_side'"):
        engines.run("stand", model, [1, 2, 3], params={"side_by_side": "perhaps"})


@pytest.mark.parametrize("slug", ["stand", SIDE])
@pytest.mark.parametrize("params", [{}, {"drafting": "deterministic"}, {"temperature": 0.0}], ids=str)
def test_each_token_is_told_with_the_suffix_that_drafted_it(slug, params):
    """The record is what the store held before the step: counts, probabilities, what was drawn and what became of
    it."""
    trace = decode(TableCausal(memory=1), slug, **{"trajectories": 3, "temperature": 1.0, **params})
    texts, hits = {}, 0
    for step in trace.steps:
        for one in step.records["suffixes"]["samples"]:
            before = texts.get(one["sample"], list(trace.header.prompt_ids))
            text = texts[one["sample"]] = [*before, *one["tokens"]]
            assert one["length"] == len(text) - len(trace.header.prompt_ids) and len(one["suffix"]) == len(
                one["tokens"]
            )
            accepted = [n for n in one["suffix"] if n]
            for i, key in enumerate(one["keys"]):
                end = len(before) + i
                assert key["key"] == text[end - len(key["key"]) : end] and key["count"] > 0
                assert set(key["drawn"]) <= set(key["tokens"]) and 0 < sum(key["q"]) <= 1 + 1e-5
                assert key["q"] == sorted(key["q"], reverse=True) and len(key["why"]) == len(key["drawn"])
                kept = [x for x, why in zip(key["drawn"], key["why"], strict=True) if why == "accepted"]
                if i < len(accepted):
                    assert kept == [text[end]] and len(key["key"]) == one["suffix"][i]
                    hits += 1
    assert hits > 10
    if slug == "stand":
        told = (lane for step in trace.steps for lane in step.scores if lane.name == "suffix")
        lanes = [n for lane in told for n in lane.values.array().round()]
        assert [n for s in trace.steps for n in s.records["suffixes"]["samples"][0]["suffix"]] == lanes


@pytest.mark.parametrize("ends", [(), (2,)])
def test_a_finished_sample_counts_its_tokens_without_the_end_mark(ends):
    trace = decode(TableCausal(memory=1, eos_ids=ends), trajectories=1, temperature=1.0)
    n, marked = trace.totals.tokens, bool(ends) and trace.output_ids[-1] in ends
    said = f"done, {n} token{'' if n == 1 else 's'}{' and its end mark' if marked else ''} in "
    assert said in trace.steps[-1].note
