"""The regret of the bets: a replay gives the rounds of real runs exactly, of the method and of every fixed choice; who
foresees the text pays least; and the tables on a tiny model."""

import itertools

import pytest

import engines
from engines.core.row_costs import KNOWN, RowCosts
from engines.studies import _bet_replay
from engines.studies._bet_replay import Known, Round, Rule, accepted, foreseen, replay, spent
from engines.studies.regret_of_bets import FIXED, PLAIN, Replayed, told
from tests.engines.fakes import TableCausal

SLUG, TOKENS = "adaptive-drafts", 30


class Chains(TableCausal):
    """A model whose rows cannot branch."""

    takes_trees = False

    def extend(self, tokens, cache, *, parents=None, **options):
        assert parents is None or (list(parents) == list(range(-1, len(parents) - 1)) and len(parents) == len(tokens))
        return super().extend(tokens, cache, parents=parents, **options)


def ran(model, prompt, **params):
    return engines.run(SLUG, model, prompt, params={"max_new_tokens": TOKENS, "row_cost": 0.02, **params})


def known(model, trace):
    whole, start = [*trace.header.prompt_ids, *trace.output_ids], len(trace.header.prompt_ids)
    return Known(model, whole, start, start + trace.header.params["max_new_tokens"])


def recorded(trace):
    """(tokens that came, rows drafted, their cost) of each round."""
    bets = [step.records["bets"] for step in trace.steps]
    return [(bet["came"], bet["taken"], bet["cost"][bet["taken"]]) for bet in bets]


def replayed(rounds):
    return [(one.came, one.taken, one.cost) for one in rounds]


@pytest.mark.parametrize("params", [{}, {"copies": False}, {"table": False}, {"rows": 3}, {"depth": 2}, {"rows": 0}])
@pytest.mark.parametrize(("prompt", "row_cost"), [([1, 2, 3, 1, 2], 0.0), ([4, 4, 4], 0.02), ([1], 0.1), ([4, 4], 0.3)])
def test_the_replay_of_the_method_gives_the_rounds_of_its_trace(prompt, row_cost, params):
    model = TableCausal()
    trace = ran(model, prompt, row_cost=row_cost, **params)
    p = trace.header.params
    rule = Rule("bets", p["copies"], p["table"], p["rows"], p["depth"], bets=True)
    assert replayed(replay(known(model, trace), rule, RowCosts.sloped(row_cost))) == recorded(trace)


@pytest.mark.parametrize("memory", [2, None])
def test_it_does_at_an_end_mark_without_trees_and_behind_a_long_prompt(monkeypatch, memory):
    for module in ("engines.methods.speculative.adaptive_drafts", "engines.studies._bet_replay"):
        monkeypatch.setattr(f"{module}.READ", 4)
    ended, rule = 0, Rule("bets", True, True, 32, 16, bets=True)
    for seed, trees in itertools.product(range(6), (True, False)):
        model = (TableCausal if trees else Chains)(seed=seed, memory=memory, eos_ids=(3,))
        trace = ran(model, [1, 2, 5, 1, 2, 5, 4, 1, 2])
        ended += trace.output_ids[-1] == 3 and len(trace.output_ids) > 1
        assert replayed(replay(known(model, trace), rule, RowCosts.sloped(0.02))) == recorded(trace)
    assert ended


@pytest.mark.parametrize(
    "rule", [rule for rule in FIXED if (rule.rows, rule.depth) in {(0, 1), (1, 1), (4, 2), (32, 8)}]
)
def test_the_replay_of_a_fixed_choice_gives_the_rounds_of_a_run_to_which_rows_cost_nothing(rule):
    """There the method drafts all it may. The text is that of another run, and the same."""
    text, C = known(TableCausal(), ran(TableCausal(), [1, 2, 3, 1, 2])), RowCosts.sloped(0.05)
    given = {"copies": rule.copies, "table": rule.table, "rows": rule.rows, "depth": rule.depth}
    trace = ran(TableCausal(), [1, 2, 3, 1, 2], row_cost=0, **given)
    rounds = replay(text, rule, C)
    assert [(one.came, one.taken) for one in rounds] == [(came, taken) for came, taken, _ in recorded(trace)]
    first, *later = rounds
    assert first.cost == pytest.approx(1 + C(5 + first.taken) - C(5))  # behind five tokens of the prompt
    assert [one.cost for one in later] == pytest.approx([C(1 + one.taken) for one in later])


def test_a_refused_row_is_asked_once_and_in_forwards_of_limited_size(monkeypatch):
    trace = ran(TableCausal(), [1, 2, 3, 1, 2])
    text, widest = known(TableCausal(), trace), Rule("", False, True, 32, 4)
    first = replay(text, widest, RowCosts.sloped(0.0))
    asked = text.asked
    assert asked and replay(text, widest, RowCosts.sloped(0.0)) == first and text.asked == asked
    monkeypatch.setattr(_bet_replay, "MOST", 4)
    small = known(model := TableCausal(), trace)
    assert replay(small, widest, RowCosts.sloped(0.0)) == first and small.asked > asked
    assert max(len(fed) for _, fed in model.calls[1:]) <= 4


def test_drafted_rows_are_accepted_as_far_as_the_text_has_them_and_a_round_is_paid_by_its_tokens():
    rows = [(1,), (2,), (1, 5), (2, 6), (2, 6, 7)]
    assert [accepted(rows, text) for text in ([2, 6, 9], [1, 5, 7], [2, 6, 7, 8], [3], [])] == [2, 2, 3, 0, 0]
    assert spent([Round(5, 3, 2, 1.5), Round(7, 0, 1, 1.0)]) == pytest.approx([0.75, 1.5, 2.5])


