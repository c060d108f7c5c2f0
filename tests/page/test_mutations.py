"""A sample of the hostile traces and records; `python -m tests.page.mutations` takes all two thousand."""

import base64
import json

import pytest

from engines import TraceError, read_trace
from explorer.runs.gallery import gallery
from tests.page.mutations import COUNT, alone

SAMPLE = [*range(3, COUNT - 10, 97), *(COUNT - 10 + place for place in (1, 3, 4, 5, 7))]


@pytest.mark.server
@pytest.mark.slow
def test_the_server_refuses_or_reads_each_within_bounds():
    found = alone(SAMPLE)
    assert len(found) == len(SAMPLE)
    assert [str(one) for one in found if not one.held] == []
    assert any("Opened" in one.said for one in found) and any("not opened" in one.said for one in found)


def test_a_picture_of_many_cells_is_refused():
    read_trace(pictured(256, 256))
    for shape in SHAPES:
        with pytest.raises(TraceError, match="65,536 cells, 4,096 in a row or column"):
            read_trace(pictured(*shape))


SHAPES = [(1, 300_000), (300_000, 1), (800, 800), (4097, 4)]


def pictured(rows: int, columns: int) -> str:
    """A recorded run whose first picture has that size."""
    card = next(card for card in gallery().cards if card.family == "multimodal")
    body = json.loads(gallery().get(card.id).to_json())
    media = next(step["media"] for step in body["steps"] if "media" in step)
    data = base64.b64encode(b"\1\0" * rows * columns).decode()
    media |= {"codes": {"dtype": "u2", "shape": [rows, columns], "data": data}, "guesses": []}
    return json.dumps(body)
