"""Published checkpoints under the methods that draft with them: golden rounds and trees, the control's text."""

import json
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


def formats(without=()):
    """The first format of each folder in plain `pytest`, the further ones where every case is asked for."""
    return [
        pytest.param(*of, name, marks=[pytest.mark.exhaustive] if name != names[0] else [], id=f"{of[-1]}-{name}")
        for of, names in RUNS.items()
        for name in names
        if not {of[0], name} & {*without}
    ]


every_format = pytest.mark.parametrize(("slug", "folder", "drafter"), formats())


@cache
def pair(folder, drafter):
    target = verifier(folder)
    return with_drafter(target, load_drafter(DRAFTERS / folder / drafter, target))


def verifier(folder):
    return engines.load_model(DRAFTERS / folder / "verifier", dtype="float32")


def decode(slug, model, seed=0, prompt=PROMPT, length=24, edits=(), **params):
    return engines.run(slug, model, prompt, params={"max_new_tokens": length, **params}, seed=seed, edits=edits)


def cases(folder, drafter):
    found = {one["dir"]: one for one in json.loads((DRAFTERS / folder / "cases.json").read_text())["drafters"]}
    return found[drafter].get("cases") or found[found[drafter]["cases_of"]]["cases"]


def chain_of(slug, k):
    """The parameters with which a method drafts chains of k."""
    if slug in ("mtp", "p-eagle"):
        return {"k": k}
    return {"block": k + 1} if slug == "dflash" else {"top_k": 1, "depth": k - 1, "nodes": k}


@pytest.mark.parametrize(("slug", "folder", "drafter"), formats(without=("medusa", "hydra", "drafter-speculators")))
def test_its_rounds_and_trees_are_those_of_the_formats_own_code(slug, folder, drafter):
    model = pair(folder, drafter)
    for case in cases(folder, drafter):
        wanted = case.get("spec_decode") or case["spec_decode_chain"]
        same_rounds(slug, model, case["prompt"], wanted, chain_of(slug, wanted["k"]))
        if shape := case.get("tree"):
            params = {"top_k": shape["top_k"], "depth": shape["depth"], "nodes": shape["total_token"] - 1}
            tree = decode(slug, model, prompt=case["prompt"], length=64, **params).steps[1].tree
            assert (tree.tokens, tree.parents) == (shape["tokens"], shape["parents"])
            if "spec_decode_tree" in case:
                same_rounds(slug, model, case["prompt"], case["spec_decode_tree"], params)


def same_rounds(slug, model, prompt, wanted, params):
    """What is drafted, accepted and written behind the step that reads the prompt."""
    rounds = wanted["rounds"]
    length = 40 + sum(one["accepted"] + 1 for one in rounds)  # far enough that no draft is cut
    trace = decode(slug, model, prompt=prompt, length=length, **params)
    for step, one in zip(trace.steps[1 : 1 + len(rounds)], rounds, strict=True):
        found = {"drafted": step.tree.tokens[1:], "accepted": step.facts["accepted"], "emitted": step.tree.emitted}
        assert {key: found[key] for key in found if key in one} == {key: one[key] for key in found if key in one}
    assert len(rounds) > 1 and trace.output_ids[: len(wanted["text"])] == wanted["text"]


@every_format
def test_the_text_is_greedys_in_fewer_calls_also_behind_a_change(slug, folder, drafter):
    model = pair(folder, drafter)
    first, plain = decode(slug, model), decode("greedy", model)
    assert first.output_ids == plain.output_ids
    assert first.totals.forwards_by_role["target"] == len(first.steps)
    assert len(first.steps) < len(plain.steps) or drafter == "drafter-1layer"  # which says nothing right here
    for after in (0, 2):
        at = len(PROMPT) + sum(len(step.commits.tokens) for step in first.steps[: after + 1]) - 1
        board = [*PROMPT, *decode(slug, model, edits=[(after, Edit(force={at: 7}))]).output_ids]
        rest = decode("greedy", model, prompt=board[: at + 1], length=len(board) - at - 1)
        assert board[at] == 7 and board[at + 1 :] == rest.output_ids


@every_format
def test_above_temperature_0_it_is_sampled_as_without_a_drafter(slug, folder, drafter):
    """Guesses that were chosen without chance meet one draw of the target for each place, which is plain sampling's."""
    model = pair(folder, drafter)
    for seed in range(2):
        ours, plain = (decode(slug, model, seed, temperature=1.0, **n) for n in ({}, NO_DRAFTS.get(slug, {"nodes": 0})))
        assert ours.output_ids == plain.output_ids and len(plain.steps) == len(plain.output_ids) >= len(ours.steps)


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
    again = engines.fork(trace, 3, model=model)
    assert again.output_ids == trace.output_ids and "diverged" not in again.end.message


def test_the_model_without_it_is_as_it_was_and_by_role_it_is_loaded_from_its_folder():
    model = verifier("medusa")
    drafter = pair("medusa", "drafter").drafter
    assert not hasattr(model, "drafter")
    with pytest.raises(engines.UserError, match="there is no medusa-heads for verifier"):
        decode("medusa", model)
    models = {"target": model, "heads": DRAFTERS / "medusa" / "drafter"}
    assert decode("medusa", models).output_ids == decode("greedy", model).output_ids
    with pytest.raises(engines.UserError, match="was loaded for"):
        with_drafter(verifier("hydra"), drafter)


def test_a_format_that_a_method_does_not_draft_with_is_refused():
    for slug, role, wanted in (("hydra", "heads", "hydra-heads"), ("p-eagle", "layer", "parallel-eagle")):
        with pytest.raises(engines.UserError, match=f"'{slug}' drafts with {wanted} checkpoints"):
            decode(slug, {"target": verifier("medusa"), role: DRAFTERS / "medusa" / "drafter"})
