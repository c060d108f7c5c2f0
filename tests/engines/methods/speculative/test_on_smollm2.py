"""The lossless claim on the real chat model, where it is installed: each part trained for it, each way to draft."""

import json
from functools import cache
from pathlib import Path

import pytest

import engines
from engines.models.parts import folder_of

PROMPTS = Path(__file__).resolve().parents[4] / "assets" / "tasks" / "chat_prompts.json"
KINDS = next(one.kinds for one in engines.list_models() if one.name == "smollm2")
# each drafts in another way; the methods not named draft in one of these, and are tested on tables and tiny models
WITHOUT_PARTS = ("token-recycling", "prompt-lookup", "speculative-sampling", "rsd", "easyspec")


def asked(info):
    """Whether it is lossless, and has no parts or all of them for SmolLM2, which has no experts."""
    trained = info.parts and all((folder_of(part, "smollm2") / "card.json").is_file() for part in info.parts.values())
    known = info.lossless and info.baseline and next(iter(info.needs.values())) in KINDS
    return known and (info.slug in WITHOUT_PARTS or trained)


@cache  # the baseline's run is the same for all
def written(slug):
    """The first tokens of its answer."""
    model = engines.load_model("smollm2", dtype="float32")
    prompt = json.loads(PROMPTS.read_text("utf-8"))["prompts"][0]["prompt"]
    return engines.run(slug, model, prompt, params={"max_new_tokens": 16}, detail="light")


@pytest.mark.smollm2
@pytest.mark.parametrize("info", [*filter(asked, engines.list_methods())], ids=lambda info: info.slug)
def test_float32_text_equals_the_baseline(info):
    ours, plain = written(info.slug), written(info.baseline)
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards
