"""Row-invariant forwards as a choice of each slot, where the page is at home."""

import json

import pytest

from engines import UserError
from explorer.page.catalogue import Catalogue
from explorer.page.form import Form, read
from explorer.page.limits import Limits

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


def test_the_player_tells_two_runs_that_differ_in_it_alone_apart(js):
    header = {"models": [{"role": "target", "name": "m", "dtype": "bfloat16", "options": {}}]}
    switched = {**header, "models": [{**header["models"][0], "options": {"row_invariant": True}}]}
    runs = [{"header": {"title": "Greedy", "params": {}, "seed": 0, **one}} for one in (header, switched, header)]
    names = "[runs.map((one) => M.apart(one, runs)), M.apart(runs[0], [runs[0], runs[2]])]"
    all_of_them, alike = js("/player/field.js", names, runs=runs)
    assert all_of_them == ["row_invariant false", "row_invariant true", "row_invariant false"] and alike == ""
