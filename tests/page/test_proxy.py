"""The proxy of assets/docs/nginx.conf in front of a public page."""

import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer import ASSETS
from tests.page.attacks import Page, attacks, get, public_page

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin") or shutil.which("nginx")
MAIN = """daemon off; pid {here}/pid; error_log {here}/errors; worker_processes 1; events {{ worker_connections 4096; }}
http {{ access_log off; client_body_temp_path {here}/bodies; proxy_temp_path {here}/answers;
fastcgi_temp_path {here}/1; uwsgi_temp_path {here}/2; scgi_temp_path {here}/3; include {here}/site.conf; }}"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timing,
    pytest.mark.server,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page as it is reached through the proxy."""
    here, port = tmp_path_factory.mktemp("nginx"), free_port()
    with public_page(patience=3, proxies=1) as behind:
        site = (ASSETS / "docs/nginx.conf").read_text("utf-8")
        site = site.replace("listen 80;", f"listen 127.0.0.1:{port};")
        site = site.replace("127.0.0.1:7860", f"127.0.0.1:{behind.port}")
        (here / "site.conf").write_text(site, "utf-8")
        (here / "nginx.conf").write_text(MAIN.format(here=here), "utf-8")
        proxy = subprocess.Popen([str(NGINX), "-c", str(here / "nginx.conf"), "-e", str(here / "errors")])
        try:
            yield Page(behind.number, reached(port, here / "errors"), behind.numbers, behind.log)
        finally:
            proxy.terminate()
            proxy.wait(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def reached(port: int, errors: Path) -> int:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return port
        except OSError:
            time.sleep(0.1)
    raise AssertionError(errors.read_text("utf-8"))


def test_a_flood_is_refused_before_the_page(page: Page) -> None:
    """Without it visits took 14 times as long beside heartbeats that were asked for anew each second (hosting.md)."""
    said, lines = Counter[bytes](), list[socket.socket]()
    for number in range(400):
        line = socket.create_connection(("127.0.0.1", page.port), source_address=("127.0.1.1", 0))
        line.sendall(get("/gradio_api/heartbeat/#")(number))
        line.settimeout(10)
        answer = line.recv(200)
        said[answer[9:12] + (b" of nginx" if b"Server: nginx" in answer else b"")] += 1
        lines.append(line)
        if b" 429 " in answer:
            line.close()
    page.honest.failures = []
    page.honest.visits(0)
    for line in lines:
        line.close()
    assert said[b"429 of nginx"] > 100 and said[b"200 of nginx"] <= 250 and page.honest.failures == []


@pytest.mark.parametrize("name", ["silent connections", "a file, a byte a second"])
def test_an_attack_holds_the_proxy_and_no_visitor(page: Page, name: str) -> None:
    found = page.under(next(one for one in attacks(page.numbers) if one.name == name), 12, 2)
    assert found.failures == []
    assert min(found.beside) < 6 * max(found.alone), "the visitor was held up"
    if name == "silent connections":
        assert found.got.ended and found.most[0] < found.before[0] + 100, "connections of the page"
