"""Row-invariant forwards as a choice of each slot, where the page is at home."""

import json

import pytest

from engines import UserError
from explorer.figures.handed import shown
from explorer.figures.names import apart
from explorer.page.catalogue import Catalogue, Form
from explorer.page.form import read
from explorer.page.run_limits import Limits
from tests.player.handmade import masked

METHOD, MODEL, PROMPT = "prompt-lookup", "tiny-ar-s", "sort: Mia, Leo"
HOME = Limits(1000, 100, 60, False)
WISHED = Form(METHOD, MODEL, {"max_new_tokens": 4}, row_invariant=True)


def test_a_form_that_wishes_them_runs_with_them_and_is_repeated_with_them():
    catalogue = Catalogue.read(public=False)
    traces = {}
    for form in (WISHED, Form(METHOD, MODEL, {"max_new_tokens": 4})):
        plan = catalogue.read_form(read(form.text()))
        run = plan.begin(PROMPT, 0, HOME)
        assert list(run)
        traces[form.row_invariant] = run.trace()
        again = catalogue.repeat(run.trace())
        assert again is not None and again.row_invariant is form.row_invariant
        assert catalogue.form(again).row_invariant is form.row_invariant
        assert ("row_invariant" in json.loads(form.text())) is form.row_invariant
    assert traces[True].header.models[0].options == {"row_invariant": True}
    assert traces[False].header.models[0].options == {}


def test_visitors_are_refused_and_a_run_that_had_them_is_repeated_without():
    public = Catalogue.read(public=True)
    with pytest.raises(UserError, match="are not taken from visitors"):
        public.read_form(WISHED)
    with pytest.raises(UserError, match="could not be read"):
        read({"method": METHOD, "model": MODEL, "row_invariant": "yes"})
    run = Catalogue.read(public=False).read_form(WISHED).begin(PROMPT, 0, HOME)
    assert list(run)
    again = public.repeat(run.trace())
    assert again is not None and not again.row_invariant


def test_two_runs_that_differ_in_it_alone_are_told_apart(js):
    traces = [masked(24, 4) for _ in range(3)]
    for trace, started in zip(traces, "abc", strict=True):
        trace.header.started_at = started
    traces[1].header.models[0].options = {"row_invariant": True}
    names = [apart(trace, traces) for trace in traces]
    assert names == ["row_invariant false", "row_invariant true", "row_invariant false"]
    assert apart(traces[0], [traces[0], traces[2]]) == ""
    read = "texts.map((text) => dxModules.use('player/run.js').Run.from(text))"
    body = f"((runs) => runs.map((run) => M.apart(run, runs)))({read})"
    assert js("field.js", body, texts=[shown(trace, traces) for trace in traces]) == names
