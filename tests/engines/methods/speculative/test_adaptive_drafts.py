"""Adaptive drafts: the best bet of all sizes, guesses that are counted without being drafted, and an account that is
that of the forwards made."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import engines
from engines.core.row_costs import KNOWN, RowCosts
from engines.methods.speculative.adaptive_drafts.asking import LONG, DraftModel
from engines.methods.speculative.adaptive_drafts.bets import LEAST, WEIGHT, WORTH, Acceptance, bet
from engines.methods.speculative.adaptive_drafts.sources import OLDER, SeenTable, StoreCopy, TextCopy
from engines.models.stores import StoreIndex
from tests.engines.fakes import TableCausal, board

SLUG = "adaptive-drafts"


def keyed(*shares):
    """Guesses 10, 11 ... whose chances are these, and what says so."""
    a = Acceptance()
    a.chance = lambda key: key[1]
    return [(10 + i, ("text", share)) for i, share in enumerate(shares)], a


def decode(model, prompt=(1, 2, 3, 1, 2), **params):
    return engines.run(SLUG, model, list(prompt), params={"max_new_tokens": 30, "row_cost": 0.02, **params})


def test_the_taken_size_has_most_tokens_for_its_cost():
    guesses, a = keyed(0.6, 0.3)
    C = RowCosts.of({1: 1.0, 2: 1.1, 4: 1.6, 8: 1.7, 16: 3.0})
    found = bet([1], lambda context: guesses, a, [C(1 + n) for n in range(16)], depth=4)
    rates = [e / c for e, c in zip(found.expected, found.cost, strict=True)]
    assert rates[found.taken] == max(rates) and found.taken > 0
    assert found.expected[-1] == pytest.approx(1 + sum(found.chances))
    assert found.chances == sorted(found.chances, reverse=True)
    assert all(path[:-1] in [(), *found.paths[:i]] for i, path in enumerate(found.paths))  # always a tree


def test_what_is_left_out_could_not_have_paid():
    guesses, a = keyed(0.5, 0.2)
    cost = [1 + 0.2 * n for n in range(33)]
    found = bet([1], lambda context: guesses, a, cost, depth=8)
    every = sorted(  # of all paths of two guesses, by brute force: the second is right where the first is wrong
        (
            p
            for depth in range(1, 9)
            for path in itertools.product((0.5, 0.2 * 0.5), repeat=depth)
            if (p := math.prod(path)) >= LEAST
        ),
        reverse=True,
    )[:32]
    sums = [1.0, *itertools.accumulate(every, initial=1.0)][1:]
    best = max(e / c for e, c in zip(sums, cost, strict=False))
    assert found.expected[found.taken] / found.cost[found.taken] == pytest.approx(best)


def test_where_nothing_pays_nothing_is_drafted():
    guesses, a = keyed(0.4)
    assert bet([1], lambda context: guesses, a, [1 + 0.5 * n for n in range(9)], depth=4).taken == 0
    assert bet([1], lambda context: guesses, a, [1 + 0.3 * n for n in range(9)], depth=4).taken > 0
    assert bet([1], lambda context: guesses, a, [1.0] * 9, depth=0).paths == []
    assert bet([1], lambda context: guesses, a, [1.0], depth=4).paths == []


def test_siblings_share_the_chance_and_a_chain_has_none():
    guesses, a = keyed(0.6, 0.5)
    found = bet([1], lambda context: guesses, a, [1.0] * 5, depth=1)
    assert found.chances == pytest.approx([0.6, 0.2])  # half of what the first one leaves
    chain = bet([1], lambda context: guesses, a, [1.0] * 5, depth=8, branches=False)
    assert chain.paths == [(10,) * n for n in range(1, 5)]
    ended = bet([1], lambda context: guesses[:1], a, [1.0] * 9, depth=8, ends={10})
    assert ended.paths == [(10,)], "nothing stands below an end mark"


def test_guesses_are_counted_whether_or_not_they_were_drafted():
    a, text, copies = Acceptance(), ("text", 3), ("table", 5)
    a.see([(7, text), (8, text), (7, copies)], 7)
    a.see([(9, text)], 7)
    assert a.seen == {text: [1, 2], copies: [1, 0]} and a.places == {"text": 2, "table": 1}
    before = Acceptance().chance(copies)
    assert before < a.chance(copies) < 1 and a.chance(text) < Acceptance().chance(text)
    assert (a.odds("text").right, a.odds("text").places) == (1, 2)


def test_the_text_copies_what_followed_the_longest_match_newest_first():
    text = TextCopy([5, 1, 2, 3, 7, 1, 2, 4, 8, 9, 1, 2])
    assert [token for token, _ in text.guesses([9, 1, 2])] == [4, 3]  # two places of two tokens
    assert [token for token, _ in text.guesses([5, 1, 2])] == [3]  # one of three
    (_, (_, longest)), (_, (_, other)) = text.guesses([0, 1, 2])
    assert longest == 2 and other == OLDER
    assert text.guesses([6]) == []
    text.read([6, 5])
    assert [token for token, _ in text.guesses([6])] == [5]


def test_the_table_has_what_came_last_time_by_its_probability():
    table = SeenTable()
    table.learn([4, 4, 5], [[1, 2], [3, 1], [6, 7]], [[0.9, 0.05], [0.5, 0.2], [0.005, 0.001]])
    assert table.guesses([9, 4]) == [(3, ("table", 6)), (1, ("table", 5))]
    assert table.guesses([5]) == [(6, ("table", 0)), (7, ("table", 0))]
    assert table.guesses([8]) == []


def test_the_account_is_that_of_the_forwards():
    trace, C = decode(TableCausal()), RowCosts.sloped(0.02)
    rounds = trace.steps[1:]
    last = trace.steps[-1].records["bets"]
    assert last["gained"] == sum(len(step.commits.tokens) for step in rounds)
    assert last["spent"] == pytest.approx(sum(C(step.tokens_fed) for step in rounds))
    for step in trace.steps:
        told = step.records["bets"]
        assert told["came"] == len(step.commits.tokens) and told["taken"] == step.facts["drafted"]
        assert told["expected"][told["taken"]] / told["cost"][told["taken"]] == pytest.approx(
            max(e / c for e, c in zip(told["expected"], told["cost"], strict=True))
        )


@pytest.mark.parametrize("row_cost", [-1, -0.05])
def test_the_costs_of_this_machine_are_measured_before_the_clock(monkeypatch, row_cost):
    asked = []

    def table(model):
        asked.append(model)
        KNOWN[model] = RowCosts.sloped(10.0)

    monkeypatch.setattr("engines.driver.roles.row_costs_of", table)
    model = TableCausal()
    trace = decode(model, row_cost=row_cost)
    assert asked[0] is model and {step.facts["drafted"] for step in trace.steps} == {0.0}  # nothing pays there
    asked.clear()
    engines.run("greedy", model, [1, 2], params={"max_new_tokens": 2})
    assert not asked


def test_a_long_prompt_is_read_before_its_last_rows(monkeypatch):
    monkeypatch.setattr("engines.methods.speculative.adaptive_drafts.READ", 4)
    model = TableCausal()
    trace = decode(model, (1, 2, 3, 1, 2, 3, 4, 5))
    assert [len(fed) for _, fed in model.calls][:1] == [4]
    assert board(trace) == board(engines.run("greedy", model, [1, 2, 3, 1, 2, 3, 4, 5], params={"max_new_tokens": 30}))


class Helper:
    """A source with a price, which guesses one token behind every path."""

    name, overdue = "draft", False

    def __init__(self, price, token=50, share=0.8):
        self.cost, self.token, self.share, self.asked = price, token, share, []

    def price(self, path):
        return self.cost

    def guesses(self, path):
        self.asked.append(path)
        return [(self.token, ("draft", self.share))]


def asking(helper, *shares, worth=0.5, rows=8, **options):
    guesses, a = keyed(*shares)
    a.alone = [round(1000 * worth), round(1000 * (1 - worth))]
    return bet(
        [1], lambda context: guesses, a, [1 + 0.02 * n for n in range(rows + 1)], depth=4, asked=helper, **options
    )


def test_a_draft_model_is_asked_where_its_guess_is_worth_its_price():
    dear, cheap = Helper(0.49), Helper(0.47)  # half a token for it and a row of 0.02; one plain row has one for 1
    assert asking(dear).asked == 0 and not dear.asked
    found = asking(cheap)
    assert cheap.asked[0] == () and found.asked == len(cheap.asked)
    assert found.cost[0] == pytest.approx(1 + 0.47 * found.asked)  # what was asked is spent, drafted or not
    assert found.sources[0] == "draft" and found.chances[0] == 0.8


def test_it_is_asked_about_rows_that_are_likely_to_be_reached_and_where_others_are_silent():
    assert Helper(0.1).asked == []
    found = asking(helper := Helper(0.1))
    assert helper.asked[:2] == [(), (50,)] and all(0.8 ** len(path) * 0.5 > 0.12 for path in helper.asked)
    assert found.taken == len(helper.asked)
    known = Helper(0.1)
    assert asking(known, 0.95).asked == 0  # 0.05 of the places are left to it: worth 0.025 tokens
    assert asking(Helper(0.1), 0.5).asked > 0


def test_one_that_was_not_heard_for_long_is_asked_once():
    helper = Helper(5.0)
    helper.overdue = True
    found = asking(helper)
    assert helper.asked == [()] and found.cost[0] == 6.0
    assert asking(helper, rows=0).asked == 0 and len(helper.asked) == 1  # a draft of no rows asks nobody


def length(n):
    return SimpleNamespace(max_new_tokens=n, temperature=0.0)


def with_draft(draft, prompt=(1, 2, 3, 1, 2), model=None, **params):
    given = {"max_new_tokens": 30, "row_cost": 0.02, **params}
    return engines.run(SLUG, {"target": model or TableCausal(), "draft": draft}, list(prompt), params=given)


def test_a_draft_model_that_knows_the_text_is_asked_more_and_more_and_one_that_does_not_less():
    on = {"copies": False, "table": False, "max_new_tokens": 60}
    good, bad = (
        with_draft(TableCausal(64, seed, parameters=2), model=TableCausal(64), **on) for seed in (0, 3)
    )  # four guesses of 64 are seldom right
    calls = [sum(step.forwards.get("draft", 0) for step in trace.steps) for trace in (good, bad)]
    assert calls[0] > 30 and calls[1] < 10
    (told,) = good.steps[-1].records["bets"]["odds"]
    assert told["source"] == "draft" and told["right"] == told["places"] > 40
    assert len(good.steps) < 30 and len(bad.steps) == 60
    asked = [at for at, step in enumerate(bad.steps) if step.forwards.get("draft")]
    assert asked[-1] - asked[-2] == LONG + 1  # tried again, once


def test_what_it_would_have_guessed_is_counted_when_it_next_reads():
    model, a = TableCausal(parameters=1), Acceptance()
    draft = DraftModel(model, [1, 2], length(40), 8, lambda n: 0.1 * n)
    text = [1, 2]
    draft.begin(text)
    draft.guesses(())
    for _ in range(5):  # five rounds with nobody asked after the first
        text = [*text, int(model.logits(text).argmax())]
        draft.settle(text[-1:], [True], a)
        draft.begin(text)
    assert a.places == {"draft": 1}
    draft.guesses(())
    draft.settle([int(model.logits(text).argmax())], [True], a)
    assert (a.odds("draft").right, a.places["draft"]) == (6, 6)


def test_it_is_overdue_after_so_many_tokens_of_which_the_prompt_is_none():
    draft = DraftModel(TableCausal(), [1] * 100, length(100), 8, lambda n: 1.0)
    for more, overdue in ((0, False), (LONG, False), (LONG + 1, True)):
        draft.begin([1] * (100 + more))
        assert draft.overdue is overdue
    draft.guesses(())
    draft.settle([2], [True], Acceptance())
    draft.begin([1] * (101 + LONG) + [2])
    assert not draft.overdue


def test_the_price_is_that_of_the_rows_it_would_read():
    draft = DraftModel(model := TableCausal(), [1, 2, 3], length(10), 8, float)
    draft.begin([1, 2, 3])
    assert draft.price(()) == pytest.approx(1 + 2 / 10)  # the prompt's other rows are spread over ten tokens
    draft.guesses(())
    assert draft.price((5,)) == 1 and draft.price((5, 6)) == 2
    draft.guesses((5, 6))
    assert draft.price((5, 7)) == 1 and [len(fed) for _, fed in model.calls] == [3, 2]


def test_without_measured_costs_a_draft_models_forward_costs_as_its_parameters():
    trace = with_draft(TableCausal(parameters=1), max_new_tokens=10, row_cost=0.0, copies=False, table=False)
    for step in trace.steps[1:]:
        told, calls = step.records["bets"], step.forwards.get("draft", 0)
        assert told["cost"][told["taken"]] == pytest.approx(1 + 0.1 * calls)


def test_measured_costs_of_both_models_are_put_in_relation(monkeypatch):
    target, draft = TableCausal(), TableCausal(seed=3)
    seconds = {target: 2.0, draft: 0.5}

    def table(model):
        KNOWN[model] = RowCosts((1, 2), (seconds[model], seconds[model]))

    monkeypatch.setattr("engines.driver.roles.row_costs_of", table)
    trace = with_draft(draft, model=target, row_cost=-1, max_new_tokens=10, copies=False, table=False)
    for step in trace.steps[1:]:
        told, calls = step.records["bets"], step.forwards.get("draft", 0)
        assert told["cost"][told["taken"]] == pytest.approx(1 + 0.25 * calls)


def test_the_draft_model_is_worth_what_it_is_right_where_nobody_else_is():
    a = Acceptance()
    assert a.worth == WORTH
    a.alone = [30, 10]
    assert a.worth == pytest.approx((30 + WEIGHT * WORTH) / (40 + WEIGHT))
    draft = DraftModel(model := TableCausal(parameters=1), [1, 2], length(40), 8, float)
    text, right = [1, 2], 0
    for known in (False, True, False, False):  # whether another source had the token that comes
        draft.begin(text)
        draft.guesses(())
        token = int(model.logits(text).argmax()) if right < 2 else int(model.logits(text).argmin())
        draft.settle([token], [known], a)
        text, right = [*text, token], right + (not known)
    assert a.alone == [30 + 2, 10 + 1]


def test_the_store_has_what_followed_most_often_behind_the_longest_agreement():
    store = StoreCopy(StoreIndex(np.array([9, 1, 2, 3, 5, 9, 1, 2, 3, 5, 9, 1, 2, 3, 6, 8, 1, 2, 3, 7])))
    (first, (name, high)), (second, (_, low)) = store.guesses([0, 9, 1, 2, 3])
    assert (first, second, name) == (5, 6, "store") and high > low
    assert [token for token, _ in store.guesses([8, 1, 2, 3])] == [7]
    assert [token for token, _ in store.guesses([4, 3])][:1] == [5]
    assert store.guesses([4]) == [] and store.guesses([99999]) == []


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_index_finds_all_places_of_some_tokens(n):
    tokens = np.random.default_rng(0).integers(0, 6, 300)
    index = StoreIndex(tokens)
    for gram in itertools.product(range(7), repeat=n):
        places = [i for i in range(n, 300) if tuple(tokens[i - n : i]) == gram]
        assert index.behind(gram, 1000) == places and index.behind(gram, 5) == places[-5:]


def test_the_store_of_the_models_tokens_is_read():
    prompt, model = "copy: Ada, Ben, Leo", engines.load_model("tiny-ar-s", dtype="float32")
    on, off = (
        engines.run(SLUG, model, prompt, params={"row_cost": 0.02, "store": store, "draft": False})
        for store in (True, False)
    )
    assert [told["source"] for told in on.steps[0].records["bets"]["odds"]] == ["text", "table", "store"]
    assert [told["source"] for told in off.steps[0].records["bets"]["odds"]] == ["text", "table"]
    assert on.output_ids == off.output_ids


def test_without_a_source_it_says_so_and_decodes_plainly():
    trace = decode(TableCausal(), copies=False, table=False, store=False, draft=False)
    assert {step.note for step in trace.steps} == {
        "All sources are switched off, so nothing can be drafted; one plain row."
    }
    assert trace.steps[-1].records["bets"]["odds"] == []


def test_without_rows_it_says_so():
    trace = decode(TableCausal(), rows=0, max_new_tokens=4)
    assert {step.note for step in trace.steps} == {"A draft may have 0 rows, so nothing can be drafted; one plain row."}
