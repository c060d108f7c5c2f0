"""What watching costs on SmolLM2: the time in the hooks against that of the loop, the best of three (it is one machine
with others on it)."""

import pytest
import torch

import engines
from tests.engines.watching import strangers

pytestmark = [pytest.mark.smollm2, pytest.mark.timing]
LINES = {"full": 0.10, "light": 0.03}


@pytest.fixture(scope="module")
def chat():
    return engines.load_model("smollm2")


@pytest.fixture(scope="module")
def text(chat):
    return torch.tensor([chat.tokenizer.encode_prompt("Name three colours.")])


def least(detail, watched, loop, **told):
    """The share of the hooks in the best of three runs, after one that is not watched."""
    bare, found = loop(), []
    for _ in range(3):
        with engines.watch(watched, detail=detail, **told) as seen:
            out = loop()
        assert torch.equal(bare, out)
        trace = seen.trace(out)
        found.append(trace.end.record_seconds / (trace.totals.model_seconds + trace.totals.method_seconds))
    return min(found)


@pytest.mark.parametrize("detail", LINES)
def test_what_a_watch_costs(chat, text, detail):
    mask, usual = 49151, {"max_new_tokens": 10, "min_new_tokens": 10, "do_sample": False}

    def over_a_board():
        return strangers.llada(chat.model, text, length=32, block=32, steps=4, mask_id=mask)

    def of_transformers():
        return chat.model.generate(text, attention_mask=torch.ones_like(text), **usual)

    assert least(detail, chat, of_transformers) <= LINES[detail]
    assert least(detail, chat.model, over_a_board, kind="masked", mask_id=mask) <= LINES[detail]
