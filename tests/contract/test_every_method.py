"""What every method must keep, whatever it does: run over the registry, so a method that breaks one of these cannot be
listed."""

import itertools
from functools import lru_cache
from pathlib import Path

import msgspec
import pytest

import engines
from engines.core.kinds import KINDS
from engines.core.method import arguments
from engines.core.trace import check_consistency
from engines.models.parts import folder_of
from tests.engines.fakes import board

DRAWS, THINKS = "tiny-digits", "tiny-reasoner"
CHAINS = ("8+9*3+0-8", "6*4*5*1+4+4")


def example(info):
    """The model that a method is tried on: the example of its kind, the smallest that has its trained parts, or one
    that draws pictures or thinks aloud, where the method shows that."""
    if "media" in info.emits:
        return DRAWS
    if info.signature == "thoughts":
        return THINKS
    usual = KINDS[info.needs[info.role]].example
    having = [m.name for m in engines.list_models() if all(folder_of(p, m.name).is_dir() for p in info.parts.values())]
    return usual if usual in having else having[0]


METHODS = {info.slug: info for info in engines.list_methods()}
SLUGS = list(METHODS)
PROMPTS = ("add: 457 + 86", "sort: Zoe, Mia, Leo, Ada, Kim")
PASSAGES = (
    "story: Mia, boat. Leo, cup",
    "read: Mia lives in Rome. Mia has a red boat. Leo is 7 years old. Leo lives in Oslo. Ada has a blue cup. Ada is 9 "
    "years old. Tom lives in Paris. Tom has a green key. Where does Mia live?",
)
MODELS = {info.slug: example(info) for info in METHODS.values()}
TEXTS = ("python: class Robot(size: int, owner: str)", "story: Mia, boat, lamp")
READS = {  # models that read something of their own
    THINKS: CHAINS,
    DRAWS: ("7", "3"),
    "tiny-reader": ("address", "llama"),
    **dict.fromkeys(("tiny-blockffn", "tiny-moe", "tiny-mfa", "tiny-pldr"), TEXTS),
    "tiny-ultramem": ("fact: Ada Raven", "story: Mia, boat, lamp"),
    "tiny-encdec": (
        "ask: Which people? Mia lives in Rome. Ben has a kite. Ada lives in Bonn. Tom likes red.",
        "ask: Which cities? Mia lives in Rome. Ben has a kite. Ada lives in Bonn. Tom lives in Oslo.",
    ),
    "tiny-vlm": ("scene 12", "scene 3"),
}
LIGHT = {"language": "tiny-ar-m"}  # role -> the model that plays it here
FILTER = Path(__file__).resolve().parents[1] / "golden" / "diffusion" / "stubs" / "filter_f16.safetensors"
BESIDE = {"keeps": {"budget": 6.7}}  # a parameter that says how another one is meant, with a value of that one
TEXT_VALUES = ("=", "+", "12", "13,14,15", str(FILTER))


def prompts(slug):
    """What the model of a method is asked."""
    if "short" in METHODS[slug].lanes:  # its drafter reads a part of the prompt
        return PASSAGES
    return READS.get(MODELS[slug], PROMPTS)


def vocabulary(slug):
    """How many tokens the model of a method has."""
    return engines.load_model(MODELS[slug], dtype="float32").vocab_size


def decode(slug, prompt=None, *, on=None, seed=0, detail="full", edits=(), max_steps=4096, **params):
    """A run on the method's model, or on that of the method `on`, decoded once for all tests that ask for the same one;
    nothing may change it."""
    prompt = prompts(on or slug)[0] if prompt is None else prompt
    asked = (
        MODELS[on or slug],
        prompt if isinstance(prompt, str) else tuple(prompt),
        seed,
        detail,
        max_steps,
        tuple(sorted(params.items())),
    )
    return decoded(slug, *asked, tuple(edits)) if not edits else _decode(slug, *asked, edits)


def _decode(slug, name, prompt, seed, detail, max_steps, params, edits):
    text = prompt if isinstance(prompt, str) else list(prompt)
    given = {"seed": seed, "detail": detail, "max_steps": max_steps, "edits": edits}
    return engines.run(slug, playing(slug, name), text, params=dict(params), **given)


def playing(slug, name):
    """The models of a run: by role where SmolLM2 would play one that a tiny model plays in less time."""
    model, info = engines.load_model(name, dtype="float32"), METHODS[slug]
    light = {role: engines.load_model(LIGHT[role], dtype="float32") for role in info.needs if role in LIGHT}
    return {info.role: model, **light} if light else model


