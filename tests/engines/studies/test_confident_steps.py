"""The study of ConCISE: cutting one trace is what stopping does, and its table follows from its traces."""

from itertools import islice

import pytest

import engines
from engines.methods.reasoning._votes import answer_of
from engines.studies import confident_steps
from engines.studies.confident_steps import Told, told

SMALL = {"problems": 20}


def test_a_cut_is_what_the_method_writes():
    model, chain = engines.load_model("tiny-reasoner"), "2*7*8*3"
    for seed in range(2):
        whole = told(model, chain, "6", False, 1.0, seed)
        for line in (0.0, 0.5, 1.0):
            ours = engines.run("concise", model, chain, params={"inject": False, "t_stop": line}, seed=seed)
            n = whole.cut(line)
            assert "".join(whole.tokens[:n]) == ours.text
            assert whole.right(n) == (answer_of(ours.text, "marked") == "6")
            assert whole.looks(n) == sum(span.kind == "reflection" for span in ours.steps[-1].spans)


def test_counts_of_a_cut():
    one = Told("4", list("c2+2=4;#4;w2+2=4;#5"), [(9, 0.4), (19, 0.9)], [(0, False), (7, False), (10, True)], [0])
    assert (one.cut(0.3), one.cut(0.5), one.cut(0.95)) == (9, 19, 19)
    assert one.right(9) and not one.right(19) and (one.looks(9), one.looks(19)) == (0, 1)


def test_the_tables_say_what_was_found(monkeypatch):
    """Of five problems."""
    monkeypatch.setattr(confident_steps, "islice", lambda made, _: islice(made, 5))
    found = engines.run_study("confident-steps", SMALL)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert list(rows) == ["plain", "injection", "stop above 0.5", "both", "trained on both, decoded plainly"]
    assert rows["both"][4] < rows["injection"][4] <= rows["plain"][4] + 1
    assert rows["stop above 0.5"][4] < rows["plain"][4]
    assert rows["plain"][5] == 0 < rows["injection"][5] and rows["stop above 0.5"][8] <= 1.0
    tokens = found.figures[0].series[0]
    assert tokens.y == sorted(tokens.y) and tokens.y[-1] == pytest.approx(rows["plain"][4])
    assert found.receipts[0].result == pytest.approx(1 - rows["both"][4] / rows["plain"][4])
