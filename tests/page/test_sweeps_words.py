"""The recorded sweeps and benchmarks read as text: titles, not slugs; what was counted, not what is promised; and no
button that stops what does not go on."""

from __future__ import annotations

import re

from playwright.sync_api import expect

import engines
from explorer.bench import classes, quality
from explorer.page import speed
from explorer.page.tables import labelled

SLUGS = {info.slug: info.title for info in engines.list_methods()}


def test_a_benchmark_says_how_many_texts_are_the_same_and_never_that_all_are_where_they_are_not():
    for found in classes.recorded():
        said = speed._introduced(found)
        same, tried = sum(score.same for score in found.scores), sum(score.prompts for score in found.scores)
        assert said.startswith("### ") and str(found.max_new_tokens) in said.splitlines()[0]
        assert f"{same} of {tried} answers are the control's text" in said or same == tried
        if same < tried:
            assert "(" not in said, "the caveat stands in no brackets"
    assert labelled("rasd (floor=0.25)") == f"{SLUGS['rasd']} (floor=0.25)"
    assert labelled("nobody's own") == "nobody's own"


def test_the_tables_of_sweeps_name_methods_and_idle_stops_are_not_there(visit):
    screen = visit("?still", folded=True)
    screen.tab("Sweeps")
    found = quality.recorded()
    expect(screen.page.locator("#sweeps .js-plotly-plot")).to_have_count(len(found))
    expect(screen.page.locator("#sweeps .facts").first).to_have_attribute("data-rows", str(len(found[0].points)))
    for tab in (None, "Speculation"):
        if tab:
            screen.tab(tab)
        names = screen.page.locator(".facts tbody tr > :first-child:visible")
        expect(names.first).to_be_visible()
        for name in names.all_inner_texts():
            assert re.split(r"[ (]", name)[0] not in SLUGS, name
    expect(screen.page.locator("#speculation h3")).to_have_count(len(classes.recorded()))
    for tab, stop in (("Run a sweep", "#sweep-cancel"), ("Studies", "#study-stop")):
        screen.tab(tab)
        expect(screen.page.locator(stop)).to_be_hidden()
