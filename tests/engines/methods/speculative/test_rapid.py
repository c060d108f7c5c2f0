"""RAPID: the transfer and the law that comes out, the short context, both caches, forks, refusals."""

from itertools import pairwise

import pytest
import torch

import engines
from engines.core.sampling import draw
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rapid import passages as passages
from engines.methods.speculative.rapid.transfer import Look, Transfer
from engines.tasks.documents import document
from tests.engines.fakes import board, chi_square_p

PASSAGE = (
    "read: Mia lives in Rome. Mia has a red boat. Leo is 7 years old. Leo lives in Oslo. Ada has a blue cup. Ada is 9 "
    "years old. Tom lives in Paris. Tom has a green key. Who has a green key?"
)

SHORT = {"chunk": 8, "keep": 16, "max_new_tokens": 16}


def decode(seed=0, prompt=PASSAGE, **params):
    model = engines.load_model("tiny-ar-l", dtype="float32")
    return engines.run("rapid", model, prompt, params={**SHORT, **params}, seed=seed)


def random_pair(seed, V=7):
    g = torch.Generator().manual_seed(seed)
    z, y = (torch.randn(V, generator=g, dtype=torch.float64) * 2 for _ in range(2))
    return z, y.softmax(-1)


@pytest.mark.parametrize("seed", range(6))
def test_the_transfer_is_a_distribution_that_keeps_the_odds_outside_the_mask(seed):
    z, q = random_pair(seed)
    one = Transfer.of(z, q, 5.0, 0.3)
    assert float(one.p_hat.sum()) == pytest.approx(1) and float(one.output.sum()) == pytest.approx(1)
    outside = (~one.mask).nonzero()[:, 0]
    odds = one.p_hat[outside] / one.p[outside]
    assert torch.allclose(odds, odds[0].expand_as(odds))
    still = Transfer.of(z, q, 0.0, 0.3)
    assert torch.allclose(still.output, still.p) and still.shift < 1e-12
    assert torch.equal(Transfer.of(z, q, 5.0, 1.01).p_hat, one.p)  # an empty mask


@pytest.mark.parametrize("eta", [0.0, 6.0])
def test_the_emitted_token_follows_the_law_and_not_the_other_one(eta):
    """4,000 rounds of one drafted token; the control is the target's own law where there is a transfer, and the law of
    a transfer where there is none."""
    z, q = random_pair(2)
    rng, counts = torch.Generator().manual_seed(0), torch.zeros(len(z))
    for _ in range(2000):
        draft = Draft(0)
        draft.add(0, draw(q, rng))
        verdict = Look(eta, 0.1, 1.0, [q]).walk(torch.stack([z, z]), draft, 1.0, rng, frozenset())
        counts[draft.tokens[1] if len(verdict.path) > 1 else verdict.emitted] += 1
    law = Transfer.of(z, q, eta, 0.1).output
    other = Transfer.of(z, q, 6.0 - eta, 0.1).output
    assert (Transfer.of(z, q, eta, 0.1).shift > 0.05) == (eta > 0)
    assert chi_square_p(counts, law) > 1e-3 > chi_square_p(counts, other)


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
    verdict = look.walk(z, draft, 0.0, torch.Generator(), frozenset())
    assert (len(verdict.path) == 2, bool(look.transferred)) == (kept, moved)
    assert verdict.emitted == (2 if kept else int(z[0].argmax())) and verdict.source == "argmax"


def test_the_same_context_for_both_accepts_everything():
    trace = decode(keep=4096, rho=0.0, chunk=512, confidence=0.0)
    assert all(step.facts["accepted"] == step.facts["drafted"] for step in trace.steps)
    assert trace.steps[0].facts["short_context"] == trace.steps[0].facts["long_context"]


def test_passages_are_in_order_within_the_budget_and_above_the_floor():
    tokenizer = engines.load_model("tiny-ar-l", dtype="float32").tokenizer
    ids = tokenizer.encode_prompt(PASSAGE)
    context = passages.retrieve(ids, tokenizer, 8, 16, 0.3)
    kept = [one for one in context.passages if one.kept]
    assert context.query.strip() == "Who has a green key?"
    assert kept and len(kept) <= 2 and all(one.score >= 0.3 * max(x.score for x in context.passages) for one in kept)
    assert [one.start for one in kept] == sorted(one.start for one in kept)
    edges = [(one.start, one.end) for one in context.passages]
    assert all(a[1] == b[0] and a[1] - a[0] <= 8 for a, b in pairwise(edges))
    body = [token for one in kept for token in ids[one.start : one.end]]
    assert context.ids == [*ids[: edges[0][0]], *body, *ids[edges[-1][1] :]]
    assert "Tom has a green key." in tokenizer.decode(context.ids)


def test_a_fork_holds_the_same_suffix_in_both_caches():
    """After a forced token the drafter goes on from the changed text: equal to a fresh run with that text."""
    original = decode(eta=0.0)
    assert original.header.lossless and not any(step.facts["transferred"] for step in original.steps)
    at = len(original.header.prompt_ids)
    token = next(t for t in range(20, 60) if t not in original.output_ids)
    fork = engines.fork(original, 1, edit=engines.Edit(force={at + 1: token}))
    assert fork.output_ids[1] == token and board(fork) == fork.output_ids
    model = engines.load_model("tiny-ar-l", dtype="float32")
    text = [*original.header.prompt_ids, *fork.output_ids[:2]]
    rest = engines.run("greedy", model, text, params={"max_new_tokens": 14})
    assert fork.output_ids[2:] == rest.output_ids


def test_a_document_longer_than_the_model_is_refused():
    long = document(0, 4000).prompt
    with pytest.raises(engines.UserError, match="room for 512 in all"):
        decode(prompt=long)


def test_documents_are_made_again_and_hold_their_fact_once():
    one, again = document(3, 3000, place=0.5), document(3, 3000, place=0.5)
    assert one == again and one.text.count(one.answer) == 1 and abs(one.place - 0.5) < 0.15
    assert one.right(f"It is {one.answer}.") and not one.right("It is 0.")
    assert document(4, 3000).text != one.text
