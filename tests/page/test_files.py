"""The program's own files for the browser: recorded runs come with their figures, and nothing else is served."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import engines
from explorer.figures.handed import of_run
from explorer.page import files
from explorer.runs.gallery import gallery
from tests import own_record


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=files.mounts()))


def test_a_recorded_run_comes_with_its_figures_and_those_of_it_beside_another(client: TestClient) -> None:
    card = next(card for card in gallery().cards if card.beside)
    path, beside = gallery().path(card.id), gallery().get(card.beside)
    answer = client.get(f"/{files.address(path)}")
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-cache"
    told = json.loads(gzip.decompress(answer.content))
    assert told.pop("figures") == json.loads(msgspec.json.encode(of_run(gallery().get(card.id), [beside])))
    assert told == json.loads(gallery().get(card.id).to_json())


def test_a_picture_beside_it_is_sent_as_it_is_and_what_is_not_there_is_not_found(client: TestClient) -> None:
    path = gallery().path(gallery().cards[0].id)
    picture = path.with_name(path.name.split(".")[0] + ".svg")
    assert client.get(f"/{files.address(picture)}").content == picture.read_bytes()
    for name in (
        "traces/nothing.json.gz",
        "traces/../papers/llada.json",
        "client/0/own/hops.js",
        "client/0/own/%2e%2e.js",
    ):
        assert client.get(f"/{files.PREFIX}/{name}").status_code == 404, name


def test_a_view_beside_a_method_file_is_served_while_its_method_is_known(
    client: TestClient, tmp_path: Path, registry_unchanged: None
) -> None:
    engines.load_method_file(own_record.written(tmp_path))
    answer = client.get(f"/{files.PREFIX}/client/0/own/hops.js")
    assert "floor ${hops.floor}" in answer.text and answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "no-cache"
    (tmp_path / "other.js").write_text("export const a = 1;", "utf-8")
    for name in ("other.js", "my_hops.py", "..%2fmy_hops.js"):  # what nobody declared
        assert client.get(f"/{files.PREFIX}/client/0/own/{name}").status_code == 404, name
