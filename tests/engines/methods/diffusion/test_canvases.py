"""Samplers of canvases on a tiny random DiffusionGemma: what must hold of bound, commits, posterior and corrector, of
the record of their draws, and of what a person changes on a canvas without masks."""

import copy
import dataclasses
import itertools
import json

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

GEMMA = GOLDEN / "diffusion2026" / "diffusion_gemma"
METHODS = [one.decode for one in (entropy_bound, block_refinement, discrete_ddim)]
PROMPT, L = [2, 31, 81, 74, 60], 16
SHORT = {"max_new_tokens": 32, "max_denoising_steps": 6}
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda one: one.info.slug)


@pytest.fixture(scope="module")
def model():
    """With an end mark that it cannot write: its weights are random, and it would write one soon."""
    endless = copy.copy(engines.load_model(GEMMA / "checkpoint", dtype="float32"))
    endless.eos_ids = frozenset({endless.vocab_size})
    return endless


def run_of(method, model, edits=(), seed=0, detail="full", **params):
    run = Run(method, {"model": model}, PROMPT, params={**SHORT, **params}, seed=seed, edits=edits, detail=detail)
    for _ in run:
        pass
    return run.trace()


def canvases(trace):
    return [step.records["canvas"] for step in trace.steps]


def named(record, field):
    """A list of a record, which is left out where it is empty."""
    return record.get(field, [])


@pytest.mark.parametrize(
    ("id", "field"),
    [
        ("eb-default", "accepted"),
        ("br-threshold-edit", "edited"),
        ("ddim-corrector", "draws"),
    ],
)
def test_each_changed_expectation_is_caught(tmp_path, id, field):
    data = json.loads((GEMMA / "cases.json").read_text())
    data["cases"] = [case for case in data["cases"] if case["id"] == id]
    value = next(one[field] for one in reversed(data["cases"][0]["expected"]["steps"]) if one.get(field))
    changed = value[-1][1] if field == "draws" else value
    changed[0] += 1
    folder = tmp_path / "diffusion_gemma"
    folder.mkdir()
    (folder / "checkpoint").symlink_to(GEMMA / "checkpoint")
    (folder / "cases.json").write_text(json.dumps(data))
    (report,) = engines.verify(folder)
    assert report.state == "failed" and f".{field}" in report.mismatch


def test_the_bound_leaves_each_one_s_own_entropy_out():
    H = torch.tensor([0.5, 0.1, 2.0, 0.3, 0.05])
    joint, accepted = within_bound(H, 0.4)
    for i, h in enumerate(H):
        assert joint[i] == pytest.approx(sum(float(other) for other in H if other < h), abs=1e-6)
    assert accepted.tolist() == [False, True, False, True, True]  # 0.45 before 0.5 are too much
    assert within_bound(H, 0.0)[1].sum() == 1  # always the surest
    assert within_bound(H, 99.0)[1].all()


def test_the_lane_of_sums_and_its_threshold_say_what_is_accepted(model):
    for step in run_of(entropy_bound.decode, model, entropy_bound=1.5).steps:
        record = step.records["canvas"]
        if record["kind"] == "drawn":
            continue
        lane = next(one for one in step.scores if one.name == "joint")
        H = record["entropies"]
        sums = [sum(other for other in H if other < h) for h in H]
        assert lane.threshold == 1.5
        assert [record["start"] + i for i, s in enumerate(sums) if s <= 1.5] == named(record, "accepted")


@pytest.mark.parametrize("i", [0, 1, 4, 7])
@pytest.mark.parametrize("same", [True, False])
def test_the_routes_give_the_posterior_of_noising(i, same):
    """q(x_s | x_t, x0) by Bayes from the kernels of uniform noise, summed over what the routes lead to."""
    K, N, x = 5, 8, 2
    x0 = x if same else 4
    a_t, a_s = i / N, (i + 1) / N
    r = a_t / a_s
    kernel = lambda a, to, of: a * (to == of) + (1 - a) / K  # noqa: E731
    bayes = torch.tensor([kernel(r, x, s) * kernel(a_s, s, x0) for s in range(K)], dtype=torch.float64)
    bayes /= bayes.sum()
    clean, stay, noise = posterior(torch.tensor([x]), torch.tensor([x0]), i, N, K)[0].double()
    got = torch.full((K,), float(noise) / K, dtype=torch.float64)
    got[x0] += clean
    got[x] += stay
    torch.testing.assert_close(got, bayes, atol=1e-6, rtol=0)


