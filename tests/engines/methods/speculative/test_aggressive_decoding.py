"""Input-guided aggressive decoding: golden steps of the loop itself, and spans that say what was copied."""

import json

import pytest
import torch

import engines
from engines.methods.speculative.aggressive_decoding import source_of
from engines.models.tokenizers.tokens import IdTokenizer
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import TableCausal

X = [1, 4, 2, 0, 3, 1, 2]


class Scripted(TableCausal):
    """Writes a given text behind a prompt of `start` tokens, whatever stands there."""

    def __init__(self, start, text, **options):
        super().__init__(**options)
        self.start, self.text = start, text

    def logits(self, *contexts):
        wanted = [self.text[min(max(0, len(c) - self.start), len(self.text) - 1)] for c in contexts]
        return torch.nn.functional.one_hot(torch.tensor(wanted), self.vocab_size).float() * 9


def edited(text, **params):
    """A run that writes this text where X was given."""
    return decode(Scripted(len(X), [*text, 5], vocab_size=6, eos_ids=(5,)), X, **params)


def decode(model, prompt, **params):
    return engines.run("aggressive-decoding", model, prompt, params={"max_new_tokens": 24, **params})


def test_the_loop_takes_the_golden_steps():
    """The decode loop itself, on a model that writes the given text."""
    for case in json.loads((GOLDEN / "speculative" / "iad_spans.json").read_text())["cases"]:
        given, wanted = case["in"], case["out"]
        size = max(*given["source"], *given["greedy_output"]) + 1
        model = Scripted(len(given["source"]), given["greedy_output"], vocab_size=size, eos_ids=(given["eos"],))
        trace = decode(model, given["source"], max_new_tokens=given["max_len"], length=256)
        steps = [
            {
                "mode": "copy" if s.facts["drafted"] else "single",
                "source_index": s.facts["source_index"],
                "drafted": s.facts["drafted"],
                "accepted": s.facts["accepted"],
                "emitted": s.commits.tokens,
            }
            for s in trace.steps
        ]
        assert steps == wanted["steps"] and trace.output_ids == wanted["output"]
        assert trace.totals.forwards == wanted["forward_passes"]


def test_an_unchanged_text_takes_one_pass_and_a_bound_takes_more():
    assert edited(X).totals.forwards == 1 and edited(X).output_ids == [*X, 5]
    assert edited(X, length=3).steps[0].facts["drafted"] == 3
    assert edited(X, length=0).totals.forwards == 8


def test_the_spans_are_what_was_pasted():
    trace = edited([1, 4, 0, 3, 1])
    text, seen = list(trace.header.prompt_ids), 0
    for step in trace.steps:
        pasted = step.tree.tokens[1:]
        for span in step.spans:
            assert span.kind == "match" and text[span.start : span.end] == pasted
            assert span.start == step.facts["source_index"]
            seen += 1
        assert bool(step.spans) == bool(pasted)
        text += step.commits.tokens
    assert seen == 2 and [step.facts["anchor"] for step in trace.steps[:2]] == [0, 1]


def test_the_source_begins_behind_the_mark_in_the_users_turn():
    ids = IdTokenizer(20, {19: "<turn>"})
    assert source_of(ids, [1, 2, 3, 4], "") == ([1, 2, 3, 4], 0, 0)
    assert source_of(ids, [1, 2, 3, 4, 19, 7, 8], "2") == ([3, 4], 2, 0)  # what another method wrote is no source
    for prompt, after in (([1, 2], "2"), ([19, 1], ""), ([19], ":")):
        with pytest.raises(engines.UserError, match="no source to copy from; write the text"):
            source_of(ids, prompt, after)
    tiny = engines.load_model("tiny-ar-l", dtype="float32").tokenizer
    prompt = tiny.encode_prompt("grammar: He are cold.")
    source = source_of(tiny, prompt, ":")
    assert tiny.decode(source.x) == " He are cold." and source.same == 0
    assert prompt[source.start : source.start + len(source.x)] == source.x
    with pytest.raises(engines.UserError, match="no text after ':'"):
        decode("tiny-ar-l", "grammar: ")


def test_a_first_word_that_the_prompt_spells_otherwise_is_pasted_and_has_no_place():
    class Spaced(IdTokenizer):
        """10 + i is the word i with a space before it; an answer begins without one."""

        def decode(self, tokens):
            return "".join(f" {t - 10}" if t >= 10 else f"{t}" for t in tokens if t not in self.special)

        def encode(self, text):
            words = text.split(" ")
            return [int(w) if i == 0 and w else 10 + int(w) for i, w in enumerate(words) if w]

    source = source_of(Spaced(30), [1, 17, 13, 14], "7")
    assert source == ([3, 14], 2, 1)
    assert [(s.start, s.end) for s in source.span(0, 2)] == [(3, 4)] and source.span(0, 1) == []
