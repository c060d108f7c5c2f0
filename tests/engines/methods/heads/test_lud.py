"""Lexical Unit Decoding: what window, line and switch do, and the variant that verifies. Units are golden cases."""

import pytest
import torch

import engines
from engines.core.kinds import Taps
from engines.core.trace import Edit
from engines.methods.heads.lud import forward, predictions, repeats, unit_length
from engines.models.networks.lora import lora_of
from engines.models.parts import load_part
from engines.training.heads.lexical_units import WINDOW, UnitTraining
from tests.engines.methods.heads.conftest import decoder

PROMPTS = ("add: 457 + 86", "story: Mia, boat", "copy: Ada, Tom, Mia")
decode = decoder("lud", PROMPTS[1], 20)


def sizes(trace):
    return [len(step.commits.tokens) for step in trace.steps]


def test_a_window_of_one_and_a_line_above_one_write_token_by_token_and_a_line_of_zero_the_whole_window(model):
    alone, above = decode(model, k=1), decode(model, beta=1.05)
    assert alone.output_ids == above.output_ids and {*sizes(alone), *sizes(above)} == {1}
    whole = decode(model, beta=0.0, n=0, k=3)
    assert set(sizes(whole)[:-1]) == {3}
    assert {span.label for step in whole.steps[:-1] for span in step.spans} == {"window"}
    ours, plain = (decode(model, PROMPTS[0], **given) for given in ({"k": 1, "tuned": False}, {"slug": "greedy"}))
    assert ours.output_ids == plain.output_ids  # untuned and one token wide it is the plain model
    for one, other in zip(ours.steps, plain.steps, strict=True):
        assert one.commits.probabilities == pytest.approx(other.commits.probabilities, abs=1e-4)


def test_rows_and_tokens_of_every_step(model):
    trace = decode(model, k=4)
    before = len(trace.header.prompt_ids)
    for step, wrote in zip(trace.steps, sizes(trace), strict=True):
        f = step.facts
        assert f["rows"] == before + f["foreseen"] - 1 and 1 <= wrote <= f["foreseen"] <= 4
        assert step.forwards == {"target": 1} and step.work == {"target": model.num_layers * int(f["rows"])}
        assert step.spans[0].end - step.spans[0].start == wrote == f["written"]
        assert step.commits.causes == ["greedy", *["unit"] * (wrote - 1)]
        before = wrote


def test_what_pads_leave_behind_is_no_text(model):
    """Against a forward of the tuned model over the whole text: first tokens of units, and how many agree."""
    trace, lora = decode(model, beta=0.5), lora_of(load_part("lexical-units", [model.record]))
    ids, late = [*trace.header.prompt_ids, *trace.output_ids], []
    taps = Taps(linear=lambda layer, name, x, y: y + lora.added(layer, name, x))
    h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers, taps=taps)
    best = model.unembed(h).argmax(-1).tolist()
    for step in trace.steps:
        start = step.spans[0].start
        assert step.commits.tokens[0] == best[start - 1]
        if late:
            assert step.facts["agreed"] == sum(ids[at] == best[at - 1] for at in late)
        late = list(range(start + 1, step.spans[0].end))
    assert sum(step.facts["checked"] for step in trace.steps) > 3


def test_why_a_unit_ends():
    ends = frozenset({2})
    assert unit_length([5], [7, 8, 9], [0.9, 0.9, 0.1], 0.5, 3, ends) == (2, "threshold")
    assert unit_length([5], [7, 8, 9], [0.1, 0.9, 0.9], 0.5, 3, ends) == (1, "threshold")
    assert unit_length([5], [7, 8, 9], [0.9, 0.9, 0.9], 0.5, 3, ends) == (3, "window")
    assert unit_length([5], [7, 2, 9], [0.9, 0.9, 0.9], 0.5, 3, ends) == (2, "end")
    assert unit_length([5, 7], [8, 5, 7, 8], [0.9] * 4, 0.5, 3, ends) == (3, "repeat")
    assert unit_length([5, 7], [8, 5, 7, 8], [0.9] * 4, 0.5, 2, ends) == (4, "window")
    assert unit_length([5], [5, 9], [0.9, 0.9], 0.5, 3, ends) == (2, "window")  # the first token is always written
    assert repeats([1, 2], 2, 1) and not repeats([1, 2], 2, 0) and repeats([1, 2, 1], 2, 2)


def test_confidence_is_that_of_the_token_drawn():
    z = torch.randn(3, 9, generator=torch.Generator().manual_seed(2))
    x, c = predictions(z, 0.7, torch.Generator().manual_seed(1))
    assert c == pytest.approx((z.double() / 0.7).softmax(-1)[range(3), x].tolist())
    assert predictions(z, 0.0, torch.Generator())[0] == z.argmax(-1).tolist()


def test_a_fork_goes_on_from_the_edited_text(model):
    plain = decode(model)
    at = plain.steps[2].commits.positions[0]
    fork = decode(model, edits=[(1, Edit(force={at: plain.steps[0].commits.tokens[0]}, params={"k": 1}))])
    assert fork.steps[2].facts["checked"] == 0 and {len(s.spans) for s in fork.steps[2:]} == {1}
    assert all(s.facts["foreseen"] == 1 for s in fork.steps[2:])


def test_every_draft_of_the_variant_that_verifies_carries_pads(model):
    for step in decode(model, slug="lud-verified", k=3).steps:
        assert set(step.tree.tails) <= {2} and step.facts["pads"] == 2 * len(step.tree.tokens)
        assert step.work["target"] >= model.num_layers * (step.facts["rows"] + step.facts["pads"])


@pytest.mark.parametrize("slug", ["lud", "lud-verified"])
def test_a_window_wider_than_the_part_is_refused(model, slug):
    with pytest.raises(engines.UserError, match=r"k 8 was given and .* windows of up to 6; choose 1 to 6"):
        decode(model, slug=slug, k=8)


@pytest.fixture
def training(model, training):
    return training(UnitTraining, model, prompts=PROMPTS * 2)


def test_training_begins_as_the_model_and_moves_all_that_it_may(model, training):
    training.loss(training.batch(0.0)).value.backward()
    assert float(training.network.pad.grad.abs().sum()) > 0
    assert all(float(B.grad.abs().sum()) > 0 for B in training.network.B.values())
    assert not any(one.requires_grad for one in model.model.parameters())
    text = next(training.cache.texts((training.last,)))
    z, _ = training.said([text], torch.tensor([text.prompt]))
    assert torch.allclose(z, text.hidden[training.last].float() @ training.W.T, atol=0.1)
    assert not any(module._forward_hooks for module in model.model.modules())


def test_training_computes_what_decoding_foresees(model, training):
    """Two texts in one forward, against one forward of decoding for each cut."""
    torch.manual_seed(1)
    for B in training.network.B.values():
        B.data.normal_(0, 0.05)
    texts, m = training.batch(0.0)[:2], WINDOW - 1
    n, cuts = len(texts[0].tokens), (texts[0].prompt + 2, texts[1].prompt + 5)
    _, ahead = training.said(texts, torch.tensor([cuts[0], n + cuts[1]]))
    for text, cut, wanted in zip(texts, cuts, ahead, strict=True):
        ids = text.tokens[: cut + 1].tolist()
        h = forward(model, model.new_cache(len(ids) + m), ids, m, training.network, everywhere=True)
        assert torch.allclose(model.unembed(h[-m:]), wanted, atol=1e-2)
