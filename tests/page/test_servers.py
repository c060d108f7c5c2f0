"""*From a running server* in the browser, and what a public host answers. The server is the tests' own stand-in."""

import json
import math

from playwright.sync_api import expect

from explorer.page.servers import Servers
from tests.explorer.attach.servers import Scripted, stream
from tests.page.conftest import desk, visitor
from tests.page.test_public import LIMITS

HOSTILE = "<img src=x onerror=window.hit=1>"


def event(text, number, finish=None):
    top = [{"token": text, "id": number, "logprob": math.log(0.75)}, {"token": HOSTILE, "id": 7, "logprob": -2.0}]
    logprobs = {"content": [{**top[0], "top_logprobs": top}]}
    return {"choices": [{"delta": {"content": text}, "logprobs": logprobs, "finish_reason": finish}]}


def fill(screen, url):
    screen.tab("Save and open")
    screen.page.locator("#server-url").get_by_role("textbox").fill(url)
    screen.press("Ask the server")


def test_an_answer_arrives_in_a_free_player_joins_the_race_and_is_ended_by_stop(visit):
    screen = visit()
    answer = stream(*(event(f" w{i}", 20 + i) for i in range(12)), event(HOSTILE, 90, "stop"), pause=0.1)
    with Scripted(answer, models=("some-model",)) as server:
        screen.prompt("sort: Mia, Leo, Ada")
        fill(screen, server.url)
        screen.wait(2, "done")
        screen.says("in player 3")
    expect(screen.player(2).locator("h2 > span").first).to_contain_text("some-model at 127.0.0.1")
    expect(screen.page.locator("#results .facts")).to_have_attribute("data-rows", "3")
    screen.tab("All numbers")
    expect(screen.page.locator("#numbers")).to_contain_text("Time to first token")
    assert server.asked[-1][2]["messages"][0]["content"] == "sort: Mia, Leo, Ada"
    with Scripted(stream(*(event(f" {i}", i) for i in range(2000)), pause=0.1)) as server:
        fill(screen, server.url)
        screen.wait(3, "live")
        screen.press("Stop")
        screen.wait(3, "stopped")


def test_what_the_endpoint_refuses(monkeypatch):
    def said(*given, limits=None):
        return json.loads(list(Servers(desk(limits=limits)).ask(visitor(), *given))[-1][1])["text"]

    assert "asks no server" in said("Hello", "http://127.0.0.1:1", "", "", 8, limits=LIMITS)
    assert "empty" in said(" ", "http://127.0.0.1:1", "", "", 8)
    assert "not an address" in said("Hello", "javascript:alert(1)", "", "", 8)
    assert "not understood" in said("Hello", "http://127.0.0.1:1", None, "", 8)
    assert "not understood" in said("Hello", "http://127.0.0.1:1", "", "telnet", 8)
    for most in (0, 10**9, None, "8", float("nan")):
        assert "not allowed" in said("Hello", "http://127.0.0.1:1", "", "", most)
    monkeypatch.setenv("DECODING_EXPLORER_SERVER_KEY", "secret")
    assert "unencrypted" in said("Hello", "http://example.com", "", "", 8)
