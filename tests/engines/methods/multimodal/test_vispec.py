"""ViSpec's adaptor: what it compresses, and that nothing else moves. That the text stays the target's own is tested
beside MSD, with the same drafts."""

import torch

from engines.methods.multimodal._seen import Vision
from engines.models.networks.vision_draft import draft_of
from tests.engines.methods.multimodal.test_msd import drafter, model, parts, run

VISION = "vision", Vision

__all__ = ["model", "parts"]  # fixtures


def test_the_adaptor_has_no_positions_and_its_rows_sum_to_one(parts):
    draft = draft_of(parts["vision-compressor"], "compressed")
    E = torch.randn(36, 96, generator=torch.Generator().manual_seed(3))
    A, g, looks = draft.compact(E)
    order = torch.randperm(36, generator=torch.Generator().manual_seed(4))
    again, same, turned = draft.compact(E[order])
    assert torch.allclose(A, again, atol=1e-5) and torch.allclose(g, same, atol=1e-5)
    assert torch.allclose(looks[..., order], turned, atol=1e-6)
    assert torch.allclose(looks.sum(-1), torch.ones(2, 2), atol=1e-5) and A.shape == (1, 96)


def test_one_entry_for_36_and_the_text_where_it_was(model, parts):
    """The cache holds the text and one compact token; positions of words are those of an uncompressed draft."""
    small, ids, H = drafter(model, draft_of(parts["vision-compressor"], "compressed"), "scene 3")
    large, _, _ = drafter(model, draft_of(parts["vision-drafts"], "growing"), "scene 3")
    for one in (small, large):
        one.read([*ids[1:], 20], H)
    assert (small.past.length, large.past.length) == (3, 38) and small.kept == 1 and large.kept == 36
    e = model.embed([*ids, 20])[1:]
    assert small.draft.sequence(e, H, 36)[1].tolist() == [35, 36, 37]
    small.crop(len(ids) - 1)
    assert small.past.length == 2 and small.T == 37
    trace = run("vispec")
    kept = [step.record(*VISION).entries["picture"] for step in trace.steps[1:]]
    assert set(kept) == {1} and trace.steps[1].record(*VISION).entry_bytes == 2 * 96 * 4
    assert {step.record(*VISION).entries["picture"] for step in run("msd").steps[1:]} == {36}


def test_switches_of_vispec_take_something_away(model, parts):
    draft = draft_of(parts["vision-compressor"], "compressed")
    for given, length, recalled in (({}, 3, True), ({"compact": False}, 2, True), ({"recall": False}, 3, False)):
        made, ids, H = drafter(model, draft, "scene 3", **given)
        made.read([*ids[1:], 20], H)
        assert made.past.length == length and (made.g is not None) == recalled
