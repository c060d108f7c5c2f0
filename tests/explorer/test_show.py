"""A trace in a notebook, the lines that repeat it, and its events as a table."""

import csv
import io
import re

import pytest
from playwright.sync_api import expect

import engines
import explorer
from engines import Edit, Trace, UserError
from explorer.cli import main
from explorer.cli.trace import departure
from explorer.export.events import events_csv
from explorer.runs.gallery import gallery
from tests.page.conftest import HOSTILE, PROMPT, first_model, methods_of


def run(kind: str, slug: str | None = None, **options) -> Trace:
    return engines.run(slug or methods_of(kind)[0], first_model(kind), PROMPT, **options)


@pytest.fixture(scope="module")
def both() -> list[Trace]:
    return [run("masked", params={"max_new_tokens": 32}), run("causal", params={"max_new_tokens": 16})]


def test_a_trace_plays_itself_in_a_notebook(browser, both):
    """A hostile one inside its frame, too."""
    hostile = Trace.from_json(both[0].to_json())
    hostile.header.title = hostile.header.prompt = '"></iframe>' + HOSTILE
    page, asked, wrong = browser.new_page(), [], []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("about:", "data:")) else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    cells = hostile._repr_html_() + explorer.show(both, height=500)._repr_html_()
    page.set_content(f"<!doctype html><body>{cells}</body>")
    expect(page.locator("iframe")).to_have_count(2)
    expect(page.locator("iframe").nth(1)).to_have_attribute("sandbox", "allow-scripts")
    alone, pair = (page.frame_locator("iframe").nth(n).locator(".dx-panel") for n in range(2))
    expect(pair).to_have_count(2)
    expect(alone).to_have_attribute("data-state", "ready")
    alone.press("End")
    expect(alone).to_have_attribute("data-step", str(len(both[0].steps)))
    assert asked == [] and wrong == [] and page.evaluate("window.hit") is None
    page.close()


def test_a_page_that_is_too_large_for_a_cell_says_so(both):
    said = explorer.show(both[0], limit_mb=0.01)._repr_html_()
    assert "iframe" not in said and "at most 0.01 MB" in said and "limit_mb=" in said
    assert "<!doctype html>" in explorer.show(both[0]).page and both[0].header.title in repr(explorer.show(both[0]))
    with pytest.raises(ValueError, match="at least one trace"):
        explorer.show([])


@pytest.mark.parametrize("case", ["masked", "drafts", "edited"])
def test_the_lines_make_the_same_run(case):
    options: dict = {"params": {"max_new_tokens": 16}, "seed": 5}
    drafting = next(i.slug for i in engines.list_methods() if "tree" in i.emits and [*i.needs.values()] == ["causal"])
    if case == "edited":
        first = run("masked", **options)
        place, token = first.steps[2].commits.positions[0], first.steps[0].commits.tokens[0]
        options |= {"edits": [(0, Edit(force={place: token})), (2, Edit(remask=[place]))], "detail": "light"}
    if case == "drafts":
        options["max_steps"] = 3
    trace = run("causal", drafting, **options) if case == "drafts" else run("masked", **options)
    for ids in (False, True) if case == "masked" else (False,):
        room: dict = {}
        exec(explorer.lines(trace, ids=ids), room)
        assert departure(trace, room["trace"]) is None
        found, wanted = room["trace"].header, trace.header
        assert (found.params, found.seed) == (wanted.params, 5)
        assert [(e.after_step, e.edit) for e in found.edits] == [(e.after_step, e.edit) for e in wanted.edits]


def test_the_lines_load_the_model_as_it_was_loaded(tmp_path, capsys):
    name = first_model("masked")
    given = {"dtype": "float64", "shift": False, "mask_id": engines.load_model(name).mask_id}
    trace = engines.run(
        methods_of("masked")[0], engines.load_model(name, **given), PROMPT, params={"max_new_tokens": 16}
    )
    record, room = trace.header.models[0], {}
    assert (record.dtype, record.options) == (given.pop("dtype"), given)
    exec(explorer.lines(trace), room)
    assert room["trace"].header.models == trace.header.models and departure(trace, room["trace"]) is None
    assert engines.models_of(trace.header)[record.role].record.options == record.options
    (tmp_path / "t.json").write_text(trace.to_json())
    assert main(["replay", str(tmp_path / "t.json"), "--rerun"]) == 0 and "repeats" in capsys.readouterr().out


