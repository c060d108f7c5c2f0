"""The public endpoint: a finished trace, or one sentence."""

import json

import pytest
from gradio_client import Client

import engines
from tests.page.conftest import PROMPT, first_model, methods_of


@pytest.fixture(scope="module")
def client(address: str) -> Client:
    return Client(address, verbose=False)


def ask(client: Client, method=None, model=None, prompt=PROMPT, params=None, seed=0):
    given = method or methods_of("causal")[0], model or first_model("causal"), prompt, params or {}, seed
    return client.predict(*given, api_name="/decode")


def test_decode_gives_the_trace_that_the_engine_gives(client):
    form = {"method": methods_of("causal")[0], "model": first_model("causal"), "params": {"max_new_tokens": 8}}
    again = engines.run(methods_of("causal")[0], first_model("causal"), PROMPT, params={"max_new_tokens": 8})
    by_form = client.predict(prompt=PROMPT, form=form, api_name="/decode")
    for answer in (ask(client, params={"max_new_tokens": 8}), by_form):
        trace = engines.read_trace(json.dumps(answer))
        assert trace.output_ids == again.output_ids and len(trace.steps) == len(again.steps)
    for wrong, sentence in (
        ({**form, "modle": "x"}, "unknown field 'modle'"),
        ({"method": form["method"]}, "missing required field 'model'"),
        ({**form, "params": {"no_such": 1}}, "unknown parameter 'no_such'"),
    ):
        with pytest.raises(Exception, match=sentence):
            client.predict(prompt=PROMPT, form=wrong, api_name="/decode")
    with pytest.raises(Exception, match="give either"):
        client.predict(method=form["method"], prompt=PROMPT, form=form, api_name="/decode")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"method": "no-such-method"}, "unknown method 'no-such-method'; choose one of"),
        ({"model": "no-such-model"}, "no-such-model"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": "sort " * 3000}, "room for"),
        ({"params": {"max_new_tokens": 10**6}}, "out of range"),
        ({"seed": -1}, "whole number"),
        ({"method": methods_of("masked")[0]}, "needs a masked model"),
    ],
)
def test_bad_input_gets_a_sentence(client, wrong, sentence):
    with pytest.raises(Exception, match=sentence) as caught:
        ask(client, **wrong)
    assert "Traceback" not in str(caught.value) and "/engines/" not in str(caught.value)
