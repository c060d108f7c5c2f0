"""Speculative sampling and the walk under all draft trees: the exact distribution, tests that are Algorithm 1's."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.methods.speculative._verify import Draft, verify
from tests.engines.fakes import TableCausal, chi_square_p
from tests.engines.methods.speculative.toys import pair

V = 5


def decode(models, **params):
    return engines.run("speculative-sampling", models, [1, 2, 3], params={"max_new_tokens": 30, **params})


def test_a_drafter_that_is_the_target_is_always_accepted():
    model = TableCausal(vocab_size=V, memory=None)
    for temperature in (0.0, 1.0):
        trace = decode({"target": model, "draft": model}, gamma=4, temperature=temperature, max_new_tokens=25)
        assert [len(step.commits.tokens) for step in trace.steps] == [5] * 5


@pytest.mark.parametrize(("k", "how"), [(1, "drawn"), (3, "drawn"), (3, "again"), (2, "chosen")])
def test_the_first_token_has_the_targets_distribution(k, how):
    """Siblings drawn without replacement or with it, or chosen without chance."""
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(4, V, generator=rng) * 1.5
    q = distribution(torch.randn(V, generator=rng).double() * 1.5, 1.0)
    counts = torch.zeros(V)
    for _ in range(2500):
        if how == "chosen":
            draft, tokens = Draft(0), [3, 1]
        else:
            draft = Draft(0, replacement=how == "again", distributions={0: q})
            tokens = torch.multinomial(q, k, replacement=draft.replacement, generator=rng).tolist()
        for x in tokens:
            draft.add(0, x, float(q[x]))
        verdict = verify(z, draft, 1.0, rng)
        counts[draft.tokens[verdict.path[1]] if len(verdict.path) > 1 else verdict.emitted] += 1
    assert chi_square_p(counts, distribution(z[0], 1.0)) > 1e-3


@pytest.mark.parametrize(("temperature", "hot"), [(0.0, 1.3), (0.8, -1.0), (0.8, 0.0), (1.2, 0.6)])
def test_every_recorded_test_is_algorithm_1(temperature, hot):
    """min(1, p(x) / q(x)) of the models' own tables against its uniform; the first refusal ends the round."""
    T_d = temperature if hot < 0 else hot
    for seed in range(4):
        models = pair(seed, memory=2)
        trace = decode(models, gamma=4, temperature=temperature, draft_temperature=hot)
        text, kinds = trace.header.prompt_ids, set()
        for step in trace.steps:
            tree, n = step.tree, sum(step.tree.accepted) - 1
            for row in range(1, min(n + 2, len(tree.tokens))):
                before, x = [*text, *tree.tokens[1:row]], tree.tokens[row]
                p = float(distribution(models["target"].logits(before)[0].double(), temperature)[x])
                q = float(distribution(models["draft"].logits(before)[0].double(), T_d)[x])
                assert tree.chances[row] == pytest.approx(min(1.0, p / q) if temperature and T_d else p, abs=1e-6)
                assert (tree.uniforms[row] is not None) == bool(temperature and T_d)
                if tree.uniforms[row] is not None:
                    assert tree.accepted[row] == (tree.uniforms[row] < tree.chances[row])
            assert tree.accepted == [row <= n for row in range(len(tree.tokens))], "a chain, kept from its front"
            assert tree.chances[n + 2 :] == [None] * len(tree.chances[n + 2 :]), "nothing is tested after a refusal"
            assert tree.emitted[:n] == tree.tokens[1 : n + 1] and len(tree.emitted) == n + 1
            kinds.add(tree.emitted_source)
            text = [*text, *step.commits.tokens]
        assert kinds <= ({"argmax"} if not temperature else {"residual", "target"} if T_d else {"target"})
