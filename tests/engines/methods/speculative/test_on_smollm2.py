"""The lossless claim on the real chat model, where it is installed: float32, the bundled prompts."""

import json
from functools import lru_cache
from pathlib import Path

import pytest

import engines
from engines.models.parts import folder_of

PROMPTS = json.loads((Path(__file__).resolve().parents[4] / "assets" / "tasks" / "chat_prompts.json").read_text())[
    "prompts"
]
KINDS = next(one.kinds for one in engines.list_models() if one.name == "smollm2")
LOSSLESS = [
    info
    for info in engines.list_methods()
    if info.lossless and info.baseline and next(iter(info.needs.values())) in KINDS  # SmolLM2 has no experts
]


def pairs(info):
    """Whether SmolLM2 has a companion, or a trained part, for every other role of the method."""
    parts = all((folder_of(part, "smollm2") / "card.json").is_file() for part in info.parts.values())
    return parts and all(engines.companion("smollm2", role) for role in list(info.needs)[1:] if role not in info.parts)


def written(slug, prompt, **extra):
    """32 tokens of a method."""
    model = engines.load_model("smollm2", dtype="float32")
    return engines.run(slug, model, prompt, params={"max_new_tokens": 32, **extra}, detail="light")


controlled = lru_cache(written)  # the control's run is the same for all that are compared with it


@pytest.mark.smollm2
@pytest.mark.parametrize("info", LOSSLESS, ids=lambda info: info.slug)
def test_float32_text_equals_the_baseline(info):
    if not pairs(info):
        pytest.skip("no second model for SmolLM2 is here")
    for entry in PROMPTS[::3]:
        untrained = (
            {"head": "confidence"} if any(p.name == "head" for p in info.params) else {}
        )  # no head was trained for this pair
        ours = written(info.slug, entry["prompt"], **untrained)
        control = controlled(info.baseline, entry["prompt"])
        assert ours.output_ids == control.output_ids
        assert ours.totals.forwards_by_role["target"] <= control.totals.forwards
