"""The lossless claim on the real chat model, where it is installed: each part trained for it, each way to draft."""

import json
from functools import cache
from pathlib import Path

import pytest

import engines
from engines.models.parts import folder_of

PROMPTS = Path(__file__).resolve().parents[4] / "assets" / "tasks" / "chat_prompts.json"
KINDS = next(one.kinds for one in engines.list_models() if one.name == "smollm2")
# A table of tokens, copies of the text, a draft model, its tree, layers that attend at once. The methods that are not
# named draft in one of these ways; they are tested on tables and on the tiny models.
WITHOUT_PARTS = ("token-recycling", "prompt-lookup", "speculative-sampling", "rsd", "easyspec")


def trained(info):
    """Whether the method has parts, and all of them for SmolLM2."""
    return info.parts and all((folder_of(part, "smollm2") / "card.json").is_file() for part in info.parts.values())


ASKED = [
    info
    for info in engines.list_methods()
    if info.lossless
    and info.baseline
    and next(iter(info.needs.values())) in KINDS  # SmolLM2 has no experts
    and (info.slug in WITHOUT_PARTS or trained(info))
]


def written(slug):
    """The first tokens of its answer."""
    model = engines.load_model("smollm2", dtype="float32")
    prompt = json.loads(PROMPTS.read_text("utf-8"))["prompts"][0]["prompt"]
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16}, detail="light")


control = cache(written)  # the baseline's run is the same for all


@pytest.mark.smollm2
@pytest.mark.parametrize("info", ASKED, ids=lambda info: info.slug)
def test_float32_text_equals_the_baseline(info):
    ours, plain = written(info.slug), control(info.baseline)
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards
