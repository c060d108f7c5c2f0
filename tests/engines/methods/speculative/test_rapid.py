"""RAPID: the law that comes out (the transfer itself is a golden case), the short context, both caches, refusals."""

from itertools import pairwise

import pytest
import torch

import engines
from engines.core.sampling import draw
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rapid import passages
from engines.methods.speculative.rapid.transfer import Look, Transfer
from tests.engines.fakes import board, chi_square_p

PASSAGE = (
    "read: Mia lives in Rome. Mia has a red boat. Leo is 7 years old. Leo lives in Oslo. Ada has a blue cup. Ada is 9 "
    "years old. Tom lives in Paris. Tom has a green key. Who has a green key?"
)


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-l", dtype="float32")


def decode(model, prompt=PASSAGE, **params):
    params = {"chunk": 8, "keep": 16, "max_new_tokens": 16, **params}
    return engines.run("rapid", model, prompt, params=params)


@pytest.fixture
def logits():
    """Of the target and of the drafter behind one text."""
    g = torch.Generator().manual_seed(2)
    z, y = (torch.randn(7, generator=g, dtype=torch.float64) * 2 for _ in range(2))
    return z, y.softmax(-1)


def test_without_weight_or_tokens_to_transfer_the_targets_distribution_stays(logits):
    still = Transfer.of(*logits, 0.0, 0.3)
    assert torch.allclose(still.output, still.p) and still.shift < 1e-12
    assert torch.equal(Transfer.of(*logits, 5.0, 1.01).p_hat, still.p)  # an empty mask


@pytest.mark.parametrize("eta", [0.0, 6.0])
def test_the_emitted_token_follows_the_law_and_not_the_other_one(logits, eta):
    """Rounds of one drafted token, against the law with a transfer and the one without."""
    z, q = logits
    rng, counts = torch.Generator().manual_seed(0), torch.zeros(len(z))
    for _ in range(2000):
        draft = Draft(0)
        draft.add(0, draw(q, rng))
        verdict = Look(eta, 0.1, 1.0, [q]).verdict(torch.stack([z, z]), draft, 1.0, rng, frozenset())
        counts[draft.tokens[1] if len(verdict.path) > 1 else verdict.emitted] += 1
    law, other = (Transfer.of(z, q, n, 0.1) for n in (eta, 6.0 - eta))
    assert (law.shift > 0.05) == (eta > 0)
    assert chi_square_p(counts, law.output) > 1e-3 > chi_square_p(counts, other.output)


@pytest.mark.parametrize(
    ("z", "q", "kept", "moved"),
    [
        ([3.0, 2.9, 0.0], [0.1, 0.9, 0.0], True, True),  # the target's second choice, the view's first one
        ([3.0, 2.9, 0.0], [0.9, 0.1, 0.0], True, False),
        ([9.0, 0.0, 0.0], [0.1, 0.9, 0.0], False, False),  # too far for a step of 2
    ],
)
def test_at_temperature_0_a_draft_stands_before_or_after_the_step(z, q, kept, moved):
    z, q = torch.tensor([z, [0.0, 0.0, 1.0]]), torch.tensor(q, dtype=torch.float64)
    draft, look = Draft(0), Look(2.0, 0.1, 1.0, [q])
    draft.add(0, int(q.argmax()))
    verdict = look.verdict(z, draft, 0.0, torch.Generator(), frozenset())
    assert (len(verdict.path) == 2, bool(look.transferred)) == (kept, moved)
    assert verdict.emitted == (2 if kept else int(z[0].argmax())) and verdict.source == "argmax"


def test_the_same_context_for_both_accepts_everything(model):
    trace = decode(model, keep=4096, rho=0.0, chunk=512, confidence=0.0)
    assert all(step.facts["accepted"] == step.facts["drafted"] for step in trace.steps)
    assert trace.steps[0].facts["short_context"] == trace.steps[0].facts["long_context"]


def test_passages_are_in_order_within_the_budget_and_above_the_floor(model):
    ids = model.tokenizer.encode_prompt(PASSAGE)
    context = passages.retrieve(ids, model.tokenizer, 8, 16, 0.3)
    kept = [one for one in context.passages if one.kept]
    assert context.query.strip() == "Who has a green key?"
    assert 1 <= len(kept) <= 2 and all(one.score >= 0.3 * max(x.score for x in context.passages) for one in kept)
    assert [one.start for one in kept] == sorted(one.start for one in kept)
    edges = [(one.start, one.end) for one in context.passages]
    assert all(a[1] == b[0] and a[1] - a[0] <= 8 for a, b in pairwise(edges))
    body = [token for one in kept for token in ids[one.start : one.end]]
    assert context.ids == [*ids[: edges[0][0]], *body, *ids[edges[-1][1] :]]
    assert "Tom has a green key." in model.tokenizer.decode(context.ids)


def test_a_fork_holds_the_same_suffix_in_both_caches(model):
    """After a forced token the drafter goes on from the changed text: equal to a fresh run with that text."""
    original = decode(model, eta=0.0)
    assert original.header.lossless and not any(step.facts["transferred"] for step in original.steps)
    prompt = original.header.prompt_ids
    token = next(t for t in range(20, 60) if t not in original.output_ids)
    fork = engines.fork(original, 1, edit=engines.Edit(force={len(prompt) + 1: token}))
    assert fork.output_ids[1] == token and board(fork) == fork.output_ids
    rest = engines.run("greedy", model, [*prompt, *fork.output_ids[:2]], params={"max_new_tokens": 14})
    assert fork.output_ids[2:] == rest.output_ids


def test_a_document_longer_than_the_model_is_refused(model):
    with pytest.raises(engines.UserError, match="room for 512 in all"):
        decode(model, prompt=PASSAGE * 30)