@pytest.mark.parametrize("slope", [0.0, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("prompt", [[1, 2, 3, 1, 2], [4, 4, 4]])
def test_who_foresees_the_text_pays_no_more_than_plain_decoding_or_any_copies(prompt, slope):
    text, C = known(TableCausal(), ran(TableCausal(), prompt)), RowCosts.sloped(slope)
    ideal = foreseen(text, C, rows=32, depth=16)
    assert sum(one.came for one in ideal) == TOKENS and all(one.came == one.taken + 1 for one in ideal)
    copies = [rule for rule in FIXED if not rule.table]  # what they guess depends on the text alone
    assert all(spent(ideal)[-1] <= spent(replay(text, rule, C))[-1] + 1e-9 for rule in copies)
    longest = foreseen(text, RowCosts.sloped(0.0), rows=32, depth=16)  # there a round more is all that costs
    assert len(longest) <= len(ideal)
    if slope == 1.0:
        assert spent(ideal)[-1] == pytest.approx(TOKENS)


def text_of(bets, **fixed):
    """Rounds of one token each, at these costs."""
    rounds = {name: [Round(i, 0, 1, cost) for i, cost in enumerate(costs)] for name, costs in fixed.items()}
    return Replayed("a", [Round(i, 0, 1, cost) for i, cost in enumerate(bets)], rounds, rounds[PLAIN.name], True, 0)


def test_regret_is_against_the_choice_that_was_best_up_to_there(monkeypatch):
    monkeypatch.setattr("engines.studies.regret_of_bets.FIXED", [PLAIN, Rule("other", True, True, 4, 4)])
    texts = [
        text_of([2, 2, 1, 1], plain=[1, 2, 3, 3], other=[3, 1, 1, 1]),
        text_of([1] * 4, plain=[1] * 4, other=[2] * 4),
    ]
    assert [texts[0].regret(n) for n in (1, 2, 3, 4)] == [1, 1, 0, 0]
    assert [texts[0].best(n)[0] for n in (1, 2, 3, 4)] == ["plain", "plain", "other", "other"]
    found = told(texts, RowCosts.sloped(0.1), False, [])
    own, together = found.receipts
    assert own.result == 6 + 4 - (6 + 4) and together.result == 10 - min(9 + 4, 6 + 8)
    assert [row[-1] for row in found.table("texts").rows] == [0, 0, -3 / 8]
    assert [row[2:] for row in found.table("lengths").rows] == [
        [1, 0.5, 1, 0.5], [1, 0.25, 1, 0.25], [0, 0, -1, -1 / 6], [0, 0, -3, -3 / 8]
    ]  # fmt: skip
    assert [row[0] for row in found.table("choices").rows] == ["plain", "other"]
    worse = told([text_of([1, 2, 3, 9], plain=[1] * 4, other=[1] * 4)], RowCosts.sloped(0.1), False, [])
    assert "it fell, so" in found.notes[0] and "it did not fall, so" in worse.notes[0]


@pytest.fixture(scope="module")
def study():
    return engines.study("regret-of-bets", model="tiny-ar-m", prompts="add: 457 + 86 | sort: Zoe, Mia, Leo", tokens=12)


def test_the_study_replays_its_own_traces_and_its_figures_end_where_its_tables_do(study):
    assert "gives the recorded rounds of all 2 texts." in study.notes[1]
    *each, together = study.table("texts").rows
    for i in (1, 2, 3, 4, 5):
        assert together[i] == pytest.approx(sum(row[i] for row in each))
    for _, tokens, rounds, plain, ideal, bets, _, least, regret, per_token in (*each, together):
        assert rounds <= tokens == plain and ideal <= least <= plain and ideal <= bets
        assert regret == pytest.approx(bets - least) and per_token == pytest.approx(regret / tokens)
    assert len(study.table("choices").rows) == len(FIXED) == 61
    assert engines.Study.from_json(study.to_json()) == study
    ends = [series.y[-1] for series in study.figure("regret").series]
    assert ends == pytest.approx([row[8] for row in each])
    costs = {series.name: series.y for series in study.figure("costs").series}
    assert costs["bets"] == pytest.approx([row[5] / row[1] for row in each])
    assert study.table("lengths").rows[-1][2] == pytest.approx(sum(ends)) == study.receipts[0].result


def test_it_tells_what_there_is_after_each_text_and_costs_may_be_those_of_this_machine(monkeypatch):
    table, parts, made = RowCosts((1, 32), (1.0, 1.31), warning="They were measured anew."), [], []

    def measured(model):
        KNOWN[model] = table
        return table

    for module in ("engines.studies.regret_of_bets", "engines.driver.roles"):
        monkeypatch.setattr(f"{module}.row_costs_of", measured)
    given = {"model": "tiny-ar-s", "prompts": "add: 4 + 5 | add: 2 + 3", "tokens": 8, "row_cost": -1}
    told = {"partial": made.append, "progress": lambda done, total: parts.append((done, total))}
    found = engines.study("regret-of-bets", **given, **told)
    assert parts[-1] == (2 * len(FIXED) - 1, 2 * len(FIXED)) and parts == sorted(parts)
    assert [len(made[i]().table("texts").rows) for i in (0, -1)] == [2, 2]  # the first text, and its sum
    assert len(found.table("texts").rows) == 3
    said = "They were measured anew. A round with 32 drafted rows costs 1.32 forwards of one row, as measured here."
    assert found.notes[-1] == said