decoded = lru_cache(maxsize=400)(_decode)


def facts(trace):
    """A trace without its times; of intervals that were measured, or scheduled from measured ones, only what was done
    stays."""
    untimed = {"model_seconds": 0.0, "method_seconds": 0.0}
    clocked = [[i.measured or i.label.startswith("scheduled") for i in s.lanes] for s in trace.steps]
    lanes = [
        [msgspec.structs.replace(i, start=0.0, end=0.0) if c else i for i, c in zip(s.lanes, row, strict=True)]
        for s, row in zip(trace.steps, clocked, strict=True)
    ]
    steps = [msgspec.structs.replace(s, lanes=lane, **untimed) for s, lane in zip(trace.steps, lanes, strict=True)]
    return msgspec.json.encode((steps, trace.end.output_ids))


def test_no_method_file_is_broken():
    assert engines.broken_methods() == []


@pytest.mark.parametrize("slug", SLUGS)
def test_the_trace_is_whole(slug):
    trace = decode(slug)
    check_consistency(trace)
    assert trace.end.reason == "complete"
    assert engines.Trace.from_json(trace.to_json()) == trace
    assert board(trace) == trace.output_ids
    assert all(sum(s.forwards.values()) >= 1 and s.tokens_fed >= 1 and sum(s.work.values()) >= 1 for s in trace.steps)
    assert trace.totals.tokens > 0 and trace.text


@pytest.mark.parametrize("slug", SLUGS)
def test_it_emits_what_it_declares(slug):
    info, trace = METHODS[slug], decode(slug)
    filled = {
        group
        for s in trace.steps
        for group in (*info.emits, "tree", "choice", "routing", "branches", "media", "lanes")
        if getattr(s, group, None)
    }
    assert filled == set(info.emits)
    lanes = {lane.name: lane.unit for s in trace.steps for lane in s.scores}
    assert all(info.lanes[name].unit == unit for name, unit in lanes.items())
    played = {"draft"} if "layered" in info.needs.values() else set()  # by a part of the model itself
    assert set(trace.totals.forwards_by_role) <= {*info.needs, *played}


@pytest.mark.parametrize("slug", SLUGS)
def test_equal_seeds_give_equal_runs_and_a_fork_without_a_change_is_one(slug):
    original = decode(slug, seed=3, **arguments(METHODS[slug], temperature=0.8))
    middle = len(original.steps) // 2
    fork = engines.fork(original, middle)
    assert facts(fork) == facts(original) and not fork.end.message
    assert fork.header.origin == engines.Origin(engines.digest(original), middle, slug, METHODS[slug].title)


@pytest.mark.parametrize("slug", SLUGS)
def test_detail_changes_the_record_and_not_the_run(slug):
    full, light, none = (decode(slug, detail=d) for d in ("full", "light", "none"))
    assert full.output_ids == light.output_ids == none.output_ids
    assert full.totals.forwards == light.totals.forwards == none.totals.forwards
    assert not any(s.scores or s.candidates for s in light.steps)
    assert not any(s.commits or s.tree or s.spans or s.note for s in none.steps)


@pytest.mark.parametrize("slug", SLUGS)
def test_closing_stops_at_once_and_keeps_what_is_there(slug):
    one = engines.stream(slug, playing(slug, MODELS[slug]), prompts(slug)[0])
    first = next(one)
    one.close()
    assert list(one) == []
    trace = one.trace()
    assert trace.end.reason == "stopped" and trace.steps == [first]
    assert trace.totals.forwards == sum(first.forwards.values())


@pytest.mark.parametrize("slug", SLUGS)
def test_the_step_budget_holds(slug):
    whole = decode(slug)
    few = min(2, len(whole.steps) - 1)  # one step is all that some need
    trace = decode(slug, max_steps=few)
    assert (trace.end.reason, len(trace.steps)) == ("budget", few)
    exact = decode(slug, max_steps=len(whole.steps))
    assert (exact.end.reason, exact.end.message) == ("complete", "") and facts(exact) == facts(whole)
    short = decode(slug, max_steps=len(whole.steps) - 1)
    assert short.end.reason == "budget" and [s.forwards for s in short.steps] == [s.forwards for s in whole.steps[:-1]]