def test_the_lines_of_a_model_from_the_hub_name_its_commit_and_its_quantisation(both):
    trace = Trace.from_json(both[1].to_json())
    record, asked = trace.header.models[0], {}
    told = {"device_map": "auto", "quantization": {"quant_method": "quanto", "weights": "int8"}}
    record.name, record.revision, record.device, record.options = "owner/name", "0123abc", "cuda:0", dict(told)
    call = re.search(r"engines.load_model\((.*)\)$", explorer.lines(trace), re.MULTILINE)
    eval(f"load({call[1]})", {"load": lambda name, **options: asked.update(options, name=name)})
    assert asked == {"name": "owner/name", "dtype": record.dtype, "revision": "0123abc", **told}
    record.name, record.options = "my-checkpoint", {}
    assert "# 'my-checkpoint' was read from a folder: write its path below." in explorer.lines(trace)
    record.options = {"x=1, y": 2}
    with pytest.raises(UserError, match="changed by hand"):
        explorer.lines(trace)
    text = explorer.lines(both)
    assert text.count("engines.run(") == 2 and text.count("import engines") == 1


def test_lines_quote_whatever_a_trace_says(both):
    trace = Trace.from_json(both[1].to_json())
    trace.header.prompt = trace.header.method = '"\'\n"""\nimport os; os.abort()\n#'
    trace.header.models[0].name = "x')\nimport os"
    names = set(re.findall(r"^\s*import (\w+)", explorer.lines(trace), re.MULTILINE))
    assert names == {"engines"}
    compile(explorer.lines(trace), "lines", "exec")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    ("text", "cell"), [("a\rb", "a\\x0db"), ("\r", "\\x0d"), ("a\r\nb", "a\r\nb"), ("a\nb", "a\nb")]
)
def test_a_carriage_return_in_a_token_ends_no_row(text, cell, both):
    trace = Trace.from_json(both[0].to_json())
    plain = rows(events_csv([trace]))
    token = next(step.commits.tokens[0] for step in trace.steps if step.commits)
    next(piece for piece in trace.pieces if piece.id == token).text = text
    found = rows(events_csv([trace]))
    assert len(found) == len(plain)
    assert {row["text"] for row in found if row["token"] == str(token)} == {cell}


def test_events_hold_every_token_that_was_written_with_the_cost_so_far_and_the_drafts(both):
    recorded = (gallery().get(card.id) for card in gallery().cards)
    drafted = next(trace for trace in recorded if any(s.tree and s.tree.parents[1:] for s in trace.steps))
    traces = [*both, drafted]
    found = rows(events_csv(traces))
    for number, trace in enumerate(traces):
        mine = [row for row in found if (row["run"], row["event"]) == (str(number), "write")]
        text = {piece.id: piece.text for piece in trace.pieces}
        writes = [(s.index, s.commits.positions, s.commits.tokens) for s in trace.steps if s.commits]
        told = [(step, *one) for step, *both in writes for one in zip(*both, strict=True)]
        assert [(int(r["step"]), int(r["position"]), int(r["token"])) for r in mine] == told
        assert all(r["text"].removeprefix("'") == text[int(r["token"])] for r in mine)
        calls = [step.forwards[trace.header.models[0].role] for step in trace.steps]
        assert int(mine[-1]["target_calls_so_far"]) == sum(calls)
        seconds = trace.totals.model_seconds + trace.totals.method_seconds
        assert float(mine[-1]["seconds_so_far"]) == pytest.approx(seconds, abs=1e-5)
    drafts, trees = [r for r in found if r["event"] == "draft"], [step.tree for step in drafted.steps if step.tree]
    assert len(drafts) == sum(len(tree.parents) - 1 for tree in trees) > 0
    assert sum(row["cause"] == "accepted" for row in drafts) == sum(tree.why.count("accepted") for tree in trees)
