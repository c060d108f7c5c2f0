"""Drafts that see, MSD's and ViSpec's: the text stays the target's own, and what enters the draft is what the papers
say."""

from collections import Counter
from functools import lru_cache

import pytest
import torch

import engines
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.methods.multimodal._seen import Sighted, picture_of
from engines.methods.multimodal.msd import Inputs
from engines.models.networks.scene_text import SCENE
from engines.models.networks.vision_draft import VisionDraft, draft_of
from engines.models.parts import load_part
from tests.engines.fakes import chi_square_p

LONG = {"max_new_tokens": 48}
DRAFTS = ("growing", "mixed", "fused", "text")
WAYS = [("msd", {"draft": "growing"}), ("vispec", {})]  # those in plain `pytest`, and the further ones
FURTHER = [("msd", {"draft": name}) for name in DRAFTS[1:]] + [
    ("vispec", {name: False}) for name in ("global_vector", "compact")
]


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-vlm", dtype="float32")


@lru_cache
def decoded(slug, prompt, params=(), seed=0):
    return engines.run(slug, engines.load_model("tiny-vlm", dtype="float32"), prompt, params=dict(params), seed=seed)


def run(slug, prompt="scene 12", **params):
    return decoded(slug, prompt, tuple(sorted({**LONG, **params}.items())))


@pytest.mark.parametrize(("slug", "behind"), [("temperature", 0), ("msd", 5)])
def test_a_scene_that_was_written_is_a_word(model, slug, behind):
    """A <scene> behind the prompt opens no picture, however many words follow it: forced, or drawn at a high
    temperature. The run goes on, and taking the text in one by one or at once is the same."""
    at = len(model.tokenizer.encode_prompt("scene 12")) + behind
    params = {"temperature": 2.0, "max_new_tokens": 44}
    forced = engines.Edit(force={at: SCENE})
    steps = engines.run(slug, model, "scene 12", params=params, seed=3).steps
    step = next(s.index for s in steps if s.commits and at in s.commits.positions)
    trace = engines.run(slug, model, "scene 12", params=params, seed=3, edits=[(step, forced)])
    assert trace.end.reason == "complete" and trace.output_ids[behind] == SCENE and len(trace.output_ids) > behind + 1
    ids = [*trace.header.prompt_ids, *trace.output_ids]
    assert torch.equal(model.embed(ids)[at], model.embed([SCENE])[0])
    if slug == "temperature":
        assert SCENE in engines.run(slug, model, "scene 12", params={"temperature": 2.0}, seed=7).output_ids


@pytest.mark.parametrize(
    ("slug", "params"), [*WAYS, FURTHER[1], *(pytest.param(*way, marks=pytest.mark.exhaustive) for way in FURTHER)]
)
def test_even_an_untrained_draft_changes_no_word(model, slug, params, monkeypatch):
    def made(part, name):
        torch.manual_seed(3)
        draft = VisionDraft(96, str(part.card["drafts"][name]["way"]))
        for tensor in (draft.O, draft.down):
            tensor.data.normal_(0, 0.2)
        return draft.requires_grad_(False)

    monkeypatch.setattr("engines.models.networks.vision_draft.draft_of", made)
    trace = engines.run(slug, model, "scene 12", params={**LONG, **params})
    assert trace.output_ids == run("greedy").output_ids
    assert all(1 <= len(step.commits.tokens) <= 5 for step in trace.steps)


@pytest.mark.parametrize("slug", ["msd", pytest.param("vispec", marks=pytest.mark.exhaustive)])
def test_sampling_keeps_the_distribution(slug, model):
    """The first token at which the model hesitates, 150 runs against its own distribution."""
    plain = run("greedy")
    ids, text = plain.header.prompt_ids, plain.output_ids
    until = next(i for i, token in enumerate(text) if model.tokenizer.piece(token).text == ".") + 1
    z = model.extend([*ids, *text[:until]], model.new_cache(128), last_only=True).logits[0]
    p = z.double().div(1.5).softmax(-1)
    assert float(p.max()) < 0.95
    seen, params = Counter(), {"max_new_tokens": 3, "temperature": 1.5, "nodes": 6, "depth": 1}
    for seed in range(150):
        trace = engines.run(slug, model, [*ids, *text[: until - 1]], params=params, seed=seed, detail="none")
        seen[trace.output_ids[1]] += trace.output_ids[0] == text[until - 1]
    assert chi_square_p([seen[i] for i in range(model.vocab_size)], p) > 1e-3


