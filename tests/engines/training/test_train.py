"""Training: the data is what the papers say and repeats, a run can be interrupted and resumed, and an asset is never
left half written."""

import dataclasses
import json
import random
from itertools import islice
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core.errors import UserError
from engines.tasks import TASKS, words
from engines.training.core import data, loop
from engines.training.core.card import read_card
from engines.training.core.commands import PROGRAM, commands
from engines.training.table import write_table
from engines.training.tiny import card, marks, train
from engines.training.tiny.networks import build, load_network, loss_of
from engines.training.tiny.recipes import MIXTURE, RECIPES
from engines.training.tiny.stories import prompt_of, tidy
from engines.training.tiny.tokenizer import FOLDER, SPECIALS, load_tokenizer

TINY = dataclasses.replace(
    RECIPES["tiny-ar-s"],
    name="tiny-test",
    hidden=16,
    layers=1,
    heads=2,
    mlp=32,
    steps=6,
    batch=512,
    warmup=2,
    block=8,
    mixture={"copy": 1.0, "add": 1.0},
)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A recipe that trains in seconds, with its own folders."""
    monkeypatch.setitem(RECIPES, "tiny-test", TINY)
    monkeypatch.setattr(train, "MODELS", tmp_path / "models")
    monkeypatch.setattr(train, "checkpoint_file", lambda name: tmp_path / "cache" / f"{name}.pt")
    monkeypatch.setattr(
        train, "write_marks", lambda folder, facts: (folder / "card.json").write_text(json.dumps(facts))
    )
    monkeypatch.setattr(train, "write_table", lambda models: None)
    return tmp_path


def weights(folder):
    return load_network(folder).state_dict()


def test_the_mixture_covers_every_task():
    assert set(MIXTURE) == {*TASKS, "tell"}


def test_the_tokenizer_is_one_for_the_family(tokenizer):
    assert tokenizer.convert_tokens_to_ids(list(SPECIALS)) == [0, 1, 2, 3, 4]
    known = [*words.NAMES, *words.THINGS, *words.VERBS, *words.ADJECTIVES, *words.COLOURS, *words.CITIES, *words.PLACES]
    assert [w for w in known if len(tokenizer(f" {w}")["input_ids"]) != 1] == []
    for text in ("Ünïcödé 🙂 \t\x00", " class A:\n    def f(self) -> None:\n        pass", "12345"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("12345")["input_ids"]) == 5
    found = {path.parent.name: json.loads(path.read_text()) for path in FOLDER.parent.glob("tiny-*/config.json")}
    whole = ("word-reader", "scene-eye", "scene_text")  # their tokens are letters or words, of a list in the code
    models = {name: config for name, config in found.items() if config["model_type"] not in whole}
    shared = {name: config["tokenizer_from"] for name, config in models.items() if "tokenizer_from" in config}
    alone = {name for name in models if (FOLDER.parent / name / "tokenizer.json").exists()}
    assert [*shared.values()].count(FOLDER.name) > 1 and alone and {*models} - {*shared} == alone
    assert all((FOLDER.parent / other / "tokenizer.json").exists() for other in shared.values())


@pytest.mark.parametrize("kind", ["causal", "masked", "block"])
def test_batches_repeat_and_go_on_from_any_position(kind, tokenizer):
    recipe = dataclasses.replace(TINY, kind=kind)
    first = list(islice(data.batches(recipe, tokenizer), 9))
    again = islice(data.batches(recipe, tokenizer, first[3][0]), 5)
    for (place, batch), (place_again, batch_again) in zip(first[4:], again, strict=True):
        assert place == place_again and all(torch.equal(batch[key], batch_again[key]) for key in batch)
    for _, batch in first:
        rows = 2 if kind == "block" else 1
        assert batch["input_ids"].numel() <= 512 or batch["input_ids"].shape[0] == rows
        assert (batch["targets"] != data.IGNORED).any()


def test_causal_targets_are_the_answer_and_its_end(tokenizer):
    _, batch = next(data.batches(TINY, tokenizer))
    for ids, targets in zip(batch["input_ids"].tolist(), batch["targets"].tolist(), strict=True):
        answer = [t for t in targets if t != data.IGNORED]
        start = ids.index(4)  # <turn>
        assert answer == ids[start + 1 : ids.index(2) + 1] and targets[start] == ids[start + 1]


def test_masked_rows_hide_only_answers_and_are_asked_for_what_is_hidden(tokenizer):
    recipe = dataclasses.replace(TINY, kind="masked")
    full = behind = 0
    for _, batch in islice(data.batches(recipe, tokenizer), 30):
        for ids, targets in zip(batch["input_ids"], batch["targets"], strict=True):
            hidden = (ids == 1).nonzero().flatten()
            asked = (targets != data.IGNORED).nonzero().flatten() + 1
            assert torch.equal(hidden, asked) and not len(hidden[hidden <= (ids == 4).nonzero()[0]])
            assert not ((targets == 0) | (targets == 1)).any()
            tail = torch.arange(int(hidden[0]), len(ids)) if len(hidden) else hidden
            full += torch.equal(hidden, torch.arange(int((ids == 4).nonzero()[0]) + 1, len(ids)))
            behind += len(hidden) > 0 and len(hidden) < len(tail) and bool((ids[-4:] == 1).all())
    assert full and behind  # some rows start from nothing, some are in the middle with everything behind masked


def test_block_rows_ask_for_every_answer_token_once_and_never_see_it(tokenizer):
    recipe = dataclasses.replace(TINY, kind="block")
    _, batch = next(data.batches(recipe, tokenizer))
    ids, targets, allowed = batch["input_ids"], batch["targets"], batch["attention_mask"][0, 0]
    rows, length = ids.shape[0] // 2, ids.shape[1] // 2
    noisy, clean = ids[:, :length], ids[:, length:]
    assert torch.equal(clean[:rows], clean[rows:]) and (targets[:, length:] == data.IGNORED).all()
    hidden = noisy == 1
    assert not (hidden[:rows] & hidden[rows:]).any()
    for row in range(rows):
        start = int((clean[row] == 4).nonzero()[0])
        union = (hidden[row] | hidden[rows + row]).nonzero().flatten()
        end = -(-(int((clean[row] == 2).nonzero()[0]) + 1) // 8) * 8
        assert union.tolist() == list(range(start + 1, end))
    assert torch.equal(clean[hidden], targets[:, : length - 1][hidden[:, 1:]])
    number = torch.arange(length) // 8
    for i in range(length):
        assert not allowed[i, length:][number >= number[i]].any()  # a noisy row sees clean keys of earlier blocks only
        assert torch.equal(allowed[i, :length], number == number[i])
        assert torch.equal(allowed[length + i, length:], number <= number[i]) and not allowed[length + i, :length].any()
    causal = data.block_training_mask(6, 1)
    assert torch.equal(causal[6:, 6:], torch.ones(6, 6).tril().bool())


def test_a_block_network_reads_clean_halves_as_it_will_decode(tokenizer):
    """The clean half of a training row gives the logits of the text alone under the block-causal mask."""
    recipe = dataclasses.replace(TINY, kind="block")
    network = build(recipe, tokenizer).eval()
    ids = torch.randint(5, 300, (1, 24))
    batch = data.block_batch(ids, torch.ones_like(ids, dtype=torch.bool), 8, 1, torch.Generator().manual_seed(0))
    number = torch.arange(24) // 8
    alone = network(input_ids=ids, attention_mask=(number[:, None] >= number[None])[None, None], use_cache=False).logits
    inside = network(**{key: value for key, value in batch.items() if key != "targets"}, use_cache=False).logits[:, 24:]
    torch.testing.assert_close(inside, alone.expand(2, -1, -1), atol=1e-5, rtol=1e-4)


def test_an_interrupted_training_resumes_to_the_same_weights(here, monkeypatch):
    train.train("tiny-test", out=here / "whole")
    once = iter([None, None, None, KeyboardInterrupt()])

    def interrupted(network, batch):
        if isinstance(stop := next(once, None), KeyboardInterrupt):
            raise stop
        return loss_of(network, batch)

    monkeypatch.setattr(train, "loss_of", interrupted)
    with pytest.raises(UserError, match=r"step 3; go on with: .* --resume"):
        train.train("tiny-test", out=here / "parts")
    assert not (here / "parts").exists() and train.checkpoint_file("tiny-test").exists()
    train.train("tiny-test", out=here / "parts", resume=True)
    whole, parts = weights(here / "whole"), weights(here / "parts")
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert not train.checkpoint_file("tiny-test").exists()
    assert json.loads((here / "parts" / "card.json").read_text())["steps"] == 6
    assert {path.name for path in (here / "parts").iterdir()} >= {
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "card.json",
    }


def test_bad_input_is_told_and_leaves_the_asset_alone(here, monkeypatch, capsys):
    asset = here / "models" / "tiny-test"
    asset.mkdir(parents=True)
    (asset / "model.safetensors").write_text("the old weights")
    with pytest.raises(UserError, match=r"no recipe 'tiny-xl'; choose one of tiny-ar-s"):
        train.train("tiny-xl")
    with pytest.raises(UserError, match="no checkpoint of 'tiny-test'"):
        train.train("tiny-test", resume=True)
    with pytest.raises(UserError, match="device 'cuda:99' is not available"):
        train.train("tiny-test", device="cuda:99")
    monkeypatch.setitem(RECIPES, "tiny-test", dataclasses.replace(TINY, init_from="tiny-ar-l"))
    with pytest.raises(UserError, match="starts from tiny-ar-l, whose weights are not there; train it first"):
        train.train("tiny-test")
    monkeypatch.setitem(RECIPES, "tiny-test", TINY)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(train, "give_tokenizer", full)
    with pytest.raises(UserError, match="No space left on device"):
        train.train("tiny-test")
    assert (asset / "model.safetensors").read_text() == "the old weights"
    assert [path.name for path in asset.parent.iterdir()] == ["tiny-test"]
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop.torch, "save", full)
    with pytest.raises(UserError):
        train.train("tiny-test")
    assert "could not be written" in capsys.readouterr().out


def test_a_start_that_does_not_ship_is_trained_first_and_told_in_the_card(here, monkeypatch):
    for name, start in (("tiny-one", None), ("tiny-two", "tiny-one")):
        monkeypatch.setitem(RECIPES, name, dataclasses.replace(TINY, name=name, init_from=start, ships=False, steps=2))
    monkeypatch.setitem(RECIPES, "tiny-test", dataclasses.replace(TINY, init_from="tiny-two"))
    train.train("tiny-test")
    facts = json.loads((here / "models" / "tiny-test" / "card.json").read_text())
    found = [(stage["name"], stage["init_from"], stage["steps"]) for stage in facts["stages"]]
    assert found == [("tiny-one", None, 2), ("tiny-two", "tiny-one", 2)]
    assert facts["init_from"] == "tiny-two" and facts["steps"] == 6
    assert {path.name for path in (here / "models").iterdir()} == {"tiny-test"}


def test_a_checkpoint_of_other_settings_is_refused(here, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(train, "install", lambda *_: (_ for _ in ()).throw(UserError("stop")))
    with pytest.raises(UserError, match="stop"):
        train.train("tiny-test")
    monkeypatch.setitem(RECIPES, "tiny-test", dataclasses.replace(TINY, learning_rate=1.0))
    with pytest.raises(UserError, match="made with other settings"):
        train.train("tiny-test", resume=True)


@pytest.mark.parametrize("kind", ["masked", "block"])
def test_marks_count_forwards(kind, tokenizer):
    """An untrained network is wrong, but one token per forward takes as many forwards as masks, and all at once takes
    one, or two per block."""
    recipe = dataclasses.replace(TINY, kind=kind)
    network = build(recipe, tokenizer)
    endless = SimpleNamespace(mask_token_id=1, eos_token_id=-1)
    pairs = data.encode(tokenizer, marks.held_out("copy", 6))
    outputs, counts, _ = marks._fill(network, endless, recipe, pairs, 16, None)
    assert counts == [len(o) for o in outputs] and all(1 not in o for o in outputs)
    outputs, counts, _ = marks._fill(network, endless, recipe, pairs, 16, 0.0)
    assert all(1 not in o for o in outputs)
    if kind == "masked":
        assert counts == [1] * 6
    else:
        width = len(pairs[0][0]) + len(outputs[0])
        opened = [
            (width // 8 - len(prompt) // 8, len(prompt) % 8 > 0) for prompt, _ in pairs
        ]  # blocks; the first may hold the prompt's end
        assert width % 8 == 0 and counts == [
            2 * blocks - begun for blocks, begun in opened
        ]  # the free token, then the others at once


def answered(slug, model, prompt, length, **params):
    """(ids behind the prompt, masks included; forwards) of an engine."""
    trace = engines.run(slug, model, prompt, params={"max_new_tokens": length, **params})
    steps = [
        c for step in trace.steps if step.commits for c in zip(step.commits.positions, step.commits.tokens, strict=True)
    ]
    start = len(trace.header.prompt_ids)
    ids = dict(steps)
    return [ids.get(i, 1) for i in range(start, max([start + length - 1, *ids]) + 1)], trace.totals.forwards


@pytest.mark.parametrize(("task", "threshold"), [("sort", None), ("add", 0.9), ("insert any", 0.5)])
def test_marks_decode_as_the_engines_do(task, threshold, tokenizer):
    """The batched loops that made the cards write the engines' ids in the engines' forwards, on the weights that
    ship."""
    length = marks.canvas_length(task, tokenizer)
    for name, slug, params in (
        ("tiny-dlm", "threshold", {"block_length": length, "threshold": threshold or 1.01}),
        ("tiny-blockdlm", "fast-dllm-v2", {"small_block_size": 16, "threshold": threshold or 1.0}),
    ):
        network, recipe = load_network(FOLDER.parent / name), RECIPES[name]
        for example in marks.held_out(task, 2):
            pairs = data.encode(tokenizer, [example])
            (output,), (forwards,), _ = marks._fill(network, tokenizer, recipe, pairs, length, threshold)
            ids, counted = answered(slug, engines.load_model(name), example.prompt, length, **params)
            prompt = len(
                pairs[0][0]
            )  # the engine stores its whole blocks first; that forward is counted here where it gives no token
            stored = recipe.kind == "block" and prompt > 16 and prompt % 16 > 0
            assert (ids, counted) == (output[: len(ids)], forwards + stored)


def test_marks_read_causal_models_as_greedy_does(tokenizer):
    network, model = load_network(FOLDER.parent / "tiny-ar-s"), engines.load_model("tiny-ar-s")
    for task in ("copy", "add"):
        examples = marks.held_out(task, 4)
        outputs = marks._generate(network, tokenizer, RECIPES["tiny-ar-s"], data.encode(tokenizer, examples), 48)
        assert outputs == [
            answered("greedy", model, e.prompt, 48)[0][: len(o)] for e, o in zip(examples, outputs, strict=True)
        ]


def test_stories_are_tidied():
    assert tidy(
        "Once  Mia went\nout. " + "She saw a boat. " * 4 + "And then", "Mia"
    ) == "Once Mia went out. " + " ".join(["She saw a boat."] * 4)
    assert tidy("Too short.", "Mia") is None and tidy("She saw a boat. " * 6, "Mia") is None
    assert prompt_of({"name": "Mia", "things": ["boat", "cat"]}) == "tell: Mia, boat, cat"


def test_the_readme_is_what_the_cards_say(tmp_path):
    models = FOLDER.parent
    for path in models.glob("*/card.json"):
        (tmp_path / path.parent.name).mkdir()
        (tmp_path / path.parent.name / "card.json").write_bytes(path.read_bytes())
    write_table(tmp_path)
    assert (tmp_path / "README.md").read_text() == (models / "README.md").read_text()


def test_every_card_names_the_command_that_made_it():
    cards = [read_card(path.parent) for path in FOLDER.parent.glob("*/card.json")]
    made_by = [card["command"].removeprefix(f"{PROGRAM} ").split()[0] for card in cards]
    assert len(cards) > len(RECIPES) and {*made_by} <= {*commands()}


def test_every_recipe_ships_with_a_whole_card():
    shipped = {name: recipe for name, recipe in RECIPES.items() if recipe.ships}
    assert set(shipped) <= {path.parent.name for path in FOLDER.parent.glob("*/card.json")}
    for name, recipe in shipped.items():
        found = json.loads((FOLDER.parent / name / "card.json").read_text())
        assert found["name"] == name
        assert found["kind"] == recipe.kind
        assert set(found["held_out_exact_match"]) == set(TASKS)
        sizes = {
            task: {str(n) for n in range(TASKS[task].sizes[0], TASKS[task].sizes[1] + 1)}
            for task in TASKS
            if TASKS[task].asked
        }
        assert {task: set(by) for task, by in found["exact_match_by_size"].items()} == sizes
        assert found["sha256"]
        assert found["licence"].startswith("Apache-2.0")
        assert found["minutes"] > 0
        assert found["tokens"] > 0
        assert found["seed"] == recipe.seed
    total = sum(path.stat().st_size for path in FOLDER.parent.rglob("*") if path.is_file())
    assert total < 80e6


def test_a_card_can_be_checked_against_the_weights(tokenizer):
    """A small model is marked again on one task, and must come out as its card says."""
    name, kind = "tiny-ar-s", "causal"
    found = json.loads((FOLDER.parent / name / "card.json").read_text())
    network = load_network(FOLDER.parent / name)
    again = marks.mark(network, tokenizer, RECIPES[name], "copy", card.PROMPTS[kind]).exact
    assert again == pytest.approx(
        found["held_out_exact_match"]["copy"], abs=0.011
    )  # a near-tie may fall the other way on another machine


def test_hidden_rates_are_uniform():
    generator, rng = torch.Generator().manual_seed(0), random.Random(0)
    shares = [float(data._hide(10, 20, 40, 0, rng, generator)[0][10:].float().mean()) for _ in range(600)]
    assert 0.4 < sum(shares) / len(shares) < 0.6 and min(shares) < 0.05 and max(shares) == 1.0


def test_the_loss_may_be_kept_near_the_clean_prefix():
    """Without a limit what is hidden is asked for; with one, semi-autoregressive rows ask for the first masks only, the
    others as before."""
    everything = [data._hide(10, 20, 40, 0, random.Random(i), torch.Generator().manual_seed(i)) for i in range(200)]
    assert all(torch.equal(hidden, wanted) for hidden, wanted in everything)
    for (hidden, _), i in zip(everything, range(200), strict=True):
        same, wanted = data._hide(10, 20, 40, 5, random.Random(i), torch.Generator().manual_seed(i))
        assert torch.equal(same, hidden)
        first = hidden.nonzero().flatten()[:5]
        assert torch.equal(wanted, hidden) or torch.equal(wanted.nonzero().flatten(), first)
    limited = sum(
        not torch.equal(*data._hide(10, 20, 40, 5, random.Random(i), torch.Generator().manual_seed(i)))
        for i in range(200)
    )
    assert 60 < limited < 140


def test_some_batches_of_a_masked_model_may_be_causal_rows(tokenizer):
    """Under a causal mask every answer token is asked for with its whole prefix in sight, and end marks behind the
    answer are not."""
    tasks = {
        name: share for name, share in RECIPES["tiny-dlm"].mixture.items() if name in TASKS
    }  # without stories, which a fresh machine does not have
    recipe = dataclasses.replace(RECIPES["tiny-dlm"], causal=1.0, mixture=tasks)
    _, batch = next(data.batches(recipe, tokenizer))
    length = batch["input_ids"].shape[1]
    assert torch.equal(batch["attention_mask"][0, 0], torch.ones((length, length), dtype=torch.bool).tril())
    assert tokenizer.mask_token_id not in batch["input_ids"]
    asked = batch["targets"] != data.IGNORED
    assert torch.equal(batch["targets"][:, :-1][asked[:, :-1]], batch["input_ids"][:, 1:][asked[:, :-1]])
    ends = (batch["targets"] == tokenizer.eos_token_id).sum(1)
    assert (ends == 1).all()
    _, masked = next(data.batches(dataclasses.replace(recipe, causal=0.0), tokenizer))
    assert "attention_mask" not in masked
