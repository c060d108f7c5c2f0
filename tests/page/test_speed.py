"""The section on speculation: what it says of a recorded benchmark, and that the file which ships belongs to the models
here."""

import json

import pytest
from playwright.sync_api import expect

import engines
from explorer import ASSETS
from explorer.bench import classes, quality
from explorer.page import speed


@pytest.fixture
def bench():
    scores = [
        classes.Score("m", {}, group, 2, value, value - 0.1, value + 0.1, 1.5, 9.0, 2)
        for group, value in (("chat", 0.9), ("code", 1.2), ("editing", 2.0))
    ]
    record = engines.ModelRecord("target", "some", "causal")
    return classes.Bench([record], "greedy", "a machine", {}, 64, 3, {1: 0.04, 8: 0.05, 16: 0.06}, scores)


def test_table_and_figures_name_control_machine_and_every_class_and_show_speeds_and_the_cost_of_rows(bench):
    said = json.loads(speed._table(bench))
    assert all(words in said["caption"] for words in ("a machine", "Greedy autoregressive", "6 prompts", "intervals"))
    assert said["columns"][:4] == ["method", "chat", "code", "editing"]
    assert said["rows"][0][1:6] == ["0.90×", "1.20×", "2.00×", "1.20×", "-"]
    assert said["rows"][0][-1] == "faster; 3 classes are too few for an interval"
    speeds, costs = speed._figures(bench)
    assert list(speeds.data[0].x) == ["chat", "code", "editing"] and list(speeds.data[0].y) == [0.9, 1.2, 2.0]
    assert list(costs.data[0].x) == [1, 8, 16] and list(costs.data[0].y) == pytest.approx([40, 50, 60])


def test_what_ships_was_measured_with_the_methods_and_the_draft_that_are_here():
    groups, measured = list(classes.class_prompts()), set()
    for found in classes.recorded():
        card = ASSETS / "models" / "smollm2-draft" / "card.json"
        drafts = [model.sha256 for model in found.models if model.role == "draft"]
        assert set(drafts) <= {json.loads(card.read_text())["sha256"]}
        assert {score.method for score in found.scores} <= {info.slug for info in engines.list_methods()}
        assert found.classes() == [group for group in groups if group in found.classes()]
        measured |= set(found.classes())
    assert measured == set(groups)


def test_the_tab_of_sweeps_shows_the_recorded_ones_and_no_stop_of_what_does_not_go_on(visit):
    screen = visit("?still", folded=True)
    screen.tab("Sweeps")
    found = quality.recorded()
    expect(screen.page.locator("#sweeps .js-plotly-plot")).to_have_count(len(found))
    expect(screen.page.locator("#sweeps .facts").first).to_have_attribute("data-rows", str(len(found[0].points)))
    screen.tab("Speculation")
    expect(screen.page.locator("#speculation h3")).to_have_count(len(classes.recorded()))
    for tab, stop in (("Run a sweep", "#sweep-cancel"), ("Studies", "#study-stop")):
        screen.tab(tab)
        expect(screen.page.locator(stop)).to_be_hidden()
