"""Lexical Unit Decoding: what window, line and switch do, where the tokens come from, and the variant that verifies."""

import pytest
import torch

import engines
import tests.golden.checkers.units  # noqa: F401 - registers its checker
from engines.core.kinds import Taps
from engines.core.trace import Edit
from engines.methods.heads.lud import accepted, marked, repeats, said, written
from engines.models import parts
from engines.models.networks.lora import LoRA, lora_of
from engines.models.parts import load_part
from engines.training.core.text_cache import Teacher
from engines.training.heads.lexical_units import WINDOW, UnitTraining

PROMPTS = ("add: 457 + 86", "story: Mia, boat", "copy: Ada, Tom, Mia")


def decode(model, prompt=PROMPTS[1], slug="lud", seed=0, **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": 20, **params}, seed=seed)


def test_units_cover_a_text_without_overlap():
    p = torch.rand(200, generator=torch.Generator().manual_seed(0)).tolist()
    for most in (None, 1, 4):
        units = marked(p, 0.5, most)
        assert [i for start, n in units for i in range(start, start + n)] == list(range(200))
        assert most is None or max(n for _, n in units) == most
    assert marked([], 0.5) == []


@pytest.mark.parametrize("prompt", PROMPTS[1:])
def test_a_window_of_one_and_a_line_above_one_write_token_by_token(model, prompt):
    alone, above = decode(model, prompt, k=1), decode(model, prompt, beta=1.05)
    assert alone.output_ids == above.output_ids
    assert all(len(step.commits.tokens) == 1 for trace in (alone, above) for step in trace.steps)


def test_a_line_of_zero_writes_the_whole_window(model):
    trace = decode(model, beta=0.0, n=0, k=3)
    assert {len(step.commits.tokens) for step in trace.steps[:-1]} == {3}
    assert {span.label for step in trace.steps[:-1] for span in step.spans} == {"window"}


@pytest.mark.parametrize("prompt", PROMPTS[:1])
def test_untuned_and_one_token_wide_it_is_the_plain_model(model, prompt):
    ours, plain = decode(model, prompt, k=1, tuned=False), decode(model, prompt, "greedy")
    assert ours.output_ids == plain.output_ids
    for one, other in zip(ours.steps, plain.steps, strict=True):
        assert one.commits.probabilities == pytest.approx(other.commits.probabilities, abs=1e-4)


def test_rows_and_tokens_of_every_step(model):
    trace = decode(model, k=4)
    before = len(trace.header.prompt_ids)
    for step in trace.steps:
        f, wrote = step.facts, len(step.commits.tokens)
        assert f["rows"] == before + f["foreseen"] - 1 and 1 <= wrote <= f["foreseen"] <= 4
        assert step.forwards == {"target": 1} and step.work == {"target": model.num_layers * int(f["rows"])}
        assert step.spans[0].end - step.spans[0].start == wrote == f["written"]
        assert step.commits.causes == ["greedy", *["unit"] * (wrote - 1)]
        before = wrote


def test_what_pads_leave_behind_is_no_text(model):
    """The first token of every unit is what the tuned model says behind a text that it reads afresh, and the count of
    tokens that are as one by one is that of a forward of the whole text."""
    trace, prompt = decode(model, beta=0.5), None
    lora, ids = lora_of(load_part("lexical-units", [model.record])), [*trace.header.prompt_ids, *trace.output_ids]
    taps = Taps(linear=lambda layer, name, x, y: y + lora.added(layer, name, x))
    h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)
    best, prompt = model.unembed(h).argmax(-1).tolist(), len(trace.header.prompt_ids)
    late = []
    for step in trace.steps:
        start = step.spans[0].start
        assert step.commits.tokens[0] == best[start - 1]
        if late:
            assert step.facts["agreed"] == sum(ids[at] == best[at - 1] for at in late)
        late = list(range(start + 1, step.spans[0].end))
    assert prompt and sum(step.facts["checked"] for step in trace.steps) > 3


def test_why_a_unit_ends():
    ends = frozenset({2})
    assert written([5], [7, 8, 9], [0.9, 0.9, 0.1], 0.5, 3, ends) == (2, "threshold")
    assert written([5], [7, 8, 9], [0.1, 0.9, 0.9], 0.5, 3, ends) == (1, "threshold")
    assert written([5], [7, 8, 9], [0.9, 0.9, 0.9], 0.5, 3, ends) == (3, "window")
    assert written([5], [7, 2, 9], [0.9, 0.9, 0.9], 0.5, 3, ends) == (2, "end")
    assert written([5, 7], [8, 5, 7, 8], [0.9] * 4, 0.5, 3, ends) == (3, "repeat")
    assert written([5, 7], [8, 5, 7, 8], [0.9] * 4, 0.5, 2, ends) == (4, "window")
    assert written([5], [5, 9], [0.9, 0.9], 0.5, 3, ends) == (2, "window")  # the first token is always written
    assert accepted([0.2], 0.5) == 1
    assert repeats([1, 2], 2, 1) and not repeats([1, 2], 2, 0) and repeats([1, 2, 1], 2, 2)


