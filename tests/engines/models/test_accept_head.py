"""Acceptance heads: read, refused, and trained on what they should be trained on."""

import json

import pytest
import torch

from engines.core.errors import UserError
from engines.core.kinds import Extended
from engines.models import accept_head
from engines.models.accept_head import AcceptHead, from_state, head_of
from engines.models.zoo import load_model
from engines.training.__main__ import main
from engines.training.core.parts import split
from engines.training.heads import accept_head as training
from engines.training.heads.accept_head import DEFAULTS, chats, fit, joined, labels, record, train_head
from engines.training.heads.accept_marks import Records, auc, calibration, loss_of, marks
from tests.engines.fakes import TableCausal

V, D = 6, 5


class Seen(TableCausal):
    """A table with hidden states that say which token was read behind which."""

    num_layers = 3

    def extend(self, tokens, cache, *, hidden=(), last_only=False, **options):
        before = [*cache.tokens, *(int(t) for t in tokens)]
        first = cache.length
        out = super().extend(tokens, cache, last_only=last_only, **options)
        states = torch.tensor(
            [[float(before[i]), float(before[i - 1]), float(i), 1.0, 0.0] for i in range(first, len(before))]
        )
        return Extended(out.logits, dict.fromkeys(hidden, states))


def pair():
    target, draft = (
        TableCausal(vocab_size=V, memory=1, eos_ids=(5,)),
        Seen(vocab_size=V, memory=1, seed=1, eos_ids=(5,)),
    )
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


# --- the module ------------------------------------------------------------------------------------------------------


def test_blocks_are_applied_in_order_or_one_again_and_again():
    x = torch.randn(4, D, generator=torch.Generator().manual_seed(3))
    own, shared = from_state(state(2), "own", 2), from_state(state(1), "shared", 2)

    def block(t, i, x):
        return x + torch.nn.functional.silu(x @ t[f"blocks.{i}.weight"].T + t[f"blocks.{i}.bias"])

    for found, t, order in ((own, state(2), (0, 1)), (shared, state(1), (0, 0))):
        y = x
        for i in order:
            y = block(t, i, y)
        wanted = (y @ t["out.weight"].T + t["out.bias"]).softmax(-1)[:, 1]
        assert torch.allclose(found(x), wanted) and found.size == D and found(x[0]).shape == ()
    assert torch.allclose(from_state(state(0), "none", 0)(x), (x @ state(0)["out.weight"].T).softmax(-1)[:, 1])


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({"out.bias": torch.zeros(3)}, 2),
        ({"blocks.1.weight": torch.zeros(D, D + 1)}, 2),
        ({"blocks.1.bias": torch.full((D,), torch.nan)}, 2),
        ({"more": torch.zeros(1)}, 2),
        ({}, 3),
        ({}, 0),
    ],
)
def test_what_is_no_head_is_refused(change, layers):
    with pytest.raises(UserError, match="not an acceptance head of"):
        from_state(state() | change, "broken", layers)


# --- training --------------------------------------------------------------------------------------------------------


def test_labels_are_the_chances_of_the_tokens_that_were_read():
    """Each record's state says which token it is and which one stands before it; its label is min(1, p/q) behind X, its
    q the drafter's."""
    target, draft = pair()
    X = [3, 1, 4, 2, 0]
    found = record(target, draft, [1, 2], X, copies=40, mixing=0.3, rng=torch.Generator().manual_seed(0))
    places = found.h[:, 2].long() - 2
    assert set(places.tolist()) == set(range(5)) and 0.55 < len(found) / 200 < 0.85
    context = [2, *X]
    mixed = 0
    for (token, before, place, *_), y, q in zip(found.h.tolist(), found.y, found.q, strict=True):
        i = int(place) - 2
        p_row, q_row = (model.logits([context[i]])[0].double().softmax(-1) for model in (target, draft))
        assert float(q) == pytest.approx(float(q_row[int(token)]), abs=1e-6)
        assert float(y) == pytest.approx(min(1.0, float(p_row[int(token)] / q_row[int(token)])), abs=1e-5)
        mixed += i > 0 and before != X[i - 1]  # the drafter read its own tokens before, not X
    assert mixed > 20


def test_labels_and_loss():
    p, q = torch.tensor([-1.0, -0.5]), torch.tensor([-0.5, -1.0])
    assert torch.allclose(labels(p, q), torch.tensor([0.60653, 1.0]), atol=1e-4)
    logits, y = torch.tensor([[0.3, -0.2], [1.0, 2.0]]), torch.tensor([0.25, 1.0])
    log_p = logits.log_softmax(-1)
    wanted = -(6 * 0.75 * log_p[0, 0] + 0.25 * log_p[0, 1] + log_p[1, 1]) / (6 * 0.75 + 0.25 + 1)
    assert float(loss_of(logits, y, 6.0)) == pytest.approx(float(wanted))


