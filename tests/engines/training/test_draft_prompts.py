"""The training prompts are a closed language, and no evaluation prompt is in it."""

import random
from collections import Counter
from functools import cache
from pathlib import Path

from engines.training.smollm2.draft_prompts import CLASSES, SLOTS, TEMPLATES, draw, expand, pattern
from engines.training.smollm2.draft_rows import usable
from engines.training.smollm2.draft_text import evaluation_prompts

TASKS = Path(__file__).resolve().parents[3] / "assets" / "tasks"
language = cache(pattern)  # some are long, and take a tenth of a second to compile


def test_every_class_has_bundled_prompts() -> None:
    counts = Counter(p["class"] for p in evaluation_prompts(TASKS))
    assert (
        set(CLASSES) == set(TEMPLATES) and set(counts) == {*CLASSES, "copy-heavy editing"} and min(counts.values()) >= 3
    )  # the last for the bench alone
    texts = [p["prompt"] for p in evaluation_prompts(TASKS)]
    assert len(set(texts)) == len(texts) and max(len(text.split()) for text in texts) <= 120  # some 200 tokens


def test_what_a_template_writes_is_in_its_language() -> None:
    rng = random.Random(1)
    for name in CLASSES:
        for template in TEMPLATES[name]:
            for stories in ([], ["Once there was a fox. It slept."]):
                assert language(template).fullmatch(expand(template, rng, stories)), template
    assert {draw(rng, [])[0] for _ in range(200)} == set(CLASSES)
    assert "{" not in "".join(draw(rng, [])[1] for _ in range(200) if "{" not in "".join(SLOTS["function"]))


def test_no_template_can_write_an_evaluation_prompt_and_prompts_that_quote_one_are_dropped() -> None:
    asked = [p["prompt"] for p in evaluation_prompts(TASKS)]
    templates = [template for name in CLASSES for template in TEMPLATES[name]]
    assert not [(prompt, one) for one in templates for prompt in asked if language(one).fullmatch(prompt)]
    answers = [{"prompt": "Tell me about bees."}, {"prompt": f"Hi!  {asked[0].upper()}\n"}]
    assert usable(answers, asked[:1]) == answers[:1]
