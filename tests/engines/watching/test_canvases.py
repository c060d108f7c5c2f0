"""Watched loops over canvases: transformers' `generate` and diffusers' pipeline, unchanged, against our engines."""

import pytest
import torch
from transformers import DynamicCache

import engines
from engines.core.registry import registry
from engines.methods.diffusion import entropy_bound
from tests.engines.watching.canvases import CASES, GENERATE, HIDDEN, compared, generate, loaded, network, ours, pipeline

PROMPT = torch.tensor([[2, 31, 81, 74, 60]])
V, L = 96, 16


@pytest.fixture(scope="module")
def model():
    return network()


def ends(case):
    eos = case["params"].get("eos_token_id", 1)
    return eos if isinstance(eos, list) else [eos]


def watched(model, name, **more):
    case = CASES[name]
    rng = torch.Generator().manual_seed(case["rng_seed"])
    generated = name in GENERATE
    more = {} if generated else {"generator": rng, **more}
    with engines.watch(model, eos_ids=ends(case), **more) as seen:
        out = generate(model, case) if generated else pipeline(model, case, rng)
    return seen, out


def canvas(step):
    return step.records["canvas"]


def same_steps(mine, theirs, last=()):
    """What every step holds. last: fields that nothing shows of the last step of a canvas."""
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        assert not compared(canvas(a), canvas(b), last if canvas(a).get("last") else ())
        for field in ("positions", "tokens", "causes"):
            assert getattr(a.commits, field) == getattr(b.commits, field), (a.index, field)
        told = zip(a.commits.probabilities, b.commits.probabilities, strict=True)
        assert all(p == q or abs(p - q) < 1e-3 for p, q in told)
        assert (a.forwards.get("model"), a.tokens_fed, a.work) == (b.forwards.get("model"), b.tokens_fed, b.work)
        assert a.spans == b.spans
        if a.candidates:
            assert (a.candidates.tokens.array() == b.candidates.tokens.array()).all()


@pytest.mark.parametrize("name", GENERATE)
def test_generate_is_followed_step_by_step(model, name):
    seen, out = watched(model, name)
    trace = seen.trace(out)
    assert trace.end.reason == "complete", trace.end.message
    assert out.sequences[0].tolist() == CASES[name]["expected"]["sequence"]  # nothing of the loop was changed
    assert [*trace.header.prompt_ids, *trace.output_ids] == out.sequences[0].tolist()
    same_steps(ours(CASES[name]), trace.steps, HIDDEN)
    assert seen.trace(out) == trace and engines.read_trace(trace.to_json()) == trace
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


@pytest.mark.parametrize("name", GENERATE)
def test_what_a_last_step_accepted_is_told_only_where_the_bound_of_the_others_says_it(model, name):
    seen, out = watched(model, name)
    mine, theirs = ours(CASES[name]), seen.trace(out).steps
    for a, b in zip(mine, theirs, strict=True):
        told = HIDDEN & canvas(b).keys()
        assert not canvas(a).get("last") or told in (set(), HIDDEN)
        assert all(canvas(a).get(field, []) == canvas(b)[field] for field in told)


@pytest.mark.parametrize("name", ["ebs-default", "ebs-wide"])
def test_the_pipeline_under_an_entropy_bound_is_followed_step_by_step(model, name):
    seen, out = watched(model, name)
    trace = seen.trace(out)
    assert trace.output_ids == out.sequences[0].tolist()
    same_steps(ours(CASES[name]), trace.steps, HIDDEN)


def alike_by_chance(step):
    """Positions where the noise is the token that stands there anyway."""
    record = canvas(step)
    return {record["start"] + i for i, token in enumerate(record["after"]) if token == record["noise"][i]}


@pytest.mark.parametrize("name", ["br-greedy", "br-threshold-edit", "br-two-canvases-temp"])
def test_block_refinement_shows_what_is_taken_kept_edited_and_noise(model, name):
    seen, out = watched(model, name)
    mine, theirs = ours(CASES[name]), seen.trace(out).steps
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        if canvas(a).get("stop"):  # the likeliest tokens are kept, and nothing shows what they took the place of
            continue
        without = ("sampled", "chances", "temperature", "mean_entropy", "accepted")
        assert not compared(canvas(a), canvas(b), without)
        chance = alike_by_chance(a)
        assert set(canvas(a).get("accepted", [])) - chance == set(canvas(b).get("accepted", []))
        assert (a.commits.positions, a.commits.tokens) == (b.commits.positions, b.commits.tokens)
        taken = [{"threshold": "accepted", "quota": "accepted"}.get(cause, cause) for cause in a.commits.causes]
        assert all(p in chance or x == y for p, x, y in zip(a.commits.positions, taken, b.commits.causes, strict=True))
        said = "of the tokens left as noise may be the model's" in b.note
        assert said == bool(set(canvas(a).get("accepted", [])) & chance)


