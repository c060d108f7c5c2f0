"""Training of the small models: rows are right and repeat, a run goes on where it stopped, an asset is never
left half written; at the end the mean with the start is a mean and the temperature makes confidences true."""

import dataclasses
import json
import random
from itertools import islice

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
from engines.training.tiny import finish as finishing
from engines.training.tiny.finish import LEAST, LIKELY, MOST, average, cool, finish, fitted, proposed
from engines.training.tiny.networks import build, load_network, loss_of
from engines.training.tiny.recipes import MIXTURE, RECIPES
from engines.training.tiny.stories import tidy
from engines.training.tiny.tokenizer import FOLDER, SPECIALS
from tests.engines.training.running import answered, tiny

MODELS = FOLDER.parent
TINY = tiny("tiny-ar-s", steps=6, mixture={"copy": 1.0, "add": 1.0})


@pytest.fixture
def here(folders, monkeypatch):
    monkeypatch.setitem(RECIPES, "tiny-test", TINY)
    return folders


def told(folder):
    return json.loads((folder / "card.json").read_text())


def test_the_tokenizer_is_one_for_the_family(tokenizer):
    assert tokenizer.convert_tokens_to_ids(list(SPECIALS)) == [0, 1, 2, 3, 4]
    known = [*words.NAMES, *words.THINGS, *words.VERBS, *words.ADJECTIVES, *words.COLOURS, *words.CITIES, *words.PLACES]
    assert [w for w in known if len(tokenizer(f" {w}")["input_ids"]) != 1] == []
    for text in ("Ünïcödé 🙂 \t\x00", " class A:\n    def f(self) -> None:\n        pass", "12345"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer("12345")["input_ids"]) == 5
    whole = ("word-reader", "scene-eye", "scene_text")  # their tokens are letters or words, of a list in the code
    found = {path.parent.name: json.loads(path.read_text()) for path in MODELS.glob("tiny-*/config.json")}
    for name, config in found.items():
        if config["model_type"] not in whole:
            assert (MODELS / config.get("tokenizer_from", name) / "tokenizer.json").exists()
            assert ("tokenizer_from" in config) != (MODELS / name / "tokenizer.json").exists()


def test_causal_targets_are_the_answer_and_its_end(tokenizer):
    _, batch = next(data.batches(TINY, tokenizer))
    assert batch["input_ids"].numel() <= TINY.batch
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
            start = int((ids == 4).nonzero()[0]) + 1
            assert torch.equal(hidden, asked) and not (hidden < start).any()
            assert not ((targets == 0) | (targets == 1)).any()
            full += torch.equal(hidden, torch.arange(start, len(ids)))
            behind += 0 < len(hidden) < len(ids) - int(hidden[0]) and bool((ids[-4:] == 1).all())
    assert full and behind  # some rows start from nothing, some are in the middle with everything behind masked


def test_block_rows_ask_for_every_answer_token_once_and_never_see_it(tokenizer):
    """And the clean half gives the logits of the text alone under the block-causal mask."""
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

    network = build(recipe, tokenizer).eval()
    ids, number = torch.randint(5, 300, (1, 24)), torch.arange(24) // 8
    batch = data.block_batch(ids, torch.ones_like(ids, dtype=torch.bool), 8, 1, torch.Generator().manual_seed(0))
    batch.pop("targets")
    alone = network(input_ids=ids, attention_mask=(number[:, None] >= number[None])[None, None], use_cache=False).logits
    inside = network(**batch, use_cache=False).logits[:, 24:]
    torch.testing.assert_close(inside, alone.expand(2, -1, -1), atol=1e-5, rtol=1e-4)


