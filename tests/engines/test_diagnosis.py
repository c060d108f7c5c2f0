"""Why is a drafter slow: planted slips are found, right drafters raise no alarm, rounds are timed."""

import copy
import functools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import engines
import engines.diagnosis
from engines.core.kinds import counted
from engines.core.meter import Meter
from engines.diagnosis import cost, loops, slips
from engines.diagnosis.found import kind_of
from engines.models.drafters import load_drafter
from engines.models.drafters.network import Rotation
from explorer.figures.diagnosed import findings
from tests.engines.models.drafters.test_drafters import DRAFTERS
from tests.engines.refusals import refuses

RIGHT = [
    (folder.name, one["dir"])
    for folder in sorted(DRAFTERS.iterdir())
    if folder.is_dir()
    for one in json.loads((folder / "cases.json").read_text("utf-8"))["drafters"]
    if one["expect"] == "load"
]


def plain_for(names, *first):
    """These drafters, of which the first are tried by plain `pytest`."""
    return [name if name in first else pytest.param(*name, marks=pytest.mark.exhaustive) for name in names]


def loaded(folder, name="drafter"):
    target = engines.load_model(DRAFTERS / folder / "verifier", dtype="float32")
    return target, load_drafter(DRAFTERS / folder / name, target)


def data_of(folder, name):
    data = json.loads((DRAFTERS / folder / "cases.json").read_text("utf-8"))["drafters"]
    one = next(one for one in data if one["dir"] == name)
    return one.get("cases") or next(other["cases"] for other in data if other["dir"] == one["cases_of"])


def prompts_of(folder, *shifts):
    """The prompts of the data, to whose texts the drafters were fitted, so that slips show; and each shifted."""
    given = [case["prompt"] for case in data_of(folder, "drafter")]
    return given + [[(token + by) % 60 + 3 for token in prompt] for by in shifts for prompt in given]


@pytest.mark.parametrize(("folder", "name"), RIGHT)
def test_accepted_lengths_are_those_of_the_speculative_decode(folder, name):
    """At the place where a round of the golden decode begins, as many drafted tokens are right as it accepted."""
    target, drafter = loaded(folder, name)
    for case in data_of(folder, name):
        rounds = case.get("spec_decode") or case.get("spec_decode_chain")
        k = rounds.get("k") or len(rounds["choices"])
        text = [*case["prompt"], *case["verifier_greedy"]]
        looked = engines.diagnosis.Looked(target, text, len(case["prompt"]))
        measured = engines.diagnosis._measured(target, drafter, [looked], k)
        place = len(case["prompt"]) - 1
        for one in rounds["rounds"]:
            if place + 2 + k > len(text) - 1:
                break
            assert measured.reach(0, place) == one["accepted"]
            place += len(one["emitted"])
        assert place > len(case["prompt"]) + 3


@pytest.mark.parametrize(("folder", "name"), plain_for(RIGHT, ("eagle3-speculators", "drafter"), ("medusa", "drafter")))
def test_a_right_drafter_raises_no_alarm(folder, name):
    target, drafter = loaded(folder, name)
    found = engines.diagnose(target, drafter, prompts_of(folder, 7, 19), tokens=40, timed=False)
    labels = [one.label for one in found.tried]
    assert found.slips == [] and len(set(labels)) == len(labels)
    assert 0 < found.accepted < found.k and found.depths[0].places > 200


def _shift(step):
    return lambda drafter: {"reads": slips._shifted(drafter, step)}


def _rope(base):
    def plant(drafter):
        first = copy.copy(drafter.stack[0])
        first.sizes = type(first.sizes)(**{**vars(first.sizes), "theta": base})
        return {"rotation": Rotation(first.sizes, "cpu"), "stack": [first, *drafter.stack[1:]]}

    return plant


def _other_embeddings(drafter):
    generator = torch.Generator().manual_seed(0)
    return {"table": torch.randn(drafter.vocab_size, drafter.width, generator=generator) * 0.5}


def _first(name, change):
    return lambda d: slips._first_with(d, **{name: change(getattr(d.stack[0], name))})


def _inputs(drafter):
    return slips._first_with(drafter, **{name: slips._halved(getattr(drafter.stack[0], name)) for name in "qkv"})


