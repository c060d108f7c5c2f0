"""Factorised attention beside its twins: the bytes of the cards, linear in the text, times on four lanes, twins that
read what is written, and edits."""

import pytest

import engines

PROMPT = "python: class Robot(size: int, owner: str)"
ELEMENTS = {"mfa": 64, "mha": 256, "gqa": 128, "mla": 80}
HEADS = {"mfa": (8, 32), "mha": (4, 32), "gqa": (6, 32), "mla": (4, 80)}


def decode(**params):
    model = engines.load_model("tiny-mfa", kind="split", dtype="float32")
    return engines.run("factorised-attention", model, PROMPT, params={"max_new_tokens": 8, "copies": 2, **params})


@pytest.fixture(scope="module")
def trace():
    return decode()


def test_it_writes_the_greedy_text_of_the_model_that_was_picked_and_times_every_half_of_all(trace):
    plain = engines.run("greedy", "tiny-mfa", PROMPT, params={"max_new_tokens": 8})
    roles = dict.fromkeys(("target", "mha", "gqa", "mla"), len(trace.steps))
    assert trace.output_ids == plain.output_ids and trace.totals.forwards_by_role == roles
    labels = [f"{side}, layer {k + 1}" for k in range(4) for side in ("attention", "feed-forward")]
    for step in trace.steps:
        for name in ELEMENTS:
            own = [i for i in step.intervals if i.track == name.upper()]
            assert [i.label for i in own] == labels and all(i.measured and i.end > i.start for i in own)
    other = decode(copies=5)
    assert other.output_ids == trace.output_ids and other.steps[0].tokens_fed > trace.steps[0].tokens_fed


def test_bytes_and_operations_are_those_of_the_four_and_linear_in_the_text(trace):
    for step in trace.steps:
        n = len(trace.header.prompt_ids) + step.index
        for name, c in ELEMENTS.items():
            h, w = HEADS[name]
            assert step.facts[f"kv_bytes_{name}"] == 4 * n * c * 4
            assert step.facts[f"operations_{name}"] == 4 * n * 4 * h * w
        assert step.facts["context"] == n
    last = trace.steps[-1].facts
    order = sorted(ELEMENTS, key=lambda name: last[f"kv_bytes_{name}"])
    assert order == ["mfa", "mla", "gqa", "mha"]
    assert last["operations_mla"] > last["operations_mfa"] > last["operations_gqa"] > last["operations_mha"]


def test_the_twins_read_what_is_written(trace):
    """A twin agrees exactly where its own next token behind that text is the one written."""
    prompt, out = trace.header.prompt_ids, trace.output_ids
    for name in ("mha", "gqa", "mla"):
        twin = engines.load_model(f"tiny-{name}", dtype="float32")
        for step in trace.steps:
            text = [*prompt, *out[: step.index]]
            cache = twin.new_cache(len(text))
            own = int(twin.extend(text, cache, last_only=True).logits[0].argmax())
            assert step.facts[f"agrees_{name}"] == (own == out[step.index])
    assert all(step.facts["agrees_mfa"] == 1 for step in trace.steps)


def test_a_model_without_twins_is_refused():
    with pytest.raises(engines.UserError, match=r"second model for the role 'mha'.*choose tiny-mfa"):
        engines.run("factorised-attention", "tiny-gqa", PROMPT)
