"""A page for strangers: what may run, what it may cost, that the page says so; and a run in a process of its own, as on
ZeroGPU."""

import json
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

import engines
from engines import UserError
from explorer.cli import main
from explorer.page import starting
from explorer.page.catalogue import Catalogue, Form
from explorer.page.feed import Feed
from explorer.page.run_limits import Limits
from explorer.page.sessions import Job
from explorer.runs.gallery import Gallery
from tests.page.conftest import PHONE, PROMPT, desk, first_model, methods_of, visitor

LIMITS = Limits(
    prompt_characters=500,
    steps=40,
    seconds=20,
    public=True,
    new_tokens=20,
    waiting=3,
    trace_characters=50_000,
    models=("tiny-ar-s", "tiny-dlm"),
)


def test_the_switch_and_the_variables_give_one_set_of_limits(monkeypatch):
    home, public = Limits.from_env(), Limits.from_env(public=True)
    assert not home.public and public.public and home.new_tokens == 4096
    for name in ("prompt_characters", "steps", "seconds", "new_tokens", "trace_characters"):
        assert getattr(public, name) < getattr(home, name), name
    for name, value in {"TOKENS": "64", "WAITING": "2", "TRACE": "1000", "PROMPT": "10"}.items():
        monkeypatch.setenv(f"EXPLORER_MAX_{name}", value)
    monkeypatch.setenv("EXPLORER_MODELS", "tiny-dlm, tiny-ar-s")
    found = Limits.from_env(public=True)
    assert (found.new_tokens, found.waiting, found.trace_characters, found.prompt_characters) == (64, 2, 1000, 10)
    assert found.models == ("tiny-dlm", "tiny-ar-s")
    monkeypatch.setenv("EXPLORER_MAX_TOKENS", "9999")
    assert Limits.from_env(public=True).new_tokens == 1024 and Limits.from_env().new_tokens == 4096
    for value in ("0", "-1", "nan", "inf", "many"):
        monkeypatch.setenv("EXPLORER_MAX_TOKENS", value)
        with pytest.raises(SystemExit, match=f"EXPLORER_MAX_TOKENS={value}"):
            Limits.from_env()


