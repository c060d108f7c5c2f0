"""The adaptation of SmolLM2 to block diffusion, on a tiny random Llama of the same class: it learns, it resumes, and
its result loads."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

import engines
from engines.core.errors import UserError
from engines.models.adapters.block import block_mask
from engines.training.__main__ import main
from engines.training.core import loop
from engines.training.core.data import IGNORED
from engines.training.core.loop import Until
from engines.training.smollm2 import blockdlm as script
from engines.training.smollm2 import own_answers
from engines.training.smollm2.blockdlm import Settings, Training, train
from engines.training.smollm2.blockdlm_model import from_adapter
from engines.training.smollm2.blockdlm_rows import batch_of, encode, read_chats
from engines.training.tiny.tokenizer import load_tokenizer

CHATS = [
    {"prompt": f"copy: {name}", "answer": f"{name}, {name}, {name}"}
    for name in ("Mia", "Leo", "Ada", "Tom", "Zoe", "Kim", "Ben", "Eva")
]


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Checkpoints of its own, and steps large enough for a network this small."""
    monkeypatch.setattr(script, "checkpoint_file", lambda: tmp_path / "state" / "checkpoint.pt")
    monkeypatch.setattr(
        Settings, "rate", property(lambda self: 2e-2 if self.rank else 5e-3)
    )  # all weights need smaller ones
    return tmp_path


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(json.dumps, CHATS)) + "\n\n")
    return file


def losses_of(training, steps, minutes=None):
    """The losses of a training's steps up to so many."""
    found = []
    training.after_step = lambda loss, shown, facts: found.append(loss)
    loop.run(training, Until(steps, minutes))
    return found


def settings(base, **more):
    return Settings(**{"base": str(base), "block": 4, "rank": 4, "steps": 100, "batch": 512, "longest": 64, **more})


@pytest.mark.parametrize("rank", [4, 0])
def test_a_hundred_steps_learn_and_the_result_is_a_block_diffusion_model(base, here, data, rank):
    training = Training(settings(base, rank=rank), read_chats(data))
    first = {name: value.detach().clone() for name, value in training.network.state_dict().items()}
    losses = losses_of(training, 100)
    assert len(losses) == 100 and sum(losses[-10:]) < 0.6 * sum(losses[:10])
    assert training.held_out_loss() < training.loss_before
    changed = {name for name, value in training.network.state_dict().items() if not torch.equal(value, first[name])}
    assert (
        all("original" not in name and "embed" not in name for name in changed)
        if rank
        else "model.embed_tokens.weight" in changed
    )

    ids = torch.tensor([3, 9, 9, 4, training.mask_id, 20, training.mask_id, 21])
    network, mask_id = training.network, training.mask_id
    with torch.no_grad():
        rows = network(
            input_ids=ids[None], attention_mask=block_mask(range(8), 8, 4, torch.float32, ids.device)
        ).logits[0]
    folder = training.install(here / "result")
    model = engines.load_model(str(folder), kind="block", dtype="float32")
    assert (model.block_size, model.mask_id, model.shift, model.vocab_size) == (4, mask_id, True, mask_id + 1)
    assert model.tokenizer.encode("<|mask|>") == [mask_id] and model.eos_ids == {training.tokenizer.eos_token_id}
    torch.testing.assert_close(
        model(ids)[1:, :mask_id], rows[:-1, :mask_id], atol=0.25, rtol=0.05
    )  # bfloat16 lies between
    trace = engines.run("fast-dllm-v2", model, "copy: Mia", params={"max_new_tokens": 8, "small_block_size": 4})
    assert trace.end.reason == "complete" and any(s.commits for s in trace.steps)
    figures = json.loads((folder / "training.json").read_text())
    assert figures["held_out_loss"] < figures["held_out_loss_before"] and figures["step"] == 100
    assert (folder / "adapter.safetensors").is_file() == bool(rank)


def test_the_adapter_alone_makes_the_model_again(base, here, data):
    how = settings(base, steps=5)
    folder = train(Training(how, read_chats(data)), here / "one")
    again = from_adapter(folder / "adapter.safetensors", how, here / "two")
    one, two = (load_file(f / "model.safetensors") for f in (folder, again))
    assert one.keys() == two.keys()
    for name, value in one.items():  # the adapter is kept in bfloat16
        torch.testing.assert_close(value.float(), two[name].float(), atol=2e-2, rtol=2e-2)
    start = script.load_base(how)[0].state_dict()
    assert (
        one["model.layers.1.mlp.up_proj.weight"].float() - start["model.layers.1.mlp.up_proj.weight"]
    ).abs().max() > 3e-2
    with pytest.raises(UserError, match="does not fit this base and rank"):
        from_adapter(folder / "adapter.safetensors", settings(base, rank=2), here / "three")


def test_an_interrupted_training_goes_on_where_it_was(base, here, data):
    chats, how = read_chats(data), settings(base, steps=8)
    whole = Training(how, chats)
    losses = losses_of(whole, 8)
    part = Training(how, chats)
    begun = losses_of(part, 3)
    loop.save(part, script.checkpoint_file())
    later = Training(how, chats)
    loop.restore(later, script.checkpoint_file())
    assert later.progress.step == 3 and later.progress.tokens == part.progress.tokens
    assert later.loss_before == whole.loss_before
    assert begun + losses_of(later, 8) == losses
    assert all(torch.equal(value, whole.parts[name]) for name, value in later.parts.items())
    with pytest.raises(UserError, match="made with other settings"):
        loop.restore(Training(settings(base, steps=9), chats), script.checkpoint_file())