def test_an_interrupted_training_resumes_to_the_same_weights(here, monkeypatch):
    train.train("tiny-test", out=here / "whole")
    once = iter([None, None, None, KeyboardInterrupt()])

    def interrupted(network, batch):
        if stop := next(once, None):
            raise stop
        return loss_of(network, batch)

    monkeypatch.setattr(train, "loss_of", interrupted)
    with pytest.raises(UserError, match=r"step 3; go on with: .* --resume"):
        train.train("tiny-test", out=here / "parts")
    assert not (here / "parts").exists() and train.checkpoint_file("tiny-test").exists()
    train.train("tiny-test", out=here / "parts", resume=True)
    whole, parts = (load_network(here / name).state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(whole[key], parts[key]) for key in whole)
    assert not train.checkpoint_file("tiny-test").exists() and told(here / "parts")["steps"] == 6
    files = {path.name for path in (here / "parts").iterdir()}
    assert files >= {"model.safetensors", "config.json", "tokenizer.json", "card.json"}


def test_bad_input_is_told_and_leaves_the_asset_alone(here, monkeypatch, capsys):
    asset = here / "models" / "tiny-test"
    asset.mkdir(parents=True)
    (asset / "model.safetensors").write_text("the old weights")
    for given, said in (
        ({"name": "tiny-xl"}, r"no recipe 'tiny-xl'; choose one of tiny-ar-s"),
        ({"name": "tiny-test", "resume": True}, "no checkpoint of 'tiny-test'"),
        ({"name": "tiny-test", "device": "cuda:99"}, "device 'cuda:99' is not available"),
    ):
        with pytest.raises(UserError, match=said):
            train.train(**given)
    with monkeypatch.context() as patch:
        patch.setitem(RECIPES, "tiny-test", dataclasses.replace(TINY, init_from="tiny-ar-l"))
        with pytest.raises(UserError, match="starts from tiny-ar-l, whose weights are not there; train it first"):
            train.train("tiny-test")

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
    facts = told(here / "models" / "tiny-test")
    found = [(stage["name"], stage["init_from"], stage["steps"]) for stage in facts["stages"]]
    assert found == [("tiny-one", None, 2), ("tiny-two", "tiny-one", 2)]
    assert facts["init_from"] == "tiny-two" and facts["steps"] == 6
    assert {path.name for path in (here / "models").iterdir()} == {"tiny-test"}


@pytest.mark.parametrize(("task", "threshold"), [("sort", None), ("add", 0.9), ("insert any", 0.5)])
def test_marks_decode_as_the_engines_do(task, threshold, tokenizer):
    """The batched loops that made the cards write the engines' ids in the engines' forwards, on the weights that
    ship."""
    length = marks.canvas_length(task, tokenizer)
    for name, slug, params in (
        ("tiny-dlm", "threshold", {"block_length": length, "threshold": threshold or 1.01}),
        ("tiny-blockdlm", "fast-dllm-v2", {"small_block_size": 16, "threshold": threshold or 1.0}),
    ):
        network, recipe = load_network(MODELS / name), RECIPES[name]
        for example in marks.held_out(task, 2):
            pairs = data.encode(tokenizer, [example])
            (output,), (forwards,), _ = marks._fill(network, tokenizer, recipe, pairs, length, threshold)
            ids, counted = answered(slug, engines.load_model(name), example.prompt, length, **params)
            prompt = len(pairs[0][0])
            # the engine stores its whole blocks first; that forward is counted here where it gives no token
            stored = recipe.kind == "block" and prompt > 16 and prompt % 16 > 0
            assert (ids, counted) == (output[: len(ids)], forwards + stored)


def test_marks_read_causal_models_as_greedy_does_and_as_the_card_says(tokenizer):
    name = "tiny-ar-s"
    network, model = load_network(MODELS / name), engines.load_model(name)
    for task in ("copy", "add"):
        examples = marks.held_out(task, 4)
        outputs = marks._generate(network, tokenizer, RECIPES[name], data.encode(tokenizer, examples), 48)
        for example, output in zip(examples, outputs, strict=True):
            assert output == answered("greedy", model, example.prompt, 48)[0][: len(output)]
    again = marks.mark(network, tokenizer, RECIPES[name], "copy", card.PROMPTS["causal"]).exact
    wanted = told(MODELS / name)["held_out_exact_match"]["copy"]
    assert again == pytest.approx(wanted, abs=0.011)  # a near-tie may fall the other way on another machine


