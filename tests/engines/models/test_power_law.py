"""The power-law adapter on a small random network: one forward behind a cache, what is counted, what is refused."""

from __future__ import annotations

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.models.adapters.power_law import HFPowerLawLM
from engines.models.mapping import plan
from engines.models.networks.pldr import PLDRConfig, PLDRForCausalLM
from engines.models.tokens import IdTokenizer

IDS = [3, 9, 4, 17, 5]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = PLDRConfig(40, 24, 2, 3, 32, metric_units=2, metric_size=16, max_position_embeddings=16)
    record = ModelRecord("target", "small", "power-law")
    return HFPowerLawLM(PLDRForCausalLM(config), IdTokenizer(40), record, frozenset({2}))


def test_the_plan_of_its_config():
    assert plan({"model_type": "pldr"}, "x").kinds == ("power-law",)


def test_a_whole_text_is_what_the_network_says(model):
    found = model.forward(IDS, last_only=False)
    out = model.model.model(torch.tensor([IDS]))
    assert torch.equal(found.G_LM, out.G[:, 0])
    assert torch.allclose(found.logits, model.model(torch.tensor([IDS])).logits[0], atol=1e-6)
    assert found.A_LM is not None and found.A_LM.shape == found.G_LM.shape == (2, 3, 8, 8)
    assert 0 < found.operator_seconds < found.ended - found.began
    assert torch.allclose(model.forward(IDS).logits[0], found.logits[-1], atol=1e-6)


def test_rows_behind_a_cache_are_those_of_the_whole_text_with_that_g(model):
    cache = model.new_cache(8)
    G = model.forward(IDS[:3], cache).G_LM
    later = model.forward(IDS[3:], cache, last_only=False)  # two at once, G of the cache's A
    whole = model.forward(IDS, G=G, last_only=False)
    assert torch.equal(later.G_LM, G) and whole.A_LM is None and whole.operator_seconds == 0
    assert torch.allclose(later.logits, whole.logits[3:], atol=1e-5)


def test_cropping_forgets_rows_and_keeps_g(model):
    cache = model.new_cache(8)
    first = model.forward(IDS, cache)
    cache.crop(3)
    assert cache.length == 3 and torch.equal(model.forward([7], cache).G_LM, first.G_LM)
    cache.keep(2, [1])
    assert cache.length == 3
    with pytest.raises(ValueError, match="holds 3 positions; it cannot be cropped to 4"):
        cache.crop(4)


def test_what_is_counted(model):
    meter = Meter()
    view = counted(model, "target", meter)
    meter.forbidden = {5: {int(view.forward(IDS).logits.argmax())}}
    assert int(view.forward(IDS).logits.argmax()) not in meter.forbidden[5]
    assert (meter.forwards, meter.tokens_fed, meter.work) == ({"target": 2}, 10, {"target": 20})
    assert view.beside(IDS).logits.isinf().sum() == 1 and meter.forwards == {"target": 2}
    assert view.operator_bytes == 2 * 2 * 3 * 64 * 4 and view.position_bytes == 2 * 2 * 24 * 4


def test_what_is_refused(model):
    with pytest.raises(ValueError, match="no token was fed"):
        model.forward([])
    with pytest.raises(UserError, match="small has 16 positions and position 16 was fed"):
        model.forward([1] * 17)
    with pytest.raises(ValueError, match=r"\[2, 3, 8, 8\] is needed"):
        model.forward(IDS, G=torch.eye(8))
    with pytest.raises(UserError, match="cache"):
        model.forward(IDS, model.new_cache(4))
