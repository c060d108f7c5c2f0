"""Names that exist: how runs are counted, where the prompts come from, and what ships."""

import sys
import sysconfig
from pathlib import Path

import pytest

from engines.tasks.dereferences import LONGEST, SHORTEST, Dereference, dereferences, library
from engines.tools.completion import Analyser
from engines.tools.projects import files_of
from explorer.bench import names
from explorer.cli import main
from tests.engines.methods.sampling.test_mgd import PROMPT, Letters, decode


def test_names_are_counted_from_what_was_written():
    with Analyser(files_of("ledger")) as analyser:
        place = Dereference("a.py", 3, PROMPT, "tally_cents", analyser.members(PROMPT, 60, dunder=True).names)
    guided, plain = ([decode(seed, monitor=how) for seed in range(4)] for how in ("guide", "watch"))
    held = names.lane("x", {}, guided, [place] * 4)
    free = names.lane("x", {}, plain, [place] * 4)
    texts = [Letters().decode(run.output_ids) for run in guided]
    assert held.exist == 4, [run.steps[0].note for run in guided]
    assert held.same == sum(text.startswith("tally_cents") for text in texts) and held.cut == 0
    assert free.exist < 4 and len(held.seconds) >= 4 and 0 < held.mass < 1
    low, high = held.interval
    assert 0.5 < low < 1 == pytest.approx(high)


@pytest.mark.parametrize("n", [1, pytest.param(4, marks=pytest.mark.slow)], ids=["a small library", "all of it"])
def test_prompts_are_real_dots_that_the_analyser_knows(n, monkeypatch):
    if n == 1:
        few = [path for path in library() if path.parent.name == "json"]
        monkeypatch.setattr(sys.modules[Dereference.__module__], "library", lambda: iter(few))
    found = dereferences(n, seed=1)
    assert len(found.prompts) == n and found.asked >= n + found.wrong
    home = set(library())
    for one in found.prompts:
        path = Path(sysconfig.get_path("stdlib")) / one.file
        text = path.read_text("utf-8")
        assert path in home
        assert text.startswith(one.prompt) and text[len(one.prompt) :].startswith(one.name)
        assert one.prompt.endswith(".") and SHORTEST <= len(one.prompt) <= LONGEST and one.name in one.names
        assert one.prompt.count("\n") + 1 == one.line
    assert dereferences(n, seed=1) == found


@pytest.mark.smollm2
@pytest.mark.slow
def test_the_command_prints_a_line_for_each_method(capsys):
    assert main(["bench", "--names", "--model", "smollm2-text", "--prompts", "1"]) == 0
    out = capsys.readouterr().out
    assert "names that exist" in out and len(out.splitlines()) == 4
