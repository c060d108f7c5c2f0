"""A GGUF file on the page: its path in the field of the model, and what is said of its rows before the run."""

import pytest
import torch
from playwright.sync_api import expect

from tests import gguf_files


@pytest.fixture(autouse=True)
def one_thread():
    """llama.cpp's threads spin where another process has the core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_file_is_named_by_its_path_and_two_methods_write_one_text(visit, tmp_path):
    path, _ = gguf_files.tiny_llama(tmp_path / "tiny.gguf")
    screen = visit()
    for slot, slug in enumerate(("greedy", "token-recycling")):
        screen.method(slot, slug)
        screen.model(slot, str(path))
    screen.page.locator("#prompt textarea").fill("the and then the other")
    screen.press("Run")
    screen.wait(1, "done", 60)
    expect(screen.player(1).locator(".dx-board").first).to_be_visible()
    texts = [screen.player(slot).locator(".dx-board").first.inner_text() for slot in (0, 1)]
    assert texts[0] and texts[0] == texts[1]
