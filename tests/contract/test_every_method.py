"""What every method must keep, whatever it does: run over the registry, so a method that breaks one of these cannot be
listed. The tests of one method stand together, for they share its runs; what the driver refuses is asked once for each
kind of method. `test_whole_answers.py` asks the same of long answers."""

import itertools
from pathlib import Path

import msgspec
import numpy as np
import pytest

import engines
from engines.core.kinds import KINDS
from engines.core.method import arguments
from engines.core.params import LENGTH
from engines.core.trace import Edit, check_consistency
from engines.models.parts import grid_drafts
from tests.contract import runs
from tests.contract.runs import METHODS, MODELS, PROMPTS, SLUGS, bare, caused, decode, facts, prompts, trial, written
from tests.engines.fakes import board

WARM = 2.0  # some parameters count where chance does
TEXT_VALUES = ("=", "+", "12", "13,14,15")
ROOT = Path(__file__).resolve().parents[2]


def of_each_kind():
    """The first method for each set of models and parts that a method may need."""
    kinds = {}
    for slug, info in METHODS.items():
        kinds.setdefault((*info.needs.values(), bool(info.parts)), slug)
    return list(kinds.values())


every_method = pytest.mark.parametrize("slug", SLUGS, scope="module")  # a method's tests next to each other
one_of_each_kind = pytest.mark.parametrize("slug", of_each_kind(), scope="module")
every_method_at_night = pytest.mark.parametrize(
    "slug", [s if s in of_each_kind() else pytest.param(s, marks=pytest.mark.exhaustive) for s in SLUGS], scope="module"
)


@pytest.fixture(scope="module", autouse=True)
def lighter():
    """What a paper says makes its method's runs shorter."""
    with pytest.MonkeyPatch.context() as patch:
        for module, constants in () if runs.whole else runs.LIGHTER:
            for name, value in constants.items():
                patch.setattr(f"{module}.{name}", value)
        yield


def test_no_method_file_is_broken():
    assert engines.broken_methods() == []


@every_method
def test_the_trace_is_whole(slug):
    trace = decode(slug)
    check_consistency(trace)
    assert trace.end.reason == "complete"
    assert engines.Trace.from_json(trace.to_json()) == trace
    assert board(trace) == trace.output_ids
    asked = [s for s in trace.steps if not (s.commits and set(s.commits.causes) == {"noise"})]  # noise asks no model
    assert all(sum(s.forwards.values()) >= 1 and s.tokens_fed >= 1 and sum(s.work.values()) >= 1 for s in asked)
    assert trace.totals.tokens > 0 and trace.text


@every_method
def test_a_guess_is_what_stood_in_its_source_and_a_sentence_says_what_the_record_says(slug):
    for step in decode(slug).steps:
        for source in step.tree.guessed_from if step.tree else ():
            drafted = [(cell, step.tree.tokens[row]) for row, cell in source.links if cell >= 0]
            assert drafted == [(cell, source.tokens[cell]) for cell, _ in drafted]
            assert len(set(source.links)) == len(source.links)
        for cause, words in (("correction", "the correction is"), ("bonus", "the bonus token is")):
            assert words not in step.note or (step.commits and cause in step.commits.causes), step.note


@every_method
def test_it_emits_what_it_declares(slug):
    info, trace = METHODS[slug], decode(slug)
    filled = {
        group
        for s in trace.steps
        for group in (*info.emits, "tree", "choice", "routing", "branches", "media", "intervals")
        if getattr(s, group, None)
    }
    assert filled == set(info.emits)
    records = {name: kind for s in trace.steps for name, kind in info.records.items() if s.record(name, kind)}
    lent = {name for one in METHODS.values() if one.slug != slug for name in one.records}
    assert set(info.records) - set(records) <= lent, "what a method alone declares, it fills; a picture may be lacking"
    assert trace.header.records == info.described
    lanes = {lane.name: lane.unit for s in trace.steps for lane in s.scores}
    assert all(info.lanes[name].unit == unit for name, unit in lanes.items())
    drafts = "layered" in info.needs.values() or grid_drafts.PART in info.parts.values()
    played = {"draft"} if drafts else set()  # by a part of the model itself, or by one of a grid on its embedding
    played |= {"router", *info.parts} if info.parts else set()  # by a trained part that is a model of its own
    played |= {"reference"}  # a text of its own that a run decodes first and counts apart (`Recorder.book`)
    assert set(trace.totals.forwards_by_role) <= {*info.needs, *played}