def _heads(w):
    return w.roll(len(w) // 2, 0)


def _cut(d):
    """Twice as many heads, half as large."""
    sizes = replace(d.stack[0].sizes, head_dim=d.stack[0].sizes.head_dim // 2, heads=2 * d.stack[0].sizes.heads)
    first = slips._with(d.stack[0], sizes=sizes, H=2 * d.stack[0].H, G=2 * d.stack[0].G)
    return {"stack": [first, *d.stack[1:]], "rotation": Rotation(sizes, "cpu")}


def _eps(eps):
    return lambda d: slips._first_with(d, sizes=replace(d.stack[0].sizes, eps=eps))


PLANTED = {  # a slip as somebody made it, and the turn that takes it back
    "layer ids +1": ("eagle3-speculators", "drafter", _shift(1), "layer ids -1"),
    "layer ids -1": ("eagle3-speculators", "drafter", _shift(-1), "layer ids +1"),
    "outputs for inputs": ("dflash", "drafter", _shift(1), "layer ids -1"),
    "inputs for outputs": ("dflash", "drafter", _shift(-1), "layer ids +1"),
    "residual": ("eagle3-speculators", "drafter-normres", lambda _: {"residual_normed": False}, "norm_before_residual"),
    "the target's rope base": ("dflash", "drafter", _rope(10_000.0), "rope base"),
    "embeddings of another": ("eagle3-speculators", "drafter-normres", _other_embeddings, "embeddings"),
    "states in another order": (
        "eagle3-speculators",
        "drafter",
        lambda d: {"reads": d.reads[::-1]},
        "order of the states",
    ),
    "columns of fc": (
        "eagle3-speculators",
        "drafter",
        lambda d: {"fc": d.fc.roll(d.width, 1)},
        "order of the states",
    ),
    "heads": ("eagle3-speculators", "drafter", _cut, "heads"),
    "norms": ("mtp", "drafter", lambda d: {"e_norm": d.s_norm, "s_norm": d.e_norm}, "norms exchanged"),
    "one id": ("dflash", "drafter", lambda d: {"reads": (d.reads[0] + 1, *d.reads[1:])}, "one layer id"),
    "fc": ("eagle12-legacy", "drafter", lambda d: {"fc": slips._halved(d.fc)}, "halves of fc"),
    "fc of an MTP layer": ("mtp", "drafter", lambda d: {"fc": slips._halved(d.fc)}, "halves of fc"),
    "a query's input": ("eagle3-speculators", "drafter", _first("q", slips._halved), "halves of the attention's input"),
    "all inputs": ("eagle3-speculators", "drafter-normres", _inputs, "halves of the attention's input"),
    "heads of keys": ("eagle3-speculators", "drafter-normres", _first("k", _heads), "halves of the heads"),
    "heads of values": ("mtp", "drafter", _first("v", _heads), "halves of the heads"),
    "eps": ("eagle3-speculators", "drafter-normres", _eps(1.0), "rms_norm_eps"),
    "d2t as ids": ("eagle3-speculators", "drafter", lambda d: {"vocabulary": d.vocabulary - torch.arange(44)}, "d2t"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_slip_is_found(planted):
    folder, name, plant, turn = PLANTED[planted]
    target, drafter = loaded(folder, name)
    drafter = copy.copy(drafter)
    for attribute, value in plant(drafter).items():
        setattr(drafter, attribute, value)
    found = engines.diagnose(target, drafter, prompts_of(folder), tokens=48, timed=False)
    assert turn == next((one.name for one in found.slips), ""), [(one.name, one.state, one.low) for one in found.tried]


UNKNOWN = {  # what no turn takes back, though some of them gain
    "rolled head": ("drafter", lambda d: {"head": d.head.roll(1, 0)}),
    "another head": ("drafter-normres", lambda d: {"head": d.head.flip(0)}),
    "rolled fc": ("drafter-normres", lambda d: {"fc": d.fc.roll(7, 1)}),
    "rolled down": ("drafter", _first("down", lambda w: w.roll(5, 1))),  # a little harm: it is as sure as it is right
    "flipped keys": ("drafter-normres", _first("k", lambda w: w.flip(0))),
}


@pytest.mark.parametrize("planted", UNKNOWN)
def test_a_slip_that_is_not_known_is_not_explained_by_another(planted):
    name, plant = UNKNOWN[planted]
    target, drafter = loaded("eagle3-speculators", name)
    sound = engines.diagnose(target, drafter, prompts_of("eagle3-speculators"), tokens=48, timed=False)
    drafter = copy.copy(drafter)
    for attribute, value in plant(drafter).items():
        setattr(drafter, attribute, value)
    found = engines.diagnose(target, drafter, prompts_of("eagle3-speculators"), tokens=48, timed=False)
    assert found.accepted < sound.accepted and found.slips == [] and sound.slips == []
    said, before = " ".join(findings(found)), " ".join(findings(sound))
    assert sound.surer is None and "No known slip" in before and (found.surer or 1) > 0.3
    assert ("Not explained" in said and "is missing from depth" in said) == (planted != "rolled down")


def test_a_turn_that_changes_no_logit_is_listed_and_both_sides_of_a_round_are_timed():
    target, drafter = loaded("eagle12-legacy")
    found = engines.diagnose(target, drafter, prompts_of("eagle12-legacy")[:2], tokens=24, timed=False)
    assert [one.state for one in found.tried if one.name == "embeddings"] == ["same"]
    refuses(engines.UserError, "no prompt is given", engines.diagnose, target, drafter, [])
    target, drafter = loaded("mtp")
    found = engines.diagnose(target, drafter, prompts_of("mtp")[:1], k=3, tokens=12)
    assert [*found.cost.rows] == [1, 2, 3, 4] and [*found.cost.drafts] == [1, 2, 3]
    assert all(seconds > 0 for seconds in (*found.cost.rows.values(), *found.cost.drafts.values()))


def test_what_stands_at_a_first_difference_is_what_both_sides_had():
    target, drafter = loaded("eagle3-speculators")
    prompts = prompts_of("eagle3-speculators", 7, 19)[:3]
    found = engines.diagnose(target, drafter, prompts, tokens=40, timed=False)
    assert found.partings
    for parting in found.partings:
        trace = engines.run("greedy", target, prompts[parting.prompt], params={"max_new_tokens": 40})
        text = [*trace.header.prompt_ids, *trace.end.output_ids]
        assert parting.target[0].token == text[parting.position] != parting.draft[0].token
        z = target.extend(text[: parting.position], target.new_cache(parting.position), last_only=True).logits[0]
        assert parting.target[0].probability == pytest.approx(float(z.double().softmax(-1).max()), abs=1e-3)
    assert sum(row.missed for row in found.misses) == found.depths[0].places - found.depths[0].right
    assert any(row.kind == "not in the draft vocabulary" for row in found.misses)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("digits", ["42", " 7"]),
        ("name", [" Ada"]),
        ("word", [" word"]),
        ("inside a word", ["ing"]),
        ("punctuation", [",", "…→"]),
        ("code", [" {"]),
        ("white space", ["\n"]),
    ],
)
def test_kinds_of_tokens(kind, texts):
    for text in texts:
        tokenizer = SimpleNamespace(piece=lambda token, text=text: SimpleNamespace(text=text, kind="text"))
        assert kind_of(tokenizer, 0) == kind


LOOPS = [(folder, "drafter") for folder in ("eagle3-speculators", "eagle3-legacy", "eagle12-legacy", "mtp")]


@functools.cache
def record_of(folder, name, loop):
    """The text of the target behind the first prompt, and rounds of four drafts that such a loop makes along it."""
    target, drafter = loaded(folder, name)
    (ids, first) = engines.diagnosis._written(target, prompts_of(folder)[0], 40)
    hidden, rounds, place = engines.diagnosis.states_of(target, ids), [], first
    while place < len(ids) - 6:
        rounds.append(loops.Round(place, (0, 0, 0, 0)))
        told = loops.drafts(target, drafter, ids, hidden, rounds, loop)
        rounds[-1] = loops.Round(place, tuple(told[-1]))
        right = next((j for j, token in enumerate(told[-1]) if token != ids[place + 1 + j]), 4)
        place += right + 1
    return target, drafter, ids, rounds


@pytest.mark.parametrize(("folder", "name"), plain_for(LOOPS, LOOPS[0]))
def test_a_loop_as_it_should_be_raises_no_alarm(folder, name):
    """Its drafts are those of the golden decode, and no slip explains them better."""
    target, drafter, ids, rounds = record_of(folder, name, loops.RIGHT)
    right, *slips_of_loops = loops.match_loops(target, drafter, ids, rounds)
    assert right.same == right.drafted and not any(one.clear for one in slips_of_loops)
    case = data_of(folder, name)[0]
    golden = (case.get("spec_decode") or case["spec_decode_chain"])["rounds"]
    assert [list(one.drafted) for one in rounds[:4]] == [one["drafted"] for one in golden[:4]]


@pytest.mark.parametrize("loop", loops.SLIPS, ids=lambda loop: loop.name)
@pytest.mark.parametrize(("folder", "name"), plain_for(LOOPS, LOOPS[0]))
def test_the_record_of_a_slip_names_it(folder, name, loop):
    target, drafter, ids, rounds = record_of(folder, name, loop)
    right, *found = loops.match_loops(target, drafter, ids, rounds)
    own = next(one for one in found if one.name == loop.name)
    assert own.same == own.drafted
    if right.same < 0.9 * right.drafted:  # elsewhere this slip changes next to nothing on these weights
        assert [one.name for one in found if one.clear] == [loop.name]


@pytest.mark.exhaustive
def test_each_slip_of_a_loop_is_told_apart_on_some_drafter():
    for loop in loops.SLIPS:
        found = [one for name in LOOPS for one in loops.match_loops(*record_of(*name, loop))]
        assert any(one.clear for one in found), loop.name


def test_a_record_that_does_not_fit_is_refused():
    target, heads = loaded("medusa")
    with pytest.raises(engines.UserError, match="keeps no rows of its own"):
        loops.match_loops(target, heads, [1, 2, 3], [loops.Round(1, (2,))])
    target, layer = loaded("mtp")
    refuses(engines.UserError, "drafts nothing", loops.match_loops, target, layer, [1, 2, 3], [])
    with pytest.raises(engines.UserError, match="outside of its text of 3 tokens"):
        loops.match_loops(target, layer, [1, 2, 3], [loops.Round(7, (2,))])


def test_a_run_that_drafted_chains_is_a_record_of_its_loop():
    target, drafter = loaded("eagle12-legacy")
    model, prompt = engines.with_drafter(target, drafter), prompts_of("eagle12-legacy")[0]

    def drafts(slug, **params):
        return engines.drafts_of(engines.run(slug, model, prompt, params={"max_new_tokens": 40} | params))

    record = drafts("eagle", top_k=1, depth=3, nodes=4)
    right, *others = engines.diagnose(target, drafter, [prompt], tokens=12, timed=False, record=record).loops
    assert right.same == right.drafted > 10 and not any(one.clear for one in others)
    refuses(engines.UserError, "drafted trees", drafts, "eagle", top_k=2)
    refuses(engines.UserError, "drafted nothing", drafts, "greedy")


@pytest.mark.parametrize(("folder", "name"), RIGHT)
def test_what_is_timed_is_the_draft_that_a_round_makes(folder, name):
    target, drafter = loaded(folder, name)
    case = data_of(folder, name)[0]
    rounds = case.get("spec_decode") or case.get("spec_decode_chain")
    text = [*case["prompt"], case["first_token"]]
    wanted = rounds["rounds"][0].get("drafted") or [one["draft_id"] for one in case["heads"]]
    looked = engines.diagnosis.Looked(target, [*text, 0], len(case["prompt"]))
    run = drafter.counted(counted(target, "target", Meter(), "layered"), Meter())
    with torch.inference_mode():
        draft, k = cost._way(run, text, run.states(looked.hidden)[: len(case["prompt"])]), len(wanted)
        assert draft(k) == draft(k) == wanted  # again: what a draft leaves behind is taken away
        assert len(draft(1)) == 1 and (folder == "dflash" or draft(1) == wanted[:1])  # whose slots see each other
