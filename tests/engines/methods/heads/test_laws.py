"""What holds of every way to draft with a trained part, whatever is set and whatever the part knows."""

from functools import cache

import pytest
import torch

import engines
from engines.core.sampling import distribution
from engines.core.trees import row_depths
from engines.methods.heads import hidden_transfer, medusa
from engines.models import parts
from engines.models.networks import exit_adapter, falcon_layer
from engines.models.networks.chimera_drafter import ChimeraDrafter
from engines.models.networks.clover_drafter import CloverDrafter
from engines.models.networks.eagle_layer import EagleLayer
from engines.models.networks.exit_adapter import ExitAdapter
from engines.models.networks.falcon_layer import FalconLayer
from engines.models.networks.hydra_heads import HydraHeads
from engines.training.heads.chimera import ChimeraTraining
from engines.training.heads.clover import CloverTraining
from engines.training.heads.eagle import EagleTraining
from engines.training.heads.falcon import FalconTraining
from engines.training.heads.hydra import HydraTraining
from tests.engines.fakes import chi_square_p
from tests.engines.methods.heads.conftest import PROMPTS

WAYS = {  # what is set beside the usual values, which the contract of every method tries
    "chimera": [{"K": 1}, {"nodes": 40}, {"window": 1}, {"window": 2}, {"sees_drafts": False}],
    "clover": [{"K": 1}, {"nodes": 40}, {"link": False}, {"memory": "last"}, {"block": False}, {"nodes": 1}],
    "del": [{"exits": "raw"}, {"stop": "length"}, {"omega": 0.5, "gamma_max": 4}, {"gamma_min": 2}],
    "dflash": [{"block": 4}, {"block": 12}],
    "eagle": [{"top_k": 1}, {"nodes": 40, "depth": 5, "top_k": 6}, {"nodes": 1}, {"depth": 0}],
    "eagle3": [{"top_k": 1}, {"nodes": 40, "depth": 5, "top_k": 6}, {"depth": 0}],
    "falcon": [{"k": 1}, {"k": 1, "m": 4}, {"m": 1}, {"m": 3, "nodes": 24}, {"glancing": False}],
    "hidden-transfer": [{"transfer_layer": 2}, {"transfer_layer": 6}, {"m": 1}, {"nodes": 40, "transfer_layer": 2}],
    "hydra": [{"K": 1}, {"nodes": 40}, {"nodes": 1}],
    "kangaroo": [{"eta": 0.0}, {"eta": 1.05}, {"gamma": 1}, {"exit_layer": 1, "eta": 0.3}, {"exit_layer": 5}],
    "lud-verified": [{"beta": 0.0}, {"k": 6, "beta": 0.3}],
    "medusa": [{"K": 1}, {"nodes": 40}, {"nodes": 1}],
    "mtp": [{"k": 1}, {"k": 7}],
    "p-eagle": [{"k": 1}, {"k": 7}],
    "ppd": [{"budget": 33}],
}
NO_DRAFTS = {  # with which it is the plain decoder
    **dict.fromkeys(("chimera", "clover", "eagle", "eagle3", "falcon", "hidden-transfer", "hydra", "medusa"), "nodes"),
    **{"dflash": "block", "lud-verified": "k", "mtp": "k", "p-eagle": "k"},
}
LEAST = {"dflash": 1, "lud-verified": 1}  # of that parameter; 0 elsewhere
LARGEST = {"eagle": {"nodes": 63, "depth": 7, "top_k": 10}, "eagle3": {"nodes": 63, "depth": 7, "top_k": 10}}
LARGE = ("dflash", "eagle3", "mtp", "p-eagle")  # their parts were trained for the large model


@cache
def model_of(slug):
    return engines.load_model("tiny-ar-l" if slug in LARGE else "tiny-ar-m", dtype="float32")


@cache
def plain(slug, prompt, length=16):
    return decode("greedy", prompt, length, on=slug)


def decode(slug, prompt=PROMPTS[0], length=16, on=None, seed=0, **params):
    return engines.run(slug, model_of(on or slug), prompt, params={"max_new_tokens": length, **params}, seed=seed)