def test_a_public_page_takes_no_method_file(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('it was run')", "utf-8")
    assert main(["serve", "--public", "--method-file", str(file)]) == 2
    assert "--public" in capsys.readouterr().err


def test_the_list_of_models_is_checked_and_narrows():
    with pytest.raises(UserError, match="EXPLORER_MODELS names 'no-such'"):
        Catalogue.read(True, ("tiny-dlm", "no-such"))
    catalogue = Catalogue.read(True, LIMITS.models, LIMITS.new_tokens)
    assert {m.name for m in catalogue.models} == {"tiny-ar-s", "tiny-dlm"} and not catalogue.open
    slug = methods_of("causal")[0]
    for name in ("tiny-ar-l", "/etc", ".", "HuggingFaceTB/SmolLM2-135M", "../models/tiny-ar-s"):
        with pytest.raises(UserError, match="unknown model"):
            catalogue.plan(slug, name, {})


def test_the_answer_is_bounded_and_no_parameter_names_a_file():
    catalogue, at_home = Catalogue.read(True, (), 20), Catalogue.read(False)
    told = {one["slug"]: [p["name"] for p in one["params"]] for one in json.loads(catalogue.offered())["methods"]}
    with_files = [info for info in at_home.methods.values() if any(p.file for p in info.params)]
    assert with_files, "a method with such a parameter is needed to test this"
    for info in with_files:
        name = next(p.name for p in info.params if p.file)
        assert name not in told[info.slug]
        with pytest.raises(UserError, match=f"{name} names a file"):
            catalogue.plan(info.slug, "tiny-dlm", {name: "/etc/passwd"})
        catalogue.check_params(catalogue.methods[info.slug], {name: ""})  # as recorded runs have it
        assert at_home.plan(info.slug, "tiny-dlm", {name: "mine.safetensors"}).params[name] == "mine.safetensors"
    slug = methods_of("causal")[0]
    with pytest.raises(UserError, match="max_new_tokens=21 is out of range; give a whole number from 1 to 20"):
        catalogue.plan(slug, "tiny-ar-s", {"max_new_tokens": 21})
    assert catalogue.plan(slug, "tiny-ar-s", {}).params["max_new_tokens"] <= 20, "also where the default is longer"


def test_a_text_that_a_tool_reads_is_one_that_ships():
    catalogue, at_home = Catalogue.read(True, (), 20), Catalogue.read(False)
    found = [(info, p) for info in at_home.methods.values() for p in info.params if p.kind == "code"]
    assert found, "a method with such a parameter is needed to test this"
    for info, p in found:
        offered, own = catalogue.methods[info.slug], "# file: a.py\nx = 1\n"
        assert next(q.choices for q in offered.params if q.name == p.name) == tuple(p.presets)
        with pytest.raises(UserError, match=f"{p.name} is a text of your own.*not taken from visitors"):
            catalogue.plan(info.slug, "tiny-ar-s", {p.name: own})
        with pytest.raises(UserError, match="not taken from visitors"):
            catalogue.check_params(offered, {p.name: own})  # as a recorded run, an edit or a fork would have it
        for name in p.presets:
            assert catalogue.plan(info.slug, "tiny-ar-s", {p.name: name}).params[p.name] == name
        assert at_home.plan(info.slug, "tiny-ar-s", {p.name: own}).params[p.name] == own


@pytest.fixture(scope="module")
def public_address(recorded: Path):
    from explorer.page.server import launch

    patch = pytest.MonkeyPatch()
    patch.setattr(Limits, "from_env", classmethod(lambda cls, public=False: LIMITS if public else cls(1, 1, 1, False)))
    demo = launch(warm=False, public=True, traces=Gallery(recorded), quiet=True)
    yield demo
    demo.close()
    patch.undo()


def test_the_page_says_each_limit_and_keeps_it(visit, public_address):
    screen = visit(at=public_address.local_url, viewport=PHONE, color_scheme="dark")
    said = screen.page.locator("#public")
    for sentence in LIMITS.sentences():
        expect(said).to_contain_text(sentence)
    screen.sheet()
    screen.prompt("x" * 501)
    screen.press("Run")
    screen.says("at most 500 are taken here")
    assert public_address._queue.max_size == 3
    assert public_address.share is False and public_address.share_url is None
    said = json.loads(desk(limits=LIMITS).take_in("x" * 50_001, visitor())[1])
    assert "at most 50,000 are taken here" in said["text"]


class Spaces(types.ModuleType):
    """Stands for the package `spaces`: what goes to the function and what it yields is pickled, and its duration is
    noted."""

    def __init__(self) -> None:
        super().__init__("spaces")
        self.asked: list[int] = []

    def GPU(self, duration: int):
        def decorate(function):
            def call(*arguments):
                self.asked.append(duration)
                for item in function(*pickle.loads(pickle.dumps(arguments))):
                    yield pickle.loads(pickle.dumps(item))

            return call

        return decorate


@pytest.fixture
def on_zerogpu(monkeypatch):
    spaces = Spaces()
    monkeypatch.setitem(sys.modules, "spaces", spaces)
    monkeypatch.setattr(starting, "lent", lambda: True)
    starting.decorated.cache_clear()
    yield spaces
    starting.decorated.cache_clear()


def causal() -> Form:
    return Form(methods_of("causal")[0], first_model("causal"), {"max_new_tokens": 12})


def test_a_run_that_was_pickled_is_the_run(on_zerogpu):
    feed = Feed(Job(), 0, "title")
    batches = [json.loads(text)["batches"][0] for text in feed.messages(causal(), PROMPT, 0, LIMITS)]
    here = engines.run(causal().method, causal().model, PROMPT, params=causal().params)
    assert (feed.trace.output_ids, feed.trace.end.reason) == (here.output_ids, here.end.reason)
    assert [p.id for p in feed.trace.pieces] == [p.id for p in here.pieces]
    ours, theirs = (
        [replace(step, model_seconds=0, method_seconds=0) for step in one.steps] for one in (feed.trace, here)
    )
    assert ours == theirs
    assert batches[-1]["state"] == "done" and on_zerogpu.asked == [LIMITS.seconds + starting.MARGIN]
    engines.read_trace(feed.trace.to_json())


def test_a_stop_and_a_refusal_cross_the_process(on_zerogpu):
    job = Job()
    feed = Feed(job, 0, "title")
    long = Form(causal().method, causal().model, {"max_new_tokens": 96})
    going = feed.messages(long, PROMPT, 0, LIMITS)
    next(going), next(going)
    job.stop.set()
    last = json.loads(list(going)[-1])["batches"][0]
    assert last["state"] == "stopped" and feed.trace.end.reason == "stopped" and feed.trace.steps
    engines.read_trace(feed.trace.to_json())
    refused = Feed(Job(), 0, "title")
    last = json.loads(list(refused.messages(causal(), "sort " * 3000, 0, LIMITS))[-1])["batches"][0]
    assert last["state"] == "failed" and "room for" in last["message"]


FORKED = """
import multiprocessing, pickle, sys, types
def GPU(duration):
    def decorate(function):
        def call(*arguments):
            context = multiprocessing.get_context("fork")
            queue = context.Queue()
            def work():
                for item in function(*arguments):
                    queue.put(pickle.dumps(item))
                queue.put(None)
            process = context.Process(target=work)
            process.start()
            while (item := queue.get(timeout=120)) is not None:
                yield pickle.loads(item)
            process.join()
        return call
    return decorate
sys.modules["spaces"] = types.SimpleNamespace(GPU=GPU)
import engines
from explorer.page import starting
from explorer.page.catalogue import Form
from explorer.page.run_limits import Limits
starting.lent = lambda: True
run = starting.start(Form(sys.argv[1], sys.argv[2], {"max_new_tokens": 6}), sys.argv[3], 0, Limits(1000, 50, 60, True))
steps = sum(1 for _ in run)
print(steps, "torch" in sys.modules, len(run.trace().output_ids))
"""


@pytest.mark.server
@pytest.mark.slow
def test_a_forked_process_runs_the_model_and_this_one_never_loads_it():
    done = subprocess.run(
        [sys.executable, "-c", FORKED, causal().method, causal().model, PROMPT],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps, torch_here, tokens = done.stdout.split()
    assert int(steps) >= 1 and int(tokens) >= 1 and torch_here == "False"
