"""LLaDA2.0 and LLaDA2.1: the official cases are in `tests/engines/golden`; here a loop without a cache, what no case
shows, and edits by a person."""

from functools import cache

import pytest
import torch

import engines
from engines.methods.diffusion._editing import Edits, Past, penalised
from tests.engines.conftest import GOLDEN
from tests.engines.fakes import board

FOLDER = GOLDEN / "diffusion2026" / "llada2" / "checkpoint"
MASK, B = 127, 8
PROMPTS = {
    "short": [17, 124, 76],
    "whole block": [*range(5, 13)],
    "long": [40, 55, 80, 26, 11, 117, 27, 53, 36, 14, 52],
}


@cache
def model(name="llada2"):
    if name == "tiny-blockdlm":
        return engines.load_model(name, dtype="float32")
    loaded = engines.load_model(FOLDER, kind="block", block_size=B, dtype="float32")
    loaded.eos_ids = frozenset()
    return loaded


def decode(slug, prompt="long", edits=(), of="llada2", **params):
    ids = PROMPTS.get(prompt, prompt)
    return engines.run(slug, model(of), ids, params={"max_new_tokens": 16, **params}, edits=edits)


def looks(trace):
    """Steps that look at the open block."""
    return [step for step in trace.steps if any(span.kind == "block" for span in step.spans)]


def writes(step):
    """What a step wrote, position -> token."""
    return dict(zip(step.commits.positions, step.commits.tokens, strict=True)) if step.commits else {}


def reference(net, prompt, length, theta, edit, most, size):
    """Token editing with a forward over the whole text each time: nothing is stored, nothing shared with the method.
    edit: a threshold, or None for LLaDA2.0, whose blocks end once they are full. Returns the board and each forward's
    writes."""
    total = -(-(len(prompt) + length) // size) * size
    x, made = torch.tensor(prompt + [net.mask_id] * (total - len(prompt))), []
    for a in range(len(prompt) // size * size, total, size):
        post = 0
        while True:
            masks = [q for q in range(a, a + size) if x[q] == net.mask_id]
            post += not masks
            if post > most or (edit is None and not masks):
                break
            p, tokens = net(x[: a + size]).softmax(-1).max(-1)
            sure = [q for q in masks if p[q] > theta]
            write = sure or sorted(masks, key=lambda q: -float(p[q]))[:1]
            others = [q for q in range(max(a, len(prompt)), a + size) if q not in masks and tokens[q] != x[q]]
            change = [q for q in others if edit is not None and p[q] > edit]
            for q in [*write, *change]:
                x[q] = tokens[q]
            made.append({q: int(tokens[q]) for q in [*write, *change]})
            if not masks and not change:
                break
    return x.tolist(), made


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("of", ["llada2", "tiny-blockdlm"])  # rows in place, and rows that predict the next token
@pytest.mark.parametrize(("slug", "edit"), [("llada2", None), ("llada21", 0.5)])
def test_what_is_stored_changes_nothing(slug, edit, of, prompt):
    net, ids = model(of), PROMPTS[prompt] if of == "llada2" else [token % 60 for token in PROMPTS[prompt]]
    params = {"threshold": 0.6, **({"steps": net.block_size} if edit is None else {"editing_threshold": edit})}
    if edit is not None:
        params |= {"max_post_steps": 4, "eos_early_stop": False}
    trace = engines.run(slug, net, ids, params={"max_new_tokens": 16, **params})
    x, made = reference(net, ids, 16, 0.6, edit, 4, net.block_size)
    ended = slug == "llada2" and any(token in net.eos_ids for token in trace.output_ids)
    got = [writes(step) for step in looks(trace)]
    assert got == made[: len(got)] and (ended or (len(got) == len(made) and board(trace) == x[len(ids) :]))


def test_a_finished_block_is_fed_once():
    trace = decode("llada21", threshold=0.5, max_post_steps=2)
    stored = [(s.start, s.end) for step in trace.steps for s in step.spans if (s.kind, s.label) == ("fed", "stored")]
    assert stored == [(0, 8), (8, 16), (16, 24)]
    assert all(step.tokens_fed == B for step in looks(trace))


def test_no_block_takes_more_forwards_than_steps():
    for steps in (1, 3, 8):
        spans = [step.spans[0].start for step in looks(decode("llada2", threshold=1.01, steps=steps))]
        assert max(spans.count(a) for a in set(spans)) == min(steps, B)


def test_the_record_says_what_became_of_each_position():
    trace = decode("llada21", threshold=0.5, editing_threshold=0.3, max_post_steps=4)
    x, prompt = {}, PROMPTS["long"]
    seen = set()
    for step in looks(trace):
        edits = Edits(**step.records["edits"])
        wrote = writes(step)
        a = step.spans[0].start
        assert edits.positions == list(range(max(a, len(prompt)), a + B)), "the prompt is never looked at"
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
    q = len(PROMPTS["long"])
    trace = decode("llada21", threshold=0.5, max_post_steps=2, edits=[(late, engines.Edit(force={q: 60}))])
    after = [step.spans[0].start for step in looks(trace) if step.index > late]
    assert after[0] == 8 and set(after) == {8, 16, 24} and MASK not in board(trace)
    assert board(trace)[0] == 60, "what a person forced is not replaced"


def test_an_end_mark_ends_behind_its_block():
    net = model("tiny-blockdlm")
    short, long = (
        engines.run("llada21", net, "sort: Bob, Rosa", params={"max_new_tokens": 48, "eos_early_stop": stop})
        for stop in (True, False)
    )
    assert len(short.steps) < len(long.steps) and short.text == long.text == "Bob Rosa"
    assert net.mask_id in short.output_ids and net.mask_id not in long.output_ids


def test_what_a_position_held_is_counted():
    past = Past(torch.tensor([1, MASK, MASK]), MASK)
    assert past.start == 1
    for token in (5, 6, 5, 6):
        past.see(torch.tensor([1, token, MASK]), None)
    assert (past.times(1, 5), past.times(1, 6), past.times(2, 5)) == (2, 1, 0)


def test_a_whole_board_is_edited_by_the_same_rule():
    """tiny-dlm sees its board as a whole; a square that was written in one forward is repaired by edits alone."""
    params = {"max_new_tokens": 32, "threshold": 0.2, "editing_threshold": 0.9}
    trace = engines.run("token-editing", engines.load_model("tiny-dlm", dtype="float32"), "latin: B S I", params=params)
    assert len(trace.steps[0].commits.positions) == 16 and trace.text == "B I S\nS B I\nI S B"
    assert sum(step.facts["changed"] for step in trace.steps) > 0
    plain = engines.run(
        "token-editing",
        engines.load_model("tiny-dlm", dtype="float32"),
        "latin: B S I",
        params=params | {"editing_threshold": 1.01},
    )
    assert plain.text != trace.text