def test_no_prompt_is_in_two_parts():
    records = [Records(torch.full((3, D), i / 30), torch.ones(3), torch.ones(3)) for i in range(30)]
    parts = [joined(part) for part in split(records, seed=0)]
    assert [len(part) for part in parts] == [72, 9, 9]
    seen = [set(part.h[:, 0].tolist()) for part in parts]
    assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]
    with pytest.raises(UserError, match="at least 3"):
        split(records[:2], seed=0)


def separable(n, seed):
    h = torch.randn(n, D, generator=torch.Generator().manual_seed(seed)) + 0.5
    return Records(
        h, (h[:, 0].abs() > 0.7).float() * 0.9 + 0.05, torch.full((n,), 0.5)
    )  # a linear layer knows one side only


@pytest.mark.parametrize("shared", [False, True])
def test_a_head_learns_what_a_linear_layer_cannot(shared, monkeypatch):
    monkeypatch.setattr(training, "LEARNING_RATE", 0.03)
    train, validation, test = separable(2000, 0), separable(300, 1), separable(300, 2)
    found = {}
    for layers in (0, 2):
        tensors, facts = fit(train, validation, layers=layers, shared=shared, epochs=25, weight=6.0, seed=0)
        found[layers] = marks(from_state(tensors, "h", layers), test, 6.0)
        assert facts["validation_loss"] > 0 and 1 <= facts["epoch"] <= 25
    assert sum(key.endswith("weight") for key in tensors) == (2 if shared else 3)
    assert found[2]["auc"] > 0.9 > 0.8 > found[0]["auc"]
    assert found[2]["loss"] < found[2]["loss_of_the_best_constant"] * 0.8
    assert (
        found[2]["calibration_error_without_the_weight"] < found[2]["calibration_error"]
    )  # the weight makes it pessimistic


def test_figures_of_known_scores():
    y = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert auc(torch.tensor([0.9, 0.1, 0.8, 0.2]), y) == 1
    assert auc(torch.tensor([0.1, 0.9, 0.2, 0.8]), y) == 0
    assert auc(torch.ones(4), y) == 0.5
    assert auc(torch.tensor([0.9, 0.1]), torch.tensor([0.75, 0.25])) == pytest.approx(
        (0.75 * 0.75 + 0.5 * (0.75 * 0.25 + 0.25 * 0.75)) / 1.0
    )
    table, gap = calibration(torch.tensor([0.05, 0.05, 0.95, 1.0]), torch.tensor([0.0, 0.5, 1.0, 1.0]))
    assert table == [[0.05, 0.25, 2], [0.975, 1.0, 2]] and gap == pytest.approx(0.1125)


def test_the_whole_way(tmp_path, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DECODING_EXPLORER_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    target, draft = pair()
    settings = {**DEFAULTS, "length": 12, "epochs": 2}
    prompts = ["x" * i for i in range(1, 25)]
    with pytest.raises(UserError, match="no acceptance head for spoken with guess"):
        head_of(target.record, draft.record)
    folder = train_head(
        target, draft, prompts, settings, shared=False, out=accept_head.folder_of("spoken"), command="again"
    )
    card, found = json.loads((folder / "card.json").read_text()), head_of(target.record, draft.record)
    assert isinstance(found, AcceptHead)
    assert (found.size, found.layers, len(found.W), found.sha256) == (
        D,
        2,
        2,
        card["sha256"],
    )
    assert (card["target_sha256"], card["draft_sha256"], card["command"]) == (
        "spokenspoken",
        "guessguess",
        "again",
    )
    assert 0 <= card["held_out"]["auc"] <= 1
    first = (folder / "model.safetensors").read_bytes()
    train_head(target, draft, prompts, settings, shared=False, out=folder, command="again")
    assert (folder / "model.safetensors").read_bytes() == first
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    train_head(target, draft, prompts, settings, shared=True, out=folder, command="again")
    assert len(head_of(target.record, draft.record).W) == 1
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match="not the file that its card describes"):
        head_of(target.record, draft.record)
    draft.record.sha256 = "other"
    with pytest.raises(UserError, match=r"trained for other weights .* than spoken with guess"):
        head_of(target.record, draft.record)


def test_the_command_says_what_is_missing():
    with pytest.raises(UserError, match="a causal model is needed"):
        main(["accept-head", "tiny-dlm"])
    with pytest.raises(UserError, match="no drafter is known for tiny-ar-s"):
        main(["accept-head", "tiny-ar-s"])


@pytest.mark.smollm2
def test_chats_are_answered_as_the_model_is_asked():
    target = load_model("smollm2")
    prompts, answers = chats(3, 5, 0)
    assert len(set(prompts)) == 3 and all(len(X) == 5 or X[-1] in target.eos_ids for X in answers)
    assert all(0 <= token < target.vocab_size for X in answers for token in X) and len({tuple(X) for X in answers}) > 1
    assert (prompts, answers) == chats(3, 5, 0) and chats(3, 5, 1)[0] != prompts
