"""Trainings of draft heads: a part that can be read, whatever way it is stored, its card; exits, experts, judges and
the grid of drafts; refusals in a sentence."""

import json
from argparse import ArgumentParser
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.methods.routing.read_me.experts import channel_ranks, masks
from engines.models.files import stored
from engines.models.networks.exits import scaled
from engines.models.networks.sized_draft import SIZES
from engines.models.parts import read_part
from engines.studies.scaling_laws import checkpoints
from engines.tasks.domains import TINY, WIDE, domains_of, library, tokens
from engines.training.__main__ import main
from engines.training.core.loop import Until, run
from engines.training.core.text_cache import Answer, Teacher, TextCache, fill
from engines.training.core.weights import read_weights
from engines.training.heads import draft_grid as grid
from engines.training.heads import drafters, exits
from engines.training.heads.drafters import cost_per_token, tokens_per_call
from engines.training.heads.experts import RouterTraining, activity, agreement, labelled, loss_of, mixed
from engines.training.heads.hydra import HydraTraining
from engines.training.heads.judge import auc, fit, marked, marks, share
from engines.training.heads.judge_data import HELD_ITEMS, WORLDS, Labelled, cases, court, mined

PROMPTS = ("add: 457 + 86", "reverse: Tom", "copy: Ada, Ada")


@pytest.fixture(scope="module")
def model():
    return engines.load_model("tiny-ar-s", dtype="float32")


@pytest.fixture
def cache(model, tmp_path):
    said = engines.run("greedy", model, PROMPTS[0], params={"max_new_tokens": 20}).output_ids
    prompts = [model.tokenizer.encode_prompt(text) for text in PROMPTS * 3]
    answers = [Answer(list(prompt), list(said), i % 3 == 0, {"prompt": ""}) for i, prompt in enumerate(prompts)]
    fill(tmp_path / "cache", model, (model.num_layers,), [answers], lambda: False)
    return TextCache(tmp_path / "cache")


def trained(model, cache, out, decode, **more):
    """The card of a part whose usual place is `part`."""
    given = {"epochs": 1, "minutes": 1.0, "seed": 0, "resume": False, "command": "here", **more}
    out = drafters.train(HydraTraining, decode, model, cache, out, usual=out.parent / "part", **given)
    return json.loads((out / "card.json").read_text())


@pytest.mark.parametrize("largest", [drafters.LARGEST, 1000])
def test_a_part_and_its_card(model, cache, tmp_path, monkeypatch, largest):
    """Elsewhere nothing is decoded: a decoding looks for the part in its usual folder only."""
    monkeypatch.setattr(drafters, "LARGEST", largest)
    asked = []
    card = trained(model, cache, tmp_path / "part", lambda _, prompts: asked.append(prompts) or {"x": 1.5}, epochs=2)
    held = card["held_out"]
    assert card["steps"] == 3 and card["parameters"] == 2 * (2 + 3 + 4) * 64 * 64 + 3 * 64
    assert held["tokens_per_target_call"]["x"] == 1.5 and len(asked[0]) == len(held["rank_1"]) == 3
    assert ("rank_1_in_bfloat16" in held) == ("stored" in card) == (largest == 1000)
    R = read_weights(tmp_path / "part")["R.0"].float()
    assert R.shape == (64, 128) and float(R.abs().sum()) > 0
    assert "tokens_per_target_call" not in trained(model, cache, tmp_path / "other", None)["held_out"]


def test_tokens_per_call_are_those_of_the_runs(model):
    asked = [model.tokenizer.encode_prompt(text) for text in PROMPTS]
    runs = [engines.run("greedy", model, list(ids), params={"max_new_tokens": drafters.LENGTH}) for ids in asked]
    tokens, calls = (sum(one) for one in zip(*((t.totals.tokens, t.totals.forwards) for t in runs), strict=True))
    said = tokens_per_call("plain", "greedy", model, asked)
    low, high = said["plain_95"]
    assert said["plain"] == round(tokens / calls, 4) and low <= round(said["plain"], 2) <= high
    work = sum(sum(t.totals.work_by_role.values()) for t in runs)
    assert cost_per_token("greedy", model, asked) == round(work / tokens, 2)
    assert drafters.rounded(torch.tensor([[0.123456], [2.0]])) == [[0.1235], [2.0]]


