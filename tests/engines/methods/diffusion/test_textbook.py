"""Our base and threshold loops write what the plain textbook loop writes. How long they take is printed by `textbook`,
never tested."""

import pytest

from tests.engines.methods.diffusion.textbook import ours, textbook, tiny_llada


@pytest.fixture(scope="module")
def model():
    return tiny_llada(500, 499)


@pytest.mark.parametrize("threshold", [None, 0.9, 0.4, 0.0])
@pytest.mark.parametrize("block", [8, 24])
def test_outputs_are_those_of_the_textbook_loop(model, block, threshold):
    assert ours(model, [5, 6, 7], 24, block, threshold) == textbook(model, [5, 6, 7], 24, block, threshold)
