"""Judge decoding: the mask, standard verification at delta = 1, everything at 0, scores from the row that reads the
token, and a text typed as the draft."""

import random

import pytest
import torch

import engines
from engines.core.params import Params
from engines.core.sampling import distribution, draw
from engines.methods.speculative import judge_decoding as judge
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from tests.engines.fakes import board, chi_square_p

MODEL = "tiny-ar-m"
PROMPTS = ("shuffle: Zoe, Mia, Leo, Ada", "add: 45 + 86", "spell: the red book loes the drum.")


def decode(prompt=PROMPTS[0], slug="judge-decoding", seed=0, **params):
    models = {"target": engines.load_model(MODEL, dtype="float32")}
    return engines.run(slug, models, prompt, params={"max_new_tokens": 32, **params}, seed=seed)


def test_a_higher_line_keeps_no_more_and_the_judge_takes_nothing_away():
    rng = random.Random(0)
    for _ in range(200):
        plain, score = ([make() for _ in range(8)] for make in (lambda: rng.random() < 0.6, rng.random))
        kept = [judge.or_mask(plain, score, delta)[1] for delta in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert kept == sorted(kept, reverse=True) and kept[0] == 8
        assert kept[-1] == next((i for i, good in enumerate(plain) if not good), 8)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_at_one_it_is_standard_verification(prompt):
    for gamma in (1, 32) if prompt == PROMPTS[0] else (8,):
        ours = decode(prompt, delta=1.0, gamma=gamma)
        plain = decode(prompt, "speculative-sampling", gamma=min(gamma, 12))
        assert ours.output_ids == decode(prompt, "greedy").output_ids == board(ours)
        assert not any(s.facts["judged"] for s in ours.steps)
        assert gamma > 12 or [s.facts["accepted"] for s in ours.steps] == [s.facts["accepted"] for s in plain.steps]


def test_at_zero_every_draft_stands_whole():
    trace = decode(delta=0.0, gamma=6)
    for step in trace.steps:
        ended = step.commits.tokens[-1] in trace.header.eos_ids
        assert ended or step.facts["accepted"] == step.facts["drafted"] == len(step.commits.tokens) - 1
    assert sum(s.facts["judged"] for s in trace.steps) > 0


def test_scores_come_from_the_row_that_reads_the_token_and_cost_no_call():
    model = engines.load_model(MODEL, dtype="float32")
    part = load_part("judge", [model.record])
    assert part.parameters == part.tensors["w"].numel() + 1
    trace = decode(PROMPTS[0], delta=0.3)
    text, seen, mixed = list(trace.header.prompt_ids), 0, set()
    for step in trace.steps:
        d = step.tree.tokens[1:]
        assert step.forwards["target"] == 1
        fed, cache = [*text, *d], model.new_cache(len(text) + len(d))
        h = model.layers(model.embed(fed), cache, 0, model.num_layers)
        z = model.unembed(h)
        for i, token in enumerate(d):
            at = len(text) + i
            score = float((h[at].float() @ part.tensors["w"] + part.tensors["b"]).sigmoid())
            plain = int(z[at - 1].argmax()) == token
            assert step.tree.values[i + 1] == pytest.approx(score, abs=2e-3)
            assert step.tree.chances[i + 1] == plain
            if i < step.facts["accepted"]:
                cause = "accepted" if plain else "judged"
                assert step.commits.causes[i] == cause and (plain or score > 0.3)
                assert step.commits.authors[i] == "draft"
                mixed.add(cause)
            elif i == step.facts["accepted"] and step.tree.why[i + 1] != "unreached":
                assert not plain and score <= 0.3
            seen += 1
        text += step.commits.tokens
    assert seen > 5 and mixed == {"accepted", "judged"}


@pytest.mark.parametrize("drawn", [True, False])
def test_without_the_judge_a_round_has_the_targets_distribution(drawn):
    """The first token of a round at temperature 1, the draft drawn from q or put there."""
    z = torch.tensor([[1.0, 0.2, -0.5, 0.8], [0.0, 1.0, 0.3, -1.0]], dtype=torch.float64)
    q, p = torch.tensor([0.1, 0.5, 0.2, 0.2], dtype=torch.float64), Params(temperature=1.0)
    rng, counts = torch.Generator().manual_seed(3), torch.zeros(4)
    for _ in range(2000):
        draft = Draft(0)
        if drawn:
            draft.distributions[0] = q
        draft.add(0, draw(q, rng) if drawn else 1)
        plain, u, ratio = judge.standard(z, draft, p, rng)
        assert len(u) == len(ratio) == 1
        A = judge.or_mask(plain, [0.9], 1.0)[1]
        counts[draft.tokens[1] if A else judge.last_token(z[0], draft, 0, p, rng)[0]] += 1
    assert chi_square_p(counts, distribution(z[0], 1.0)) > 1e-3


def test_a_typed_draft_is_taken_window_by_window():
    text = "Ada Zoe Mia Leo Ada Zoe Mia"
    trace = decode(text=text, delta=0.0, gamma=3)
    typed = judge.answer_ids(engines.load_model(MODEL).tokenizer, text)
    assert trace.output_ids[: len(typed)] == typed
    whole = len(typed) // 3
    assert [s.commits.tokens for s in trace.steps[:whole]] == [typed[3 * i : 3 * i + 3] for i in range(whole)]
    assert all(a == "person" for s in trace.steps[:whole] for a in s.commits.authors)
    assert all(s.facts["typed"] for s in trace.steps[:whole])


def test_a_refused_typed_token_is_replaced_and_the_text_goes_on_behind_it():
    greedy = decode(PROMPTS[1], "greedy")
    wrong = greedy.text.replace("answer 131", "answer 151")
    assert wrong != greedy.text
    trace = decode(PROMPTS[1], text=wrong, delta=1.0)
    assert trace.output_ids == greedy.output_ids
    refused = [s for s in trace.steps if s.facts["typed"] and s.facts["accepted"] < s.facts["drafted"]]
    assert len(refused) == 1 and trace.totals.forwards < greedy.totals.forwards


def test_a_typed_draft_that_fills_the_room_ends():
    trace = decode(text="Ada Zoe Mia Leo " * 20, delta=0.0, max_new_tokens=10)
    assert len(trace.output_ids) == 10 and trace.end.reason == "complete"


def test_bad_input_is_one_sentence():
    with pytest.raises(engines.UserError, match=r"no judge for tiny-ar-s in .*python -m engines\.training judge tiny"):
        engines.run("judge-decoding", {"target": "tiny-ar-s", "draft": "tiny-ar-s"}, "copy: Ada")
    info = next(m for m in engines.list_methods() if m.slug == "judge-decoding")
    assert not info.lossless and info.keeps({"delta": 1.0}) and "only at δ = 1" in info.summary