def test_confidence_is_that_of_the_token_drawn():
    z = torch.randn(3, 9, generator=torch.Generator().manual_seed(2))
    x, c = said(z, 0.7, torch.Generator().manual_seed(1))
    assert c == pytest.approx((z.double() / 0.7).softmax(-1)[range(3), x].tolist())
    assert said(z, 0.0, torch.Generator())[0] == z.argmax(-1).tolist()


def test_a_fork_goes_on_from_the_edited_text(model):
    plain = decode(model)
    at = plain.steps[2].commits.positions[0]
    edits = [(1, Edit(force={at: plain.steps[0].commits.tokens[0]}, params={"k": 1}))]
    fork = engines.run("lud", model, PROMPTS[1], params={"max_new_tokens": 20}, edits=edits)
    assert fork.steps[2].facts["checked"] == 0 and {len(s.spans) for s in fork.steps[2:]} == {1}
    assert all(s.facts["foreseen"] == 1 for s in fork.steps[2:])


# --- the variant that verifies


def test_every_draft_carries_pads(model):
    trace = decode(model, slug="lud-verified", k=3)
    for step in trace.steps:
        assert set(step.tree.tails) <= {2} and step.facts["pads"] == 2 * len(step.tree.tokens)
        assert step.work["target"] >= model.num_layers * (step.facts["rows"] + step.facts["pads"])
    assert f"{load_part('lexical-units', [model.record]).parameters:,} trained parameters" in trace.steps[0].note


# --- training


@pytest.fixture
def cache(model, texts):
    return texts(model, prompts=PROMPTS * 2)


def test_training_begins_as_the_model_and_moves_all_that_it_may(model, cache):
    training = UnitTraining("test", model, cache, Teacher(model.model.get_output_embeddings().weight), 0)
    first = training.loss(training.batch(0.0))
    first.value.backward()
    assert float(training.network.pad.grad.abs().sum()) > 0
    assert all(float(B.grad.abs().sum()) > 0 for B in training.network.B.values())
    assert not any(one.requires_grad for one in model.model.parameters())
    text = next(training.cache.texts((training.last,)))
    z, _ = training.said([text], torch.tensor([text.prompt]))
    assert torch.allclose(z, text.hidden[training.last].float() @ training.W.T, atol=0.1)
    assert not any(module._forward_hooks for module in model.model.modules())


def test_training_computes_what_decoding_foresees(model, cache):
    """Two texts in one forward, against one forward of decoding for each cut."""
    from engines.methods.heads.lud import forward

    training = UnitTraining("test", model, cache, Teacher(model.model.get_output_embeddings().weight), 0)
    torch.manual_seed(1)
    for B in training.network.B.values():
        B.data.normal_(0, 0.05)
    texts = training.batch(0.0)[:2]
    n = len(texts[0].tokens)
    cuts = torch.tensor([texts[0].prompt + 2, n + texts[1].prompt + 5])
    _, ahead = training.said(texts, cuts)
    for text, cut, wanted in zip(texts, [int(cuts[0]), int(cuts[1]) - n], ahead, strict=True):
        ids, m = text.tokens[: cut + 1].tolist(), WINDOW - 1
        h = forward(model, model.new_cache(len(ids) + m), ids, m, training.network, everywhere=True)
        assert torch.allclose(model.unembed(h[-m:]), wanted, atol=1e-2)


def test_a_part_keeps_its_adapters():
    made = LoRA({"0-q_proj": (3, 4)}, torch.ones(4), 2)
    made.B["0-q_proj"].data.fill_(0.5)
    part = parts.Part("x", "", "", dict(made.named_parameters()), {})
    x = torch.randn(5, 4)
    assert torch.equal(lora_of(part).added(0, "q_proj", x), made.added(0, "q_proj", x))


@pytest.mark.parametrize("slug", ["lud", "lud-verified"])
def test_a_window_wider_than_the_part_is_refused(model, slug):
    with pytest.raises(engines.UserError, match=r"k 8 was given and .* windows of up to 6; choose 1 to 6"):
        decode(model, slug=slug, k=8)