def test_stories_are_tidied():
    boats = "She saw a boat. " * 4
    assert tidy(f"Once  Mia went\nout. {boats}And then", "Mia") == f"Once Mia went out. {boats}".strip()
    assert tidy("Too short.", "Mia") is None and tidy(boats * 2, "Mia") is None


def test_every_recipe_ships_with_a_whole_card_of_a_command_and_the_readme_says_what_they_say(tmp_path):
    cards = {path.parent.name: read_card(path.parent) for path in MODELS.glob("*/card.json")}
    made_by = {one["command"].removeprefix(f"{PROGRAM} ").split()[0] for one in cards.values()}
    assert len(cards) > len(RECIPES) and made_by <= {*commands()} and {*MIXTURE} == {*TASKS, "tell"}
    sizes = {name: {*map(str, range(one.sizes[0], one.sizes[1] + 1))} for name, one in TASKS.items() if one.asked}
    for name, recipe in RECIPES.items():
        if recipe.ships:
            found = cards[name]
            assert (found["name"], found["kind"], found["seed"]) == (name, recipe.kind, recipe.seed)
            assert {*found["held_out_exact_match"]} == {*TASKS}
            assert {task: {*by} for task, by in found["exact_match_by_size"].items()} == sizes
            assert found["sha256"] and found["licence"].startswith("Apache-2.0")
            assert found["minutes"] > 0 and found["tokens"] > 0
    for name in cards:
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.json").write_bytes((MODELS / name / "card.json").read_bytes())
    write_table(tmp_path)
    assert (tmp_path / "README.md").read_text() == (MODELS / "README.md").read_text()


def test_hidden_rates_are_uniform_and_the_loss_may_be_kept_near_the_clean_prefix():
    """Without a limit what is hidden is asked for; with one, semi-autoregressive rows ask for the first masks only."""
    shares, limited = [], 0
    for seed in range(600):
        plain, near = (
            data._hide(10, 20, 40, limit, random.Random(seed), torch.Generator().manual_seed(seed)) for limit in (0, 5)
        )
        hidden, wanted = plain[0].nonzero()[:, 0].tolist(), near[1].nonzero()[:, 0].tolist()
        assert torch.equal(*plain) and torch.equal(near[0], plain[0]) and wanted in (hidden, hidden[:5])
        shares.append(float(plain[0][10:].float().mean()))
        limited += wanted != hidden
    assert 0.4 < sum(shares) / len(shares) < 0.6 and min(shares) < 0.05 and max(shares) == 1.0
    assert 180 < limited < 420


def test_some_batches_of_a_masked_model_may_be_causal_rows(tokenizer):
    """Under a causal mask every answer token is asked for with its whole prefix in sight, and end marks behind the
    answer are not."""
    recipe = dataclasses.replace(TINY, kind="masked", causal=1.0)
    _, batch = next(data.batches(recipe, tokenizer))
    ids, targets, length = batch["input_ids"], batch["targets"], batch["input_ids"].shape[1]
    assert torch.equal(batch["attention_mask"][0, 0], torch.ones((length, length), dtype=torch.bool).tril())
    assert tokenizer.mask_token_id not in ids and ((targets == tokenizer.eos_token_id).sum(1) == 1).all()
    asked = targets[:, :-1] != data.IGNORED
    assert torch.equal(targets[:, :-1][asked], ids[:, 1:][asked])
    _, masked = next(data.batches(dataclasses.replace(recipe, causal=0.0), tokenizer))
    assert "attention_mask" not in masked


DLM = tiny("tiny-dlm", steps=4, ships=False)


@pytest.fixture
def network(tokenizer):
    return build(DLM, tokenizer)