@pytest.mark.parametrize(("slug", "name"), [(slug, p.name) for slug in SLUGS for p in METHODS[slug].params])
def test_every_parameter_has_an_effect(slug, name):
    p = next(p for p in METHODS[slug].params if p.name == name)
    if p.kind == "bool":
        values = [not p.default]
    elif p.kind == "choice":
        values = [c for c in p.choices if c != p.default]
    elif p.kind == "text":
        values = TEXT_VALUES
    elif p.kind == "code":
        values = [name for name in p.presets if name != p.default]
    else:
        values = [
            v
            for v in (p.low, p.high, (p.low + p.high) / 2, 12, 16, 24, 2)
            if p.low <= v <= p.high and v != p.default and (p.kind == "float" or v == int(v))
        ]
    values = [v for v in values if not (name == "max_new_tokens" and v > 400)]
    modes = [
        {},
        *([BESIDE[name]] if name in BESIDE else []),
        *(
            {c.name: v}
            for c in METHODS[slug].params
            if c.kind == "choice" and c.name != name
            for v in c.choices
            if v != c.default
        ),
        *([{n: v for n, v in METHODS[slug].paths.items() if n != name}] if METHODS[slug].paths else []),
    ]
    if any(q.name == "temperature" for q in METHODS[slug].params) and name != "temperature":  # some need chance
        modes += [{**mode, "temperature": 1.5} for mode in modes]
    for mode, prompt, value in itertools.product(
        modes, prompts(slug), values
    ):  # by itself first, then with another mode of the method
        try:
            if facts(decode(slug, prompt, **mode, **{name: value})) != facts(decode(slug, prompt, **mode)):
                return
        except engines.UserError:
            continue  # a value that does not go with the other defaults
    pytest.fail(f"no tried value of {name} ({list(values)}) changed anything")


@pytest.mark.parametrize(
    ("slug", "name"), [(slug, p.name) for slug in SLUGS for p in METHODS[slug].params if p.neutral is not None]
)
def test_a_neutral_parameter_gives_the_baseline(slug, name):
    info = METHODS[slug]
    p = next(p for p in info.params if p.name == name)
    for prompt in prompts(slug):
        ours = decode(slug, prompt, **{name: p.neutral})
        shared = arguments(METHODS[info.baseline], **{k: v for k, v in ours.header.params.items() if k != name})
        assert ours.text == decode(info.baseline, prompt, on=slug, **shared).text


@pytest.mark.parametrize("slug", [s for s in SLUGS if METHODS[s].lossless and METHODS[s].baseline])
def test_lossless_means_equal_to_the_baseline(slug):
    usual = (*PROMPTS, "copy: Ada, Ada, Ada, Ada", "reverse: Tom")
    for prompt in usual if prompts(slug) is PROMPTS else prompts(slug):
        assert (
            decode(slug, prompt).output_ids
            == decode(
                METHODS[slug].baseline,
                prompt,
                on=slug,
                max_new_tokens=decode(slug, prompt).header.params["max_new_tokens"],
            ).output_ids
        )


@pytest.mark.parametrize("slug", SLUGS)
def test_a_run_can_be_forked_at_any_step(slug):
    """Force another token at a place already written; the fork repeats the run up to the edit and goes on from the
    changed state."""
    original = decode(slug)
    at = len(original.header.prompt_ids)
    other = "copy: Zoe" if prompts(slug) is PROMPTS else prompts(slug)[1]
    forced = engines.load_model(MODELS[slug], dtype="float32").tokenizer.encode_prompt(other)[:4][-1]
    step = next(s.index for s in original.steps if s.commits and at in s.commits.positions)
    fork = decode(slug, edits=[(step, engines.Edit(force={at: forced}))])
    assert fork.steps[step].commits == original.steps[step].commits
    written = fork.steps[step + 1].commits
    assert (at, forced, "forced") in list(zip(written.positions, written.tokens, written.causes, strict=True))
    assert fork.output_ids[0] == forced and board(fork) == fork.output_ids
    assert fork.header.edits[0].after_step == step


@pytest.mark.parametrize("slug", SLUGS)
def test_a_forbidden_token_is_not_written(slug):
    original = decode(slug)
    first, at = original.output_ids, len(original.header.prompt_ids)
    masked, commits = METHODS[slug].kind == "masked", original.steps[0].commits
    written_first = len(commits.tokens) if commits else 0
    after = 0 if masked or written_first < len(first) else -1  # where one step writes all, before it
    place = 4 if masked or after else max(4, written_first)  # a causal run takes nothing back
    fork = decode(
        slug,
        edits=[
            (
                after,
                engines.Edit(
                    forbid={at + place: [first[place]]},
                    **({"remask": [at + place]} if masked else {}),
                ),
            )
        ],
    )
    assert fork.output_ids[place] != first[place]