HEADS = "eagle-layer hydra-heads transfer-maps falcon-layer lexical-units clover-drafter chimera-drafter".split()


@pytest.mark.parametrize("name", HEADS)
def test_nothing_to_train_is_one_sentence(name):
    with pytest.raises(engines.UserError, match="--epochs 0 --minutes 8 trains nothing"):
        main([name, "tiny-ar-s", "--epochs", "0"])
    with pytest.raises(engines.UserError, match="tiny-dlm"):
        main([name, "tiny-dlm"])


GIVEN = {"prompts": 24, "length": 24, "epochs": 1, "minutes": 1.0, "seed": 0}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(model, folder of its answers, the part in bfloat16, the same in int8)."""
    model, folder = engines.load_model("tiny-ar-m", kind="layered", dtype="float32"), tmp_path_factory.mktemp("exits")
    cache, parts = folder / "cache", []
    for name, largest in (("plain", exits.LARGEST), ("small", dict.fromkeys(exits.LARGEST, 1))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exits, "LARGEST", largest)
            parts.append(exits.make(exits.MAPS, model, GIVEN, cache, folder / name, "a command", False))
    return model, cache, *parts


def test_a_large_part_is_stored_in_int8_and_its_card_was_measured_so(made, tmp_path, monkeypatch):
    model, folder, plain, small = made
    cards = [json.loads((folder / "card.json").read_text()) for folder in (plain, small)]
    assert "stored" not in cards[0] and cards[1]["stored"]["as"].startswith("int8")
    assert (small / "model.safetensors").stat().st_size < 0.6 * (plain / "model.safetensors").stat().st_size
    one, other = (stored.read(folder / "model.safetensors") for folder in (plain, small))
    assert one.keys() == other.keys() == {f"{i}.R" for i in range(1, 6)}
    assert 0 < float((one["3.R"].float() - other["3.R"].float()).abs().max()) < 0.05
    assert cards[0]["held_out"]["texts"] > 0
    monkeypatch.setattr(exits, "LARGEST", dict.fromkeys(exits.LARGEST, 1))
    out = exits.make(exits.ADAPTERS, model, GIVEN, folder, tmp_path / "part", "a command", False)
    network = exits.Exits((1, 2, 3, 4, 5), model.config.hidden_size)
    network.load_state_dict({name: one.float() for name, one in stored.read(out / "model.safetensors").items()})
    teacher = Teacher(model.model.get_output_embeddings().weight.float())
    training = exits.ExitTraining("again", network, TextCache(folder), teacher, 0)
    assert training.marks() == json.loads((out / "card.json").read_text())["held_out"]["same_first_token"]


def test_the_card_counts_what_the_guesses_hold(made):
    model, folder, plain, _ = made
    held_out = json.loads((plain / "card.json").read_text())["held_out"]
    R, hits, n = stored.read(plain / "model.safetensors")["2.R"].float(), 0, 0
    for text in TextCache(folder).texts((2, 6), held_out=True):
        for row in text.rows(0):
            best = int(model.unembed(text.hidden[6][[row]].float(), normed=True)[0].argmax())
            z = model.unembed(scaled(text.hidden[2][[row]]) @ R.T, normed=True)[0]
            hits, n = hits + (best in torch.topk(z, exits.WIDTH).indices.tolist()), n + 1
    found = held_out[f"first_choice_in_top_{exits.WIDTH}"]
    assert found["mapped"]["2"] == pytest.approx(hits / n, abs=2.5 / n)  # the teacher's matrix is in bfloat16
    for name in (f"first_choice_in_top_{exits.WIDTH}", f"omega_{exits.WIDTH}"):
        assert held_out[name].keys() == {"mapped", "raw"}
        assert held_out[name]["mapped"]["5"] > held_out[name]["mapped"]["1"] > 0
        assert all(0 <= share <= 1 for kind in held_out[name].values() for share in kind.values())


@pytest.fixture(scope="module")
def whole():
    return engines.load_model("tiny-ar-m", dtype="float32")


def test_domains_are_the_same_again_and_held_out_files_are_others(whole):
    assert domains_of(whole) is TINY
    for texts in (*WIDE.values(), *TINY.values()):
        first, again = (list(islice(tokens(whole, texts, "train", 3, 32), 2)) for _ in range(2))
        held = next(tokens(whole, texts, "held-out", 3, 32))
        assert first == again and all(len(ids) == 32 for ids in first) and held not in first
    assert not set(library("train", 0)) & set(library("held-out", 0))


def test_a_router_learns_labels_that_the_model_gives(whole):
    ranks = channel_ranks(torch.stack([activity(whole, texts, 64, 0) for texts in TINY.values()]))
    assert ranks.shape == (3, 6, 384) and bool((ranks.sort(-1).values == torch.arange(384)).all())
    told = labelled(whole, masks(ranks, 0.5), mixed(whole, TINY, "train", 0, 4))
    assert all(torch.allclose(one.target.sum(-1), torch.ones(len(one.ids)), atol=1e-5) for one in told)
    training = RouterTraining("a-router", whole, 3, told, "")
    before = float(training.loss(told).value.detach())
    run(training, Until(30, None))
    assert float(training.loss(told).value.detach()) < before
    found = agreement(whole, training.network, told)
    assert 0 < found["agreement"] <= 1 and found["most_common_alone"] >= 1 / 3


def test_all_channels_lose_what_the_model_loses(whole):
    windows = [next(tokens(whole, TINY["stories"], "held-out", 0, 48))]
    ranks = channel_ranks(torch.rand(1, 6, 384, generator=torch.Generator().manual_seed(0)))
    dense = loss_of(whole, windows, None)
    assert loss_of(whole, windows, masks(ranks, 1.0)[0]) == pytest.approx(dense, abs=1e-5)
    assert loss_of(whole, windows, masks(ranks, 0.5)[0]) > dense  # channels drawn at random
    with pytest.raises(UserError, match="--texts 1 is too little"):
        main(["domain-experts", "tiny-ar-m", "--texts", "1"])


def test_what_is_held_out_was_never_taught():
    answers = {True: set(), False: set()}
    for world, held, prompt, right, wrong in cases(0, 40, 20):
        subjects, values, fact, question, _ = WORLDS[world]
        asked = [s for s in subjects if question.format(s=s) in prompt]
        assert len(asked) == 1 and (asked[0] in subjects[-HELD_ITEMS:]) == held
        value = right[1][0].strip()
        assert f"{fact.format(s=asked[0])} {value}." in prompt and wrong[-1][0].strip() in values
        assert wrong[-1][0].strip() != value and [good for _, good in wrong] == [True, False]
        answers[held] |= {(world, pieces[0][0].replace(asked[0], "{s}")) for pieces in (right, wrong)}
    assert not answers[True] & answers[False]


def test_the_state_is_that_of_the_row_that_reads_the_token_and_mined_tokens_are_not_the_targets_own():
    model = engines.load_model("tiny-ar-s", dtype="float32")
    rows = court(model, 0, 1, 0)
    world, _, prompt, right, _ = next(cases(0, 1, 0))
    tokens = [t for text, _ in right for t in model.tokenizer.encode(text)]
    ids = [*model.tokenizer.encode_prompt(prompt), *tokens]
    h = model.layers(model.embed(ids), model.new_cache(len(ids)), 0, model.num_layers)
    assert rows[0].world == world and rows[0].y.tolist() == [1.0] * len(tokens)
    assert torch.allclose(rows[0].e, h[-len(tokens) :].float(), atol=1e-4)
    assert rows[1].y.tolist()[-1] == 0 and rows[1].y.tolist()[0] == 1
    rows = mined(model, model, 0, 42, 0, 24, 2, 1.3)
    y = torch.cat([row.y for row in rows])
    assert not any(bool(row.first.any()) or row.held for row in rows) and 0 < int(y.sum()) < len(y)


def test_a_fit_separates_what_can_be_separated_and_says_what_it_kept():
    rng = torch.Generator().manual_seed(0)
    y = (torch.rand(400, generator=rng) < 0.8).float()
    e = torch.randn(400, 5, generator=rng) * 3 + 7
    e[:, 2] += 12 * y
    w, b = fit(e, y)
    assert auc(e @ w + b, y) > 0.99 and w.shape == (5,) and b.shape == ()
    rows = [
        Labelled(e[i : i + 100], y[i : i + 100], torch.zeros(100) > 0, torch.zeros(100), world, i >= 200)
        for i, world in ((0, "a"), (100, "b"), (200, "a"), (300, "b"))
    ]
    state, facts = marked(rows)
    assert set(state) == {"w", "b"} and set(facts["off_domain"]) == {"a", "b"}
    held = facts["held_out"]
    assert held["right_and_not_first_choice"]["tokens"] + held["wrong"]["tokens"] == 200
    assert marks(w, b, rows)["auc_of_log_probability"] == 0.5
    assert share(torch.tensor([True, False]))["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    with pytest.raises(UserError, match="right and wrong tokens"):
        fit(e, torch.ones(400))


POINTS = (4, 8)


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A budget of eight steps of a few texts; the state of a training lies in a folder of its own. Gives the folder."""
    folder = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "POINTS", POINTS)
        patch.setattr(grid, "BATCH", 6)
        patch.setattr(grid, "checkpoint_file", lambda name: folder / f"{name}.pt")
        yield folder