def test_the_last_step_takes_the_clean_token_everywhere():
    assert posterior(torch.arange(4), torch.tensor([0, 2, 2, 0]), 7, 8, 9)[:, 0].tolist() == [1.0] * 4


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


@every_method
def test_the_recorded_draws_alone_give_the_same_run(method, model, monkeypatch):
    """Noise, tokens and routes are fed as the record has them; the generator gives nothing."""
    params = {"temperature": 0.8} if method is not entropy_bound.decode else {}
    wanted = run_of(method, model, seed=3, **params)
    noise = iter([record["noise"] for record in canvases(wanted)])
    drawn = iter(
        rows
        for record in canvases(wanted)
        if record["kind"] == "denoise"
        for rows in (record["sampled"], *([record["routes"]] if "routes" in record else []))
    )
    module = next(one for one in (entropy_bound, block_refinement, discrete_ddim) if one.decode is method)
    monkeypatch.setattr(module.Canvases, "noise", lambda self: torch.tensor(next(noise)))
    monkeypatch.setattr(module, "drawn", lambda chances, run: torch.tensor(next(drawn)))
    again = run_of(method, model, seed=99, **params)
    assert canvases(again) == canvases(wanted) and again.output_ids == wanted.output_ids


def test_a_sweep_is_the_one_that_its_record_describes(model):
    trace = run_of(discrete_ddim.decode, model, corrector_steps=1, corrector_k=3)
    kinds = [record["kind"] for record in canvases(trace)][:7]
    assert kinds == ["drawn", "denoise", "correct", "denoise", "correct", "denoise", "denoise"]
    for record in canvases(trace):
        if record["kind"] == "correct":
            changed = [i for i, (a, b) in enumerate(zip(record["before"], record["after"], strict=True)) if a != b]
            assert len(record["uniform"]) == L and len(record["accepted"]) == 3
            assert {record["start"] + i for i in changed} <= set(record["accepted"])


@every_method
def test_the_board_is_what_the_records_say_and_ends_settled(method, model):
    trace = run_of(method, model)
    board = list(PROMPT)
    for step in trace.steps:
        record = step.records["canvas"]
        if record["kind"] != "drawn":
            assert board[record["start"] :] == record["before"]
        for at, token in zip(step.commits.positions, step.commits.tokens, strict=True):
            board[at : at + 1] = [token]
        if not record.get("last"):
            assert board[record["start"] :] == record["after"]
    ends = [record for record in canvases(trace) if record.get("last")]
    assert len(ends) == 1 + canvases(trace)[-1].get("number", 0) and len(board) == len(PROMPT) + L * len(ends)
    assert sum(sum(step.forwards.values()) for step in trace.steps) == sum(
        r["kind"] != "drawn" for r in canvases(trace)
    )


def test_the_causes_tell_the_four_states(model):
    """Noise that stays noise, accepted, accepted before and noise again, settled: by the cause of each write."""
    trace = run_of(entropy_bound.decode, model, entropy_bound=2.0)
    accepted = set()
    for step in trace.steps:
        record, why = step.records["canvas"], dict(zip(step.commits.positions, step.commits.causes, strict=True))
        places = range(record["start"], record["start"] + L)
        now = set(named(record, "accepted"))
        if record["kind"] == "drawn":
            accepted = set()
            assert set(why.values()) == {"noise"}
        elif record.get("last"):
            assert set(why.values()) == {"settled"}
        else:
            for at in places:
                state = "accepted" if at in now else "renoised" if at in accepted else "noise"
                assert why[at] == state
            assert named(record, "renoised") == sorted(accepted - now)
        accepted = now
    causes = {cause for step in trace.steps for cause in step.commits.causes}
    assert causes == {"noise", "accepted", "renoised", "settled"}


