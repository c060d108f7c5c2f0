"""What a study cannot measure is refused in a sentence that says what to give."""

import pytest

import engines

REFUSED = [
    ("attention-schedule", {"contexts": "4096; 5"}, "holds what is not a number"),
    ("attention-schedule", {"contexts": ""}, "give 1 to 64 numbers"),
    ("attention-schedule", {"contexts": "0, 100"}, "from 1 to 1048576"),
    ("coherence-of-samplers", {"model": "tiny-dlm"}, "left to right"),
    ("confident-steps", {"problems": 20, "model": "tiny-ar-s"}, "does not write marked steps; give tiny-reasoner"),
    ("distorted-words", {"model": "tiny-ar-s"}, "'tiny-ar-s' is a causal model; give a reader of word images"),
    ("early-guesses", {"model": "tiny-dlm"}, "layered"),
    ("early-guesses", {"prompts": " | "}, "no prompt was given"),
    ("early-guesses", {"model": "tiny-ar-s"}, "no draft model"),
    ("encode-once", {"lengths": "x"}, "holds what is not a number"),
    ("encode-once", {"lengths": "2"}, "does not fit"),
    ("encode-once", {"width": 100}, "cannot be shared by 8 heads"),
    ("expert-cache", {"model": "tiny-dlm"}, "masked model"),
    ("expert-cache", {"model": "tiny-ar-l"}, "domain-experts tiny-ar-l"),
    ("expert-unions", {"models": "tiny-moe", "chunk": 200, "tokens": 4}, "longer than the longest text"),
    ("expert-unions", {"models": "tiny-ar-m"}, "a moe model is needed"),
    ("expert-unions", {"models": " | "}, "no model was given"),
    ("expert-unions", {"prompts": " "}, "no prompt was given"),
    ("expert-unions", {"trace": "/nowhere/none.json"}, "cannot be read"),
    ("first-finish", {"model": "tiny-dlm", "problems": 10}, "causal"),
    ("fuzzy-draft", {"model": "tiny-dlm"}, "layer by layer"),
    ("fuzzy-draft", {"prompts": " | "}, "no prompt was given"),
    ("kept-operators", {"model": "tiny-ar-m"}, "a power-law model is needed"),
    ("lexical-units", {"model": "tiny-ar-m", "tasks": "copy, cook"}, "the task 'cook' was given; choose some of"),
    ("memory-budget", {"model": "tiny-dlm"}, "masked model"),
    ("memory-budget", {"prompts": "|"}, "no prompt was given"),
    ("needles-in-documents", {"model": "tiny-ar-l", "characters": 4000, "documents": 2}, "512"),
    ("needles-in-documents", {"model": "tiny-dlm"}, "not a causal model"),
    ("parallelbench", {"model": "tiny-ar-s", "task": "copy", "prompts": 1}, "benchmark runs on masked models"),
    ("regret-of-bets", {"model": "tiny-dlm"}, "is a masked model; a draft is verified by a causal one"),
    ("regret-of-bets", {"model": "tiny-ar-s", "prompts": " | "}, "no prompt was given"),
    ("row-budget", {"model": "tiny-dlm"}, "masked model"),
    ("row-budget", {"model": "tiny-ar-s"}, "training prompt-tokens tiny-ar-s"),
    ("rpc-errors", {"model": "tiny-dlm"}, "masked model"),
    ("rpc-errors", {"task": "sort"}, "subtract, add, problem, chain"),
    ("scaling-laws", {"points": 1}, "1 point is given"),
    ("scene-gate", {"model": "tiny-ar-s"}, "'tiny-ar-s' is a causal model; give a reader of word images"),
    ("search-budget", {"model": "tiny-dlm", "problems": 10}, "masked model"),
    ("search-budget", {"model": "tiny-ar-s", "problems": 10}, "engines.training prm"),
    ("slot-unions", {"prompts": " | "}, "no prompt was given"),
    ("slot-unions", {"model": "tiny-moe"}, "a memory model is needed"),
    ("threshold-from-code", {"model": "nothing", "functions": 4}, "nothing"),
    ("threshold-from-code", {"model": "tiny-dlm", "functions": 4}, "is a masked model; .* give a causal one"),
]


@pytest.mark.parametrize(("slug", "inputs", "said"), REFUSED)
def test_what_a_study_cannot_measure_is_a_sentence(slug, inputs, said):
    with pytest.raises(engines.UserError, match=said):
        engines.study(slug, **inputs)