def commanded(*given):
    """What `python -m engines.training draft-grid` does with these options."""
    parser = ArgumentParser()
    grid.commands()[grid.NAME].options(parser)
    return grid.make(parser.parse_args([str(part) for part in given]))


@pytest.fixture(scope="module")
def grids(short):
    return commanded("--out", short / "tiny-ar-l-draft-grid")


def test_the_part_has_every_checkpoint_and_its_card_says_how(short, grids):
    part = read_part(short / "tiny-ar-l-draft-grid" / "model.safetensors", "tiny-ar-l-draft-grid", "tiny-ar-l")
    target = engines.load_model("tiny-ar-l", dtype="float32")
    assert grids == str(short / "tiny-ar-l-draft-grid") and part.card["bases"] == {"target": target.record.sha256}
    read = part.card["checkpoints"]
    assert list(read) == ["4", "8"] and 0 < read["4"] < read["8"] == part.card["tokens"]
    found = list(checkpoints(part, target.model.get_input_embeddings().weight, target.max_positions))
    assert [(size, steps, D) for size, steps, D, _ in found] == [(s, n, read[str(n)]) for s in SIZES for n in POINTS]
    for size, _, _, draft in found:
        body = sum(t.numel() for name, t in draft.named_parameters() if name.startswith("body.layers"))
        assert body == size.body and draft(torch.tensor([[20, 21]])).isfinite().all()
    early, late = (next(draft for s, n, _, draft in found if (s, n) == (SIZES[0], point)) for point in POINTS)
    assert not torch.equal(early.W_in.weight, late.W_in.weight)
    assert part.card["stored"]["as"].startswith("int8") and part.card["command"].endswith("training draft-grid")
    assert not (short / "draft-grid.pt").exists()  # the state of a finished training is gone


