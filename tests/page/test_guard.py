"""What stands in front of Gradio, asked over HTTP."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

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
    assert "frame-ancestors 'self' https://huggingface.co" in policy, (
        "a Space is shown in a frame there, and nowhere else"
    )
    assert "http://" not in policy


def test_a_foreign_host_name_is_refused(client):
    answer = client.get("/", headers={"host": "evil.example"})
    assert answer.status_code == 400 and "EXPLORER_HOSTS" in answer.text


@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/cancel", "/gradio_api/run/predict"])
def test_a_write_from_another_site_is_refused(client, path):
    assert client.post(path, json={}, headers={"origin": "https://evil.example"}).status_code == 403
    assert client.post(path, json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/upload",
        "/gradio_api/proxy=https://example.org",
        "/gradio_api/file=https://example.org/",
        "/gradio_api/file/https://example.org/a.png",
        "/file/https://example.org/a.png",
        "/gradio_api/file/etc/passwd",
        "/gradio_api/process_recording",
        "/gradio_api/component_server",
        "/gradio_api/stream/x",
        "/gradio_api/dev/reload",
        "/gradio_api/run-history/records",
        "/gradio_api/profiling/traces",
        "/gradio_api/vibe-code",
        "/gradio_api/a-route-of-the-next-version",
        "/monitoring",
        "/monitoring/summary",
        "/openapi.json",
    ],
)
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
        for route in (
            "/file=",
            "/file/",
            "/proxy=",
            "/custom_component/",
            "/static/",
            "/assets/",
            "/svelte/",
            "/files/",
        ):
            for target in ("https://outside.example/a.png", "//outside.example/a.png", "http:/outside.example/a"):
                answer = client.get(f"{start}{route}{target}")
                assert answer.status_code in (400, 403, 404), answer.url
    assert asked == []


def test_a_direct_call_does_not_pass_the_queue(client):
    body = {"data": ["nothing", "tiny-dlm", "copy: Ada", {}, 0, {}]}
    assert client.post("/gradio_api/run/decode", json=body).status_code == 404
    assert client.post("/gradio_api/call/decode", json=body).status_code == 200


def test_a_large_body_is_refused_whether_it_says_so_or_not(client):
    assert client.post("/gradio_api/cancel", content=b"x" * 100_000).status_code == 413
    assert client.post("/gradio_api/queue/join", content=b"x" * 10_000_001).status_code == 413
    assert client.post("/gradio_api/cancel", content=iter([b"x" * 60_000] * 3)).status_code in (400, 413)


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "app.py", "../app.py", "assets/theme.json"])
def test_only_the_player_is_served_as_files(client, path):
    for route in ("/gradio_api/file=", "/gradio_api/file/", "/files/player/../../", "/files/player/", "/files/"):
        assert client.get(f"{route}{path}").status_code in (400, 403, 404)


def test_half_of_a_character_is_refused_with_a_sentence(client):
    config = client.get("/config").json()
    number = next(fn["id"] for fn in config["dependencies"] if fn["api_name"] == "save_json")
    body = json.dumps({"data": ["\ud800"], "fn_index": number, "session_hash": "somebody"})  # escaped, as JSON may
    answer = client.post("/gradio_api/run/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "half of a character" in answer.text


def test_the_page_names_no_folder_of_this_machine_and_no_foreign_host(client):
    for path in ("/", "/config"):
        text = client.get(
            path, headers={"x-forwarded-host": "evil.example", "x-gradio-server": "http://evil.example"}
        ).text
        assert "evil.example" not in text
        assert str(ROOT) not in text and str(Path.home()) + "/" not in text


def test_the_player_is_served_as_a_script(client):
    answer = client.get("/files/player/gradio.js")
    assert answer.status_code == 200 and "javascript" in answer.headers["content-type"]
