"""The grid of drafts: a few steps of its command give a part with all checkpoints, which a study can read; a training
that stopped goes on to the same one."""

from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models.networks.sized_draft import SIZES
from engines.models.parts import read_part
from engines.studies._draft_grid import checkpoints
from engines.training.core.loop import Until, run
from engines.training.heads import draft_grid as grid

POINTS = (4, 8)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A budget of eight steps of a few texts; the state of a training lies in a folder of its own. Gives the folder."""
    folder = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "POINTS", POINTS)
        patch.setattr(grid, "BATCH", 6)
        patch.setattr(grid, "checkpoint_file", lambda name: folder / f"{name}.pt")
        yield folder


def command(*given):
    """What `python -m engines.training draft-grid` does with these options."""
    parser = ArgumentParser()
    grid.commands()[grid.NAME].options(parser)
    return grid.make(parser.parse_args([str(part) for part in given]))


@pytest.fixture(scope="module")
def made(small):
    return command("--out", small / "tiny-ar-l-draft-grid")


def test_the_part_has_every_checkpoint_and_its_card_says_how(small, made):
    part = read_part(small / "tiny-ar-l-draft-grid" / "model.safetensors", "tiny-ar-l-draft-grid", "tiny-ar-l")
    target = engines.load_model("tiny-ar-l", dtype="float32")
    assert made == str(small / "tiny-ar-l-draft-grid") and part.card["bases"] == {"target": target.record.sha256}
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
    assert not (small / "draft-grid.pt").exists()  # the state of a finished training is gone


def test_a_branch_cools_from_its_trunk_and_leaves_it_alone(small):
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


def test_a_training_that_stopped_goes_on_to_the_same_part_and_too_few_steps_are_refused(small, made):
    stopped = grid.GridTraining(engines.load_model("tiny-ar-l", dtype="float32"), POINTS, 0)
    run(stopped, Until(6), checkpoint=small / "draft-grid.pt")
    again = command("--out", small / "again", "--resume")
    one, other = (read_part(Path(folder) / "model.safetensors", "tiny-ar-l-draft-grid") for folder in (made, again))
    assert one.card["checkpoints"] == other.card["checkpoints"] and one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    with pytest.raises(UserError, match=r"--steps 3 trains no checkpoint; the first one takes 4 steps"):
        command("--steps", 3)
