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


def share(seen, out):
    trace = seen.trace(out)
    calls = trace.totals.model_seconds + trace.totals.method_seconds
    return trace.end.record_seconds / calls


@pytest.mark.parametrize("detail", LINES)
def test_generate(chat, text, detail):
    def loop():
        return chat.model.generate(
            text, attention_mask=torch.ones_like(text), max_new_tokens=10, min_new_tokens=10, do_sample=False
        )

    bare, found = loop(), []
    for _ in range(3):
        with engines.watch(chat, detail=detail) as seen:
            out = loop()
        assert torch.equal(bare, out)
        found.append(share(seen, out))
    assert min(found) <= LINES[detail]


@pytest.mark.parametrize("detail", LINES)
def test_a_loop_over_a_board(chat, text, detail):
    mask, found = 49151, []
    strangers.llada(chat.model, text, length=32, block=32, steps=1, mask_id=mask)
    for _ in range(3):
        with engines.watch(chat.model, kind="masked", mask_id=mask, detail=detail) as seen:
            out = strangers.llada(chat.model, text, length=32, block=32, steps=4, mask_id=mask)
        found.append(share(seen, out))
    assert min(found) <= LINES[detail]
