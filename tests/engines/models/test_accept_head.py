"""Acceptance heads and filters: read, refused, and trained on what they should be trained on."""

import json

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import Extended
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.models.parts.accept_head import from_state, head_of
from engines.models.parts.filters import KEYS, BlockFilter, filter_of, read_filter
from engines.training.__main__ import main
from engines.training.core.parts import split
from engines.training.heads import accept_head as training
from engines.training.heads import filters
from engines.training.heads.accept_head import DEFAULTS, chats, fit, joined, record, train_head
from engines.training.heads.accept_marks import Records, auc, calibration, loss_of, marks
from tests.engines.fakes import TableCausal, TableMasked
from tests.engines.refusals import refuses

V, D = 6, 5


class Seen(TableCausal):
    """A table with hidden states that say which token was read behind which."""

    num_layers = 3

    def extend(self, tokens, cache, *, hidden=(), last_only=False, **options):
        before, first = [*cache.tokens, *(int(t) for t in tokens)], cache.length
        out = super().extend(tokens, cache, last_only=last_only, **options)
        states = torch.tensor([[before[i], before[i - 1], i, 1, 0] for i in range(first, len(before))]).float()
        return Extended(out.logits, dict.fromkeys(hidden, states))


def pair():
    target = TableCausal(vocab_size=V, memory=1, eos_ids=(5,))
    draft = Seen(vocab_size=V, memory=1, seed=1, eos_ids=(5,))
    for model, name in ((target, "spoken"), (draft, "guess")):
        model.record.name, model.record.sha256 = name, name * 2
        model.tokenizer.encode_prompt = lambda text: [1 + len(text) % 4, 2]
    return target, draft


def state(n=2, d=D, seed=0):
    rng = torch.Generator().manual_seed(seed)
    blocks = {
        f"blocks.{i}.{part}": torch.randn(*shape, generator=rng)
        for i in range(n)
        for part, shape in (("weight", (d, d)), ("bias", (d,)))
    }
    return blocks | {"out.weight": torch.randn(2, d, generator=rng), "out.bias": torch.zeros(2)}


def test_blocks_are_applied_in_order_or_one_again_and_again():
    x = torch.randn(4, D, generator=torch.Generator().manual_seed(3))
    for kind, t, order in (("own", state(2), (0, 1)), ("shared", state(1), (0, 0)), ("none", state(0), ())):
        found, y = from_state(t, kind, len(order)), x
        for i in order:
            y = y + torch.nn.functional.silu(y @ t[f"blocks.{i}.weight"].T + t[f"blocks.{i}.bias"])
        wanted = (y @ t["out.weight"].T + t["out.bias"]).softmax(-1)[:, 1]
        assert torch.allclose(found(x), wanted) and found.size == D and found(x[0]).shape == ()


def test_what_is_no_head_is_refused():
    for change, layers in (
        ({"out.bias": torch.zeros(3)}, 2),
        ({"blocks.1.weight": torch.zeros(D, D + 1)}, 2),
        ({"blocks.1.bias": torch.full((D,), torch.nan)}, 2),
        ({"more": torch.zeros(1)}, 2),
        ({}, 3),
        ({}, 0),
    ):
        refuses(UserError, "not an acceptance head of", from_state, state() | change, "broken", layers)
    refuses(UserError, "no drafter is known for tiny-ar-s", main, ["accept-head", "tiny-ar-s"])


def test_labels_are_the_chances_of_the_tokens_that_were_read():
    """A record's state says which token it is and which is before it; its label is min(1, p/q) behind X."""
    target, draft = pair()
    X = [3, 1, 4, 2, 0]
    found = record(target, draft, [1, 2], X, copies=40, mixing=0.3, rng=torch.Generator().manual_seed(0))
    assert set((found.h[:, 2].long() - 2).tolist()) == set(range(5)) and 0.55 < len(found) / 200 < 0.85
    context, mixed = [2, *X], 0
    for (token, before, place, *_), y, q in zip(found.h.tolist(), found.y, found.q, strict=True):
        i = int(place) - 2
        p_row, q_row = (model.logits([context[i]])[0].double().softmax(-1) for model in (target, draft))
        assert float(q) == pytest.approx(float(q_row[int(token)]), abs=1e-6)
        assert float(y) == pytest.approx(min(1.0, float(p_row[int(token)] / q_row[int(token)])), abs=1e-5)
        mixed += i > 0 and before != X[i - 1]  # the drafter read its own tokens before, not X
    assert mixed > 20


def test_no_prompt_is_in_two_parts():
    records = [Records(torch.full((3, D), i / 30), torch.ones(3), torch.ones(3)) for i in range(30)]
    parts = [joined(part) for part in split(records, seed=0)]
    assert [len(part) for part in parts] == [72, 9, 9]
    seen = [set(part.h[:, 0].tolist()) for part in parts]
    assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]
    refuses(UserError, "at least 3", split, records[:2], seed=0)


