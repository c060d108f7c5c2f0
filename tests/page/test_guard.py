"""What stands in front of Gradio, asked over HTTP."""

from __future__ import annotations

import httpx
import pytest


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
    assert "http://" not in policy


def test_a_foreign_host_name_is_refused(client):
    answer = client.get("/", headers={"host": "evil.example"})
    assert answer.status_code == 400 and "EXPLORER_HOSTS" in answer.text


@pytest.mark.parametrize("path", ["/gradio_api/queue/join", "/gradio_api/component_server", "/gradio_api/run/predict"])
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
        "/monitoring",
        "/monitoring/summary",
        "/openapi.json",
    ],
)
def test_unused_routes_are_closed(client, path):
    assert client.get(path).status_code in (403, 404)
    assert client.post(path, content=b"").status_code in (403, 404, 405)


def test_a_large_body_is_refused_whether_it_says_so_or_not(client):
    assert client.post("/gradio_api/component_server", content=b"x" * 100_000).status_code == 413
    assert client.post("/gradio_api/queue/join", content=b"x" * 10_000_001).status_code == 413
    assert client.post("/gradio_api/component_server", content=iter([b"x" * 60_000] * 3)).status_code in (400, 413)


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "app.py", "../app.py", "assets/theme.json"])
def test_only_the_player_is_served_as_files(client, path):
    assert client.get(f"/gradio_api/file={path}").status_code in (400, 403, 404)


def test_the_player_is_served_as_a_script(client):
    from explorer.page.parts import PLAYER

    answer = client.get(f"/gradio_api/file={(PLAYER / 'gradio.js').as_posix()}")
    assert answer.status_code == 200 and "javascript" in answer.headers["content-type"]