def written(steps):
    return [list(zip(s.commits.positions, s.commits.tokens, strict=True)) if s.commits else [] for s in steps]


@pytest.mark.parametrize("slug", SLUGS)
def test_a_fork_goes_on_from_the_recorded_state(slug):
    """At its middle step: a forced token stands, a forbidden one is not written there any more, a masked place opens
    again."""
    original, masked = decode(slug), KINDS[METHODS[slug].kind].masked
    middle, first = len(original.steps) // 2, len(original.header.prompt_ids)
    before = board(msgspec.structs.replace(original, steps=original.steps[:middle]))
    token = next(t for t in (*range(20, 60), *range(2, 20)) if t not in original.output_ids and t < vocabulary(slug))
    place = (
        next((i for i, t in enumerate(before) if t == original.header.mask_id), len(before)) if masked else len(before)
    )

    forced = engines.fork(original, middle, edit=engines.Edit(force={first + place: token}))
    assert written(forced.steps[:middle]) == written(original.steps[:middle]) and board(forced) == forced.output_ids
    after = forced.steps[middle].commits
    assert (first + place, token, "forced") in list(zip(after.positions, after.tokens, after.causes, strict=True))
    check_consistency(engines.Trace.from_json(forced.to_json()))

    hide = [first] if masked and before[0] != original.header.mask_id else []
    place = 0 if hide else place
    banned = original.output_ids[place]
    forbidden = engines.fork(original, middle, edit=engines.Edit(forbid={first + place: [banned]}, remask=hide))
    assert (first + place, banned) not in itertools.chain(*written(forbidden.steps[middle:]))
    if hide:
        hidden = forbidden.steps[middle].commits
        assert (first, original.header.mask_id, "remasked") in list(
            zip(hidden.positions, hidden.tokens, hidden.causes, strict=True)
        )


@pytest.mark.parametrize("slug", SLUGS)
def test_a_method_takes_over_where_its_control_stopped(slug):
    """The board is kept, the prompt stays the prompt, and what follows is this method's."""
    info = METHODS[slug]
    control = next(s for s, i in METHODS.items() if i.kind == info.kind and i.baseline is None)
    original = decode(control, on=slug)
    middle = len(original.steps) // 2
    fork = engines.fork(original, middle, method=slug)
    assert written(fork.steps[:middle]) == written(original.steps[:middle])
    assert (
        fork.end.reason == "complete"
        and board(fork) == fork.output_ids
        and fork.header.prompt_ids == original.header.prompt_ids
    )
    assert (
        fork.header.canvas,
        len(fork.output_ids) <= original.header.params["max_new_tokens"] or info.kind == "block",
    ) == (original.header.canvas, True)
    check_consistency(engines.Trace.from_json(fork.to_json()))
    assert facts(engines.fork(fork, len(fork.steps))) == facts(fork)
    done = board(msgspec.structs.replace(original, steps=original.steps[:middle]))
    if info.kind == "causal":  # exactly a run of the method on the text so far
        text = [*original.header.prompt_ids, *done]
        rest = decode(slug, text, max_new_tokens=original.header.params["max_new_tokens"] - len(done))
        assert fork.output_ids == [*done, *rest.output_ids]
        assert [s.forwards for s in fork.steps[middle:]] == [s.forwards for s in rest.steps]


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"prompt": ""}, "empty"),
        ({"prompt": "x" * 100_000}, "100,000 characters"),
        ({"prompt": [10**9]}, "not in the vocabulary"),
        ({"max_new_tokens": 0}, "from 1 to"),
        ({"max_new_tokens": "many"}, "whole number"),
        ({"no_such_parameter": 1}, "unknown parameter"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(slug, given, sentence):
    with pytest.raises(engines.UserError, match=sentence):
        decode(slug, **given)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_model_of_the_wrong_kind_is_refused(slug):
    wrong = KINDS["causal" if METHODS[slug].kind == "masked" else "masked"].example
    needed = METHODS[slug].needs[METHODS[slug].role]
    with pytest.raises(engines.UserError, match=f"needs a {needed} model.*choose one of"):
        engines.run(slug, wrong, PROMPTS[0])