@pytest.mark.parametrize(("slug", "params"), [(slug, params) for slug, some in WAYS.items() for params in some])
def test_the_text_is_greedys_in_fewer_calls(slug, params):
    prompt = PROMPTS[WAYS[slug].index(params) % 3]
    ours, control = decode(slug, prompt, **params), plain(slug, prompt)
    assert ours.output_ids == control.output_ids
    assert ours.totals.forwards_by_role["target"] == len(ours.steps) <= len(control.steps)


@pytest.mark.parametrize("slug", NO_DRAFTS)
def test_above_temperature_0_it_draws_as_plain_sampling_does_and_without_candidates_it_decodes_one_by_one(slug):
    """Candidates are chosen without chance, one draw of the model decides each token."""
    none = {NO_DRAFTS[slug]: LEAST.get(slug, 0)}
    calls = tokens = 0
    for seed in range(2):
        ours, drawn = (decode(slug, seed=seed, temperature=1.3, **given) for given in ({}, none))
        assert ours.output_ids == drawn.output_ids and len(drawn.steps) == len(drawn.output_ids)
        calls, tokens = calls + len(ours.steps), tokens + len(drawn.steps)
    assert calls < tokens
    single = decode(slug, **none)
    assert single.output_ids == plain(slug, PROMPTS[0]).output_ids and len(single.steps) == len(single.output_ids)
    assert not single.totals.forwards_by_role.get("draft")


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("slug", WAYS)
def test_a_draft_larger_than_the_room_left_is_cut(slug, length):
    ours = decode(slug, length=length, **LARGEST.get(slug, {}))
    assert ours.output_ids == plain(slug, PROMPTS[0], length).output_ids and len(ours.output_ids) <= length
    for step in ours.steps:
        assert step.tree.start + max(row_depths(step.tree.parents)) < len(ours.header.prompt_ids) + length


@pytest.mark.parametrize("slug", WAYS)
def test_behind_a_change_of_a_person_the_text_is_greedys(slug):
    first = decode(slug)
    prompt = first.header.prompt_ids
    for after in range(min(3, len(first.steps) - 1)):
        at = first.steps[after].commits.positions[-1]
        ours = engines.fork(first, after + 1, edit=engines.Edit(force={at: 30}))
        board = [*prompt, *ours.output_ids]
        rest = decode("greedy", board[: at + 1], len(prompt) + 16 - at - 1, on=slug)
        assert board[at] == 30 and board[at + 1 :] == rest.output_ids


@pytest.mark.parametrize("slug", ["falcon", "hidden-transfer", "lud-verified", "mtp", "ppd"])
def test_it_ends_at_the_last_position_of_the_model(slug):
    """Rows that would stand behind the model's last position are left out."""
    model = model_of(slug)
    ids = (list(model.tokenizer.encode_prompt(PROMPTS[0])) * 60)[: model.max_positions - 5]
    ours, control = (engines.run(s, model, ids, params={"max_new_tokens": 5}) for s in (slug, "greedy"))
    assert ours.output_ids == control.output_ids
    for step in ours.steps:
        depths, tails = row_depths(step.tree.parents), step.tree.tails or [0] * len(step.tree.parents)
        assert step.tree.start + max(d + n for d, n in zip(depths, tails, strict=True)) < model.max_positions


@pytest.mark.exhaustive
@pytest.mark.parametrize(("slug", "params"), [("del", {}), ("kangaroo", {"eta": 0.0})])
def test_drawn_drafts_keep_the_distribution(slug, params):
    """The first token of 200 runs against the model's own law, binned by the likeliest ones."""
    model = model_of(slug)
    prompt = model.tokenizer.encode_prompt("story: Mia, boat")
    first = distribution(model.extend(prompt, model.new_cache(len(prompt))).logits[-1].double(), 1.5)
    top, counts = first.topk(4).indices.tolist(), torch.zeros(5)
    for seed in range(200):
        given = {"max_new_tokens": 2, "temperature": 1.5, **params}
        token = engines.run(slug, model, prompt, params=given, seed=seed, detail="none").output_ids[0]
        counts[top.index(token) if token in top else 4] += 1
    wanted = first[top]
    assert chi_square_p(counts, torch.cat([wanted, 1 - wanted.sum()[None]])) > 1e-3


