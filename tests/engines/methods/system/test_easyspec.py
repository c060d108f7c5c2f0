"""EasySpec: groups and times, the greedy text for every N, the target's distribution above temperature 0, an exact
draft at N = 1, and keys and values that a calibration puts right."""

import itertools

import pytest
import torch

import engines
from engines.core.kinds import KINDS
from engines.core.meter import Meter
from engines.core.trace import ModelRecord
from engines.methods.system.easyspec.fuzzy import forward, groups_of, schedule
from engines.models.adapters.layered import HFLayeredLM
from engines.models.tokenizers.tokens import IdTokenizer
from tests.engines.fakes import board, chi_square_p

MODEL = "tiny-ar-m"


def model():
    return engines.load_model(MODEL, dtype="float32")


def decode(prompt="add: 45 + 86", slug="easyspec", **params):
    return engines.run(slug, model(), prompt, params={"max_new_tokens": 24, **params})


def ends(*given, **more):
    return max(block.end for block in schedule(*given, **more))


def test_no_two_parts_stand_on_one_device_at_one_time_and_none_before_what_it_needs():
    """Groups and their times are golden; here fewer devices than a group has layers, and whole groups."""
    a, m, first = [0.5, 2.0, 1.0, 3.0, 1.0, 0.5], [1.0] * 6, groups_of(6, 3, 1)
    for whole in (False, True):
        blocks = schedule(a, m, first, 0.125, devices=2, whole=whole)
        for device in {block.device for block in blocks}:
            row = sorted((b.start, b.end) for b in blocks if b.device == device)
            assert all(x[1] <= y[0] for x, y in itertools.pairwise(row))
        at = {(block.kind, block.layer): block for block in blocks}
        assert all(at["attention", i].end <= at["feed-forward", i].start for i in range(1, 7))
        assert at["attention", 5].start >= max(block.end for block in blocks if block.layer < 5)
    a, m, two = [2.0, 3.0, 1.0, 2.0], [1.0] * 4, groups_of(4, 2, 1)
    assert ends(a, m, two, 0.0, devices=1) == 12.0  # in waves of one: as if one after another
    assert ends(a, m, two, 0.0, whole=True) == 3 + max(3 + 1, 1 + 1) + 3


def test_every_lane_says_whether_it_was_measured():
    trace = decode("story: Mia, boat", size=3, devices=2)
    for step in trace.steps:
        parts = [i for i in step.intervals if i.track == "one device"]
        laid = [i for i in step.intervals if not i.measured]
        assert bool(parts) == (step.facts["drafted"] > 1)  # the second draft is the first fuzzy one
        assert all(i.measured and i.end > i.start for i in parts)
        assert sorted(i.label for i in laid) == sorted(i.label for i in parts)
        assert all(i.track in ("device 1", "device 2") for i in laid)


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_text_is_the_targets_own(size, calibrate):
    prompt = "story: Mia, boat" if calibrate else "add: 45 + 86"
    ours = decode(prompt, size=size, calibrate=calibrate, ends=0)
    assert ours.output_ids == decode(prompt, "greedy").output_ids == board(ours)
    if size == 1:  # the draft is the model itself
        ends = ours.header.eos_ids
        assert all(s.facts["accepted"] == s.facts["drafted"] or s.commits.tokens[-1] in ends for s in ours.steps)


def test_a_group_reads_what_entered_it_and_leaves_fuzzy_keys():
    counted = KINDS["layered"].counted(model(), "draft", Meter())
    ids, layers = counted.tokenizer.encode_prompt("story: Mia, boat"), counted.num_layers
    exact, fuzzy, mended = (counted.new_cache(len(ids) + 4) for _ in range(3))

    def same_keys(other):
        both = zip(exact.layers, other.layers, strict=True)
        return [torch.allclose(a.keys[:, :, : len(ids)], b.keys[:, :, : len(ids)], atol=1e-5) for a, b in both]

    z, first = forward(counted, ids, exact, {}), groups_of(layers, layers, 0)
    assert torch.allclose(z, model().extend(ids, model().new_cache(len(ids))).logits[-1], atol=1e-4)
    assert not torch.allclose(z, forward(counted, ids, fuzzy, first), atol=1e-3)
    assert same_keys(fuzzy) == [True] + [False] * (layers - 1)
    forward(counted, ids, mended, first)
    mended.crop(0)
    forward(counted, ids, mended, {})
    assert all(same_keys(mended))


def test_after_a_calibration_at_most_gamma_minus_one_rows_are_fuzzy():
    steps = decode("story: Mia, boat", gamma=4, size=3).steps
    assert 3 in {s.facts["fuzzy_rows"] for s in steps} <= {0, 1, 2, 3}
    for before, step in itertools.pairwise(steps):
        assert not step.facts["drafted"] or step.facts["calibrated"] == before.facts["accepted"] + 1


TOYS, FIRST = 3, 3  # tokens of the toy's vocabulary; written tokens whose joint distribution is tested


@pytest.fixture(scope="module")
def toy():
    """Three random layers over three tokens, of weights so large that a fuzzy forward says something else."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "bos_token_id": None, "eos_token_id": None}
    config = LlamaConfig(vocab_size=TOYS, initializer_range=0.6, **sizes, **heads)
    record = ModelRecord(role="target", name="toy", kind="causal", dtype="float32")
    return HFLayeredLM(LlamaForCausalLM(config), IdTokenizer(TOYS, {}), record)


def joint(toy, ids, left=FIRST):
    """The target's own probabilities of all texts of so many tokens behind ids, flat."""
    p = toy.extend(ids, toy.new_cache(len(ids)), last_only=True).logits[0].double().softmax(-1)
    return p if left == 1 else torch.cat([p[t] * joint(toy, [*ids, t], left - 1) for t in range(TOYS)])


@pytest.mark.parametrize("calibrate", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_sampling_keeps_the_distribution(toy, calibrate):
    """The first three tokens of 120 runs, the first drafted exactly, the next two fuzzily, against the target's own
    joint distribution."""
    counts = torch.zeros(TOYS**FIRST)
    given = {"max_new_tokens": FIRST + 1, "temperature": 1.0, "gamma": FIRST, "size": 3, "ends": 0}
    given["calibrate"] = calibrate
    for seed in range(120):
        run = engines.run("easyspec", toy, [1, 2, 0], params=given, seed=seed, detail="none")
        counts[sum(token * TOYS ** (FIRST - 1 - i) for i, token in enumerate(run.output_ids[:FIRST]))] += 1
    assert chi_square_p(counts, joint(toy, [1, 2, 0])) > 1e-3
