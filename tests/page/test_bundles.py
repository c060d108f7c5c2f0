"""Many controls travel as one value, and whatever comes back as one is looked at before it is believed."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import UserError
from explorer.page.blocks import build
from explorer.page.bundles import LARGEST, pack, unpack
from explorer.page.controls import Catalogue, slot_updates
from explorer.page.handlers import Handlers
from explorer.page.limits import Limits
from explorer.store import Gallery
from tests.page.stops import Visitor

TOLD = 16  # components whose status one event may change
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda one: st.lists(one, max_size=4))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Handlers:
    return Handlers(Gallery(Path(tmp_path_factory.mktemp("traces"))), Catalogue.read(False), Limits(1000, 100, 60, False))


def test_no_event_of_the_server_touches_many_components(desk):
    """Gradio tells each of them the status of every later event of the page."""
    wide = {fn.name: len(fn.inputs) + len(fn.outputs) for fn in build(desk).fns.values() if fn.fn and len(fn.inputs) + len(fn.outputs) > TOLD}
    assert not wide, "gather and spread them in the browser: explorer.page.bundles"


def test_updates_arrive_as_gradio_would_send_them(desk):
    """The browser takes choices as pairs and what is skipped as an update of nothing."""
    for info in desk.catalogue.methods.values():
        updates = slot_updates(desk.catalogue, info, "tiny-dlm")
        sent = json.loads(pack([gr.skip(), *updates]))
        assert sent[0] == {"__type__": "update"} and len(sent) == len(updates) + 1
        for look, was in zip(sent[1:], updates, strict=True):
            if isinstance(was, dict):
                assert look["__type__"] == "update" and look.get("value") == was.get("value")
                assert all(len(pair) == 2 for pair in look.get("choices", ()))
            else:
                assert look == was


@given(st.lists(JSON))
def test_what_is_gathered_is_read_back(values):
    assert unpack(json.dumps(values)) == values


@pytest.mark.parametrize("sent", [None, 3, "", "{}", "nan", "[", ["a"], "[" * 100_000, '"' + "x" * LARGEST + '"', "[" + "9" * 5000 + "]"])
def test_anything_else_is_refused_in_a_sentence(desk, sent):
    with pytest.raises(UserError, match="could not be read; reload it"):
        unpack(sent)
    (answer,) = desk.pressed(Visitor("one"), sent)
    assert "could not be read" in json.loads(answer[1])["text"]


@pytest.mark.parametrize("values", [[], ["sort: Mia"], ["sort: Mia", 0], ["sort: Mia", 0, "2"], [None] * 200])
def test_a_list_of_another_length_is_refused_as_settings_are(desk, values):
    (answer,) = desk.pressed(Visitor("one"), json.dumps(values))
    assert json.loads(answer[1])["kind"] == "error"
