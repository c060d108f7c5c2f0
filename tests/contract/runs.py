"""What the contract of every method asks: on which model, with which prompts, for how long an answer; and the runs
themselves, each decoded once for all tests that ask for the same one."""

import inspect
from functools import lru_cache
from pathlib import Path

import msgspec

import engines
from engines.core.kinds import KINDS
from engines.core.method import arguments
from engines.core.params import LENGTH
from engines.models.parts import folder_of
from explorer import papers
from explorer.papers.schema import Trial
from tests.memo import Memo

METHODS = {info.slug: info for info in engines.list_methods()}
SLUGS = list(METHODS)

PROMPTS = ("add: 457 + 86", "sort: Zoe, Mia, Leo, Ada, Kim")
TEXTS = ("python: class Robot(size: int, owner: str)", "story: Mia, boat, lamp")
READS = {  # models that read something of their own
    "tiny-reasoner": ("8+9*3+0-8", "6*4*5*1+4+4"),
    "tiny-digits": ("7", "3"),
    "tiny-reader": ("coffee", "address"),
    **dict.fromkeys(("tiny-blockffn", "tiny-moe", "tiny-mfa", "tiny-pldr"), TEXTS),
    "tiny-ultramem": ("fact: Ada Raven", "story: Mia, boat, lamp"),
    "tiny-encdec": (
        "ask: Which people? Mia lives in Rome. Ben has a kite. Ada lives in Bonn. Tom likes red.",
        "ask: Which cities? Mia lives in Rome. Ben has a kite. Ada lives in Bonn. Tom lives in Oslo.",
    ),
    "tiny-vlm": ("scene 12", "scene 3"),
}
LIGHT = {"smollm2": "tiny-ar-m"}  # model -> the one that stands in for it beside another (conftest.py)
LISTED = engines.list_models()

# Answers are short: long enough that drafts are accepted and refused and confidences pass and fail
# (`test_drafts_and_confidences_go_both_ways`), shorter where a token is dear, and whole where a chain of thought comes
# to its end. A masked board has blocks that divide it.
SHORT = {LENGTH: 16, "steps": 8}
MASKED = {LENGTH: 32}, {LENGTH: 16, "block_length": 8}  # filled in as many steps as it takes; in a number of steps
LENGTHS = {"tiny-reasoner": 96, **dict.fromkeys(("tiny-mfa", "tiny-moe", "tiny-pldr", "tiny-ultramem"), 8)}
whole = False  # with whole answers, as long as they are by default (test_whole_answers.py)
TRIALS = {slug: trial for paper in papers.read().all() for slug, trial in paper.trials.items()}
LIGHTER = [one for trial in TRIALS.values() for one in trial.lighter.items()]


def trial(slug):
    """What the paper's file says of trying a method."""
    return TRIALS.get(slug, Trial())


def example(info):
    """The model that a method is tried on: the one that its paper names, the example of its kind, or the smallest that
    has its trained parts."""
    if trial(info.slug).model:
        return trial(info.slug).model
    usual = KINDS[info.needs[info.role]].example
    having = [m.name for m in LISTED if all(folder_of(part, m.name).is_dir() for part in info.parts.values())]
    return usual if usual in having else having[0]


MODELS = {info.slug: example(info) for info in METHODS.values()}


def prompts(slug):
    """What the model of a method is asked."""
    return tuple(trial(slug).prompts) or READS.get(MODELS[slug], PROMPTS)


def short(slug, on=None):
    """The parameters of a method that make its answer a short one, within its ranges, as on the model of another."""
    if whole:
        return {}
    info, declared = METHODS[slug], {p.name: p for p in METHODS[slug].params}
    wanted = {**SHORT, **trial(slug).params}
    if info.kind == "masked":
        wanted |= MASKED["steps" in declared]
    wanted[LENGTH] = trial(slug).params.get(LENGTH) or LENGTHS.get(MODELS[on or slug], wanted[LENGTH])
    if "block_length" in declared and not declared["block_length"].default:  # one block
        wanted.pop("block_length", None)
    given = arguments(info, **wanted)
    return given | {LENGTH: int(min(given[LENGTH], declared[LENGTH].high))}


