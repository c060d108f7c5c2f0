"""Watched loops over canvases: transformers' `generate` and diffusers' pipeline, unchanged, against our engines."""

import pytest
import torch
from transformers import DynamicCache

import engines
from engines.core.registry import registry
from engines.methods.diffusion import entropy_bound
from tests.engines.watching.canvases import CASES, GENERATE, HIDDEN, compared, generate, loaded, network, ours, pipeline
from tests.engines.watching.strangers import followed

PROMPT = torch.tensor([[2, 31, 81, 74, 60]])
V, L = 96, 16


@pytest.fixture(scope="module")
def model():
    return network()


def watched(model, name, *, told=True, **more):
    """(trace, output) of a case; told: whether the watch is told of the generator."""
    case = CASES[name]
    rng, eos = torch.Generator().manual_seed(case["rng_seed"]), case["params"].get("eos_token_id", 1)
    more["eos_ids"] = eos if isinstance(eos, list) else [eos]
    if name in GENERATE:
        return followed(model, lambda: generate(model, case), **more)
    more |= {"generator": rng} if told else {}
    return followed(model, lambda: pipeline(model, case, rng), **more)


def canvas(step):
    return step.records["canvas"]


def accepted(step):
    return set(canvas(step).get("accepted", []))


def pairs(name, trace):
    """Our steps of a case beside those that were watched."""
    return list(zip(ours(CASES[name]), trace.steps, strict=True))


def same_steps(name, trace):
    """What every step holds; of the last one nothing shows what its likeliest tokens took the place of, and where it
    is told it is right."""
    for a, b in pairs(name, trace):
        last = canvas(a).get("last")
        assert not compared(canvas(a), canvas(b), HIDDEN if last else ())
        told = HIDDEN & canvas(b).keys()
        assert not last or told in (set(), HIDDEN)
        assert all(canvas(a).get(field, []) == canvas(b)[field] for field in told)
        for field in ("positions", "tokens", "causes"):
            assert getattr(a.commits, field) == getattr(b.commits, field), (a.index, field)
        chances = zip(a.commits.probabilities, b.commits.probabilities, strict=True)
        assert all(p == q or abs(p - q) < 1e-3 for p, q in chances)
        assert (a.forwards.get("model"), a.tokens_fed, a.work) == (b.forwards.get("model"), b.tokens_fed, b.work)
        assert a.spans == b.spans
        if a.candidates:
            assert (a.candidates.tokens.array() == b.candidates.tokens.array()).all()


@pytest.mark.parametrize("name", [*GENERATE, "ebs-default", "ebs-wide"])
def test_generate_and_the_pipeline_under_an_entropy_bound_are_followed_step_by_step(model, name):
    trace, out = watched(model, name)
    same_steps(name, trace)
    if name in GENERATE:  # nothing of the loop was changed
        assert out.sequences[0].tolist() == CASES[name]["expected"]["sequence"]


def alike_by_chance(step):
    """Positions where the noise is the token that stands there anyway."""
    record = canvas(step)
    return {record["start"] + i for i, token in enumerate(record["after"]) if token == record["noise"][i]}


@pytest.mark.parametrize("name", ["br-greedy", "br-threshold-edit", "br-two-canvases-temp"])
def test_block_refinement_shows_what_is_taken_kept_edited_and_noise(model, name):
    trace, _ = watched(model, name)
    for a, b in pairs(name, trace):
        if canvas(a).get("stop"):  # the likeliest tokens are kept, and nothing shows what they took the place of
            continue
        assert not compared(canvas(a), canvas(b), ("sampled", "chances", "temperature", "mean_entropy", "accepted"))
        chance = alike_by_chance(a)
        assert accepted(a) - chance == accepted(b)
        assert (a.commits.positions, a.commits.tokens) == (b.commits.positions, b.commits.tokens)
        taken = [{"threshold": "accepted", "quota": "accepted"}.get(cause, cause) for cause in a.commits.causes]
        assert all(p in chance or x == y for p, x, y in zip(a.commits.positions, taken, b.commits.causes, strict=True))
        assert ("of the tokens left as noise may be the model's" in b.note) == bool(accepted(a) & chance)


def test_a_token_of_the_models_that_is_the_noise_drawn_there_is_not_called_either(model):
    first = watched(model, "br-adaptive")[0].steps[1]
    assert len(accepted(first)) == 15 and "1 of the tokens left as noise may be the model's" in first.note


@pytest.mark.parametrize("name", ["ddim-greedy", "ddim-two-canvases-temp"])
def test_discrete_ddim_shows_noise_and_the_canvas(model, name):
    """Whether a clean token that stood there already was taken or left alone, nothing shows."""
    unseen = {"sampled", "chances", "routes", "temperature", "mean_entropy", "accepted", "kept", "renoised"}
    for a, b in pairs(name, watched(model, name)[0]):
        last = canvas(a).get("last", False)
        assert not compared(canvas(a), canvas(b), unseen | ({"after"} if last else set()))
        if not last:
            mine, theirs = (set(canvas(step).get("kept", [])) - alike_by_chance(a) for step in (a, b))
            assert mine <= theirs <= mine | accepted(a)


