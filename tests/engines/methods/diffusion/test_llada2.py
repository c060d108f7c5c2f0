"""LLaDA2.0 and LLaDA2.1, of which the official cases are in `tests/engines/golden`: what no case shows, and edits by a
person."""

from functools import cache

import torch

import engines
from engines.methods.diffusion._editing import Edits, penalised
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import board

FOLDER = GOLDEN / "diffusion2026" / "llada2" / "checkpoint"
MASK, B = 127, 8
PROMPT = [40, 55, 80, 26, 11, 117, 27, 53, 36, 14, 52]


@cache
def model():
    loaded = engines.load_model(FOLDER, kind="block", block_size=B, dtype="float32")
    loaded.eos_ids = frozenset()
    return loaded


def decode(slug, edits=(), **params):
    return engines.run(slug, model(), PROMPT, params={"max_new_tokens": 16, **params}, edits=edits)


def looks(trace):
    """Steps that look at the open block."""
    return [step for step in trace.steps if any(span.kind == "block" for span in step.spans)]


def test_a_finished_block_is_fed_once_and_takes_no_more_forwards_than_steps():
    for steps in (1, 3, 8):
        spans = [step.spans[0].start for step in looks(decode("llada2", threshold=1.01, steps=steps))]
        assert max(spans.count(a) for a in set(spans)) == min(steps, B)
    trace = decode("llada21", threshold=0.5, max_post_steps=2)
    stored = [(s.start, s.end) for step in trace.steps for s in step.spans if (s.kind, s.label) == ("fed", "stored")]
    assert stored == [(0, 8), (8, 16), (16, 24)]
    assert all(step.tokens_fed == B for step in looks(trace))


def test_the_record_says_what_became_of_each_position():
    trace = decode("llada21", threshold=0.5, editing_threshold=0.3, max_post_steps=4)
    x = {}
    seen = set()
    for step in looks(trace):
        edits = Edits(**step.records["edits"])
        wrote = dict(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else {}
        a = step.spans[0].start
        assert edits.positions == list(range(max(a, len(PROMPT)), a + B)), "the prompt is never looked at"
        for i, q in enumerate(edits.positions):
            stood, fate = edits.stood[i], edits.fates[i]
            assert stood == x.get(q, [MASK])[-1] and (q in wrote) == (fate in ("written", "changed"))
            assert (fate in ("written", "open")) == (stood == MASK)
            assert edits.before[i] == x.get(q, [MASK])[:-1].count(edits.says[i])
            line = edits.threshold if stood == MASK else edits.editing_threshold
            if fate in ("doubted", "open"):
                assert edits.chances[i] <= line + 1e-6
            if fate == "changed":
                assert edits.chances[i] > line and edits.says[i] != stood
            if fate == "kept":
                assert edits.says[i] == stood
            seen.add(fate)
        for q, token in wrote.items():
            x.setdefault(q, [MASK]).append(token)
    assert seen >= {"written", "changed", "kept", "doubted", "open"}


def test_the_penalty_is_off_the_logit_of_the_token_to_the_left():
    z, block = torch.zeros(3, 5), torch.tensor([4, 2, 2])
    assert penalised(z, block, 3.0).tolist() == [[0] * 5, [0, 0, 0, 0, -3], [0, 0, -3, 0, 0]]
    assert penalised(z, block, 0.0) is z and not z.any(), "the model's logits stay what they are"


def test_a_person_may_change_what_is_finished():
    """The blocks from there on are fed again, and looked at again."""
    whole = decode("llada21", threshold=0.5, max_post_steps=2)
    late = next(step.index for step in whole.steps if any(s.kind == "block" and s.start == 16 for s in step.spans))
    q = len(PROMPT)
    trace = decode("llada21", threshold=0.5, max_post_steps=2, edits=[(late, engines.Edit(force={q: 60}))])
    after = [step.spans[0].start for step in looks(trace) if step.index > late]
    assert after[0] == 8 and set(after) == {8, 16, 24} and MASK not in board(trace)
    assert board(trace)[0] == 60, "what a person forced is not replaced"


def test_a_whole_board_is_edited_by_the_same_rule():
    """tiny-dlm sees its board as a whole; a square that was written in one forward is repaired by edits alone."""
    params = {"max_new_tokens": 32, "threshold": 0.2, "editing_threshold": 0.9}
    trace = engines.run("token-editing", "tiny-dlm", "latin: B S I", params=params)
    assert len(trace.steps[0].commits.positions) == 16 and trace.text == "B I S\nS B I\nI S B"
    assert sum(step.facts["changed"] for step in trace.steps) > 0
