"""Certainty forcing: masks and loss are the card's, the batched rule is the engine's, and the command leaves a whole
asset or says why not."""

import dataclasses
import json
import math
import random
from itertools import islice

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.models.loading.zoo import load_model
from engines.tasks import TASKS, check, split_of
from engines.training import table
from engines.training.__main__ import main
from engines.training.core import data
from engines.training.tiny import card, certainty, dparallel, forcing, marks, train
from engines.training.tiny.networks import build, load_network
from engines.training.tiny.recipes import RECIPES
from engines.training.tiny.tokenizer import FOLDER
from tests.engines.training.running import answered, tiny

PARENT = tiny("tiny-dlm", block=16, mixture={"copy": 1.0, "tell": 1.0})
CHILD = dataclasses.replace(
    PARENT, name="tiny-test-dparallel", init_from="tiny-test", distilled=True, steps=5, learning_rate=1e-3
)
BLOCK = 4
PAIRS = [([3, 9, 9, 4], [*range(20, 20 + n), 2]) for n in (1, 3, 4, 6, 11)]


@pytest.fixture
def here(tmp_path, tmp_path_factory, monkeypatch, tokenizer):
    """A parent of some thousand weights and a recipe that is distilled from it, in folders of their own."""
    monkeypatch.setitem(RECIPES, "tiny-test", PARENT)
    monkeypatch.setitem(RECIPES, CHILD.name, CHILD)
    monkeypatch.setattr(train, "MODELS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(dparallel, "MARKED", 2)
    monkeypatch.setattr(certainty, "TAUS", (0.05, 0.5))
    monkeypatch.setitem(card.PROMPTS, "masked", 1)
    for module in (card, certainty, table):
        monkeypatch.setattr(module, "TASKS", {task: TASKS[task] for task in ("copy", "shuffle")})
    train.install(PARENT, build(PARENT, tokenizer), tmp_path / "tiny-test")
    return tmp_path


@pytest.fixture
def answers(monkeypatch, tokenizer):
    """In place of what an untrained network would write: right answers."""
    pairs = data.encode(tokenizer, marks.held_out("copy", 24, "train"))
    monkeypatch.setattr(dparallel, "own_answers", lambda *_: (pairs, {"copy": [30, 24]}))


def names(folder):
    return {path.name for path in folder.iterdir()}


def boards(seed, ratio=0.5):
    """(ids [R, L], boards [2R, L], hidden [2R, L]) of PAIRS."""
    length = max(len(p) + len(a) for p, a in PAIRS) + 5
    ids = torch.full((len(PAIRS), length), 2)
    for i, (prompt, answer) in enumerate(PAIRS):
        ids[i, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
    return ids, *forcing.masked_copies(ids, PAIRS, BLOCK, ratio, 1, random.Random(seed))


def test_the_copies_partition_the_active_block():
    """Invariant 5."""
    seen, hides, rows = set(), 0, len(PAIRS)
    for seed in range(60):
        ids, x, hidden = boards(seed)
        one, other = hidden[:rows], hidden[rows:]
        assert not (one & other).any() and (x[hidden] == 1).all()
        for i, (prompt, answer) in enumerate(PAIRS):
            active = (one | other)[i].nonzero().flatten().tolist()
            a, e = active[0], active[-1] + 1
            j, last = (a - len(prompt)) // BLOCK, (len(answer) - 1) // BLOCK
            assert active == list(range(a, e)) and (a - len(prompt)) % BLOCK == 0 and 0 <= j <= last
            assert e == (ids.shape[1] if j == last else a + BLOCK)
            for copy in (x[i], x[rows + i]):
                assert torch.equal(copy[:a], ids[i, :a]) and (copy[e:] == 1).all()
            assert torch.equal(x[i, a:e] == 1, ~(x[rows + i, a:e] == 1))
            seen.add((i, j))
            hides += int(one[i].sum()) - int(other[i].sum())
    assert seen == {(i, j) for i, (_, answer) in enumerate(PAIRS) for j in range((len(answer) - 1) // BLOCK + 1)}
    assert abs(hides) < 300  # of about 2,800 places: neither copy is the one that hides
    _, _, hidden = boards(0, ratio=1.0)
    assert hidden[:rows].any(1).all() and not hidden[rows:].any()


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_the_loss_is_the_cards(weight):
    """Steps 3 and 4 written out in plain numbers: rows 0 and 2 are the copies of one sequence, 1 and 3 those of the
    other; wrong guesses have no part in the entropy (invariant 6). A certain one has a finite gradient."""
    g, rows, total = torch.Generator().manual_seed(0), 4, 0.0
    z, y = 2 * torch.randn(30, 9, generator=g), torch.randint(0, 9, (30,), generator=g)
    y = torch.where(torch.rand(30, generator=g) < 0.5, z.argmax(-1), y)
    row = torch.randint(0, rows - 1, (30,), generator=g)  # the last row has nothing
    row[y == z.argmax(-1)] %= rows - 2  # and the one before it nothing right
    for r in range(rows):
        CE, Ent = [], []
        for logits, label in ((z[i].tolist(), int(y[i])) for i in range(len(y)) if row[i] == r):
            CE.append(math.log(sum(map(math.exp, logits))) - logits[label])
            if max(range(len(logits)), key=logits.__getitem__) == label:
                weights = [math.exp(value / 0.5) for value in logits]
                Ent.append(-sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights))
        total += sum(CE) / max(1, len(CE)) + weight * sum(Ent) / max(1, len(Ent))
    loss, facts = forcing.certainty_loss(z, y, row, rows, weight)
    assert float(loss) == pytest.approx(total / 2, rel=1e-5)
    assert facts["n_masked"] == 30 and 0 < facts["n_correct"] == int((z.argmax(-1) == y).sum()) < 30
    assert float(loss) == pytest.approx(2 * (facts["ce"] + weight * facts["ent"]), rel=1e-5)
    certain = torch.tensor([[0.0, 300.0, -300.0]], requires_grad=True)
    forcing.certainty_loss(certain, torch.tensor([1]), torch.tensor([0]), 2, weight)[0].backward()
    assert certain.grad.isfinite().all()


def test_batches_are_the_same_again_and_an_epoch_has_every_pair(tokenizer):
    recipe = dataclasses.replace(CHILD, block=BLOCK)
    pairs = data.encode(tokenizer, marks.held_out("copy", 40, "train"))
    first, again = (list(islice(forcing.batches_of(recipe, tokenizer, pairs, 0.5), 30)) for _ in range(2))
    assert all(torch.equal(a[key], b[key]) for a, b in zip(first, again, strict=True) for key in a)
    prompts = []
    for batch in first:
        x, half = batch["input_ids"], len(batch["input_ids"]) // 2
        asked = (batch["targets"] != data.IGNORED).roll(1, 1)
        assert (x.numel() <= recipe.batch or len(x) == 2) and (x[asked] == 1).all()
        prompts += [tuple(row[: row.index(4) + 1]) for row in x[:half].tolist()]
    assert set(prompts[:40]) == {tuple(prompt) for prompt, _ in pairs}


def test_own_answers_are_right_and_the_models(tokenizer):
    """On the weights that ship; a prompt whose answer fails the check is left out, and the others are what the engine
    writes at this threshold."""
    recipe = dataclasses.replace(RECIPES["tiny-dlm-dparallel"], mixture={"copy": 1.0, "shuffle": 2.0})
    network = load_network(FOLDER.parent / "tiny-dlm")
    pairs, kept = dparallel.own_answers(network, tokenizer, recipe, 24)
    assert sum(tried for tried, _ in kept.values()) == 24 and set(kept) == {"copy", "shuffle"}
    assert 0 < len(pairs) == sum(right for _, right in kept.values())
    asked = {e.prompt: e for e in islice(dparallel._examples(recipe), 24)}
    for prompt, answer in pairs:
        text = tokenizer.decode(prompt, skip_special_tokens=True).strip()
        assert split_of(text) == "train" and answer[-1] == tokenizer.eos_token_id
        assert check(asked[text], tokenizer.decode(answer[:-1])).correct


@pytest.mark.parametrize(("task", "block", "tau"), [("sort", 4, -0.01), ("sort", 4, 0.15), ("add", 16, 0.5)])
def test_the_batched_rule_is_the_engines(task, block, tau, tokenizer):
    network, model = load_network(FOLDER.parent / "tiny-dlm"), engines.load_model("tiny-dlm")
    examples, length = marks.held_out(task, 2), marks.canvas_length(task, tokenizer)
    outputs, counts = certainty.fill(network, tokenizer, data.encode(tokenizer, examples), length, block, tau)
    for example, *told in zip(examples, outputs, counts, strict=True):
        params = {"block_length": block, "threshold": tau}
        assert [*answered("dparallel", model, example.prompt, length, **params)] == told


def test_five_steps_leave_a_whole_asset(here, answers):
    main([CHILD.name, "--block", "4", "--prompts", "30"])
    folder = here / CHILD.name
    found = json.loads((folder / "card.json").read_text())
    assert names(here) == {"tiny-test", CHILD.name, "README.md"}
    assert names(folder) >= {"model.safetensors", "config.json", "tokenizer.json", "card.json"}
    assert found["command"] == "python -m engines.training tiny-test-dparallel --prompts 30 --block 4"
    parent, child = (load_model(here / name, kind="masked").record.sha256 for name in ("tiny-test", CHILD.name))
    assert (found["parent_sha256"], found["sha256"]) == (parent, child) and parent != child
    points = found["distillation"]["curve"]
    assert [point["step"] for point in points] == [1, 2, 3, 4, 5] == list(range(1, found["steps"] + 1))
    assert all(0 <= p["n_correct"] <= p["n_masked"] > 0 and p["ce"] > 0 for p in points) and found["tokens"] > 0
    runs, first = found["entropy_rule"]["runs"], "one per forward, base"
    assert set(runs) == {first, *(f"{tau:g}, {name}" for tau in certainty.TAUS for name in ("base", "distilled"))}
    assert runs[first]["forwards"] == 16 and runs[first]["of_one_per_forward"] == 1
    assert set(found["held_out_exact_match"]) == {"copy", "shuffle"}
    assert "## tiny-test-dparallel: the entropy rule before and after" in (here / "README.md").read_text()


def test_what_ships_is_the_mean_with_the_start(here, answers, monkeypatch):
    """Here the start alone."""
    for name in ("figures", "write_table", "write_marks"):
        monkeypatch.setattr(dparallel, name, lambda *_: {})
    main([CHILD.name, "--block", "4", "--share", "1"])
    start, shipped = (load_network(here / name).parameters() for name in ("tiny-test", CHILD.name))
    assert all(map(torch.equal, start, shipped))


@pytest.mark.parametrize("where", ["figures", "write_marks"])
def test_nothing_is_written_before_the_end(where, here, answers, monkeypatch):
    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(dparallel, where, broken)
    with pytest.raises(KeyboardInterrupt):
        main([CHILD.name])
    assert names(here) == {"tiny-test"}


def test_bad_input_is_told(here, monkeypatch):
    for arguments, said in (
        (["tiny-xl"], r"there is no training 'tiny-xl'; choose one of .*tiny-dlm"),
        ([CHILD.name, "--weight", "-1"], r"--weight -1 is out of range"),
        ([CHILD.name, "--block", "0"], r"--block 0 is out of range"),
        ([CHILD.name, "--ratio", "1.5"], r"--ratio 1.5 is out of range; give a number above 0, at most 1"),
        ([CHILD.name, "--share", "1.5"], r"--share 1.5 is out of range; give a number from 0 on, at most 1"),
        ([CHILD.name, "--device", "cuda:99"], r"device 'cuda:99' is not available"),
        ([CHILD.name, "--prompts", "3"], r"tiny-test answered none of 3 training prompts rightly"),
    ):
        with pytest.raises(UserError, match=said):
            main(arguments)
    (here / "tiny-test" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"weights are not there; train it first: python -m engines.training tiny-test"):
        main([CHILD.name])
    with pytest.raises(UserError, match=r"distilled from tiny-dlm; use the command: .* tiny-dlm-dparallel"):
        train.train("tiny-dlm-dparallel")
    assert names(here) == {"tiny-test"}
    assert set(CHILD.mixture) == {"copy", "tell"} and set(dparallel.recipe_for(CHILD.name).mixture) == {"copy"}
    with pytest.raises(UserError, match="'tiny-ar-s' is not distilled from another model; choose one of tiny-dlm-dp"):
        dparallel.recipe_for("tiny-ar-s")
    monkeypatch.setitem(RECIPES, CHILD.name, dataclasses.replace(CHILD, init_from="tiny-ar-s"))
    with pytest.raises(UserError, match="only masked models are distilled and tiny-ar-s is none"):
        dparallel.recipe_for(CHILD.name)
