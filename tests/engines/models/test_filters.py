"""Training a filter: the two passes record what they should, the split keeps prompts apart, and the command leaves a
filter that its model finds."""

import json

import pytest
import torch

from engines.core.errors import UserError
from engines.models.filters import KEYS, BlockFilter, filter_of, read_filter
from engines.tasks import split_of
from engines.training.__main__ import main
from engines.training.core.parts import prompts_of
from engines.training.heads import filters
from engines.training.heads.filters import (
    Records,
    as_thresholds,
    convert,
    equivalents,
    fit,
    greedy,
    joined,
    marks,
    replay,
    train_filter,
)
from tests.engines.fakes import TableMasked

PROMPT, G, B = [1, 2], 16, 8


def two_passes(seed):
    table = TableMasked(seed=seed)
    y = greedy(table, PROMPT, G, B)
    return table, y, replay(table, PROMPT, y, B)


def test_the_second_pass_commits_what_equals_the_first():
    for seed in range(4):
        table, y, records = two_passes(seed)
        assert not (y == table.mask_id).any() and y[:2].tolist() == PROMPT
        assert records.c.shape == records.right.shape == records.hidden.shape == (len(records), B)
        x = torch.tensor(PROMPT + [table.mask_id] * G)
        before = None
        for i, (c, right, hidden) in enumerate(
            zip(records.c, records.right, records.hidden, strict=True)
        ):  # the second pass, written out
            a = 2 + (int((x == table.mask_id).nonzero()[0]) - 2) // B * B
            p, x0 = table(x)[a : a + B].softmax(-1).max(-1)
            assert (
                torch.allclose(c, p)
                and torch.equal(right, x0 == y[a : a + B])
                and torch.equal(hidden, x[a : a + B] == table.mask_id)
            ), i
            if before == (a, x0.tolist()):
                x[a : a + B] = y[a : a + B]
            else:
                x[a : a + B] = torch.where(hidden & right, x0, x[a : a + B])
            before = (a, x0.tolist())
        assert torch.equal(x, y)


def test_prompts_are_of_the_training_split_and_repeat():
    some, again = ([prompt for prompt, _ in zip(prompts_of(3), range(50), strict=False)] for _ in range(2))
    assert some == again and {split_of(prompt) for prompt in some} == {"train"}
    assert len({prompt.partition(":")[0] for prompt in some}) > 15


def separable(n, seed):
    c = torch.rand(n, B, generator=torch.Generator().manual_seed(seed))
    return Records(c, c > 0.7, torch.ones(n, B, dtype=torch.bool))


@pytest.mark.training
def test_a_line_is_learned_and_measured():
    state, facts = fit(separable(800, 0), separable(100, 1), epochs=3000, seed=0)
    g, test = BlockFilter("g", "", *(state[key] for key in KEYS)), separable(200, 2)
    found = marks(g(test.c), test, (0.5,))["0.5"]
    assert found["precision"] > 0.85 and found["recall"] > 0.75 and found["false_positive_rate"] < 0.1
    assert sum(t is not None and 0.5 < t < 0.9 for t in equivalents(g, 0.5, 0.5)) > B // 2
    assert facts["validation_loss"] < 0.2 and 0 < facts["epoch"] <= 3000


def test_equivalents_of_a_known_filter():
    eye = torch.eye(B)
    g = BlockFilter("threshold", "", eye, torch.zeros(B), 1e5 * eye, torch.full((B,), -1e5 * 0.6025))
    assert equivalents(g, 0.9, 0.2) == [pytest.approx(0.605)] * B
    assert as_thresholds(g)["0.96"]["median"] == pytest.approx(0.605)
    never = BlockFilter("never", "", eye, torch.zeros(B), eye, torch.full((B,), -50.0))
    assert equivalents(never, 0.9, 1.0) == [None] * B and as_thresholds(never)["0.9"]["median"] is None


def test_marks_look_at_masked_places_only():
    records = Records(
        torch.tensor([[0.9, 0.9, 0.1]]), torch.tensor([[True, False, True]]), torch.tensor([[True, True, False]])
    )
    assert marks(records.c, records, (0.5, 0.95)) == {
        "0.5": {"precision": 0.5, "recall": 1.0, "false_positive_rate": 1.0},
        "0.95": {"precision": None, "recall": 0.0, "false_positive_rate": 0.0},
    }
    assert len(joined([records, records])) == 2


class Spoken(TableMasked):
    """A table that takes texts, with the digest of its weights."""

    def __init__(self):
        super().__init__(seed=5)
        self.record.name, self.record.sha256 = "spoken", "abc"
        self.tokenizer.encode_prompt = lambda text: [1 + len(text) % 9, 1 + sum(map(ord, text)) % 9]


def test_the_whole_way(tmp_path, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    model = Spoken()
    settings = {"length": G, "b": B, "epochs": 40, "seed": 0, "out": filters.folder_of("spoken"), "command": "again"}
    folder = train_filter(model, [f"prompt {i}" for i in range(12)], **settings)
    card = json.loads((folder / "card.json").read_text())
    g = filter_of(model.record)
    assert (g.size, g.sha256) == (B, card["sha256"]) and card["parameters"] == 2 * B * B + 2 * B
    assert card["model_sha256"] == "abc" and card["command"] == "again" and card["records"]["held_out"] > 0
    assert {"data", "seed", "minutes", "machine", "licence", "as_plain_threshold", "held_out_by_accept_line"} <= set(
        card
    )
    first = (folder / "model.safetensors").read_bytes()
    train_filter(model, [f"prompt {i}" for i in range(12)], **settings)
    assert (folder / "model.safetensors").read_bytes() == first
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    model.record.sha256 = "def"
    with pytest.raises(UserError, match="other weights"):
        filter_of(model.record)


def test_a_published_state_dict_is_converted(tmp_path):
    state = {key: torch.randn(B, B) if key.endswith("weight") else torch.randn(B) for key in KEYS}
    torch.save(state, tmp_path / "theirs.pth")
    g = read_filter(str(convert(tmp_path / "theirs.pth")))
    assert torch.equal(g.W1, state[KEYS[0]]) and g.size == B
    torch.save(torch.nn.Linear(2, 2), tmp_path / "code.pth")
    (tmp_path / "empty.pth").write_bytes(b"")
    torch.save({"linear1.weight": torch.zeros(2, 2)}, tmp_path / "half.pth")
    for name in ("code", "empty", "half", "absent"):
        with pytest.raises(UserError, match=name):
            convert(tmp_path / f"{name}.pth")


def test_the_command_says_what_is_missing():
    with pytest.raises(UserError, match="name a model"):
        main(["filter"])
    with pytest.raises(UserError, match="a masked model is needed"):
        main(["filter", "tiny-ar-s"])
