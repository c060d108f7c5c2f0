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
from tests.engines.training.running import goes_on, losses_of

CHATS = [
    {"prompt": f"copy: {name}", "answer": f"{name}, {name}, {name}"}
    for name in ("Mia", "Leo", "Ada", "Tom", "Zoe", "Kim", "Ben", "Eva")
]


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Checkpoints of its own, and steps large enough for a network this small; all weights need smaller ones."""
    monkeypatch.setattr(script, "checkpoint_file", lambda: tmp_path / "state" / "checkpoint.pt")
    monkeypatch.setattr(Settings, "rate", property(lambda self: 2e-2 if self.rank else 5e-3))
    return tmp_path


def written(folder, lines):
    file = folder / "chats.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n\n")
    return file


@pytest.fixture
def chats(tmp_path):
    return read_chats(written(tmp_path, CHATS))


def settings(base, **more):
    return Settings(**{"base": str(base), "block": 4, "rank": 4, "steps": 100, "batch": 512, "longest": 64, **more})


@pytest.mark.parametrize("rank", [4, 0])
def test_a_hundred_steps_learn_and_the_result_is_a_block_diffusion_model(base, here, chats, rank):
    training = Training(settings(base, rank=rank), chats)
    network, mask_id = training.network, training.mask_id
    first = {name: value.detach().clone() for name, value in network.state_dict().items()}
    losses = losses_of(training, Until(100))
    assert len(losses) == 100 and sum(losses[-10:]) < 0.6 * sum(losses[:10])
    assert training.held_out_loss() < training.loss_before
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, first[name])}
    assert ("model.embed_tokens.weight" in changed) == (not rank)
    assert not rank or all("original" not in name and "embed" not in name for name in changed)

    ids = torch.tensor([3, 9, 9, 4, mask_id, 20, mask_id, 21])
    with torch.no_grad():
        mask = block_mask(range(8), 8, 4, torch.float32, ids.device)
        rows = network(input_ids=ids[None], attention_mask=mask).logits[0]
    folder = training.install(here / "result")
    model = engines.load_model(str(folder), kind="block", dtype="float32")
    assert (model.block_size, model.mask_id, model.shift, model.vocab_size) == (4, mask_id, True, mask_id + 1)
    assert model.eos_ids == {training.tokenizer.eos_token_id}
    ours = model(ids)[1:, :mask_id]
    torch.testing.assert_close(ours, rows[:-1, :mask_id], atol=0.25, rtol=0.05)  # bfloat16 lies between
    trace = engines.run("fast-dllm-v2", model, "copy: Mia", params={"max_new_tokens": 8, "small_block_size": 4})
    assert trace.end.reason == "complete" and any(s.commits for s in trace.steps)
    figures = json.loads((folder / "training.json").read_text())
    assert figures["held_out_loss"] < figures["held_out_loss_before"] and figures["step"] == 100
    assert (folder / "adapter.safetensors").is_file() == bool(rank)


def test_the_adapter_alone_makes_the_model_again(base, here, chats):
    how = settings(base, steps=5)
    folder = train(Training(how, chats), here / "one")
    again = from_adapter(folder / "adapter.safetensors", how, here / "two")
    one, two = (load_file(f / "model.safetensors") for f in (folder, again))
    assert one.keys() == two.keys()
    for name, value in one.items():  # the adapter is kept in bfloat16
        torch.testing.assert_close(value.float(), two[name].float(), atol=2e-2, rtol=2e-2)
    moved = "model.layers.1.mlp.up_proj.weight"
    assert (one[moved].float() - script.load_base(how)[0].state_dict()[moved]).abs().max() > 3e-2
    with pytest.raises(UserError, match="does not fit this base and rank"):
        from_adapter(folder / "adapter.safetensors", settings(base, rank=2), here / "three")


def test_an_interrupted_training_goes_on_where_it_was_and_leaves_the_result_alone(base, here, chats, monkeypatch):
    whole, later = goes_on(lambda: Training(settings(base, steps=8), chats), 8, 3, here / "state.pt")
    assert later.loss_before == whole.loss_before
    with pytest.raises(UserError, match="there is no checkpoint of 'smollm2-blockdlm' to go on from"):
        loop.restore(Training(settings(base), chats), script.checkpoint_file())
    assert losses_of(Training(settings(base), chats), Until(100, 0)) == [], "no minutes, no step"
    training = Training(settings(base, steps=8), chats)
    monkeypatch.setattr(Training, "batch", lambda self, share: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(UserError, match=r"stopped at step 0; go on with: .* smollm2-blockdlm .*--resume"):
        train(training, here / "result")
    assert script.checkpoint_file().is_file() and not (here / "result").exists()


def test_a_batch_asks_for_every_answer_token_once_and_for_whole_blocks(base, chats, tokenizer):
    how, end = settings(base), tokenizer.eos_token_id
    pairs, held = encode(chats, tokenizer, how)
    assert len(held) == 1 and len(pairs) == 7 and not {tuple(p) for p, _ in held} & {tuple(p) for p, _ in pairs}
    batch = batch_of(pairs, how, 3, end, 1)
    rows, double = batch["input_ids"].shape
    asked = (batch["targets"] != IGNORED).reshape(2, rows // 2, double)
    clean = batch["input_ids"][: rows // 2, double // 2 :]
    assert rows * double <= how.batch and double // 2 % how.block == 0 and not (asked[0] & asked[1]).any()
    for row, (first, second) in zip(clean.tolist(), zip(*asked, strict=True), strict=True):
        prompt, answer = next((p, a) for p, a in pairs if row[: len(p) + len(a)] == p + a)
        last = -(-(len(prompt) + len(answer)) // how.block) * how.block
        assert (first | second).nonzero()[:, 0].tolist() == list(range(len(prompt) - 1, last - 1))
    same = batch_of(pairs, how, 3, end, 1)
    assert all(torch.equal(batch[k], same[k]) for k in batch)
    assert not torch.equal(batch_of(pairs, how, 4, end, 1)["targets"], batch["targets"])


def test_all_forms_of_a_chat_are_read_and_others_refused_with_their_line(tmp_path):
    ask, said = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    forms = [{"prompt": "a", "answer": "b"}, {"messages": [ask, said, ask, said]}, {"prompt": "a", "ids": [5, 6]}]
    assert read_chats(written(tmp_path, forms)) == [([ask], "b"), ([ask, said, ask], "b"), ([ask], [5, 6])]
    wrong = [{}, {"prompt": "a"}, {"prompt": "a", "answer": ""}, {"messages": []}, {"messages": [ask]}]
    for line in ("[]", "{", "7", *wrong):
        file = written(tmp_path, [forms[0], line])
        with pytest.raises(UserError, match=r"line 2 of .* is not a chat that ends with an answer; give \{"):
            read_chats(file)


def test_too_few_chats_and_a_missing_file_are_told(base, tmp_path, tokenizer):
    with pytest.raises(UserError, match="1 different prompts have answers within 64 tokens"):
        encode([([{"role": "user", "content": "a"}], "b")], tokenizer, settings(base))
    with pytest.raises(UserError, match="is not there; give a JSONL file"):
        main(["smollm2-blockdlm", "--base", str(base), "--data", str(tmp_path / "none.jsonl")])
    with pytest.raises(UserError, match="rank=-1 is too small; give 0 or more"):
        main(["smollm2-blockdlm", "--rank", "-1"])
    with pytest.raises(UserError, match="has no config"):
        script.load_base(settings(tmp_path))


def test_own_answers_are_written_until_there_are_enough_and_endless_ones_left_out(
    base, tmp_path, monkeypatch, tokenizer
):
    file, asked = tmp_path / "answers.jsonl", []
    monkeypatch.setattr(own_answers, "answers_file", lambda: file)
    monkeypatch.setattr(own_answers, "ensure", lambda: (base, "test"))

    def answer(self, input_ids, **options):
        """One answer in two ends."""
        asked.append(len(input_ids))
        rows = [[20, 21, 22, 23] if i % 2 else [20, 21, tokenizer.eos_token_id, 0] for i in range(len(input_ids))]
        return torch.cat([input_ids, torch.tensor(rows)], dim=1)

    monkeypatch.setattr(LlamaForCausalLM, "generate", answer)
    assert own_answers.write_answers(3) == 3 and asked == [3, 1]
    assert own_answers.write_answers(3) == 0 and own_answers.write_answers(4) == 1
    chats = read_chats(file)
    assert len(chats) == 4 and {text for _, text in chats} == {tokenizer.decode([20, 21])}
    drawn = {own_answers.drawn_prompt(random.Random(i), ["a bundled one"]) for i in range(60)}
    assert len(drawn) > 20 and "a bundled one" in drawn