@pytest.mark.parametrize("name", ["ddim-corrector", "br-greedy", "ebs-wide"])
def test_where_the_draws_cannot_be_repeated_no_token_is_called_accepted(model, name):
    trace, _ = watched(model, name, told=name == "ddim-corrector")  # whose draws are not among those tried
    steps = [step for step in trace.steps if "noise" not in canvas(step)]
    assert steps and "could not be repeated" in trace.header.departures
    assert all(set(step.commits.causes) <= {"changed", "constraint", "settled"} for step in steps if step.commits)
    assert not any("accepted" in canvas(step) for step in steps)


@torch.no_grad()
def loop(model, rng, *, steps=4, first=0, cached=True):
    """A sampler in a few lines; it takes five tokens of the model, from the one of the `first` lowest entropy on."""
    cache, logits = DynamicCache(config=model.config.text_config), None
    if cached:
        model.model.encoder(input_ids=PROMPT, past_key_values=cache)
    canvas = torch.randint(V, (1, L), generator=rng)
    place = torch.arange(PROMPT.shape[1], PROMPT.shape[1] + L)[None]
    more = {"past_key_values": cache} if cached else {"input_ids": PROMPT}
    for _ in range(steps):
        out = model(decoder_input_ids=canvas, self_conditioning_logits=logits, decoder_position_ids=place, **more)
        logits = out.logits / 0.5
        tokens = torch.multinomial(logits[0].softmax(-1), 1, generator=rng)[:, 0]
        rank = torch.distributions.Categorical(logits=logits[0]).entropy().argsort().argsort()
        noise = torch.randint(V, (1, L), generator=rng)
        canvas = torch.where((rank >= first) & (rank < first + 5), tokens, noise[0])[None]
    return torch.cat([PROMPT, canvas], 1)


@pytest.mark.parametrize("cached", [True, False])
def test_a_loop_of_ones_own(model, cached):
    rng = torch.Generator().manual_seed(3)
    trace, _ = followed(model, lambda: loop(model, rng, cached=cached), generator=rng)
    assert [len(accepted(step)) for step in trace.steps[1:4]] == [5, 5, 5]
    assert [step.forwards for step in trace.steps] == [{}] + [{"model": 1}] * 4
    assert "keep to a bound" in trace.header.departures
    other, _ = followed(model, lambda: loop(model, rng, first=11, cached=cached), generator=rng)  # no bound
    assert "bound" not in other.header.departures
    assert "sampled" not in canvas(other.steps[2]) and "noise" in canvas(other.steps[2])


def test_at_light_the_causes_are_the_same_and_no_distribution_is_kept(model):
    light, full = (watched(model, "eb-wide-bound", detail=detail)[0] for detail in ("light", "full"))
    assert not any(step.scores or step.candidates for step in light.steps)
    for a, b in zip(full.steps, light.steps, strict=True):
        assert (a.commits.tokens, a.commits.causes) == (b.commits.tokens, b.commits.causes)


def test_logits_that_are_handed_back_rounded_still_tell_what_was_accepted():
    trace, _ = watched(network().to(torch.bfloat16), "eb-wide-bound")
    assert "keep to a bound" in trace.header.departures
    for n, step in enumerate(trace.steps[1:]):
        assert canvas(step)["temperature"] == pytest.approx(0.4 + 0.4 * (12 - n) / 12, abs=1e-3)
        assert canvas(step)["sampled"] and (canvas(step).get("last") or canvas(step)["accepted"])


def test_a_model_that_was_loaded_here_is_watched_by_its_network_and_its_last_step_by_the_output():
    model, case = loaded(1), CASES["eb-default"]
    with engines.watch(model, eos_ids=[1]) as seen:
        out = generate(model.model, case)
    trace = seen.trace()
    assert trace.steps[-1].commits is None and "tokens" in trace.header.missing
    assert "No output was given" in trace.header.departures
    assert "does not fit" in seen.trace([1] * 7).header.departures
    assert seen.trace(out).header.models[0].kind == "canvas"
    assert seen.trace(out).output_ids == case["expected"]["sequence"][5:]


@pytest.mark.parametrize(("step", "start"), [(3, 11), (8, 11 + L)])
def test_a_method_takes_the_open_canvas_over(model, step, start, monkeypatch):
    """Noise of the watched loop is no text, whether its canvas is settled or not."""
    monkeypatch.setitem(registry().methods, "entropy-bound", entropy_bound.decode)
    trace, _ = watched(model, "eb-two-canvases")
    params = {"max_new_tokens": 32, "max_denoising_steps": 3}
    fork = engines.fork(trace, step, method="entropy-bound", model=loaded(1), params=params)
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
        for _ in range(2):
            out = generate(model, CASES["eb-default"])
    trace = seen.trace(out)
    assert trace.end.reason == "failed" and "another prompt began" in trace.end.message
    assert len(trace.steps) == 9  # those of the first answer
    with pytest.raises(engines.UserError, match="has no encoder and decoder of canvases"):
        engines.watch(torch.nn.Linear(2, 2), kind="canvas").__enter__()
    with pytest.raises(engines.UserError, match=r"give the torch\.Generator"):
        engines.watch(model, generator=7)
    rng = torch.Generator().manual_seed(3)
    with pytest.raises(ZeroDivisionError), engines.watch(model, generator=rng) as seen:
        loop(model, rng, steps=3)
        1 / 0  # noqa: B018
    trace = seen.trace()  # a loop that fails keeps what was seen
    assert "ZeroDivisionError" in trace.end.message and len(trace.steps) == 4 and accepted(trace.steps[2])