def test_ctrl_c_keeps_the_checkpoint_and_leaves_the_result_alone(base, here, data, monkeypatch):
    training = Training(settings(base, steps=8), read_chats(data))
    monkeypatch.setattr(Training, "batch", lambda self, share: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(UserError, match=r"stopped at step 0; go on with: .* smollm2-blockdlm .*--resume"):
        train(training, here / "result")
    assert script.checkpoint_file().is_file() and not (here / "result").exists()


def test_minutes_end_it_early_and_no_checkpoint_is_no_resume(base, here, data):
    assert losses_of(Training(settings(base), read_chats(data)), 100, minutes=0) == []
    with pytest.raises(UserError, match="there is no checkpoint of 'smollm2-blockdlm' to go on from"):
        loop.restore(Training(settings(base), read_chats(data)), script.checkpoint_file())


def test_a_batch_asks_for_every_answer_token_once_and_for_whole_blocks(base, data):
    how, tokenizer = settings(base), load_tokenizer()
    pairs, held = encode(read_chats(data), tokenizer, how)
    assert len(held) == 1 and len(pairs) == 7 and not {tuple(p) for p, _ in held} & {tuple(p) for p, _ in pairs}
    batch = batch_of(pairs, how, 3, tokenizer.eos_token_id, 1)
    rows, double = batch["input_ids"].shape
    asked = (batch["targets"] != IGNORED).reshape(2, rows // 2, double)
    clean = batch["input_ids"][: rows // 2, double // 2 :]
    assert rows * double <= how.batch and double // 2 % how.block == 0 and not (asked[0] & asked[1]).any()
    for row, (first, second) in zip(clean.tolist(), zip(*asked, strict=True), strict=True):
        prompt, answer = next((p, a) for p, a in pairs if row[: len(p) + len(a)] == p + a)
        end = -(-(len(prompt) + len(answer)) // how.block) * how.block
        assert (first | second).nonzero()[:, 0].tolist() == list(range(len(prompt) - 1, end - 1))
    same = batch_of(pairs, how, 3, tokenizer.eos_token_id, 1)
    assert all(torch.equal(batch[k], same[k]) for k in batch)
    assert not torch.equal(batch_of(pairs, how, 4, tokenizer.eos_token_id, 1)["targets"], batch["targets"])


def test_all_forms_of_a_chat_are_read(tmp_path):
    file = tmp_path / "chats.jsonl"
    turns = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]
    file.write_text(
        "\n".join(
            json.dumps(entry)
            for entry in ({"prompt": "a", "answer": "b"}, {"messages": turns}, {"prompt": "a", "ids": [5, 6]})
        )
    )
    ask = [{"role": "user", "content": "a"}]
    assert read_chats(file) == [(ask, "b"), (turns[:3], "d"), (ask, [5, 6])]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{",
        "{}",
        '{"prompt": "a"}',
        '{"prompt": "a", "answer": ""}',
        '{"messages": []}',
        '{"messages": [{"role": "user", "content": "a"}]}',
        "7",
    ],
)
def test_what_is_no_chat_is_refused_with_its_line(tmp_path, line):
    file = tmp_path / "chats.jsonl"
    file.write_text('{"prompt": "a", "answer": "b"}\n' + line + "\n")
    with pytest.raises(UserError, match=r"line 2 of .* is not a chat that ends with an answer; give \{"):
        read_chats(file)


def test_too_few_chats_and_a_missing_file_are_told(base, tmp_path):
    with pytest.raises(UserError, match="1 different prompts have answers within 64 tokens"):
        encode([([{"role": "user", "content": "a"}], "b")], load_tokenizer(), settings(base))
    with pytest.raises(UserError, match="is not there; give a JSONL file"):
        main(["smollm2-blockdlm", "--base", str(base), "--data", str(tmp_path / "none.jsonl")])
    with pytest.raises(UserError, match="rank=-1 is too small; give 0 or more"):
        main(["smollm2-blockdlm", "--rank", "-1"])
    with pytest.raises(UserError, match="has no config"):
        script.load_base(settings(tmp_path))


def test_own_answers_are_written_until_there_are_enough_and_endless_ones_left_out(base, tmp_path, monkeypatch):
    file, asked = tmp_path / "answers.jsonl", []
    monkeypatch.setattr(own_answers, "answers_file", lambda: file)
    monkeypatch.setattr(own_answers, "ensure", lambda: (base, "test"))
    end = load_tokenizer().eos_token_id

    def answer(self, input_ids, **options):
        """One answer in two ends."""
        asked.append(len(input_ids))
        rows = [[20, 21, end, 0] if i % 2 == 0 else [20, 21, 22, 23] for i in range(len(input_ids))]
        return torch.cat([input_ids, torch.tensor(rows)], dim=1)

    monkeypatch.setattr(LlamaForCausalLM, "generate", answer)
    assert own_answers.write_answers(3) == 3 and asked == [3, 1]
    assert own_answers.write_answers(3) == 0 and own_answers.write_answers(4) == 1
    chats = read_chats(file)
    assert len(chats) == 4 and {text for _, text in chats} == {load_tokenizer().decode([20, 21])}
    bundled = [entry["prompt"] for entry in json.loads(own_answers.BUNDLED.read_text())["prompts"]]
    drawn = {own_answers.drawn_prompt(random.Random(i), bundled) for i in range(60)}
    assert drawn & set(bundled)
    assert any(prompt.startswith("Write a very short story") for prompt in drawn)
    assert len(drawn) > 20
