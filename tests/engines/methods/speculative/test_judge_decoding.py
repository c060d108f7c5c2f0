"""Judge decoding: both ends of delta, scores of the right rows, a typed draft. The mask itself is a golden case."""

import pytest
import torch

import engines
from engines.core.params import Params
from engines.core.sampling import distribution, draw
from engines.methods.speculative import judge_decoding as judge
from engines.methods.speculative._verify import Draft
from engines.models.parts import load_part
from tests.engines.fakes import board, chi_square_p

PROMPTS = ("shuffle: Zoe, Mia, Leo, Ada", "add: 45 + 86", "spell: the red book loes the drum.")


def model():
    return engines.load_model("tiny-ar-m", dtype="float32")


def decode(prompt=PROMPTS[0], slug="judge-decoding", **params):
    return engines.run(slug, {"target": model()}, prompt, params={"max_new_tokens": 32, **params})


@pytest.mark.parametrize(("prompt", "gamma"), [(PROMPTS[0], 1), (PROMPTS[0], 32), (PROMPTS[1], 8), (PROMPTS[2], 8)])
def test_at_one_it_is_standard_verification(prompt, gamma):
    ours = decode(prompt, delta=1.0, gamma=gamma)
    plain = decode(prompt, "speculative-sampling", gamma=min(gamma, 12))
    assert ours.output_ids == plain.output_ids == board(ours)
    assert not any(s.facts["judged"] for s in ours.steps)
    assert gamma > 12 or [s.facts["accepted"] for s in ours.steps] == [s.facts["accepted"] for s in plain.steps]


def test_scores_come_from_the_row_that_reads_the_token_and_cost_no_call():
    llm, part = model(), load_part("judge", [model().record])
    trace = decode(delta=0.3)
    text, mixed = list(trace.header.prompt_ids), set()
    for step in trace.steps:
        fed = [*text, *step.tree.tokens[1:]]
        assert step.forwards["target"] == 1
        h = llm.layers(llm.embed(fed), llm.new_cache(len(fed)), 0, llm.num_layers)
        z = llm.unembed(h)
        for i, token in enumerate(step.tree.tokens[1:]):
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
        text += step.commits.tokens
    assert mixed == {"accepted", "judged"}


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


def test_at_zero_a_draft_stands_whole_and_a_typed_one_is_taken_window_by_window():
    text = "Ada Zoe Mia Leo Ada Zoe Mia"
    trace, typed = decode(text=text, delta=0.0, gamma=3), judge.answer_ids(model().tokenizer, text)
    assert trace.output_ids[: len(typed)] == typed
    windows = trace.steps[: len(typed) // 3]
    assert [s.commits.tokens for s in windows] == [typed[3 * i : 3 * i + 3] for i in range(len(windows))]
    assert all(s.facts["typed"] and set(s.commits.authors) == {"person"} for s in windows)
    drafted = decode(delta=0.0, gamma=6)  # at zero every draft stands whole
    assert all(s.facts["accepted"] == s.facts["drafted"] for s in drafted.steps[:-1])
    assert sum(s.facts["judged"] for s in drafted.steps) > 0
    full = decode(text="Ada Zoe Mia Leo " * 20, delta=0.0, max_new_tokens=10)  # one that fills the room ends
    assert len(full.output_ids) == 10 and full.end.reason == "complete"


def test_a_refused_typed_token_is_replaced_and_the_text_goes_on_behind_it():
    greedy = decode(PROMPTS[1], "greedy")
    wrong = greedy.text.replace("answer 131", "answer 151")
    trace = decode(PROMPTS[1], text=wrong, delta=1.0)
    assert wrong != greedy.text and trace.output_ids == greedy.output_ids
    refused = [s for s in trace.steps if s.facts["typed"] and s.facts["accepted"] < s.facts["drafted"]]
    assert len(refused) == 1 and trace.totals.forwards < greedy.totals.forwards


def test_a_model_without_a_judge_is_refused_and_only_delta_1_is_called_lossless():
    with pytest.raises(engines.UserError, match=r"no judge for tiny-ar-s in .*python -m engines\.training judge tiny"):
        engines.run("judge-decoding", {"target": "tiny-ar-s", "draft": "tiny-ar-s"}, "copy: Ada")
    info = engines.get_method("judge-decoding").info
    assert not info.lossless and info.keeps({"delta": 1.0})