@lru_cache(maxsize=4)
def models(slug, name):
    """The models of a run by role."""
    return engines.assign_roles(METHODS[slug], engines.load_model(name, dtype="float32"))


def vocabulary(slug):
    """How many tokens the model of a method has."""
    return engines.load_model(MODELS[slug], dtype="float32").vocab_size


def stream(slug, prompt=None, *, params=None, **options):
    """A run on the method's model that has not begun, with a short answer if its parameters do not say otherwise."""
    prompt = prompts(slug)[0] if prompt is None else prompt
    return engines.stream(slug, models(slug, MODELS[slug]), prompt, params={**short(slug), **(params or {})}, **options)


def decode(slug, prompt=None, *, on=None, seed=0, detail="full", edits=(), max_steps=4096, **params):
    """A run on the method's model, or on that of the method `on`, with a short answer if its parameters do not say
    otherwise; nothing may change it."""
    prompt = prompts(on or slug)[0] if prompt is None else prompt
    given = {**short(slug, on), **params}
    return _decoded(
        slug,
        MODELS[on or slug],
        prompt if isinstance(prompt, str) else tuple(prompt),
        tuple(sorted(given.items())),
        (("seed", seed), ("detail", detail), ("max_steps", max_steps)),
        tuple((step, msgspec.json.encode(edit)) for step, edit in edits),
    )


@lru_cache(maxsize=400)
def _decoded(slug, name, prompt, params, options, edits):
    asked = (whole, slug, METHODS[slug].version, name, LIGHT, LIGHTER, prompt, params, options, edits)

    def run():
        return engines.run(
            slug,
            models(slug, name),
            prompt if isinstance(prompt, str) else list(prompt),
            params=dict(params),
            edits=[(step, msgspec.json.decode(edit, type=engines.Edit)) for step, edit in edits],
            **dict(options),
        )

    return memo.run(asked, run)


memo = Memo(None, "")  # in memory alone; the tests' session gives it a folder (conftest.py)


def keep_in(folder: Path | None, sources: str) -> None:
    """From here on runs are kept in a folder, too."""
    global memo
    memo = Memo(folder, sources)


def forget():
    """Runs kept in memory are decoded anew when they are asked for."""
    _decoded.cache_clear()


def bare(step):
    """A step without its times; of intervals that were measured, or scheduled from measured ones, only what was done
    stays."""
    intervals = [
        msgspec.structs.replace(i, start=0.0, end=0.0) if i.measured or i.unit == "seconds" else i
        for i in step.intervals
    ]
    return msgspec.structs.replace(step, intervals=intervals, model_seconds=0.0, method_seconds=0.0)


def facts(trace):
    """A trace without its times. Not as text, in which 1.0 of a run that was read differs from 1 of one just made."""
    return [bare(step) for step in trace.steps], trace.end.output_ids


def written(steps):
    """What the steps wrote: (position, token) pairs of each."""
    return [list(zip(s.commits.positions, s.commits.tokens, strict=True)) if s.commits else [] for s in steps]


def caused(step):
    """What a step wrote: (position, token, cause)."""
    commits = step.commits
    return list(zip(commits.positions, commits.tokens, commits.causes, strict=True))


def asked_of(test):
    """The methods that a test of the contract is about; none for a function that is no such test."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize" and mark.args[0] == "slug"]
    return [getattr(one, "values", [one])[0] for one in marks[0].args[1]] if marks else []


def tests_of(module):
    """The tests of a file of the contract that are about most methods."""
    return [test for _, test in inspect.getmembers(module, inspect.isfunction) if len(asked_of(test)) > 1]
