"""What a request may bring, before anybody parses it."""

import asyncio
import contextlib
import json
import time

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from explorer.page import guard
from explorer.page.guard import DEPTH, VALUES, Guard, check_body
from explorer.page.memory import Owners
from tests.page.test_event_stream import apart
from tests.page.test_visitor_limits import Asked, answers

JOIN = "/gradio_api/queue/join"


def sent(**more: object) -> bytes:
    return json.dumps({"data": [], "fn_index": 1, "session_hash": "f81d4fae-7dec", **more}).encode()


def test_what_a_page_sends_passes():
    texts = [json.dumps({"steps": [[[]]] * 50_000}), 'a " b \\" c', "\\", {"a": [1, {"b": None}]}]
    for body in (sent(), sent(data=texts), sent(data=[[0] * (VALUES - 10)]), sent(data=["[" * 5000])):
        assert check_body(body) == "f81d4fae-7dec"
    for body in (b"", sent(session_hash=None), b'{"data": [', b"no JSON"):
        assert check_body(body) == ""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (sent(data=[0] * 5000), "more than 2,000 values"),
        (sent(data=[{"a": 0}] * 3000), "more than 2,000 values"),
        (sent(data=json.loads("[" * DEPTH + "]" * DEPTH)), "20 deep"),
        (sent(session_hash="x" * 65), "session_hash is not a name"),
        (sent(event_id="a/b"), "event_id is not a name"),
        (sent().decode().encode("utf-16"), "UTF-8"),
        (sent(data=[{"path": "/x", "meta": {"_type": "gradio.FileData"}}]), "names a file"),
        (sent(data=[[{"a": {"path": "https://x.example", "meta": {"_type": "gradio.FileData"}}}]]), "names a file"),
        (sent(data=["\ud800"]), "half of a character"),
        (sent(data=[{"\udfff": 1}]), "half of a character"),
        (sent(event_data={"path": "/x", "meta": {"_type": "gradio.FileData"}}), "names a file"),
    ],
)
def test_what_no_page_sends_is_refused(body, sentence):
    with pytest.raises(HTTPException, match=sentence) as caught:
        check_body(body)
    assert caught.value.status_code == 400


def test_a_look_at_a_body_takes_a_time_that_grows_with_its_length_only():
    for one in (b'\\"', b'"\\', b'""', b"\\", b"]", b'"'):
        began = time.process_time()
        with contextlib.suppress(HTTPException):
            check_body(b'"' + one * 500_000)
        assert time.process_time() - began < 2, "a second look at each quote would take hours"


def test_a_body_in_pieces_arrives_whole_and_a_refused_one_does_not_arrive():
    came: list[bytes] = []

    async def app(scope, receive, send):
        message = await receive()
        assert not message["more_body"]
        came.append(message["body"])
        await answers(scope, receive, send)

    owners = Owners(1000)
    client = TestClient(Guard(app, owners=owners))
    whole = sent(data=["x" * 1000])
    assert client.post(JOIN, content=iter([whole[:7], whole[7:500], whole[500:]])).status_code == 200
    assert came == [whole] and owners.get("f81d4fae-7dec") == "testclient"
    assert client.post(JOIN, content=sent(data=[[]] * 3000)).status_code == 400
    assert client.post(JOIN, content=iter([b"x" * 6_000_000] * 2)).status_code == 413
    assert len(came) == 1


def test_a_body_that_does_not_come_is_waited_for_a_minute(monkeypatch):
    monkeypatch.setattr(guard, "PATIENCE", 0.05)

    async def go() -> None:
        asked = Asked(Guard(answers), "a", arrive=asyncio.Event())
        await asked.task
        assert asked.status == 408

    apart(go())
