"""Receipts: the player's definitions are those of Python, and a formula with its numbers put in gives the number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engines import Trace
from explorer import ASSETS
from explorer.figures.definitions import COUNTED, DEFINITIONS, KINDS, PLAYED, module
from explorer.figures.metrics import measure, numbers
from explorer.figures.receipts import facts, receipt
from explorer.importers import import_trace
from explorer.page import tables
from explorer.runs.gallery import gallery

RECORDS = Path(__file__).parent.parent / "records"


def drafted() -> Trace:
    """A recorded run that got tokens for nothing from accepted drafts."""
    traces = (gallery().get(card.id) for card in gallery().cards)
    return next(t for t in traces if any(s.commits and "bonus" in s.commits.causes for s in t.steps))


def test_the_players_definitions_are_made_from_these():
    assert (ASSETS / "player" / "definitions.js").read_text("utf-8") == module(), (
        "run: python -m explorer.figures.definitions"
    )


def test_definitions_name_only_what_there_is():
    known = {"remasked", "changed", "cut", "final", "kept", *numbers(drafted())}
    for name, one in DEFINITIONS.items():
        assert set(re.findall(r"\{(\w+)\}", one.terms)) <= known, name
        assert set(one.counts) <= set(COUNTED) and one.kind in KINDS and one.formula
    assert {name for rows in COUNTED.values() for _, name, _ in rows} - {""} <= known
    assert set(PLAYED) <= set(DEFINITIONS)


def value_of(terms: str) -> float | None:
    """The value of a formula with numbers put in; None where it is words."""
    plain = re.sub(r"(?<=\d),(?=\d)|(?<=\d) s\b", "", terms)
    plain = re.sub(r" \([a-z ]+\)", "", plain)  # what a number is of
    plain = plain.replace("÷", "/").replace("×", "*").replace("−", "-")
    return eval(plain) if re.fullmatch(r"[\d\s.()+*/-]+", plain) else None


def formulas_give_their_numbers(trace: Trace) -> None:
    """Each formula of a run's numbers with its own numbers put in; `test_recordings` asks it of every recorded run."""
    checked = 0
    for metric in measure(trace):
        found = value_of(metric.terms) if metric.terms else None
        if found is not None and metric.value is not None:
            assert found == pytest.approx(metric.value, rel=5e-3), (metric.name, metric.terms)
            checked += 1
    assert checked >= 4
    told = {m.name for m in measure(trace) if m.terms and value_of(m.terms) is not None}
    assert {"tokens_per_call", "tokens_per_second", "tokens"} <= told


def test_a_receipt_holds_everything_that_a_person_may_ask():
    trace = drafted()
    shared, metric = facts(trace), next(m for m in measure(trace) if m.name == "tokens_per_second")
    told = receipt(metric)
    assert (told["kind"], told["value"], told["terms"]) == ("derived", metric.shown, metric.terms)
    assert told["counts"] == ["gained", "time"] and told["label"] and told["formula"] and told["note"]
    header = shared["header"]
    assert header["models"][0]["sha256"] and header["versions"] and header["machine"]
    assert header["seed"] == trace.header.seed
    assert shared["numbers"]["bonus"] == sum(s.commits.causes.count("bonus") for s in trace.steps if s.commits) > 0
    known = shared["numbers"]
    assert sum(known[name] for name in ("tokens", "end_tokens", "padding", "masks")) == len(trace.output_ids)


def test_a_receipt_of_several_samples_counts_in_each_number_what_is_in_it():
    """Tokens are those of the answer, and so are its bonus tokens; tokens per call are those of all samples, of whose
    end marks and bonus tokens there is no count."""
    trace = gallery().get("33-stand-python")
    known = numbers(trace)
    everywhere = sum(step.commits.causes.count("bonus") for step in trace.steps if step.commits)
    assert 0 < known["bonus"] + known["corrections"] <= known["tokens"] < known["gained"]
    assert known["bonus"] < everywhere
    for name, counts in (("tokens", ["tokens"]), ("tokens_per_call", ["gained", "calls"])):
        assert DEFINITIONS[name].counts == counts


def test_an_end_mark_is_no_bonus_token():
    for name in ("09-recycling-sum", "33-stand-python", "26-speculation-story"):
        trace = gallery().get(name)
        known, start = numbers(trace), len(trace.header.prompt_ids)
        every = [(s.commits.positions, s.commits.causes) for s in trace.steps if s.commits]
        last = {at: cause for one in every for at, cause in zip(*one, strict=True)}
        text = [last[at] for at in range(start, start + trace.totals.tokens)]
        assert (known["bonus"], known["corrections"]) == (text.count("bonus"), text.count("correction"))


def test_a_formula_is_not_filled_where_one_of_its_numbers_was_not_recorded():
    """A record of another program: its tokens are known and not which of them are end marks."""
    trace = import_trace((RECORDS / "vllm-detailed.json").read_text("utf-8"))
    found = {metric.name: metric for metric in measure(trace)}
    assert found["tokens"].value and found["tokens"].terms == ""
    assert not [metric.name for metric in measure(trace) if "–" in metric.terms]
    assert found["work"].conditions == "not in vLLM's per-request speculative metrics: work"


def test_the_results_call_a_number_as_its_receipts_do():
    """Model calls, those of the target where a draft model runs beside it, whose own are draft calls."""
    for names in (["40-threshold-names", "41-credit-names"], ["26-speculation-story"]):
        table = json.loads(tables.results({slot: gallery().get(name) for slot, name in enumerate(names)}))
        labels = [cell["receipt"]["label"] for row in table["rows"] for cell in row if "receipt" in cell]
        assert [text for text in table["columns"] if "calls" in text] == ["Model calls (measured)"]
        assert "Model calls" in labels and "Tokens per model call (derived)" in table["columns"]
