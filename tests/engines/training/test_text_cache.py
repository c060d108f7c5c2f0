"""The text cache of a micro model, and heads that learn from it, stop and go on exactly."""

import json
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engines.core.errors import UserError
from engines.models.loading import zoo
from engines.training.core.loop import Until
from engines.training.core.text_cache import Answer, Teacher, TextCache, begin, fill, shards, size
from engines.training.core.text_cache import soft_cross_entropy as loss_of
from engines.training.heads.hydra import HydraTraining
from engines.training.smollm2 import text_cache as command
from engines.training.tiny.tokenizer import copy_tokenizer
from tests.engines import micro
from tests.engines.training.running import goes_on, losses_of

LAYERS = (0, 1, 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three thin layers with the tiny models' tokenizer."""
    folder = tmp_path_factory.mktemp("micro")
    micro.llama(3, seed=3, initializer_range=0.4).save_pretrained(folder)
    copy_tokenizer(folder)
    return zoo.load_model(folder, kind="causal", dtype="float32")


def answers(model: Any, n: int) -> list[Answer]:
    """Greedy answers of six tokens to n prompts; every fourth is held out."""
    found = []
    for i in range(n):
        prompt = [7 + i, 30, 31 + i % 5]
        ids = list(prompt)
        while len(ids) < 9:
            ids.append(int(model.extend(ids, model.new_cache(16), last_only=True).logits[0].argmax()))
        found.append(Answer(prompt, ids[3:], i % 4 == 3, {"class": "test", "number": i, "line": i + 1}))
    return found


@pytest.fixture(scope="module")
def cache(model: Any, tmp_path_factory: pytest.TempPathFactory) -> TextCache:
    """Twenty-four answers in shards of five."""
    folder, all_ = tmp_path_factory.mktemp("cache"), answers(model, 24)
    fill(folder, model, LAYERS, [all_[i : i + 5] for i in range(0, 24, 5)], lambda: True)
    return TextCache(folder)


def test_states_and_distributions_are_the_models_own(model: Any, cache: TextCache) -> None:
    teacher = Teacher(model.model.lm_head.weight)
    for text in cache.texts(LAYERS):
        ids = text.tokens.tolist()
        out = model.extend(ids, model.new_cache(16), hidden=LAYERS)
        for layer in LAYERS:
            assert text.hidden[layer].dtype == torch.bfloat16
            torch.testing.assert_close(text.hidden[layer].float(), out.hidden[layer], atol=1e-2, rtol=1e-2)
        log_p = out.logits.log_softmax(-1)
        assert torch.equal(text.top_ids, out.logits.topk(16).indices)
        torch.testing.assert_close(text.top_logprobs, log_p.topk(16).values, atol=5e-3, rtol=1e-3)
        assert text.top_ids[list(text.rows()), 0].tolist() == ids[text.prompt :], "row t speaks of token t + 1"
        close = (teacher.logits(text.hidden[3]).softmax(-1) - out.logits.softmax(-1)).abs().max()
        assert close < 0.05, "the last states give the whole distribution"


def test_nothing_is_in_two_parts_and_a_seed_shuffles(cache: TextCache) -> None:
    train, held = ([t.about["number"] for t in cache.texts((), held_out=part)] for part in (False, True))
    assert held == [i for i in range(24) if i % 4 == 3] and train == [i for i in range(24) if i % 4 != 3]
    assert (cache.count(), cache.count(held_out=True)) == (18, 6)
    one, same, other = ([t.about["number"] for t in cache.texts((), seed=seed)] for seed in (1, 1, 2))
    assert one == same != other and sorted(one) == sorted(other) == train
    assert [t.about["number"] for t in cache.texts((), seed=1, skip=7)] == one[7:]
    ids = cache.frequent(20, 2048, always=(2,))
    assert len(ids) == 20 and 2 in ids.tolist() and ids.tolist() == sorted(ids.tolist())


def test_a_second_call_goes_on_and_the_limit_stops_it(model: Any, tmp_path: Path) -> None:
    all_ = answers(model, 12)
    groups = [all_[i : i + 4] for i in range(0, 12, 4)]
    first = fill(tmp_path, model, LAYERS, groups, lambda: size(tmp_path) < 1)
    assert first.texts == 4 and len(shards(tmp_path)) == 1 and command.cached(tmp_path) == 4
    again = fill(tmp_path, model, LAYERS, groups[1:], lambda: True)
    assert again.texts == 8 and again.tokens == 72 and again.bytes_now == size(tmp_path)
    assert [t.about["number"] for t in TextCache(tmp_path).texts(()) if t.about["number"] > 3] == [4, 5, 6, 8, 9, 10]


def test_bad_input_is_told(model: Any, cache: TextCache, tmp_path: Path) -> None:
    make_it = r"there is no text cache at .*; make it: python -m engines.training text-cache"
    with pytest.raises(UserError, match=make_it):
        TextCache(tmp_path)
    with pytest.raises(UserError, match=r"layer 4 is out of range; .* has layers 0 to 3"):
        begin(tmp_path, model, (4,))
    with pytest.raises(UserError, match="made with other weights or layers"):
        begin(cache.folder, model, (0, 1))
    with pytest.raises(UserError, match=r"layer 2 is not in the text cache, which has 0, 1, 3; .*--layers 0 1 2 3"):
        next(cache.texts((2,)))


def test_answers_of_the_draft_come_first_and_are_counted(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Any
) -> None:
    told = [{"class": "a", "prompt": f"copy: {n}", "temperature": 0.0, "ids": [9, 8, 2]} for n in ("Mia", "Leo", "Ada")]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in told))
    new = {"class": "b", "prompt": "sort: 3 1", "temperature": 1.0, "ids": [5, 2]}
    seeds: list[int] = []

    def writer(_: Any, seed: int) -> Any:
        """Stands for the large model: one new answer at a time."""
        seeds.append(seed)
        return SimpleNamespace(batches=lambda: repeat([new]))

    monkeypatch.setattr(command, "answers_file", lambda: file)
    monkeypatch.setattr(command, "Writer", writer)
    monkeypatch.setattr(command, "load_target", lambda: (None,))
    monkeypatch.setattr(command, "PER_SHARD", 4)
    group = next(command.groups(1, 0, model.tokenizer))
    assert [one.about["line"] for one in group] == [2, 3, 4, 5] and seeds == [3]
    assert [one.answer for one in group] == [[9, 8, 2], [9, 8, 2], [5, 2], [5, 2]]
    asked = [{"role": "user", "content": "copy: Leo"}]
    chat = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)
    assert group[0].prompt == list(chat), "the prompt is read as it was answered"
    assert len(file.read_text().splitlines()) == 5


def test_the_loss_is_least_at_the_teacher() -> None:
    wanted = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    entropy = -(wanted.softmax(-1) * wanted.log_softmax(-1)).sum(-1).mean()
    assert loss_of(wanted, wanted) == pytest.approx(float(entropy)) and loss_of(torch.zeros(5, 9), wanted) > entropy


def test_a_head_learns_and_goes_on_exactly(model: Any, cache: TextCache, tmp_path: Path) -> None:
    def fresh() -> HydraTraining:
        W = model.model.lm_head.weight
        return HydraTraining("hydra", model, cache, Teacher(W, cache.frequent(64, len(W))), 0)

    whole = fresh()
    losses = losses_of(whole, Until(200))
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5]), "answers of a random model can only be learnt by heart"
    goes_on(fresh, 15, 7, tmp_path / "hydra.pt")
