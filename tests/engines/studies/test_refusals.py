"""What a study cannot measure is refused in a sentence that says what to give."""

import pytest

import engines

REFUSED = [
    ("parallelbench", {"model": "tiny-ar-s", "task": "copy", "prompts": 1}, "benchmark runs on masked models"),
    ("row-budget", {"model": "tiny-dlm"}, "masked model"),
    ("row-budget", {"model": "tiny-ar-s"}, "training prompt-tokens tiny-ar-s"),
    ("rpc-errors", {"model": "tiny-dlm"}, "masked model"),
    ("rpc-errors", {"task": "sort"}, "subtract, add, problem, chain"),
    ("scaling-laws", {"points": 1}, "1 point is given"),
    ("threshold-from-code", {"model": "nothing", "functions": 4}, "nothing"),
    ("threshold-from-code", {"model": "tiny-dlm", "functions": 4}, "is a masked model; .* give a causal one"),
]


@pytest.mark.parametrize(("slug", "inputs", "said"), REFUSED)
def test_what_a_study_cannot_measure_is_a_sentence(slug, inputs, said):
    with pytest.raises(engines.UserError, match=said):
        engines.study(slug, **inputs)