def test_a_token_of_the_models_that_is_the_noise_drawn_there_is_not_called_either(model):
    seen, out = watched(model, "br-adaptive")
    first = seen.trace(out).steps[1]
    assert len(canvas(first)["accepted"]) == 15 and "1 of the tokens left as noise may be the model's" in first.note


@pytest.mark.parametrize("name", ["ddim-greedy", "ddim-two-canvases-temp"])
def test_discrete_ddim_shows_noise_and_the_canvas(model, name):
    """Whether a clean token that stood there already was taken or left alone, nothing shows."""
    seen, out = watched(model, name)
    mine, theirs = ours(CASES[name]), seen.trace(out).steps
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        unseen = {"sampled", "chances", "routes", "temperature", "mean_entropy", "accepted", "kept", "renoised"}
        last = canvas(a).get("last", False)
        assert not compared(canvas(a), canvas(b), unseen | ({"after"} if last else set()))
        if not last:
            chance, mine_kept, kept = alike_by_chance(a), set(canvas(a).get("kept", [])), set(canvas(b).get("kept", []))
            assert mine_kept - chance <= kept
            assert kept - chance <= mine_kept | set(canvas(a).get("accepted", []))


@pytest.mark.parametrize("name", ["ddim-corrector", "br-greedy", "ebs-wide"])
def test_where_the_draws_cannot_be_repeated_no_token_is_called_accepted(model, name):
    case = CASES[name]
    rng = torch.Generator().manual_seed(case["rng_seed"])
    told = {"generator": rng} if name == "ddim-corrector" else {}  # whose draws are not among those tried
    with engines.watch(model, eos_ids=[1], **told) as seen:
        out = pipeline(model, case, rng)
    trace = seen.trace(out)
    steps = [step for step in trace.steps if "noise" not in canvas(step)]
    assert steps and "could not be repeated" in trace.header.departures
    assert all(set(step.commits.causes) <= {"changed", "constraint", "settled"} for step in steps if step.commits)
    assert not any("accepted" in canvas(step) for step in steps)
    assert trace.output_ids == out.sequences[0].tolist()


# --- loops of one's own


@torch.no_grad()
def loop(model, rng, *, steps=4, accept=None, cached=True, prompt=PROMPT):
    """A sampler in a few lines. accept(entropies) [L] says where tokens of the model are taken."""
    cache, canvas, logits = DynamicCache(config=model.config.text_config), None, None
    if cached:
        model.model.encoder(input_ids=prompt, past_key_values=cache)
    canvas = torch.randint(V, (1, L), generator=rng)
    place = torch.arange(prompt.shape[1], prompt.shape[1] + L)[None]
    for _ in range(steps):
        more = {"past_key_values": cache} if cached else {"input_ids": prompt}
        out = model(decoder_input_ids=canvas, self_conditioning_logits=logits, decoder_position_ids=place, **more)
        logits = out.logits / 0.5
        tokens = torch.multinomial(logits[0].softmax(-1), 1, generator=rng)[:, 0]
        entropies = torch.distributions.Categorical(logits=logits[0]).entropy()
        noise = torch.randint(V, (1, L), generator=rng)
        canvas = torch.where(accept(entropies), tokens, noise[0])[None]
    return torch.cat([prompt, canvas], 1)


def lowest(entropies):
    return entropies.argsort().argsort() < 5


def highest(entropies):
    return entropies.argsort().argsort() >= 11


@pytest.mark.parametrize("cached", [True, False])
def test_a_loop_of_ones_own(model, cached):
    rng = torch.Generator().manual_seed(3)
    with engines.watch(model, generator=rng) as seen:
        out = loop(model, rng, accept=lowest, cached=cached)
    trace = seen.trace(out)
    assert trace.end.reason == "complete", trace.end.message
    assert [len(canvas(step)["accepted"]) for step in trace.steps[1:4]] == [5, 5, 5]
    assert [step.forwards for step in trace.steps] == [{}] + [{"model": 1}] * 4
    assert [*trace.header.prompt_ids, *trace.output_ids] == out[0].tolist()
    assert "keep to a bound" in trace.header.departures


def test_another_rule_is_not_taken_for_a_bound(model):
    rng = torch.Generator().manual_seed(3)
    with engines.watch(model, generator=rng) as seen:
        out = loop(model, rng, accept=highest)
    trace = seen.trace(out)
    assert "bound" not in trace.header.departures
    assert "sampled" not in canvas(trace.steps[2]) and "noise" in canvas(trace.steps[2])
    assert trace.output_ids == out[0, 5:].tolist()