def drafter(model, draft, prompt, **given):
    ids = model.tokenizer.encode_prompt(prompt)
    made = Sighted(counted(model, "draft", Meter(), "layered"), draft, picture_of(model, ids), ids[0], **given)
    out = model.extend(ids, model.new_cache(64), hidden=(model.num_layers,))
    return made, ids, out.hidden[model.num_layers]


@pytest.fixture(scope="module")
def parts(model):
    return {name: load_part(name, [model.record]) for name in ("vision-drafts", "vision-compressor")}


def test_visual_rows_of_msd_are_the_projectors_output_and_without_a_picture_both_ways_are_one(model, parts):
    draft, fused = (draft_of(parts["vision-drafts"], name) for name in ("growing", "fused"))
    ids = model.tokenizer.encode_prompt("scene 3")
    e, image = model.embed(ids)[1:], model.pictured(ids)
    h = torch.randn(len(e), 96, generator=torch.Generator().manual_seed(0))
    z, at, _ = draft.sequence(e, h, 36)
    patches = model.model.model.embed_tokens.patches(image.pixels[None])[0]
    assert torch.equal(z[:36], patches) and at.tolist() == list(range(37))
    assert not torch.equal(fused.sequence(e, h, 36)[0][:36], patches)
    decoupled = draft.sequence(e, h, 0)[0]
    draft.way = "fused"
    assert torch.equal(draft.sequence(e, h, 0)[0], decoupled)


def test_reading_in_parts_is_reading_at_once(model, parts):
    for name, part in (("growing", "vision-drafts"), ("compressed", "vision-compressor")):
        one, ids, H = drafter(model, draft_of(parts[part], name), "scene 3")
        text = [*ids, 20, 21, 22]
        H = model.extend(text, model.new_cache(64), hidden=(model.num_layers,)).hidden[model.num_layers]
        one.read(text[1 : len(ids) + 1], H[: len(ids)])
        one.crop(len(ids))
        F = one.read([*text[len(ids) + 1 :], 23], H[len(ids) :])
        whole = Sighted(one.model, one.draft, one.image, one.first)
        assert torch.allclose(F[-1], whole.read([*text[1:], 23], H)[-1], atol=1e-4)
        assert one.past.length == whole.past.length


def first_guesses(model, ids, name, V):
    """What a draft says first of each token of a text from the third on, read as a whole."""
    n = model.num_layers
    H = model.extend(ids[:-1], model.new_cache(len(ids)), hidden=(n,)).hidden[n]
    draft = draft_of(load_part("vision-drafts", [model.record]), name)
    z, at, _ = draft.sequence(model.embed(ids)[1:-1], H[:-1], V)
    return model.unembed(draft.through(z, at=at), normed=True).argmax(-1).tolist()


@pytest.mark.parametrize(("prompt", "draft"), [("scene 12", "growing"), ("words: red small circle top left", "text")])
def test_the_record_has_what_each_draft_says_first_of_the_true_text(model, prompt, draft):
    trace = run("msd", prompt, draft=draft)
    told = [step.record("inputs", Inputs) for step in trace.steps]
    assert (told[0].names, told[0].drafting) == (list(DRAFTS), draft)
    assert told[0].ways == ["decoupled", "decoupled", "fused", "fused"] and told[0].learnt_from[3] == "text"
    assert told[0].patches == (36 if prompt == "scene 12" else 0)
    ids = [*trace.header.prompt_ids, *(token for step in trace.steps for token in step.commits.tokens)]
    for i, name in enumerate(DRAFTS):
        recorded = [token for inputs in told for token in inputs.first[i]]
        assert recorded == first_guesses(model, ids, name, told[0].patches)[-len(recorded) :]
        assert len(recorded) == len(ids) - len(trace.header.prompt_ids)
    for step, inputs in zip(trace.steps, told, strict=True):
        if len(step.tree.tokens) > 1:
            assert inputs.first[DRAFTS.index(draft)][0] == step.tree.tokens[1], "the first guess at the root"
