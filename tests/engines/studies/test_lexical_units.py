"""The study of lexical units: what its table says follows from its runs."""

import engines
from engines.studies.lexical_units import LINES

SMALL = {"model": "tiny-ar-m", "tasks": "copy, spell", "prompts": 1, "tokens": 16}


def test_the_table_says_what_was_run():
    found = engines.run_study("lexical-units", SMALL)
    rows = {row[0]: row for row in found.tables[0].rows}
    plain, tuned, ours = (
        rows[name] for name in ("untouched, one by one", "tuned, one by one", "units, verified (ours)")
    )
    assert len(rows) == len(LINES) + 3 and plain[1] == tuned[1] == tuned[4] == 1.0
    assert ours[1] > 1 and ours[4:7] == plain[4:7] and rows["units, line 0.3"][1] >= rows["units, line 0.99"][1]
    assert [one.y for one in found.figures[0].series] == [[rows[f"units, line {line:g}"][1] for line in LINES]]
    assert 0 <= found.receipts[0].result < 1