def test_at_light_the_causes_are_the_same_and_no_distribution_is_kept(model):
    case = CASES["eb-wide-bound"]
    with engines.watch(model, eos_ids=[1], detail="light") as seen:
        out = generate(model, case)
    full, _ = watched(model, "eb-wide-bound")
    light = seen.trace(out)
    assert not any(step.scores or step.candidates for step in light.steps)
    for a, b in zip(full.trace(out).steps, light.steps, strict=True):
        assert (a.commits.tokens, a.commits.causes) == (b.commits.tokens, b.commits.causes)


def test_logits_that_are_handed_back_rounded_still_tell_what_was_accepted():
    half = network().to(torch.bfloat16)
    with engines.watch(half, eos_ids=[1]) as seen:
        out = generate(half, CASES["eb-wide-bound"])
    trace = seen.trace(out)
    assert "keep to a bound" in trace.header.departures
    for n, step in enumerate(trace.steps[1:]):
        assert canvas(step)["temperature"] == pytest.approx(0.4 + 0.4 * (12 - n) / 12, abs=1e-3)
        assert canvas(step)["sampled"] and (canvas(step).get("last") or canvas(step)["accepted"])


def test_without_the_output_the_last_step_is_not_known(model):
    with engines.watch(model) as seen:
        generate(model, CASES["eb-default"])
    trace = seen.trace()
    assert trace.steps[-1].commits is None and "tokens" in trace.header.missing
    assert "No output was given" in trace.header.departures
    assert "does not fit" in seen.trace([1] * 7).header.departures


def test_a_model_that_was_loaded_here_is_watched_by_its_network():
    model = engines.load_model(CASES and network().name_or_path, dtype="float32")
    with engines.watch(model, eos_ids=[1]) as seen:
        out = generate(model.model, CASES["eb-default"])
    assert seen.trace(out).header.models[0].kind == "canvas"
    assert seen.trace(out).output_ids == CASES["eb-default"]["expected"]["sequence"][5:]


@pytest.mark.parametrize("step", [3, 8])
def test_a_method_takes_the_open_canvas_over(model, step, monkeypatch):
    """Noise of the watched loop is no text, whether its canvas is settled or not."""
    monkeypatch.setitem(registry().methods, "entropy-bound", entropy_bound.decode)
    seen, out = watched(model, "eb-two-canvases")
    params = {"max_new_tokens": 32, "max_denoising_steps": 3}
    fork = engines.fork(seen.trace(out), step, method="entropy-bound", model=loaded(1), params=params)
    start = {3: 11, 8: 11 + L}[step]
    begun, first = canvas(fork.steps[step]), canvas(fork.steps[step + 1])
    assert begun["kind"] == "drawn" and begun["start"] == first["start"] == start
    assert begun["before"] == first["before"] == canvas(fork.steps[step - 1])["after"]
    assert len(fork.output_ids) % L == 0 and len(fork.output_ids) >= 2 * L


def test_what_cannot_be_followed_is_one_sentence(model):
    with engines.watch(model) as seen:
        model.generate(input_ids=PROMPT.repeat(2, 1), max_new_tokens=16, max_denoising_steps=2)
    assert "2 canvases were decoded at once" in seen.faults[0]
    with pytest.raises(engines.UserError, match="decode the prompts one by one"):
        seen.trace()
    with engines.watch(model, eos_ids=[1]) as seen:
        for name in ("eb-default", "eb-wide-bound"):
            out = generate(model, CASES[name])
    trace = seen.trace(out)
    assert trace.end.reason == "failed" and "another prompt began" in trace.end.message
    assert len(trace.steps) == 9  # those of the first answer
    with engines.watch(model, eos_ids=[1]) as seen:
        for _ in range(2):
            out = generate(model, CASES["eb-default"])
    assert "another prompt began" in seen.trace(out).end.message
    with pytest.raises(engines.UserError, match="has no encoder and decoder of canvases"):
        engines.watch(torch.nn.Linear(2, 2), kind="canvas").__enter__()
    with pytest.raises(engines.UserError, match=r"give the torch\.Generator"):
        engines.watch(model, generator=7)


def test_a_loop_that_fails_keeps_what_was_seen(model):
    rng = torch.Generator().manual_seed(3)
    with pytest.raises(ZeroDivisionError), engines.watch(model, generator=rng) as seen:
        loop(model, rng, steps=3, accept=lowest)
        1 / 0  # noqa: B018
    trace = seen.trace()
    assert "ZeroDivisionError" in trace.end.message and len(trace.steps) == 4
    assert canvas(trace.steps[2])["accepted"]