def test_a_commit_of_block_refinement_stays_unless_it_is_edited(model):
    trace = run_of(block_refinement.decode, model, threshold=0.4, editing_threshold=0.4, max_denoising_steps=10)
    committed, edits = {}, 0
    for record in canvases(trace):
        if record["kind"] == "drawn":
            committed = {}
        for at, token in committed.items():
            assert record["before"][at - record["start"]] == token
        for at in (*named(record, "accepted"), *named(record, "edited")):
            committed[at] = record["sampled"][at - record["start"]]
        edits += len(named(record, "edited"))
        if record.get("last"):
            assert len(committed) == L
    assert edits


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
        assert at not in named(record, "edited")
    assert "held" not in canvases(trace)[5]
    forced = [
        c for c in zip(trace.steps[2].commits.positions, trace.steps[2].commits.causes, strict=True) if c[0] == at
    ]
    assert forced[0] == (at, "forced")
    held = run_of(method, model, edits=[(1, Edit(force={at: 7}))])
    assert held.output_ids[3] == 7


@every_method
def test_a_token_forced_in_the_settled_text_is_read_by_the_next_step(method, model):
    """The cache forgets it and what is behind it: the next forward is that of a run that had it from the start."""
    at, plain = len(PROMPT) + 4, run_of(method, model)
    begun = next(i for i, record in enumerate(canvases(plain)) if record.get("number") == 1)
    token = 7 if plain.output_ids[4] != 7 else 8
    edited = run_of(method, model, edits=[(begun, Edit(force={at: token}))])
    step = edited.steps[begun + 1]
    assert step.tokens_fed == L + (len(PROMPT) + L - at)
    assert edited.output_ids[4] == token
    cache = model.new_cache(64)
    text = [*PROMPT, *edited.output_ids[:L]]
    model.encode(text, cache)
    z = model.denoise(step.records["canvas"]["before"], cache)
    assert z.argmax(-1).tolist() == step.records["canvas"]["argmax"]


@every_method
def test_a_position_hidden_at_the_end_of_a_canvas_is_written_after_all(method, model):
    at = len(PROMPT) + 3
    plain = run_of(method, model)
    last = next(i for i, record in enumerate(canvases(plain)) if record.get("last"))
    trace = run_of(method, model, edits=[(last, Edit(remask=[at]))])
    assert canvases(trace)[last + 1]["kind"] == "denoise" and canvases(trace)[last + 1]["last"]
    assert len(trace.output_ids) == 2 * L


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (Edit(remask=[6]), "position 6 cannot be drawn anew; the canvas being written has positions 21 to 36. Force a"),
        (Edit(force={60: 4}), "position 60 cannot be edited; the answer has positions 5 to 36"),
        (Edit(force={2: 4}), "position 2 cannot be edited"),
    ],
)
def test_an_edit_that_cannot_be_is_one_sentence(model, edit, sentence):
    plain = run_of(entropy_bound.decode, model)
    begun = next(i for i, record in enumerate(canvases(plain)) if record.get("number") == 1)
    with pytest.raises(UserError, match=sentence):
        run_of(entropy_bound.decode, model, edits=[(begun + 1, edit)])


def test_a_prompt_whose_canvases_do_not_fit_is_refused_before_anything_runs(model):
    with pytest.raises(
        UserError, match=r"490 tokens and 32 more are asked for; .* room for 512 in all, and .* whole canvases of 16"
    ):
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
    (kept,) = {_can_be_tried(method) for method in METHODS}
    assert kept and {method.info.slug for method in METHODS} <= registry().methods.keys()
    monkeypatch.setitem(KINDS, "canvas", dataclasses.replace(KINDS["canvas"], example=""))
    assert not any(_can_be_tried(method) for method in METHODS)


def test_a_canvas_that_is_kept_with_its_noise_says_so(model):
    """Only under `answer=canvas` noise is part of the answer, and then nothing of it is called noise any more."""
    last = run_of(entropy_bound.decode, model, answer="canvas", max_denoising_steps=1).steps[-1]
    assert set(last.commits.causes) == {"accepted", "kept"}


def test_a_step_of_the_bound_takes_the_distributions_once(model, monkeypatch):
    """With 262,144 tokens each pass over [L, V] is as dear as a small network's forward: tokens, entropies and the
    record share one."""
    real, passes = torch.Tensor.softmax, []

    def counted(z, *args, **options):
        if z.shape == (L, model.vocab_size):
            passes.append(1)
        return real(z, *args, **options)

    monkeypatch.setattr(torch.Tensor, "softmax", counted)
    trace = run_of(entropy_bound.decode, model, detail="none", max_new_tokens=L, stability_threshold=16)
    assert len(passes) == sum(step.forwards.get("model", 0) for step in trace.steps) == SHORT["max_denoising_steps"]
