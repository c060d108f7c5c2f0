"""What stands in front of Gradio, asked over HTTP."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from explorer.page.guard import stream_of
from explorer.page.visitor_address import Readers

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client(address: str):
    with httpx.Client(base_url=address, timeout=20) as client:
        yield client


def test_a_normal_visitor_gets_the_page_under_a_policy(client):
    answer = client.get("/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "connect-src 'self'" in policy and "object-src 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self' https://huggingface.co" in policy and "http://" not in policy
    answer = client.get("/files/client/0/player/gradio.js")
    assert answer.status_code == 200 and "javascript" in answer.headers["content-type"]
    answer = client.get("/", headers={"host": "evil.example"})
    assert answer.status_code == 400 and "EXPLORER_HOSTS" in answer.text


@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/cancel", "/gradio_api/run/predict"])
def test_a_write_from_another_site_is_refused(client, path):
    assert client.post(path, json={}, headers={"origin": "https://evil.example"}).status_code == 403
    assert client.post(path, json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403


CLOSED = """/gradio_api/upload /upload /gradio_api/proxy=https://example.org /gradio_api/process_recording /monitoring
/gradio_api/file=https://example.org/ /gradio_api/file/https://example.org/a.png /file/https://example.org/a.png
/gradio_api/file/etc/passwd /gradio_api/component_server /gradio_api/stream/x /gradio_api/dev/reload /monitoring/summary
/gradio_api/run-history/records /gradio_api/profiling/traces /gradio_api/vibe-code /openapi.json
/gradio_api/a-route-of-the-next-version"""


@pytest.mark.parametrize("path", CLOSED.split())
def test_unused_routes_are_closed(client, path):
    assert client.get(path).status_code == 404
    assert client.post(path, content=b"").status_code == 404


def test_no_request_makes_the_server_ask_for_an_address(client, monkeypatch):
    asked: list[str] = []
    here = urlsplit(str(client.base_url)).hostname

    def look_up(host, *rest, **more):
        if host not in (here, None):
            asked.append(host)
            raise socket.gaierror("no network in this test")
        return real(host, *rest, **more)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for start in ("", "/gradio_api"):
        for route in "/file= /file/ /proxy= /custom_component/ /static/ /assets/ /svelte/ /files/".split():
            for target in ("https://outside.example/a.png", "//outside.example/a.png", "http:/outside.example/a"):
                answer = client.get(f"{start}{route}{target}")
                assert answer.status_code in (400, 403, 404), answer.url
    assert asked == []


@pytest.mark.parametrize("target", ["https://outside.example/a.png", "http://1.2.3.4/a", "/etc/passwd"])
@pytest.mark.parametrize("route", ["run/predict", "queue/join", "call/decode"])
def test_a_file_that_a_call_names_is_neither_fetched_nor_read(client, monkeypatch, route, target):
    import gradio.processing_utils

    asked: list[str] = []
    monkeypatch.setattr(gradio.processing_utils, "async_ssrf_protected_download", lambda url, *rest: asked.append(url))
    number = next(fn["id"] for fn in client.get("/config").json()["dependencies"] if fn["api_name"] == "take_in")
    file = {"path": target, "url": target, "meta": {"_type": "gradio.FileData"}}
    for data in ([file], [[{"a": file}]]):
        body = {"data": data, "fn_index": number, "session_hash": "somebody"}
        answer = client.post(f"/gradio_api/{route}", json=body)
        assert answer.status_code == 400 and "names a file" in answer.text
    assert asked == []


def test_a_handler_a_call_or_a_value_that_there_is_not_is_one_line(client, capfd, caplog):
    body = {"data": [], "fn_index": 99_999, "session_hash": "somebody"}
    for route in ("run/predict", "queue/join", "run/nothing", "call/nothing"):
        answer = client.post(f"/gradio_api/{route}", json=body if "nothing" not in route else {"data": []})
        assert answer.status_code == 500 and answer.text == "The server could not answer that request."
    assert client.get("/gradio_api/call/decode/nobody").status_code == 404
    assert client.get("/gradio_api/queue/data?session_hash=nobody").status_code == 404
    assert caplog.text.count("a request was refused") == 4
    number = next(fn["id"] for fn in client.get("/config").json()["dependencies"] if fn["api_name"] == "save_json")
    for value in ("nobody's choice", 7, {"a": 1}):
        client.post("/gradio_api/run/predict", json=body | {"data": [value], "fn_index": number})
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text
    assert all(len(line) < 400 for line in caplog.text.splitlines())


def test_a_call_that_was_made_is_read_and_a_direct_one_does_not_pass_the_queue(client):
    body = {"data": ["nothing", "tiny-dlm", "copy: Ada", {}, 0, {}]}
    assert client.post("/gradio_api/run/decode", json=body).status_code == 404
    for session in ({}, {"session_hash": "caller-1"}):
        made = client.post("/gradio_api/call/decode", json=body | session).json()["event_id"]
        assert "unknown method 'nothing'" in client.get(f"/gradio_api/call/decode/{made}").text


def test_a_large_body_is_refused_whether_it_says_so_or_not(client):
    assert client.post("/gradio_api/cancel", content=b"x" * 100_000).status_code == 413
    assert client.post("/gradio_api/queue/join", content=b"x" * 10_000_001).status_code == 413
    assert client.post("/gradio_api/cancel", content=iter([b"x" * 60_000] * 3)).status_code in (400, 413)


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "app.py", "../app.py", "assets/theme.json"])
def test_only_the_player_is_served_as_files(client, path):
    for route in ("/gradio_api/file=", "/gradio_api/file/", "/files/client/0/../../", "/files/client/0/", "/files/"):
        assert client.get(f"{route}{path}", follow_redirects=True).status_code in (400, 403, 404)


def test_the_page_names_no_folder_of_this_machine_and_no_foreign_host(client):
    for path in ("/", "/config"):
        forged = {"x-forwarded-host": "evil.example", "x-gradio-server": "http://evil.example"}
        text = client.get(path, headers=forged).text
        assert "evil.example" not in text
        assert str(ROOT) not in text and str(Path.home()) + "/" not in text


def test_whose_events_a_request_reads():
    for method, path, query, name in (
        ("GET", "/gradio_api/heartbeat/abc", b"", "heartbeat/abc"),
        ("GET", "/gradio_api/queue/data", b"session_hash=abc", "abc"),
        ("GET", "/gradio_api/call/decode/abc", b"", "abc"),
        ("POST", "/gradio_api/call/decode", b"", ""),
        ("GET", "/config", b"", ""),
    ):
        assert stream_of({"method": method, "path": path, "query_string": query}) == name
        readers = Readers()
        with readers.reading(name):
            assert readers.at_page("abc") == name.startswith("heartbeat")
        assert not readers.at_page("abc")
