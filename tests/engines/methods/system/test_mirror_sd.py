"""Mirror-SD: the target's own text for every exit and width, what is reused, and the clock of a step."""

import itertools

import pytest
import torch

import engines
from engines.core.sampling import distribution, draw
from engines.driver.roles import assign_roles
from tests.engines.fakes import board

MODEL, STORY = "tiny-ar-m", "story: Mia, boat"


def decode(prompt=STORY, slug="mirror-sd", **params):
    model = engines.load_model(MODEL, dtype="float32")
    return engines.run(slug, model, prompt, params={"max_new_tokens": 28, **params})


@pytest.mark.parametrize(
    ("given", "rooting"),
    [
        ({"depth": 0.2, "kappa": 1, "gamma": 1}, "every row"),
        ({"kappa": 16, "gamma": 8}, "every row"),
        ({"kappa": 16, "gamma": 8}, "first row"),
        ({"exits": "raw"}, "first row"),
    ],
)
def test_the_text_is_the_targets_own(given, rooting):
    ours = decode(rooting=rooting, **given)
    assert ours.output_ids == decode(slug="greedy").output_ids == board(ours)
    for length in (1, 2):  # no window behind a guess would have room
        short = decode(max_new_tokens=length, rooting=rooting, **given)
        assert short.output_ids == ours.output_ids[:length] and not any(step.branches for step in short.steps)


def test_calls_of_the_draft_are_those_of_the_draft_model_alone(monkeypatch):
    """The exit's head speaks in the target's own call."""
    models = assign_roles(engines.get_method("mirror-sd").info, engines.load_model(MODEL, dtype="float32"))
    extend, calls = models["draft"].extend, []
    monkeypatch.setattr(models["draft"], "extend", lambda *a, **k: calls.append(1) or extend(*a, **k))
    trace = engines.run("mirror-sd", models, STORY, params={"max_new_tokens": 28})
    assert trace.totals.forwards_by_role == {"draft": len(calls), "target": len(trace.steps)} and calls


def test_drawn_tokens_are_those_of_plain_sampling():
    """A token is accepted where it equals the drawn one, so that both runs draw the same tokens one after another."""
    model, rng = engines.load_model(MODEL, dtype="float32"), torch.Generator().manual_seed(0)
    ours = decode(temperature=1.3)
    ids, cache = list(ours.header.prompt_ids), model.new_cache(100)
    for token in ours.output_ids:
        z = model.extend(ids[cache.length :], cache, last_only=True).logits[0]
        ids.append(draw(distribution(z.double(), 1.3), rng))
        assert ids[-1] == token
    assert sum(step.facts["reused"] for step in ours.steps) > 0


def test_threads_change_nothing_but_the_clock():
    one, other = (decode(execution=e) for e in ("turns", "threads"))
    done = [[(s.facts, s.branches, s.choice) for s in run.steps] for run in (one, other)]
    assert one.output_ids == other.output_ids and done[0] == done[1]
    assert all(i.measured for s in other.steps for i in s.intervals)


@pytest.mark.parametrize("rooting", ["every row", "first row"])
def test_a_window_that_was_prepared_is_what_a_fresh_draft_would_be(rooting):
    """The draft reads the text alone, and its first choices are the window."""
    trace = decode(rooting=rooting, gamma=4, kappa=4)
    draft = engines.load_model(trace.header.models[1].name, dtype="float32", kind="causal")
    text, checked = list(trace.header.prompt_ids), 0
    for step in trace.steps:
        window = step.tree.tokens[1:]
        if not step.facts["fresh"]:
            ids = list(text)
            for token in window:
                assert int(draft.extend(ids, draft.new_cache(len(ids)), last_only=True).logits[0].argmax()) == token
                ids.append(token)
            checked += 1
        text += step.commits.tokens
    assert checked or rooting == "first row"
    few, many = (sum(s.facts["fresh"] for s in decode(kappa=k, gamma=1, depth=0.3).steps) for k in (1, 16))
    assert few > many, "more guesses never miss what fewer hold"


def test_every_window_is_fresh_or_reused_and_the_kept_branch_holds_the_text():
    trace = decode(kappa=4)
    found = 0
    for step, after in itertools.pairwise(trace.steps):
        kept = [one for one in step.branches if one.fate == "chosen"]
        assert len(kept) == (step.choice is not None and step.choice.chosen == "reuse") == (not after.facts["fresh"])
        assert step.facts["branch_tokens"] == step.facts["reused"] + step.facts["wasted"]
        assert {one.parent for one in step.branches} <= {-1} if step.facts["fresh"] else True
        if kept:
            at = kept[0].length - len(kept[0].tokens)  # counted in the whole text
            written = (trace.header.prompt_ids + trace.output_ids)[at:]
            assert kept[0].tokens[0] == written[0]
            assert kept[0].tokens[-int(step.facts["reused"]) :][: len(after.tree.tokens) - 1] == after.tree.tokens[1:]
            found += 1
    assert found


def test_a_fork_forgets_what_was_prepared():
    trace = decode()
    at = next(s.index for s in trace.steps if s.facts["reused"])
    last = trace.steps[at].commits.positions[-1]
    forced = next(token for token in trace.header.prompt_ids if token != trace.steps[at].commits.tokens[-1])
    fork = engines.fork(trace, at + 1, edit=engines.Edit(force={last: forced}))
    assert fork.steps[at + 1].facts["fresh"] == 1 and board(fork) == fork.output_ids
    assert {one.parent for one in fork.steps[at + 1].branches} <= {-1}
