"""SpecDec++: the stopping rule, a text that no head can change, the exact distribution, and the head that ships with
the tiny pair."""

import itertools

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.kinds import Extended
from engines.core.sampling import distribution
from engines.driver.roles import assign_roles
from engines.methods.speculative.specdec_pp import StopRule
from engines.models.accept_head import from_state, head_of
from tests.engines.fakes import TableCausal, board, chi_square_p, lane

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


def head(seed=0, bias=0.0):
    """A head that knows nothing: random weights, accepting more the larger the bias."""
    rng = torch.Generator().manual_seed(seed)
    state = {"blocks.0.weight": torch.randn(D, D, generator=rng), "blocks.0.bias": torch.zeros(D)}
    return from_state(
        state | {"out.weight": torch.randn(2, D, generator=rng), "out.bias": torch.tensor([0.0, bias])},
        "random",
        layers=2,
    )


@pytest.fixture(autouse=True)
def some_head(monkeypatch):
    """Models with tables for weights get a random head, all others their own."""
    monkeypatch.setattr(
        "engines.methods.speculative.specdec_pp.head_of",
        lambda target, draft: head() if target.name == "table" else head_of(target, draft),
    )


def decode(models, slug="specdec-pp", prompt=PROMPT, seed=0, **params):
    return engines.run(slug, models, prompt, params={"max_new_tokens": 30, **params}, seed=seed)


# --- the rule


def drafted(chances, h, least, most):
    rule = StopRule(h, least, most)
    for drawn in itertools.count(1):
        if drawn > 1:
            rule.judge(chances[drawn - 2])
        if rule.stop(drawn):
            return drawn


@pytest.mark.parametrize("seed", range(5))
def test_lengths_stay_in_bounds_and_grow_with_the_threshold(seed):
    chances = torch.rand(40, generator=torch.Generator().manual_seed(seed)).sqrt().tolist()
    for least, most in ((1, 12), (2, 20), (5, 5), (3, 32)):
        lengths = [drafted(chances, h / 20, least, most) for h in range(21)]
        assert lengths == sorted(lengths) and least <= lengths[0] and lengths[-1] == most
        assert lengths[0] == max(least, min(2, most)) and len(set(lengths)) > (
            least < most
        )  # the first token is unjudged when the second is drawn
    assert drafted([1.0] * 40, 0.0, 1, 12) == 12


@pytest.mark.parametrize("bias", [-30.0, 30.0])
def test_the_length_follows_the_head(bias, monkeypatch):
    """A head that always accepts gives the upper bound, one that always refuses stops as soon as it has judged a
    token."""
    monkeypatch.setattr("engines.methods.speculative.specdec_pp.head_of", lambda target, draft: head(bias=bias))
    for h, least, most in ((0.5, 1, 6), (1.0, 1, 6), (0.5, 3, 6)):
        trace = decode(pair(), threshold=h, least=least, most=most)
        lengths = [len(s.tree.tokens) - 1 for s in trace.steps[:-6]]
        assert len(lengths) > 5 and set(lengths) == {most if bias > 0 or h == 1 else max(least, 2)}


def test_confidence_judges_the_last_token_too():
    """Its product covers every drafted token, the head's all but the last, whichever way the round ended."""
    for given, missing in (({"head": "confidence"}, 0), ({}, 1)):
        trace = decode(pair(1), most=8, **given)
        start = len(PROMPT)
        for step in trace.steps:
            n = len(step.tree.tokens) - 1
            survival = lane(step, "survival") if n > missing else {}
            assert list(survival) == list(range(start, start + max(0, n - missing)))
            assert list(survival.values()) == sorted(survival.values(), reverse=True)
            start += len(step.commits.tokens)
            if survival:
                assert step.facts["p_reject"] == pytest.approx(1 - list(survival.values())[-1], abs=0.01)
            if step.choice.chosen == "threshold":
                assert step.facts["p_reject"] > 0.5
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


# --- the text


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"head": "confidence"},
        {"threshold": 0.0},
        {"threshold": 1.0, "most": 32},
        {"least": 12, "most": 3},
        {"draft_temperature": 1.0},
    ],
)
def test_at_temperature_0_the_text_is_the_greedy_one(given):
    for seed, grid, memory in ((0, None, None), (1, 3.0, 1), (2, None, 1)):
        models = pair(seed, memory, grid=grid, eos_ids=(4,) if seed == 1 else ())
        ours, plain = decode(models, **given), decode(models["target"], "greedy")
        assert ours.output_ids == plain.output_ids == board(ours)
        assert ours.totals.forwards_by_role["target"] <= plain.totals.forwards


@pytest.mark.parametrize("given", [{}, {"head": "confidence", "threshold": 0.3}])
def test_a_whole_run_has_the_distribution_of_plain_sampling(given):
    """The head is random, so rounds stop anywhere; two tokens against the product of the target's distributions."""
    models = pair(5, memory=2)
    p1 = distribution(models["target"].logits(PROMPT)[0].double(), 1.0)
    wanted = torch.stack(
        [p1[a] * distribution(models["target"].logits([*PROMPT, a])[0].double(), 1.0) for a in range(V)]
    ).flatten()
    counts = torch.zeros(V * V)
    for seed in range(300):
        params = {"max_new_tokens": 3, "temperature": 1.0, **given}
        a, b, _ = engines.run("specdec-pp", models, PROMPT, params=params, seed=seed, detail="none").output_ids
        counts[a * V + b] += 1
    assert chi_square_p(counts, wanted) > 1e-3


# --- the head that ships


def test_the_tiny_pairs_have_their_heads():
    for name in ("tiny-ar-l", "tiny-ar-m"):
        models = assign_roles(engines.get_method("specdec-pp").info, name)
        found = head_of(models["target"].record, models["draft"].record)
        assert found.size == models["draft"].config.hidden_size
        trained = engines.run("specdec-pp", models, "sort: Zoe, Mia, Leo, Ada, Kim", params={"max_new_tokens": 30})
        assert (
            trained.output_ids
            == engines.run(
                "greedy", models["target"], "sort: Zoe, Mia, Leo, Ada, Kim", params={"max_new_tokens": 30}
            ).output_ids
        )
        with pytest.raises(UserError, match=r"trained for other weights.*head=confidence"):
            head_of(models["target"].record, models["target"].record)


def test_a_pair_without_a_head_is_told_what_to_do():
    models = pair()
    models["target"].record.name = "headless"
    with pytest.raises(
        UserError,
        match=r"no acceptance head for headless with table.*training accept-head headless.*head=confidence",
    ):
        decode(models)
    assert decode(models, head="confidence").output_ids == decode(models["target"], "greedy").output_ids
