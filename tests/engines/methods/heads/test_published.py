"""Published checkpoints under the methods that draft with them: the control's text whatever they say, greedy and drawn,
also behind a person's change; their work is the draft's; a fork is the run itself."""

from functools import cache

import pytest

import engines
from engines.core.trace import Edit
from engines.models.drafters import load_drafter, with_drafter
from tests.engines.conftest import GOLDEN

DRAFTERS = GOLDEN / "drafters"
PROMPT = [44, 12, 45, 27, 5, 50, 12, 23, 17]
NO_DRAFTS = {"dflash": {"block": 1}, "mtp": {"k": 0}, "p-eagle": {"k": 0}}  # {"nodes": 0} for the others
RUNS = {  # method and folder -> its formats
    ("eagle", "eagle12-legacy"): ("drafter", "drafter-2layers"),
    ("medusa", "medusa"): ("drafter", "drafter-sharedhead"),
    ("hydra", "hydra"): ("drafter", "drafter-mlp"),
    ("dflash", "dflash"): ("drafter", "drafter-1layer", "drafter-speculators"),
    ("mtp", "mtp"): ("drafter", "drafter-native-names"),
    ("p-eagle", "peagle"): ("drafter", "drafter-normfc"),
    ("eagle3", "eagle3-speculators"): ("drafter", "drafter-normres", "drafter-fcnorm", "drafter-beforefc"),
    ("eagle3", "eagle3-legacy"): ("drafter", "drafter-fullvocab", "drafter-othersize"),
}


def formats(runs):
    """The first format of each folder in plain `pytest`, the further ones where every case is asked for."""
    return [
        pytest.param(*of, name, marks=[pytest.mark.exhaustive] if name != names[0] else [], id=f"{of[-1]}-{name}")
        for of, names in runs.items()
        for name in names
    ]


every_format = pytest.mark.parametrize(("slug", "folder", "drafter"), formats(RUNS))


@cache
def pair(folder, drafter):
    target = engines.load_model(DRAFTERS / folder / "verifier", dtype="float32")
    return with_drafter(target, load_drafter(DRAFTERS / folder / drafter, target))


def decode(slug, model, seed=0, prompt=PROMPT, length=24, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": length, **params}, seed=seed, edits=edits)


@every_format
def test_the_text_is_greedys_in_fewer_calls(slug, folder, drafter):
    model = pair(folder, drafter)
    ours, plain = decode(slug, model), decode("greedy", model)
    assert ours.output_ids == plain.output_ids
    assert ours.totals.forwards_by_role["target"] == len(ours.steps)
    assert len(ours.steps) < len(plain.steps) or drafter == "drafter-1layer"  # which says nothing right here


@every_format
def test_above_temperature_0_it_is_sampled_as_without_a_drafter(slug, folder, drafter):
    """Guesses that were chosen without chance meet one draw of the target for each place, which is plain sampling's."""
    model = pair(folder, drafter)
    for seed in range(2):
        ours, plain = (decode(slug, model, seed, temperature=1.0, **n) for n in ({}, NO_DRAFTS.get(slug, {"nodes": 0})))
        assert ours.output_ids == plain.output_ids and len(plain.steps) == len(plain.output_ids) >= len(ours.steps)


@every_format
def test_behind_a_change_the_text_is_still_greedys(slug, folder, drafter):
    model = pair(folder, drafter)
    first = decode(slug, model)
    for after in (0, 2):
        at = len(PROMPT) + sum(len(step.commits.tokens) for step in first.steps[: after + 1]) - 1
        ours = decode(slug, model, edits=[(after, Edit(force={at: 7}))])
        board = [*PROMPT, *ours.output_ids]
        plain = decode("greedy", model, prompt=board[: at + 1], length=len(board) - at - 1)
        assert board[at] == 7 and ours.output_ids == [*board[len(PROMPT) : at + 1], *plain.output_ids]


def test_it_stands_in_the_trace_and_its_work_is_the_drafts():
    model = pair("eagle12-legacy", "drafter-2layers")
    trace = decode("eagle", model, nodes=4, depth=3, top_k=1)
    (part,) = trace.header.parts
    assert (part.role, part.name, part.options) == ("layer", "drafter-2layers", {"format": "eagle-2"})
    assert trace.header.departures.startswith("It drafts with the published checkpoint drafter-2layers (EAGLE-1")
    assert part.sha256 == model.drafter.sha256 and part.parameters == 14464
    for step in trace.steps[1:-1]:
        assert step.forwards["draft"] == 4
        assert step.work["draft"] == 2 * step.facts["layer_rows_of_draft"]


def test_the_model_without_it_is_as_it_was():
    model = engines.load_model(DRAFTERS / "medusa" / "verifier", dtype="float32")
    pair("medusa", "drafter")
    assert not hasattr(model, "drafter")
    with pytest.raises(engines.UserError, match="there is no medusa-heads for verifier"):
        decode("medusa", model)


def test_by_role_it_is_loaded_from_its_folder():
    target = engines.load_model(DRAFTERS / "medusa" / "verifier", dtype="float32")
    models = {"target": target, "heads": DRAFTERS / "medusa" / "drafter"}
    assert decode("medusa", models).output_ids == decode("greedy", target).output_ids


@pytest.mark.parametrize(
    ("slug", "role", "wanted"),
    [
        ("hydra", "heads", "hydra-heads"),
        ("dflash", "drafter", "dflash-block"),
        ("eagle3", "layer", "eagle-3"),
        ("p-eagle", "layer", "parallel-eagle"),
    ],
)
def test_a_format_that_a_method_does_not_draft_with_is_refused(slug, role, wanted):
    target = engines.load_model(DRAFTERS / "medusa" / "verifier", dtype="float32")
    with pytest.raises(engines.UserError, match=f"'{slug}' drafts with {wanted} checkpoints"):
        decode(slug, {"target": target, role: DRAFTERS / "medusa" / "drafter"})


def test_a_drafter_of_another_target_is_refused():
    drafter = load_drafter(DRAFTERS / "medusa" / "drafter", engines.load_model(DRAFTERS / "medusa" / "verifier"))
    other = engines.load_model(DRAFTERS / "hydra" / "verifier", dtype="float32")
    with pytest.raises(engines.UserError, match="was loaded for"):
        with_drafter(other, drafter)


def test_a_fork_is_the_run_itself():
    model = pair("hydra", "drafter")
    trace = decode("hydra", model)
    again = engines.fork(trace, 3, model=model)
    assert again.output_ids == trace.output_ids and "diverged" not in again.end.message