def untrained(layer, *names):
    """A layer that knows nothing."""
    torch.manual_seed(0)
    for name in names:
        getattr(layer, name).data.normal_(0, 0.1)
    return layer.requires_grad_(False)


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 9


def no_maps(*_):
    return noise(3, 128, 128), torch.zeros(3, 128), [[0.5, 0.3, 0.1]] * 3


def other_tensors(name, bases, load=parts.load_part, **_):
    part = load(name, bases)
    known = ("p", "pad") if name == "prompt-tokens" else ("B.", "pa")
    tensors = {key: noise(*t.shape) / 9 if key.startswith(known) else t for key, t in part.tensors.items()}
    return parts.Part(name, "", "0" * 64, tensors, part.card)


@pytest.mark.parametrize(
    ("slug", "where", "name", "wrong"),
    [
        ("chimera", ChimeraDrafter, "predicted", lambda self, h, f, i: noise(*f.shape)),
        ("clover", CloverDrafter, "predicted", lambda self, s, i: noise(*s.shape)),
        ("eagle", EagleLayer, "inputs", lambda self, e, h, inputs=EagleLayer.inputs: noise(*inputs(self, e, h).shape)),
        ("falcon", falcon_layer, "layer_of", lambda *_: untrained(FalconLayer(128, 384), "fc", "P", "O", "down")),
        ("hidden-transfer", hidden_transfer, "maps_of", no_maps),
        ("hydra", HydraHeads, "forward", lambda self, h, e: noise(*h.shape)),
        ("kangaroo", exit_adapter, "adapter_of", lambda *_: untrained(ExitAdapter(128), "O", "R")),
        ("lud-verified", parts, "load_part", other_tensors),
        ("medusa", medusa, "hidden", lambda heads, h, K: noise(K, len(h))),
        ("ppd", parts, "load_part", other_tensors),
    ],
)
def test_a_part_that_knows_nothing_only_slows_it_down(slug, where, name, wrong, monkeypatch):
    monkeypatch.setattr(where, name, wrong)
    ours = decode(slug, **({"beta": 0.0} if slug == "lud-verified" else {}))
    assert ours.output_ids == plain(slug, PROMPTS[0]).output_ids
    assert sum(step.facts["drafted"] for step in ours.steps) > 2 * sum(step.facts["accepted"] for step in ours.steps)


PARTS = {info.slug: part for info in engines.list_methods() for part in info.parts.values() if info.slug in WAYS}


@pytest.mark.parametrize("slug", PARTS)
def test_a_model_without_the_part_is_told_how_to_train_it_and_the_header_counts_what_was_trained(slug):
    name = "tiny-ar-m" if slug in LARGE else "tiny-ar-s"
    with pytest.raises(engines.UserError, match=f"training {PARTS[slug]} {name}"):
        engines.run(slug, name, PROMPTS[0])
    trace, part = decode(slug, length=2), parts.load_part(PARTS[slug], [model_of(slug).record])
    assert [one.parameters for one in trace.header.parts] == [part.parameters] == [part.card["parameters"]]


@pytest.mark.parametrize(("slug", "at"), [("dflash", "dflash_config"), ("p-eagle", None)])
def test_the_mask_that_a_drafter_reads_stands_in_no_text(slug, at):
    model = model_of(slug)
    config = parts.load_part(PARTS[slug], [model.record]).card["config"]
    mask = (config[at] if at else config)["mask_token_id"]
    assert model.tokenizer.piece(mask).kind == "special" and mask not in model.eos_ids
    assert not any(mask in model.tokenizer.encode_prompt(text) for text in PROMPTS)


@pytest.mark.parametrize("of", [ChimeraTraining, CloverTraining, EagleTraining, FalconTraining, HydraTraining])
def test_a_training_begins_from_what_it_has_seen_and_counts_held_out_guesses(of, training):
    training = training(of, model_of("eagle"))
    before = float(training.loss(training.batch(0.0)).value.detach())
    training.start()
    assert float(training.loss(training.batch(0.0)).value.detach()) < before
    a, rows = training.accuracy()
    assert a.shape[-1] == 10 and rows == 15 and float(a.sum()) > 0
