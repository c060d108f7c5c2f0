"""Speculative sampling and the machinery under all draft trees: the exact distribution, and tests that are Algorithm
1's."""

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.methods.speculative._verify import Draft, verify
from tests.engines.fakes import TableCausal, chi_square_p
from tests.engines.methods.speculative.toys import pair

V = 5


def decode(models, slug="speculative-sampling", **params):
    return engines.run(slug, models, [1, 2, 3], params={"max_new_tokens": 30, **params})


def test_a_drafter_that_is_the_target_is_always_accepted():
    model = TableCausal(vocab_size=V, memory=None)
    for temperature in (0.0, 1.0):
        trace = decode({"target": model, "draft": model}, gamma=4, temperature=temperature, max_new_tokens=25)
        assert [len(step.commits.tokens) for step in trace.steps] == [5] * 5


def test_an_edit_of_the_temperature_holds_from_the_next_round_on():
    trace = engines.run(
        "speculative-sampling",
        pair(memory=2),
        [1, 2, 3],
        params={"max_new_tokens": 24, "draft_temperature": 1.0},
        edits=[(1, engines.Edit(params={"temperature": 1.1})), (4, engines.Edit(params={"temperature": 0.0}))],
    )
    drawn = [step.tree.emitted_source != "argmax" for step in trace.steps]
    tested = [any(u is not None for u in step.tree.uniforms) for step in trace.steps]
    assert drawn == tested == [2 <= step <= 4 for step in range(len(trace.steps))]


# --- the distribution

STEPS = 2500


def emitted(draw_tree, z, rng, check=verify):
    """Counts of the first token of a round."""
    counts = torch.zeros(V)
    for _ in range(STEPS):
        draft = draw_tree(rng)
        verdict = check(z, draft, 1.0, rng)
        counts[draft.tokens[verdict.path[1]] if len(verdict.path) > 1 else verdict.emitted] += 1
    return counts


def setup():
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(4, V, generator=rng) * 1.5
    return rng, z, distribution(torch.randn(V, generator=rng).double() * 1.5, 1.0)


def drawn(q, k, *, replacement):
    def tree(rng):
        draft = Draft(0, replacement=replacement, distributions={0: q})
        for x in torch.multinomial(q, k, replacement=replacement, generator=rng).tolist():
            draft.add(0, x, float(q[x]))
        return draft

    return tree


@pytest.mark.parametrize(("k", "replacement"), [(1, False), (3, False), (3, True)])
def test_the_first_token_has_the_targets_distribution(k, replacement):
    rng, z, q = setup()
    assert chi_square_p(emitted(drawn(q, k, replacement=replacement), z, rng), distribution(z[0], 1.0)) > 1e-3


def test_the_wrong_verifiers_are_found_out():
    """Controls: top-k candidates tested as if they had been drawn, and siblings drawn without replacement tested with
    an unchanged q."""
    rng, z, q = setup()

    def best(_):
        draft = Draft(0, distributions={0: q})
        for x in q.topk(3).indices.tolist():
            draft.add(0, x)
        return draft

    def unchanged(z, draft, temperature, rng):
        draft.replacement = True
        return verify(z, draft, temperature, rng)

    assert chi_square_p(emitted(best, z, rng), distribution(z[0], 1.0)) < 1e-6
    assert chi_square_p(emitted(drawn(q, 3, replacement=False), z, rng, unchanged), distribution(z[0], 1.0)) < 1e-6


def test_candidates_chosen_without_chance_keep_the_distribution_too():
    rng, z, _ = setup()

    def tree(_):
        draft = Draft(0)
        for x in (3, 1):
            draft.add(0, x)
        return draft

    assert chi_square_p(emitted(tree, z, rng), distribution(z[0], 1.0)) > 1e-3


@pytest.mark.parametrize(("temperature", "hot"), [(0.0, 1.3), (0.8, -1.0), (0.8, 0.0), (1.2, 0.6)])
def test_every_recorded_test_is_algorithm_1(temperature, hot):
    """The chance is min(1, p(x) / q(x)) of the two models' own tables, a guess stays exactly where its uniform is below
    it, the first refusal ends the round, and one token of the target's stands behind."""
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
