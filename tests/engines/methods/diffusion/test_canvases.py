"""Samplers of canvases on a tiny random DiffusionGemma: what must hold of bound, commits, posterior and corrector, of
the record of their draws, and of what a person changes on a canvas without masks."""

import copy
import dataclasses
import itertools

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.core.kinds import KINDS
from engines.core.registry import _can_be_tried, registry
from engines.core.trace import Edit
from engines.driver.run import Run
from engines.methods.diffusion import block_refinement, discrete_ddim, entropy_bound
from engines.methods.diffusion.discrete_ddim import conditional, posterior
from engines.methods.diffusion.entropy_bound import within_bound
from tests.engines.conftest import GOLDEN

CHECKPOINT = GOLDEN / "diffusion2026" / "diffusion_gemma" / "checkpoint"
METHODS = [one.decode for one in (entropy_bound, block_refinement, discrete_ddim)]
PROMPT, L = [2, 31, 81, 74, 60], 16
SHORT = {"max_new_tokens": 32, "max_denoising_steps": 6}
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda one: one.info.slug)


@pytest.fixture(scope="module")
def model():
    """With an end mark that it cannot write: its weights are random, and it would write one soon."""
    endless = copy.copy(engines.load_model(CHECKPOINT, dtype="float32"))
    endless.eos_ids = frozenset({endless.vocab_size})
    return endless


def run_of(method, model, edits=(), seed=0, detail="full", **params):
    run = Run(method, {"model": model}, PROMPT, params={**SHORT, **params}, seed=seed, edits=edits, detail=detail)
    list(run)
    return run.trace()


def canvases(trace):
    return [step.records["canvas"] for step in trace.steps]


def second_begins(trace):
    """The step that begins the second canvas."""
    return next(i for i, record in enumerate(canvases(trace)) if record.get("number") == 1)


def test_the_bound_leaves_each_one_s_own_entropy_out():
    H = torch.tensor([0.5, 0.1, 2.0, 0.3, 0.05])
    joint, accepted = within_bound(H, 0.4)
    assert joint.tolist() == pytest.approx([sum(float(o) for o in H if o < h) for h in H], abs=1e-6)
    assert accepted.tolist() == [False, True, False, True, True]  # 0.45 before 0.5 are too much
    assert within_bound(H, 0.0)[1].sum() == 1  # always the surest


@pytest.mark.parametrize("i", [0, 4, 7])
@pytest.mark.parametrize("same", [True, False])
def test_the_routes_give_the_posterior_of_noising(i, same):
    """q(x_s | x_t, x0) by Bayes from the kernels of uniform noise, summed over what the routes lead to."""
    K, N, x = 5, 8, 2
    x0, a_t, a_s = x if same else 4, i / N, (i + 1) / N

    def kernel(a, to, of):
        return a * (to == of) + (1 - a) / K

    bayes = torch.tensor([kernel(a_t / a_s, x, s) * kernel(a_s, s, x0) for s in range(K)], dtype=torch.float64)
    clean, stay, noise = posterior(torch.tensor([x]), torch.tensor([x0]), i, N, K)[0].double()
    got = torch.full((K,), float(noise) / K, dtype=torch.float64)
    got[x0] += clean
    got[x] += stay
    torch.testing.assert_close(got, bayes / bayes.sum(), atol=1e-6, rtol=0)
    if i == N - 1:
        assert clean == 1