def separable(n, seed):
    h = torch.randn(n, D, generator=torch.Generator().manual_seed(seed)) + 0.5
    return Records(h, (h[:, 0].abs() > 0.7).float() * 0.9 + 0.05, torch.full((n,), 0.5))


@pytest.mark.parametrize("shared", [False, True])
def test_a_head_learns_what_a_linear_layer_cannot(shared, monkeypatch):
    monkeypatch.setattr(training, "LEARNING_RATE", 0.03)
    train, validation, test = separable(2000, 0), separable(300, 1), separable(300, 2)
    found = {}
    for layers in (0, 2):
        tensors, _ = fit(train, validation, layers=layers, shared=shared, epochs=25, weight=6.0, seed=0)
        found[layers] = marks(from_state(tensors, "h", layers), test, 6.0)
    assert sum(key.endswith("weight") for key in tensors) == (2 if shared else 3)
    assert found[2]["auc"] > 0.9 > 0.8 > found[0]["auc"]
    assert found[2]["loss"] < found[2]["loss_of_the_best_constant"] * 0.8
    assert found[2]["calibration_error_without_the_weight"] < found[2]["calibration_error"], "it makes it pessimistic"


def test_the_loss_and_figures_of_known_scores():
    y = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert auc(torch.tensor([0.9, 0.1, 0.8, 0.2]), y) == 1
    assert auc(torch.tensor([0.1, 0.9, 0.2, 0.8]), y) == 0
    assert auc(torch.ones(4), y) == 0.5
    assert auc(torch.tensor([0.9, 0.1]), torch.tensor([0.75, 0.25])) == pytest.approx(0.75 * 0.75 + 0.75 * 0.25)
    table, gap = calibration(torch.tensor([0.05, 0.05, 0.95, 1.0]), torch.tensor([0.0, 0.5, 1.0, 1.0]))
    assert table == [[0.05, 0.25, 2], [0.975, 1.0, 2]] and gap == pytest.approx(0.1125)
    logits, y = torch.tensor([[0.3, -0.2], [1.0, 2.0]]), torch.tensor([0.25, 1.0])
    log_p = logits.log_softmax(-1)
    wanted = -(6 * 0.75 * log_p[0, 0] + 0.25 * log_p[0, 1] + log_p[1, 1]) / (6 * 0.75 + 0.25 + 1)
    assert float(loss_of(logits, y, 6.0)) == pytest.approx(float(wanted))


def test_the_whole_way(tmp_path, monkeypatch):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (target, draft), settings = pair(), {**DEFAULTS, "length": 12, "epochs": 2}
    folder = folder_of("accept-head", "spoken")

    def trained(shared):
        prompts = ["x" * i for i in range(1, 25)]
        assert train_head(target, draft, prompts, settings, shared=shared, out=folder, command="again") == folder
        return (folder / "model.safetensors").read_bytes(), head_of(target.record, draft.record)

    refuses(UserError, "no acceptance head for spoken with guess", head_of, target.record, draft.record)
    first, found = trained(shared=False)
    card = json.loads((folder / "card.json").read_text())
    assert (found.size, found.layers, len(found.W), found.sha256) == (D, 2, 2, card["sha256"])
    assert (card["target_sha256"], card["draft_sha256"], card["command"]) == ("spokenspoken", "guessguess", "again")
    assert 0 <= card["held_out"]["auc"] <= 1
    assert trained(shared=False)[0] == first and [p.name for p in folder.parent.iterdir()] == [folder.name]
    assert len(trained(shared=True)[1].W) == 1
    (folder / "card.json").write_text(json.dumps(card))
    refuses(UserError, "not the file that its card describes", head_of, target.record, draft.record)
    draft.record.sha256 = "other"
    refuses(UserError, r"trained for other weights .* than spoken with guess", head_of, target.record, draft.record)


@pytest.mark.smollm2
def test_chats_are_answered_as_the_model_is_asked():
    target = load_model("smollm2")
    prompts, answers = chats(3, 5, 0)
    assert len(set(prompts)) == 3 and all(len(X) == 5 or X[-1] in target.eos_ids for X in answers)
    assert all(0 <= token < target.vocab_size for X in answers for token in X) and len({tuple(X) for X in answers}) > 1
    assert (prompts, answers) == chats(3, 5, 0) and chats(3, 5, 1)[0] != prompts


PROMPT, G, B = [1, 2], 16, 8


