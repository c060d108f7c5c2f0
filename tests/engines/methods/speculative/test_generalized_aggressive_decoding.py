"""Generalized aggressive decoding: the greedy text, what GAD++ takes, calls. A block's cut is a golden case."""

import pytest
import torch

import engines
from tests.engines.fakes import TableCausal, TableMasked

V = 7


def pair(seed=0, eos_ids=(), memory=2):
    """A verifier and a drafter with the same tokens, of which the last is the mask."""
    filler = TableMasked(vocab_size=V, seed=seed + 50, eos_ids=eos_ids)
    target = TableCausal(vocab_size=V, seed=seed, memory=memory, eos_ids=eos_ids, never=(V - 1,))
    target.tokenizer = filler.tokenizer
    return {"target": target, "filler": filler}


def decode(models, slug="generalized-aggressive-decoding", **params):
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 24, **params})


@pytest.mark.parametrize("canvas", ["block", "answer"])
@pytest.mark.parametrize("k", [1, 5, 25])
def test_greedy_acceptance_gives_the_greedy_text(canvas, k):
    kept = 0
    for seed in range(4):
        models = pair(seed, eos_ids=(4,) if seed % 2 else (), memory=None if seed > 1 else 2)
        ours, plain = decode(models, k=k, canvas=canvas), decode(models["target"], "greedy")
        strict = decode(models, k=k, canvas=canvas, accept="gad++", beta=1, tau=0.0)
        assert ours.output_ids == plain.output_ids == strict.output_ids
        for step in ours.steps:
            n = int(step.facts["accepted"])
            own = "correction" if n < step.facts["drafted"] else "bonus" if n else "greedy"
            assert step.commits.causes == ["accepted"] * n + [own] * (len(step.commits.tokens) - n)
            kept += n
    assert kept > 3


def test_one_forward_of_each_model_per_block_and_the_cache_holds_the_text():
    models = pair(1)
    trace = decode(models, k=5)
    text = list(trace.header.prompt_ids)
    for step, (cached, fed) in zip(trace.steps, models["target"].calls, strict=True):
        block = step.tree.tokens[1:]
        assert cached + fed == [*text, *block] and len(cached) in (0, len(text) - 1)
        assert step.forwards == {"target": 1, **({"filler": 1} if block else {})}
        if block:
            z = models["filler"](torch.tensor([*text, *[V - 1] * len(block)]))[len(text) :]
            assert z.argmax(-1).tolist() == block
        text += step.commits.tokens


def test_the_whole_answer_as_canvas_shows_the_drafter_more_masks(monkeypatch):
    ask, seen = TableMasked.__call__, []
    monkeypatch.setattr(TableMasked, "__call__", lambda self, x: (seen.append(len(x)), ask(self, x))[1])
    decode(pair(2), k=3, canvas="answer", max_new_tokens=12)
    assert set(seen) == {3 + 12}


def test_with_everything_allowed_every_block_is_taken_whole():
    models = pair(3)
    models["target"].table.rows.clamp_(-4, 4)
    trace = decode(models, k=4, accept="gad++", beta=10, tau=10.0)
    assert all(s.facts["accepted"] == s.facts["drafted"] for s in trace.steps)
    relaxed = [c for s in trace.steps for c in s.commits.causes].count("relaxed")
    assert relaxed == sum(s.facts["relaxed"] for s in trace.steps) > 3
    assert trace.output_ids != decode(models["target"], "greedy").output_ids
    drafted = [a for s in trace.steps for a in s.commits.authors]
    assert drafted.count("filler") == sum(s.facts["accepted"] for s in trace.steps)


def test_an_end_mark_in_the_block_ends_the_text():
    trace = decode(pair(1, eos_ids=(0, 1, 2, 3)), k=6, accept="gad++", beta=10, tau=10.0)
    ends = [t in (0, 1, 2, 3) for t in trace.output_ids]
    assert ends == [False] * (len(ends) - 1) + [True] and len(ends) <= 7


def test_a_target_without_a_drafter_is_refused():
    with pytest.raises(engines.UserError, match="needs a second model for the role 'filler'"):
        engines.run("generalized-aggressive-decoding", "tiny-ar-s", "copy: Ada")
