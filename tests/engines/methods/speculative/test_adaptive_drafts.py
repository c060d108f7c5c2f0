"""Adaptive drafts: the best bet of all sizes, guesses that are counted without being drafted, an honest account."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import engines
from engines.core.row_costs import KNOWN, RowCosts
from engines.methods.speculative.adaptive_drafts.draft_model import LONG, DraftModel
from engines.methods.speculative.adaptive_drafts.sources import OLDER, SeenTable, StoreCopy, TextCopy
from engines.methods.speculative.adaptive_drafts.tree_choice import LEAST, WEIGHT, WORTH, Acceptance, choose_tree
from engines.models.parts.stores import StoreIndex
from tests.engines.fakes import TableCausal, board

SLUG = "adaptive-drafts"
MODEL_ALONE = {"copies": False, "table": False}


def grown(shares, cost, depth=4, worth=None, **options):
    """A tree of guesses 10, 11 ... whose chances are these."""
    a = Acceptance()
    a.chance = lambda key: key[1]
    if worth:
        a.alone = [round(1000 * worth), round(1000 * (1 - worth))]
    guesses = [(10 + i, ("text", share)) for i, share in enumerate(shares)]
    return choose_tree([1], lambda context: guesses, a, cost, depth=depth, **options)


def decode(model, prompt=(1, 2, 3, 1, 2), beside=None, **params):
    models = {"target": model, "draft": beside} if beside else model
    return engines.run(SLUG, models, list(prompt), params={"max_new_tokens": 30, "row_cost": 0.02, **params})


def test_the_taken_tree_has_most_tokens_for_its_cost_of_all_that_there_are():
    cost = [1 + 0.2 * n for n in range(33)]
    found = grown((0.5, 0.2), cost, depth=8)
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
    assert found.taken > 0 and found.expected[found.taken] / found.cost[found.taken] == pytest.approx(best)
    assert found.expected[-1] == pytest.approx(1 + sum(found.chances))
    assert found.chances == sorted(found.chances, reverse=True)
    assert all(path[:-1] in [(), *found.paths[:i]] for i, path in enumerate(found.paths))  # always a tree


def test_nothing_is_drafted_where_nothing_pays_and_nothing_stands_below_an_end_or_beside_a_chain():
    assert [grown([0.4], [1 + row * n for n in range(9)]).taken > 0 for row in (0.5, 0.3)] == [False, True]
    assert grown([0.4], [1.0] * 9, depth=0).paths == grown([0.4], [1.0]).paths == []
    assert grown((0.6, 0.5), [1.0] * 5, depth=1).chances == pytest.approx([0.6, 0.2])  # half of what the first leaves
    assert grown((0.6, 0.5), [1.0] * 5, depth=8, branches=False).paths == [(10,) * n for n in range(1, 5)]
    assert grown([0.6], [1.0] * 9, depth=8, ends={10}).paths == [(10,)]


def test_guesses_are_counted_whether_or_not_they_were_drafted():
    a, text, copies = Acceptance(), ("text", 3), ("table", 5)
    a.observe([(7, text), (8, text), (7, copies)], 7)
    a.observe([(9, text)], 7)
    assert a.seen == {text: [1, 2], copies: [1, 0]} and a.places == {"text": 2, "table": 1}
    assert Acceptance().chance(copies) < a.chance(copies) < 1 and a.chance(text) < Acceptance().chance(text)
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


def test_the_table_has_what_came_last_time_and_the_store_what_followed_most_often():
    table = SeenTable()
    table.learn([4, 4, 5], [[1, 2], [3, 1], [6, 7]], [[0.9, 0.05], [0.5, 0.2], [0.005, 0.001]])
    assert table.guesses([9, 4]) == [(3, ("table", 6)), (1, ("table", 5))]
    assert table.guesses([5]) == [(6, ("table", 0)), (7, ("table", 0))]
    assert table.guesses([8]) == []
    store = StoreCopy(StoreIndex(np.array([9, 1, 2, 3, 5, 9, 1, 2, 3, 5, 9, 1, 2, 3, 6, 8, 1, 2, 3, 7])))
    (first, (name, high)), (second, (_, low)) = store.guesses([0, 9, 1, 2, 3])
    assert (first, second, name) == (5, 6, "store") and high > low
    assert [token for token, _ in store.guesses([8, 1, 2, 3])] == [7]  # the longest agreement
    assert [token for token, _ in store.guesses([4, 3])][:1] == [5]
    assert store.guesses([4]) == store.guesses([99999]) == []


def test_the_index_finds_all_places_of_some_tokens():
    tokens = np.random.default_rng(0).integers(0, 6, 300)
    index = StoreIndex(tokens)
    for gram in (gram for n in (1, 2, 3) for gram in itertools.product(range(7), repeat=n)):
        places = [i for i in range(len(gram), 300) if tuple(tokens[i - len(gram) : i]) == gram]
        assert index.behind(gram, 1000) == places and index.behind(gram, 5) == places[-5:]


def test_the_account_is_that_of_the_forwards():
    trace, C = decode(TableCausal()), RowCosts.sloped(0.02)
    rounds, last = trace.steps[1:], trace.steps[-1].records["bets"]
    assert last["gained"] == sum(len(step.commits.tokens) for step in rounds)
    assert last["spent"] == pytest.approx(sum(C(step.tokens_fed) for step in rounds))
    for step in trace.steps:
        told = step.records["bets"]
        assert told["came"] == len(step.commits.tokens) and told["taken"] == step.facts["drafted"]
        rates = [e / c for e, c in zip(told["expected"], told["cost"], strict=True)]
        assert rates[told["taken"]] == pytest.approx(max(rates))


def test_a_long_prompt_is_read_before_its_last_rows(monkeypatch):
    monkeypatch.setattr("engines.methods.speculative.adaptive_drafts.READ", 4)
    model, prompt = TableCausal(), [1, 2, 3, 1, 2, 3, 4, 5]
    trace = decode(model, prompt)
    assert len(model.calls[0][1]) == 4
    assert board(trace) == engines.run("greedy", model, prompt, params={"max_new_tokens": 30}).output_ids


class Helper:
    """A source with a price, which guesses one token behind every path."""

    name = "draft"

    def __init__(self, price, overdue=False):
        self.cost, self.overdue, self.asked = price, overdue, []

    def price(self, path):
        return self.cost

    def guesses(self, path):
        self.asked.append(path)
        return [(50, ("draft", 0.8))]


def asking(helper, *shares, rows=8):
    return grown(shares, [1 + 0.02 * n for n in range(rows + 1)], worth=0.5, draft_model=helper)


def test_a_draft_model_is_asked_where_its_guess_is_worth_its_price():
    dear, cheap = Helper(0.49), Helper(0.47)  # half a token for it and a row of 0.02; one plain row has one for 1
    assert asking(dear).queries == 0 and not dear.asked
    found = asking(cheap)
    assert cheap.asked[0] == () and found.queries == len(cheap.asked)
    assert found.cost[0] == pytest.approx(1 + 0.47 * found.queries)  # what was asked is spent, drafted or not
    assert found.sources[0] == "draft" and found.chances[0] == 0.8
    found = asking(helper := Helper(0.1))  # about rows that are likely to be reached
    assert helper.asked[:2] == [(), (50,)] and all(0.8 ** len(path) * 0.5 > 0.12 for path in helper.asked)
    assert found.taken == len(helper.asked)
    assert asking(Helper(0.1), 0.95).queries == 0 < asking(Helper(0.1), 0.5).queries  # where others are silent
    found = asking(late := Helper(5.0, overdue=True))  # one that was not heard for long, once
    assert late.asked == [()] and found.cost[0] == 6.0
    assert asking(late, rows=0).queries == 0 and len(late.asked) == 1  # a draft of no rows asks nobody


def test_a_draft_model_that_knows_the_text_is_asked_more_and_more_and_one_that_does_not_less():
    on = {**MODEL_ALONE, "max_new_tokens": 60}
    good, bad = (  # four guesses of 64 are seldom right
        decode(TableCausal(64), beside=TableCausal(64, seed, parameters=2), **on) for seed in (0, 3)
    )
    calls = [sum(step.forwards.get("draft", 0) for step in trace.steps) for trace in (good, bad)]
    assert calls[0] > 30 and calls[1] < 10
    (told,) = good.steps[-1].records["bets"]["odds"]
    assert told["source"] == "draft" and told["right"] == told["places"] > 40
    assert len(good.steps) < 30 and len(bad.steps) == 60
    asked = [at for at, step in enumerate(bad.steps) if step.forwards.get("draft")]
    assert asked[-1] - asked[-2] == LONG + 1  # tried again, once


def drafter(model, prompt, length=40, price=float):
    return DraftModel(model, prompt, SimpleNamespace(max_new_tokens=length, temperature=0.0), 8, price)


def test_what_it_would_have_guessed_is_counted_when_it_next_reads():
    model, a, text = TableCausal(parameters=1), Acceptance(), [1, 2]
    draft = drafter(model, text)
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
    draft = drafter(TableCausal(), [1] * 100, 100)
    for more, overdue in ((0, False), (LONG, False), (LONG + 1, True)):
        draft.begin([1] * (100 + more))
        assert draft.overdue is overdue
    draft.guesses(())
    draft.settle([2], [True], Acceptance())
    draft.begin([1] * (101 + LONG) + [2])
    assert not draft.overdue


def test_the_price_is_that_of_the_rows_it_would_read():
    draft = drafter(model := TableCausal(), [1, 2, 3], 10)
    draft.begin([1, 2, 3])
    assert draft.price(()) == pytest.approx(1 + 2 / 10)  # the prompt's other rows are spread over ten tokens
    draft.guesses(())
    assert draft.price((5,)) == 1 and draft.price((5, 6)) == 2
    draft.guesses((5, 6))
    assert draft.price((5, 7)) == 1 and [len(fed) for _, fed in model.calls] == [3, 2]


@pytest.mark.parametrize(("row_cost", "share"), [(0.0, 0.1), (-1, 0.25)])
def test_a_forward_of_it_costs_as_its_parameters_or_as_both_models_were_measured(monkeypatch, row_cost, share):
    target, draft = TableCausal(), TableCausal(seed=3, parameters=1)
    seconds, asked = {target: 2.0, draft: 0.5}, []

    def table(model):
        asked.append(model)
        KNOWN[model] = RowCosts((1, 2), (seconds[model], seconds[model]))

    monkeypatch.setattr("engines.driver.run.row_costs_of", table)
    trace = decode(target, beside=draft, row_cost=row_cost, max_new_tokens=10, **MODEL_ALONE)
    assert {*asked} == {target, draft}
    for step in trace.steps[1:]:
        told, calls = step.records["bets"], step.forwards.get("draft", 0)
        assert told["cost"][told["taken"]] == pytest.approx(1 + share * calls)


def test_the_draft_model_is_worth_what_it_is_right_where_nobody_else_is():
    a = Acceptance()
    a.alone = [30, 10]
    assert a.worth == pytest.approx((30 + WEIGHT * WORTH) / (40 + WEIGHT))
    draft, text, right = drafter(model := TableCausal(parameters=1), [1, 2]), [1, 2], 0
    for known in (False, True, False, False):  # whether another source had the token that comes
        draft.begin(text)
        draft.guesses(())
        token = int(model.logits(text).argmax()) if right < 2 else int(model.logits(text).argmin())
        draft.settle([token], [known], a)
        text, right = [*text, token], right + (not known)
    assert a.alone == [30 + 2, 10 + 1]