def test_the_mean_has_its_share_of_the_start_and_a_temperature_divides_every_logit(tokenizer, network):
    start = build(dataclasses.replace(DLM, seed=1), tokenizer)
    expected = {name: 0.3 * start.state_dict()[name] + 0.7 * weight for name, weight in network.state_dict().items()}
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    average(network, start, 0.3)
    assert any(not torch.equal(weight, before[name]) for name, weight in network.state_dict().items())
    for name, weight in network.state_dict().items():
        torch.testing.assert_close(weight, expected[name])
    assert network.lm_head.weight is network.model.embed_tokens.weight, "the head is still the embedding"
    ids = torch.arange(10, 40).view(2, 15)
    with torch.no_grad():
        warm = network(input_ids=ids).logits
        cool(network, 1.25)
        torch.testing.assert_close(network(input_ids=ids).logits, warm / 1.25, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("true", [0.8, 1.3, 2.0])
def test_the_temperature_of_a_known_distribution_is_found(true):
    generator = torch.Generator().manual_seed(3)
    z = 3 * torch.randn((40_000, 12), generator=generator)
    truth = torch.multinomial((z / true).softmax(-1), 1, generator=generator)[:, 0]
    found = fitted(z, truth)
    assert found == pytest.approx(true, rel=0.05)
    p = (z / found).softmax(-1).amax(-1)
    above = p >= LIKELY
    wrong = (z.argmax(-1) != truth)[above].float().mean()
    assert wrong == pytest.approx(float((1 - p[above]).mean()), abs=0.01)


def test_a_temperature_out_of_reach_stays_at_the_edge():
    assert fitted(9 * torch.eye(8), torch.arange(8)) == pytest.approx(LEAST, rel=0.01), "always right"
    assert fitted(torch.zeros((0, 8)), torch.zeros(0, dtype=torch.long)) == 1.0, "nothing to go by"
    assert fitted(30 * torch.eye(8), (torch.arange(8) + 1) % 8) > 0.99 * MOST, "always wrong"


def test_proposals_are_those_of_some_weight_on_on_policy_states_and_the_same_again(tokenizer, network):
    assert len(proposed(network, DLM, tokenizer, windows=3)[1]) == 0, "untrained: nothing is likely"
    cool(network, 0.004)  # as sure as it can be
    z, truth = proposed(network, DLM, tokenizer, windows=3)
    assert z.shape == (len(truth), len(tokenizer)) and z.dtype == torch.float16 and len(truth) > 100
    assert (z.float().softmax(-1).amax(-1) > 0.24).all() and len(truth.unique()) > 20
    assert (truth != tokenizer.mask_token_id).all() and (truth == tokenizer.eos_token_id).any()
    again, same = proposed(network, DLM, tokenizer, windows=3)
    assert torch.equal(z, again) and torch.equal(truth, same)


def test_a_training_ends_with_what_its_recipe_asks_for_and_says_so(folders, tokenizer, monkeypatch):
    plain = dataclasses.replace(DLM, name="tiny-test-first", steps=2, start_share=0.0, calibrated=False)
    monkeypatch.setitem(RECIPES, "tiny-test-first", plain)
    monkeypatch.setitem(RECIPES, "tiny-test", dataclasses.replace(DLM, init_from="tiny-test-first"))
    monkeypatch.setattr(finishing, "fitted", lambda logits, truth: 1.504)
    folder = train.train("tiny-test")
    facts = told(folder)
    assert facts["start_share"] == 0.3 and facts["temperature"] == 1.5
    gain = load_network(folder).model.norm.weight
    torch.testing.assert_close(gain, torch.full_like(gain, 1 / 1.5), atol=0.05, rtol=0)  # a few steps from gains of 1
    first = train.folder_of("tiny-test-first")
    assert "start_share" not in told(first)
    network = build(DLM, tokenizer)
    weights = {name: weight.clone() for name, weight in network.state_dict().items()}
    assert finish(network, plain, tokenizer, first) == {}
    assert finish(network, dataclasses.replace(plain, start_share=0.5), tokenizer, None) == {}, "no start"
    assert all(torch.equal(weight, weights[name]) for name, weight in network.state_dict().items())


def test_an_interrupted_end_costs_no_step(folders, monkeypatch):
    monkeypatch.setitem(RECIPES, "tiny-test", DLM)
    monkeypatch.setattr(train, "finish", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train.train("tiny-test")
    assert not train.folder_of("tiny-test").exists()
    monkeypatch.setattr(train, "finish", finish)
    assert told(train.train("tiny-test", resume=True))["steps"] == DLM.steps