@pytest.mark.parametrize("seed", range(4))
def test_the_second_pass_commits_what_equals_the_first(seed):
    table = TableMasked(seed=seed)
    y = filters.greedy(table, PROMPT, G, B)
    records = filters.replay(table, PROMPT, y, B)
    assert not (y == table.mask_id).any() and y[:2].tolist() == PROMPT
    x, before = torch.tensor(PROMPT + [table.mask_id] * G), None
    for c, right, hidden in zip(records.c, records.right, records.hidden, strict=True):
        a = 2 + (int((x == table.mask_id).nonzero()[0]) - 2) // B * B
        block = slice(a, a + B)
        p, x0 = table(x)[block].softmax(-1).max(-1)
        assert torch.allclose(c, p) and torch.equal(right, x0 == y[block])
        assert torch.equal(hidden, x[block] == table.mask_id)
        same = before == (a, x0.tolist())
        x[block] = y[block] if same else torch.where(hidden & right, x0, x[block])
        before = (a, x0.tolist())
    assert torch.equal(x, y)


def by_a_line(n, seed):
    c = torch.rand(n, B, generator=torch.Generator().manual_seed(seed))
    return filters.Records(c, c > 0.7, torch.ones(n, B, dtype=torch.bool))


@pytest.mark.training
def test_a_line_is_learned_and_measured():
    state, facts = filters.fit(by_a_line(800, 0), by_a_line(100, 1), epochs=3000, seed=0)
    g, test = BlockFilter("g", "", *(state[key] for key in KEYS)), by_a_line(200, 2)
    found = filters.marks(g(test.c), test, (0.5,))["0.5"]
    assert found["precision"] > 0.85 and found["recall"] > 0.75 and found["false_positive_rate"] < 0.1
    assert sum(t is not None and 0.5 < t < 0.9 for t in filters.equivalents(g, 0.5, 0.5)) > B // 2
    assert facts["validation_loss"] < 0.2 and 0 < facts["epoch"] <= 3000


def test_equivalents_and_marks_of_a_known_filter():
    eye = torch.eye(B)
    g = BlockFilter("threshold", "", eye, torch.zeros(B), 1e5 * eye, torch.full((B,), -1e5 * 0.6025))
    assert filters.equivalents(g, 0.9, 0.2) == [pytest.approx(0.605)] * B
    right, hidden = torch.tensor([[True, False, True]]), torch.tensor([[True, True, False]])
    records = filters.Records(torch.tensor([[0.9, 0.9, 0.1]]), right, hidden)
    assert filters.marks(records.c, records, (0.5, 0.95)) == {
        "0.5": {"precision": 0.5, "recall": 1.0, "false_positive_rate": 1.0},
        "0.95": {"precision": None, "recall": 0.0, "false_positive_rate": 0.0},
    }


def test_the_whole_way_of_a_filter(tmp_path, monkeypatch):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = TableMasked(seed=5)
    model.record.name, model.record.sha256 = "spoken", "abc"
    model.tokenizer.encode_prompt = lambda text: [1 + len(text) % 9, 1 + sum(map(ord, text)) % 9]
    folder = folder_of("filter", "spoken")

    def trained():
        prompts = [f"prompt {i}" for i in range(12)]
        filters.train_filter(model, prompts, length=G, b=B, epochs=40, seed=0, out=folder, command="again")
        return (folder / "model.safetensors").read_bytes()

    first = trained()
    card, g = json.loads((folder / "card.json").read_text()), filter_of(model.record)
    assert (g.size, g.sha256) == (B, card["sha256"]) and card["parameters"] == 2 * B * B + 2 * B
    assert card["model_sha256"] == "abc" and card["command"] == "again" and card["records"]["held_out"] > 0
    assert trained() == first and [p.name for p in folder.parent.iterdir()] == [folder.name]
    model.record.sha256 = "def"
    refuses(UserError, "other weights", filter_of, model.record)


def test_a_published_state_dict_is_converted_and_what_is_missing_is_told(tmp_path):
    state = {key: torch.randn(B, B) if key.endswith("weight") else torch.randn(B) for key in KEYS}
    torch.save(state, tmp_path / "theirs.pth")
    g = read_filter(str(filters.convert(tmp_path / "theirs.pth")))
    assert torch.equal(g.W1, state[KEYS[0]]) and g.size == B
    torch.save(torch.nn.Linear(2, 2), tmp_path / "code.pth")
    (tmp_path / "empty.pth").write_bytes(b"")
    torch.save({"linear1.weight": torch.zeros(2, 2)}, tmp_path / "half.pth")
    for name in ("code", "empty", "half", "absent"):
        refuses(UserError, name, filters.convert, tmp_path / f"{name}.pth")
    refuses(UserError, "a masked model is needed", main, ["filter", "tiny-ar-s"])