def drawn(slug):
    """A run by chance, half as long, where the method takes a temperature; elsewhere the plain one, which so is decoded
    once."""
    hot, short = arguments(METHODS[slug], temperature=0.8), runs.short(slug)
    half = {} if runs.whole or "steps" in short else {LENGTH: max(short[LENGTH] // 2, 8)}
    return decode(slug, seed=3, **half, **hot) if hot else decode(slug)


@every_method
def test_equal_seeds_give_equal_runs_and_a_fork_without_a_change_is_one(slug):
    original = drawn(slug)
    middle = len(original.steps) // 2
    fork = engines.fork(original, middle)
    assert facts(fork) == facts(original) and not fork.end.message
    assert fork.header.origin == engines.Origin(engines.digest(original), middle, slug, METHODS[slug].title)


@every_method_at_night
def test_detail_changes_the_record_and_not_the_run(slug):
    full, light = (decode(slug, detail=d) for d in ("full", "light"))
    none = decode(slug, detail="none", max_steps=len(full.steps))
    assert full.output_ids == light.output_ids == none.output_ids
    assert full.totals.forwards == light.totals.forwards == none.totals.forwards
    assert not any(s.scores or s.candidates for s in light.steps)
    assert not any(s.commits or s.tree or s.spans or s.note for s in none.steps)


@every_method
def test_closing_stops_at_once_and_keeps_what_is_there(slug):
    run = runs.stream(slug)
    first = next(run)
    run.close()
    assert list(run) == []
    trace = run.trace()
    assert trace.end.reason == "stopped" and trace.steps == [first]
    assert trace.totals.forwards == sum(first.forwards.values())


@every_method
def test_the_step_budget_holds(slug):
    whole = decode(slug)
    few = min(2, len(whole.steps) - 1)  # one step is all that some need
    exact, less = (decode(slug, max_steps=n, detail="none") for n in (len(whole.steps), few))
    assert (exact.end.reason, exact.end.message, exact.output_ids) == ("complete", "", whole.output_ids)
    assert [s.forwards for s in exact.steps] == [s.forwards for s in whole.steps]
    assert less.end.reason == "budget" and [s.forwards for s in less.steps] == [s.forwards for s in whole.steps[:few]]


def tried(slug, p, now):
    """Values of a parameter that are not the one it has, those that most often change something first."""
    if own := trial(slug).values.get(p.name):
        return [str(ROOT / value) for value in own] if p.file else own
    if p.kind == "bool":
        return [not now]
    if p.kind == "choice":
        return [choice for choice in p.choices if choice != now]
    if p.kind == "text":
        return TEXT_VALUES
    if p.kind == "code":
        return [name for name in p.presets if name != now]
    low, high, first = (p.low, p.high, []) if p.name != LENGTH else (p.low, min(p.high, 400), [8])
    values = dict.fromkeys((*first, low, high, 2, 12, 16, 24, (low + high) / 2))
    return [v for v in values if low <= v <= high and v != now and (p.kind == "float" or v == int(v))]


def modes(info, name):
    """What else is set while a parameter is tried: nothing, or another mode of the method in which it may count."""
    choices = [p for p in info.params if p.kind == "choice" and p.name != name]
    several = {n: v for n, v in (info.paths or {}).items() if n != name}
    other = [
        *trial(info.slug).beside.get(name, []),
        *({p.name: v} for p in choices for v in p.choices if v != p.default),
        *([several] if several else []),
    ]
    heat = [{p.name: min(WARM, p.high)} for p in info.params if p.name == "temperature" != name]
    warm = [{**mode, **hot} for hot in heat for mode in (*other, {})]
    return [{}, *warm, *other]


def differs(slug, prompt, control, changed):
    """Whether a run with these parameters is another one; it is stopped at the first step that differs."""
    run = runs.stream(slug, prompt, params=changed)
    try:
        for step in run:
            if step.index >= len(control.steps) or bare(step) != bare(control.steps[step.index]):
                return True
    finally:
        run.close()
    return (len(run.steps), run.end().output_ids) != (len(control.steps), control.output_ids)


def has_an_effect(slug, p):
    """Tried in an order in which most show theirs at once: by itself, then with other modes of the method; few values
    before all, one prompt before all, and in short answers before long ones."""
    info, values = METHODS[slug], tried(slug, p, runs.short(slug).get(p.name, p.default))
    usual = {q.name: q.default for q in info.params if q.name in runs.short(slug)}
    alone, *other = modes(info, p.name)
    asked, seen = prompts(slug), set()
    stages = [
        ({}, trial(slug).beside.get(p.name, []), asked, values[:3]),
        ({}, [alone], asked[:1], values[:3]),
        ({}, other[:1], asked[:1], values[:3]),
        ({}, [alone], asked, values[:5]),
        ({}, other, asked, values[:3]),
        (usual, [alone], asked, values[:3]),
        ({}, [alone, *other], asked, values[3:]),
        (usual, [alone, *other], asked, values),
    ]
    for length, some, given_prompts, few in stages:
        for mode, prompt, value in itertools.product(some, given_prompts, few):
            given = {**length, **mode}
            if (one := repr((prompt, given, value))) in seen:
                continue
            seen.add(one)
            try:
                if differs(slug, prompt, decode(slug, prompt, **given), {**given, p.name: value}):
                    return True
            except engines.UserError:
                continue  # a value that does not go with the other parameters
    return False


@every_method
def test_every_parameter_has_an_effect(slug):
    idle = [p.name for p in METHODS[slug].params if not has_an_effect(slug, p)]
    assert not idle, "no value that was tried changed anything"


def fewer(slug):
    """A shorter board: without its own rule a masked method fills one place a forward."""
    info = METHODS[slug]
    return {} if runs.whole or info.kind != "masked" else arguments(info, **runs.short(slug) | runs.MASKED[1])


def neutral(slug):
    """Its parameters that have a value with which it is its baseline."""
    return [p for p in METHODS[slug].params if p.neutral is not None]


@pytest.mark.parametrize("slug", [s for s in SLUGS if neutral(s)], scope="module")
def test_a_neutral_parameter_gives_the_baseline(slug):
    info = METHODS[slug]
    for p in neutral(slug):
        for prompt in prompts(slug) if runs.whole else prompts(slug)[:1]:
            ours = decode(slug, prompt, **fewer(slug) | {p.name: p.neutral})
            usual = {q.name: q.default for q in METHODS[info.baseline].params}
            shared = usual | arguments(METHODS[info.baseline], **ours.header.params | {p.name: usual.get(p.name)})
            assert ours.text == decode(info.baseline, prompt, on=slug, **shared).text, f"{p.name}={p.neutral}"


def more_prompts(slug):
    """What its model can be asked, and where that is any task, two that repeat themselves or end soon."""
    return (*PROMPTS, "copy: Ada, Ada, Ada, Ada", "reverse: Tom") if prompts(slug) is PROMPTS else prompts(slug)


def claims(slug):
    """The values of parameters with which it says to be lossless; {} where it always is, nothing where it never is."""
    info = METHODS[slug]
    return list(info.lossless_with) or [{}] * info.lossless


@pytest.mark.parametrize("slug", [s for s in SLUGS if claims(s) and METHODS[s].baseline], scope="module")
def test_lossless_means_equal_to_the_baseline(slug):
    info = METHODS[slug]
    for values in claims(slug):
        for prompt in more_prompts(slug) if values == claims(slug)[0] else more_prompts(slug)[:1]:
            ours = decode(slug, prompt, **values)
            baseline = decode(info.baseline, prompt, on=slug, **{LENGTH: ours.header.params[LENGTH]})
            assert ours.header.lossless and ours.output_ids == baseline.output_ids, prompt


def soon(slug, step, later=2):
    """Where a text grows, what an edit after this step does is seen a few steps later, long before the end."""
    grows = not KINDS[METHODS[slug].kind].masked and METHODS[slug].paths is None
    return {"max_steps": step + later} if grows and not runs.whole else {}


@every_method
def test_a_run_can_be_forked_at_any_step(slug):
    """Force another token at a place already written; the fork repeats the run up to the edit and goes on from the
    changed state."""
    original = decode(slug)
    at = len(original.header.prompt_ids)
    other = "copy: Zoe" if prompts(slug) is PROMPTS else prompts(slug)[1]
    forced = engines.load_model(MODELS[slug], dtype="float32").tokenizer.encode_prompt(other)[:4][-1]
    step = next(s.index for s in original.steps if s.commits and at in s.commits.positions)
    fork = decode(slug, edits=[(step, Edit(force={at: forced}))], **soon(slug, step))
    assert fork.steps[step].commits == original.steps[step].commits
    assert (at, forced, "forced") in caused(fork.steps[step + 1])
    assert fork.output_ids[0] == forced and board(fork) == fork.output_ids
    assert fork.header.edits[0].after_step == step


@every_method
def test_a_forbidden_token_is_not_written(slug):
    original = decode(slug)
    first, at = original.output_ids, len(original.header.prompt_ids)
    masked, commits = METHODS[slug].kind == "masked", original.steps[0].commits
    written_first = len(commits.tokens) if commits else 0
    after = 0 if masked or written_first < len(first) else -1  # where one step writes all, before it
    place = 4 if masked or after else max(4, written_first)  # a causal run takes nothing back
    forbid = {at + place: [first[place]]}
    hide = {"remask": [at + place]} if masked else {}
    written_at = next((s.index for s in original.steps if s.commits and at + place in s.commits.positions), 0)
    fork = decode(slug, edits=[(after, Edit(forbid=forbid, **hide))], **soon(slug, written_at, 5))
    assert fork.output_ids[place] != first[place]


@every_method
def test_a_fork_goes_on_from_the_recorded_state(slug):
    """At its middle step: a forced token stands, a forbidden one is not written there any more, a masked place opens
    again."""
    original, masked = decode(slug), KINDS[METHODS[slug].kind].masked
    middle, first = len(original.steps) // 2, len(original.header.prompt_ids)
    before = board(msgspec.structs.replace(original, steps=original.steps[:middle]))
    most = runs.vocabulary(slug)
    token = next(t for t in (*range(20, 60), *range(2, 20)) if t not in original.output_ids and t < most)
    canvas = METHODS[slug].kind == "canvas"  # a board ends where its canvas does, and that ends in padding
    end = len(before) - canvas
    place = next((i for i, t in enumerate(before) if t == original.header.mask_id), end) if masked else end
    hide = [first] if masked and before[0] != original.header.mask_id else []
    banned_at = 0 if hide or canvas else place
    banned = original.output_ids[banned_at]
    force, forbid = Edit(force={first + place: token}), Edit(forbid={first + banned_at: [banned]}, remask=hide)
    if banned_at != place:  # at once
        forced = forbidden = engines.fork(original, middle, edit=msgspec.structs.replace(forbid, force=force.force))
    else:
        forced, forbidden = (engines.fork(original, middle, edit=one, **soon(slug, middle)) for one in (force, forbid))
    assert written(forced.steps[:middle]) == written(original.steps[:middle]) and board(forced) == forced.output_ids
    assert (first + place, token, "forced") in caused(forced.steps[middle])
    check_consistency(engines.Trace.from_json(forced.to_json()))
    assert (first + banned_at, banned) not in itertools.chain(*written(forbidden.steps[middle:]))
    if hide:
        assert (first, original.header.mask_id, "remasked") in caused(forbidden.steps[middle])


@every_method
def test_a_method_takes_over_where_its_control_stopped(slug):
    """The board is kept, the prompt stays the prompt, and what follows is this method's."""
    info = METHODS[slug]
    control = next(s for s, i in METHODS.items() if i.kind == info.kind and i.baseline is None)
    original = decode(control, on=slug)
    late = len(original.steps) * 2 // 3
    asked = {name: value for name, value in runs.short(slug).items() if name != LENGTH}
    fork = engines.fork(original, late, method=slug, params=asked)
    assert written(fork.steps[:late]) == written(original.steps[:late])
    assert fork.end.reason == "complete" and board(fork) == fork.output_ids
    assert fork.header.prompt_ids == original.header.prompt_ids and fork.header.canvas == original.header.canvas
    assert len(fork.output_ids) <= original.header.params[LENGTH] or info.kind in ("block", "canvas")
    check_consistency(engines.Trace.from_json(fork.to_json()))
    if slug in of_each_kind():
        assert facts(engines.fork(fork, len(fork.steps))) == facts(fork)
    done = board(msgspec.structs.replace(original, steps=original.steps[:late]))
    if info.kind == "causal":  # exactly a run of the method on the text so far
        text = [*original.header.prompt_ids, *done]
        rest = decode(slug, text, **{LENGTH: original.header.params[LENGTH] - len(done)})
        assert fork.output_ids == [*done, *rest.output_ids]
        assert [s.forwards for s in fork.steps[late:]] == [s.forwards for s in rest.steps]


def own_runs(slug):
    """What the tests above decode without an edit, one by one: by default, by chance, and with its other prompts."""
    yield decode(slug)
    yield drawn(slug)
    for prompt in more_prompts(slug):
        yield decode(slug, prompt)


@every_method
def test_drafts_and_confidences_go_both_ways(slug):
    """In the runs of this contract drafts are accepted and refused, what is compared with a threshold lies on both
    sides of it, and decisions fall one way and another: otherwise half of the method would go untested here. Runs are
    looked at until they have shown it."""
    ways = {}
    for number, trace in enumerate(own_runs(slug), 1):
        for step in trace.steps:
            if step.tree:
                ways.setdefault("drafts", set()).update({"accepted", "mismatch"} & {*step.tree.why})
            for lane in (lane for lane in step.scores if lane.threshold is not None):
                values = lane.values.array()
                sides = (values[np.isfinite(values)] >= lane.threshold).tolist()
                ways.setdefault(f"sides of {lane.name}", set()).update(sides)
            if step.choice:
                ways.setdefault(f"choices of {step.choice.quantity}", set()).add(step.choice.chosen)
        if number > 1 and all(len(found) > 1 for found in ways.values()):
            return
    one_sided = {what: found for what, found in ways.items() if len(found) < 2}
    assert not one_sided, "give it a prompt, or a length, with which it goes the other way too"


REFUSED = [
    ({"prompt": ""}, "empty"),
    ({"prompt": "x" * 100_000}, "100,000 characters"),
    ({"prompt": [10**9]}, "not in the vocabulary"),
    ({"max_new_tokens": 0}, "from 1 to"),
    ({"max_new_tokens": "many"}, "whole number"),
    ({"no_such_parameter": 1}, "unknown parameter"),
    ({"seed": -1}, "seed"),
]


@one_of_each_kind
def test_bad_input_and_a_model_of_the_wrong_kind_are_refused_with_a_sentence(slug):
    for given, sentence in REFUSED:
        with pytest.raises(engines.UserError, match=sentence):
            decode(slug, **given)
    wrong = KINDS["causal" if METHODS[slug].kind == "masked" else "masked"].example
    needed = METHODS[slug].needs[METHODS[slug].role]
    with pytest.raises(engines.UserError, match=f"needs a {needed} model.*choose one of"):
        engines.run(slug, wrong, PROMPTS[0])
