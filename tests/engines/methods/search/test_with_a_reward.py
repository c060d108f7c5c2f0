"""The methods with a reward model: what they count, when they are plain sampling, and whom they choose."""

import math
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.kit import distribution, draw
from engines.methods.search import _policy, particle_filtering
from engines.models.parts import load_part
from engines.models.parts.step_reward import states

CHAIN = "8+9*3+0-8"
BOTH = pytest.mark.parametrize("slug", ["best-of-n", "particle-filtering"])
ALL = pytest.mark.parametrize("slug", ["best-of-n", "particle-filtering", "a-star-decoding"])


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-reasoner", dtype="float32")


def ran(slug, model, seed=0, **params):
    return engines.run(slug, model, CHAIN, params={"max_new_tokens": 64, **params}, seed=seed)


def paths(trace):
    """The last record of every path."""
    return {one.id: one for step in trace.steps for one in step.branches}


@ALL
def test_one_path_is_plain_sampling(model, slug):
    ids, rng, drawn = model.tokenizer.encode_prompt(CHAIN), torch.Generator().manual_seed(5), []
    while not drawn or (drawn[-1] not in model.eos_ids and len(drawn) < 64):
        z = model.extend(ids + drawn, model.new_cache(256), last_only=True).logits[-1]
        drawn.append(draw(distribution(z, 1.2), rng))
    one = {"k": 1, "budget": 64} if slug == "a-star-decoding" else {"n": 1}
    assert ran(slug, model, seed=5, temperature=1.2, **one).output_ids == drawn


@BOTH
def test_tokens_and_calls_are_those_of_all_paths_and_the_best_that_ended_is_written(model, slug):
    trace = ran(slug, model, n=4)
    written = sum(len(one.tokens) for step in trace.steps for one in step.branches)
    assert trace.steps[-1].facts["tokens_of_all_paths"] == written > len(trace.output_ids)
    calls = [step.facts["prm_calls"] for step in trace.steps]
    assert calls[0] == 4 and calls == sorted(calls) and calls[-1] <= 4 * len(trace.steps)
    for seed in range(3):
        trace, rank = ran(slug, model, seed=seed), "score" if slug == "best-of-n" else "weight"
        ended = [one for one in paths(trace).values() if one.fate in ("finished", "chosen")]
        (chosen,) = [one for one in ended if one.fate == "chosen"]
        assert chosen.length == len(trace.output_ids)
        assert chosen.scores[rank] == max(one.scores[rank] for one in ended)


@ALL
def test_the_reward_model_is_counted_and_reads_only_what_is_new(model, slug):
    """At most a forward for each state that is scored; each token of all paths is read once, with the question."""
    trace, exact = ran(slug, model), ran(slug, model, reward="exact")
    network = _policy.StepReward(load_part("prm", [model.record]).tensors)
    calls = [step.facts["prm_calls"] for step in trace.steps]
    asked = [b - a for a, b in zip([0, *calls], calls, strict=False)]
    assert all(0 < s.forwards["prm"] <= n for s, n in zip(trace.steps, asked, strict=True) if n)
    rows = trace.totals.work_by_role["prm"] / network.layers
    assert rows <= len(trace.header.prompt_ids) + trace.steps[-1].facts["tokens_of_all_paths"]
    target = trace.totals.work_by_role["target"] / model.num_layers
    assert trace.totals.tokens_fed == rows + target
    assert set(exact.totals.forwards_by_role) == set(exact.totals.work_by_role) == {"target"}


def test_a_reward_does_not_depend_on_what_was_read_before(model):
    read = list[int]()

    def call(rows, run, layer_rows):
        read.append(rows)
        return run()

    network = _policy.StepReward(load_part("prm", [model.record]).tensors, call)
    question = model.tokenizer.encode_prompt(CHAIN)
    texts = [question + model.tokenizer.encode(t) for t in ("c8+9=7;", "u8+9=7;", "c8+9=7;c7*3", "c8+9=7;c7*3", "u8")]
    found = network.score(texts)
    for ids, r in zip(texts, found, strict=True):
        z = network.network["head"](states(network.network, torch.tensor([ids])))[0, -1, 0]
        assert r == pytest.approx(float(z.detach().sigmoid()), abs=1e-6)
    assert found[2] == found[3] and read == [len(texts[0]), 7, 4, 1]


def test_a_score_is_made_of_the_rewards_of_all_steps(model):
    for rule, of in (("last", lambda r: r[-1]), ("minimum", min), ("product", math.prod)):
        trace, by_path = ran("best-of-n", model, n=4, score=rule), {}
        for one in (one for step in trace.steps for one in step.branches if one.tokens):
            by_path.setdefault(one.id, []).append(one.scores["reward"])
        for one in paths(trace).values():
            assert one.scores["score"] == pytest.approx(of(by_path[one.id]))


def test_a_judge_of_one_mind_prunes_nobody_for_good_and_a_sharp_one_does(model, monkeypatch):
    """An equal reward draws evenly; a small tau and a judge that likes one path leave that one."""
    monkeypatch.setattr(_policy.StepReward, "score", lambda self, texts: [0.5] * len(texts))
    trace = ran("particle-filtering", model, n=4)
    assert all(step.facts["effective_particles"] == pytest.approx(4) for step in trace.steps[:-1])
    monkeypatch.setattr(_policy.StepReward, "score", lambda self, texts: [0.9, *[0.2] * (len(texts) - 1)])
    first = ran("particle-filtering", model, n=4, tau=0.05).steps[0]
    assert first.facts["effective_particles"] == pytest.approx(1)
    assert {one.parent for one in first.branches if one.fate == "alive" and one.id >= 4} == {0}
    assert sum(one.fate == "pruned" for one in first.branches) == 3


def test_the_drawing_follows_the_softmax_of_the_weights():
    """w = log(r / (1 - r)): at tau = 1 the chances stand as the odds do."""
    weights = [{"weight": particle_filtering.weight(r)} for r in (0.5, 0.75, 0.9)]
    particles = [SimpleNamespace(fate="alive", scores=one) for one in weights]
    assert particle_filtering.chances(particles, 1.0).tolist() == pytest.approx([1 / 13, 3 / 13, 9 / 13])
    particles[2].fate = "pruned"
    assert particle_filtering.chances(particles, 1.0).tolist() == pytest.approx([1 / 4, 3 / 4, 0])
    for r, w in ((1.0, math.log(1e6)), (0.0, -math.log(1e6))):  # as far as an exact judge goes
        assert particle_filtering.weight(r) == pytest.approx(w, abs=1e-3)


@ALL
def test_a_model_without_a_judge_and_a_prompt_that_is_no_chain_are_refused(model, slug):
    with pytest.raises(engines.UserError, match=r"python -m engines\.training prm tiny-ar-s"):
        engines.run(slug, "tiny-ar-s", "subtract: 9 - 4", params={"max_new_tokens": 8})
    with pytest.raises(engines.UserError, match="chains of digits"):
        engines.run(slug, model, "subtract: 9 - 4")
    with pytest.raises(engines.UserError, match="has 129 tokens and the reward model reads 128"):
        _policy.StepReward(load_part("prm", [model.record]).tensors).score([[1] * 129])
