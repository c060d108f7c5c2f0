"""SpecDec++: where rounds stop, and a text that no head can change. The stopping rule is a golden case."""

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.kinds import Extended
from engines.driver.roles import assign_roles
from engines.models.parts.accept_head import from_state, head_of
from tests.engines.fakes import TableCausal, lane

V, PROMPT, D = 5, [1, 2, 3], 4


class Seen(TableCausal):
    """A table with hidden states: a row per token."""

    states = torch.randn(V, D, generator=torch.Generator().manual_seed(7))

    def extend(self, tokens, cache, *, hidden=(), last_only=False, **options):
        out = super().extend(tokens, cache, last_only=last_only, **options)
        return Extended(out.logits, {layer: self.states[[int(t) for t in tokens]] for layer in hidden})


def pair(seed=0, memory=None, eos_ids=(), **options):
    target = TableCausal(vocab_size=V, seed=seed, memory=memory, eos_ids=eos_ids, **options)
    return {"target": target, "draft": Seen(vocab_size=V, seed=seed + 1, memory=1, eos_ids=eos_ids)}


def head(bias=0.0):
    """A head that knows nothing: random weights, accepting more the larger the bias."""
    rng = torch.Generator().manual_seed(0)
    state = {"blocks.0.weight": torch.randn(D, D, generator=rng), "blocks.0.bias": torch.zeros(D)}
    out = {"out.weight": torch.randn(2, D, generator=rng), "out.bias": torch.tensor([0.0, bias])}
    return from_state(state | out, "random", layers=2)


@pytest.fixture(autouse=True)
def some_head(monkeypatch):
    """Models with tables for weights get a random head, all others their own."""
    monkeypatch.setattr(
        "engines.methods.speculative.specdec_pp.head_of",
        lambda target, draft: head() if target.name == "table" else head_of(target, draft),
    )


def decode(models, slug="specdec-pp", prompt=PROMPT, seed=0, **params):
    return engines.run(slug, models, prompt, params={"max_new_tokens": 30, **params}, seed=seed)


@pytest.mark.parametrize("bias", [-30.0, 30.0])
def test_the_length_follows_the_head(bias, monkeypatch):
    """One that always accepts gives the upper bound, one that always refuses stops once it has judged a token."""
    monkeypatch.setattr("engines.methods.speculative.specdec_pp.head_of", lambda target, draft: head(bias))
    for h, least, most in ((0.5, 1, 6), (1.0, 1, 6), (0.5, 3, 6)):
        trace = decode(pair(), threshold=h, least=least, most=most)
        lengths = [len(s.tree.tokens) - 1 for s in trace.steps[:-6]]
        assert len(lengths) > 5 and set(lengths) == {most if bias > 0 or h == 1 else max(least, 2)}


def test_confidence_judges_the_last_token_too():
    """Its product covers every drafted token, the head's all but the last, whichever way the round ended."""
    for given, missing in (({"head": "confidence"}, 0), ({}, 1)):
        start = len(PROMPT)
        for step in decode(pair(1), most=8, **given).steps:
            n = len(step.tree.tokens) - 1
            survival = lane(step, "survival") if n > missing else {}
            assert list(survival) == list(range(start, start + max(0, n - missing)))
            assert list(survival.values()) == sorted(survival.values(), reverse=True)
            start += len(step.commits.tokens)
            if survival:
                assert step.facts["p_reject"] == pytest.approx(1 - list(survival.values())[-1], abs=0.01)
            assert step.choice.chosen != "threshold" or step.facts["p_reject"] > 0.5
            if not missing and n:
                product = torch.tensor(step.tree.draft_logprobs[1:]).sum().exp()
                assert step.facts["p_reject"] == pytest.approx(1 - float(product), abs=1e-6)


def test_an_end_mark_ends_the_round():
    models = {
        "target": TableCausal(vocab_size=V, memory=1, eos_ids=(0,)),
        "draft": Seen(vocab_size=V, memory=1, eos_ids=(0,)),
    }
    trace = decode(models, least=8, most=8, temperature=1.0, seed=1)
    ended = [s for s in trace.steps if s.choice.chosen == "end mark"]
    assert ended and all(s.tree.tokens[-1] == 0 and 0 not in s.tree.tokens[1:-1] for s in ended)


@pytest.mark.parametrize("given", [{}, {"threshold": 0.0}, {"least": 12, "most": 3}, {"draft_temperature": 1.0}])
def test_a_random_head_changes_no_text(given):
    for seed, memory in ((0, None), (1, 1)):
        models = pair(seed, memory, eos_ids=(4,) if seed else ())
        assert decode(models, **given).output_ids == decode(models["target"], "greedy").output_ids


def test_the_tiny_pairs_have_their_heads_and_others_are_told_what_to_do():
    for name in ("tiny-ar-l", "tiny-ar-m"):
        models, prompt = assign_roles(engines.get_method("specdec-pp").info, name), "sort: Zoe, Mia, Leo, Ada, Kim"
        found = head_of(models["target"].record, models["draft"].record)
        assert found.size == models["draft"].config.hidden_size
        trained, plain = decode(models, prompt=prompt), decode(models["target"], "greedy", prompt)
        assert trained.output_ids == plain.output_ids
        with pytest.raises(UserError, match=r"trained for other weights.*head=confidence"):
            head_of(models["target"].record, models["target"].record)
    models = pair()
    models["target"].record.name = "headless"
    with pytest.raises(UserError, match=r"no acceptance head for headless with table.*training accept-head headless"):
        decode(models)