def test_a_branch_cools_from_its_trunk_and_leaves_it_alone(short):
    training = grid.GridTraining(engines.load_model("tiny-ar-l", dtype="float32"), POINTS, 0)
    rates = []
    plain = training.batch

    def noted(share):
        found = plain(share)
        rates.append((training.cooling, *(group["lr"] for group in training.adam.param_groups)))
        return found

    training.batch = noted
    run(training, Until(8))
    assert [i for i, (cooling, *_) in enumerate(rates) if cooling] == [3, 6, 7]  # the last fifth of 4 steps, and of 8
    assert rates[7][2] < rates[6][2] < rates[6][1] and all(a[1] <= b[1] for a, b in pairwise(rates))
    name = SIZES[0].name
    trunk, branch = training.trunks[name].state_dict(), training.branches[name].state_dict()
    assert all(torch.equal(training.made[f"{name}.8.{key}"], branch[key].bfloat16()) for key in branch)
    assert any(not torch.equal(trunk[key], branch[key]) for key in branch)


def test_a_training_that_stopped_goes_on_to_the_same_part_and_too_short_are_refused(short, grids):
    stopped = grid.GridTraining(engines.load_model("tiny-ar-l", dtype="float32"), POINTS, 0)
    run(stopped, Until(6), checkpoint=short / "draft-grid.pt")
    again = commanded("--out", short / "again", "--resume")
    one, other = (read_part(Path(folder) / "model.safetensors", "tiny-ar-l-draft-grid") for folder in (grids, again))
    assert one.card["checkpoints"] == other.card["checkpoints"] and one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    with pytest.raises(UserError, match=r"--steps 3 trains no checkpoint; the first one takes 4 steps"):
        commanded("--steps", 3)
