"""Every recorded run has its picture beside it."""

from __future__ import annotations

import pytest

from explorer.export.thumbs import LARGEST, beside, picture
from explorer.runs.gallery import gallery


@pytest.mark.parametrize("name", [card.id for card in gallery().cards])
def test_a_recorded_run_has_its_picture(name: str) -> None:
    file = beside(gallery().path(name))
    assert file.is_file(), "run: python -m explorer.export.thumbs"
    text = file.read_text("utf-8")
    assert len(text.encode()) <= LARGEST
    assert text == picture(gallery().get(name)), "it is not that of this run; run: python -m explorer.export.thumbs"