def test_the_corrector_s_conditional_leaves_its_own_token_out():
    """A denoiser that is exact for a prior over pairs: its conditional given the other token, found by summing."""
    K, a = 3, 0.6
    prior = torch.rand(K, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    prior /= prior.sum()
    noise = a * torch.eye(K, dtype=torch.float64) + (1 - a) / K
    noisy = torch.einsum("ab,ax,by->xy", prior, noise, noise)
    for x, y in itertools.product(range(K), repeat=2):
        clean = (prior * noise[:, x, None] * noise[None, :, y]).sum(1)  # p(x0 of the first | x, y), unnormalised
        got = conditional(clean.log()[None], torch.tensor([x]), a)[0].exp()
        torch.testing.assert_close(got, noisy[:, y] / noisy[:, y].sum(), atol=1e-9, rtol=0)


def test_the_causes_tell_the_four_states(model):
    """Noise that stays noise, accepted, accepted before and noise again, settled: by the cause of each write."""
    trace = run_of(entropy_bound.decode, model, entropy_bound=2.0)
    accepted, causes = set(), set()
    for step in trace.steps:
        record, why = step.records["canvas"], dict(zip(step.commits.positions, step.commits.causes, strict=True))
        now = set(record.get("accepted", []))
        if record["kind"] == "drawn":
            accepted = set()
            assert set(why.values()) == {"noise"}
        elif record.get("last"):
            assert set(why.values()) == {"settled"}
        else:
            for at in range(record["start"], record["start"] + L):
                assert why[at] == ("accepted" if at in now else "renoised" if at in accepted else "noise")
            assert record.get("renoised", []) == sorted(accepted - now)
        accepted = now
        causes |= set(why.values())
    assert causes == {"noise", "accepted", "renoised", "settled"}
    last = run_of(entropy_bound.decode, model, answer="canvas", max_denoising_steps=1).steps[-1]
    assert set(last.commits.causes) == {"accepted", "kept"}, "noise that is part of the answer is called so no more"


def test_what_stands_behind_an_end_mark_is_padding(model):
    ending = copy.copy(model)
    first = run_of(entropy_bound.decode, model).output_ids
    ending.eos_ids = frozenset({first[5]})
    end = first.index(first[5])
    trace = run_of(entropy_bound.decode, ending)
    assert trace.output_ids == [*first[: end + 1], *[0] * (L - end - 1)]
    assert trace.steps[-1].commits.causes[end + 1 :] == ["padding"] * (L - end - 1)


@every_method
def test_a_forced_token_stays_and_one_hidden_again_is_drawn_anew(method, model):
    at = len(PROMPT) + 3
    trace = run_of(method, model, edits=[(1, Edit(force={at: 7})), (4, Edit(remask=[at]))])
    for record in canvases(trace)[2:5]:
        assert record["before"][3] == 7 and record["held"] == [at]
        assert at not in record.get("edited", [])
    assert "held" not in canvases(trace)[5]
    written = trace.steps[2].commits
    assert written.causes[written.positions.index(at)] == "forced"
    assert run_of(method, model, edits=[(1, Edit(force={at: 7}))]).output_ids[3] == 7


@every_method
def test_a_token_forced_in_the_settled_text_is_read_by_the_next_step(method, model):
    """The cache forgets it and what is behind it: the next forward is that of a run that had it from the start."""
    at, plain = len(PROMPT) + 4, run_of(method, model)
    second = second_begins(plain)
    token = 7 if plain.output_ids[4] != 7 else 8
    edited = run_of(method, model, edits=[(second, Edit(force={at: token}))])
    step = edited.steps[second + 1]
    assert step.tokens_fed == L + (len(PROMPT) + L - at) and edited.output_ids[4] == token
    cache = model.new_cache(64)
    model.encode([*PROMPT, *edited.output_ids[:L]], cache)
    z = model.denoise(step.records["canvas"]["before"], cache)
    assert z.argmax(-1).tolist() == step.records["canvas"]["argmax"]


@every_method
def test_a_position_hidden_at_the_end_of_a_canvas_is_written_after_all(method, model):
    last = next(i for i, record in enumerate(canvases(run_of(method, model))) if record.get("last"))
    trace = run_of(method, model, edits=[(last, Edit(remask=[len(PROMPT) + 3]))])
    assert canvases(trace)[last + 1]["kind"] == "denoise" and canvases(trace)[last + 1]["last"]
    assert len(trace.output_ids) == 2 * L


def test_an_edit_that_cannot_be_is_one_sentence(model):
    second = second_begins(run_of(entropy_bound.decode, model))
    for edit, sentence in (
        (Edit(remask=[6]), "position 6 cannot be drawn anew; the canvas being written has positions 21 to 36. Force a"),
        (Edit(force={60: 4}), "position 60 cannot be edited; the answer has positions 5 to 36"),
        (Edit(force={2: 4}), "position 2 cannot be edited"),
    ):
        with pytest.raises(UserError, match=sentence):
            run_of(entropy_bound.decode, model, edits=[(second + 1, edit)])


def test_a_prompt_whose_canvases_do_not_fit_is_refused_before_anything_runs(model):
    said = r"490 tokens and 32 more are asked for; .* room for 512 in all, and .* whole canvases of 16"
    with pytest.raises(UserError, match=said):
        Run(entropy_bound.decode, {"model": model}, [5] * 490, params={"max_new_tokens": 20})
    Run(entropy_bound.decode, {"model": model}, [5] * 480, params={"max_new_tokens": 20})


@every_method
def test_an_edit_before_the_first_step_is_kept_in_every_canvas(method, model):
    """Nothing is drawn yet, so a forced token becomes a part of the text, and one is forbidden from the start."""
    first = run_of(method, model).output_ids[2]
    forbidden = run_of(method, model, edits=[(-1, Edit(forbid={len(PROMPT) + 2: [first]}))])
    assert forbidden.output_ids[2] != first and len(forbidden.output_ids) == 2 * L
    forced = run_of(method, model, edits=[(-1, Edit(force={len(PROMPT): 7}))])
    assert forced.output_ids[0] == 7 and canvases(forced)[0]["start"] == len(PROMPT) + 1


def test_a_method_is_offered_once_a_model_of_its_kind_ships(monkeypatch):
    assert all(_can_be_tried(method) and method.info.slug in registry().methods for method in METHODS)
    monkeypatch.setitem(KINDS, "canvas", dataclasses.replace(KINDS["canvas"], example=""))
    assert not any(_can_be_tried(method) for method in METHODS)
