"""A model is loaded when it is chosen: once, the one chosen last, and a run that comes meanwhile waits for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engines
from engines import UserError
from engines.models.loading import zoo
from explorer.page import prefetch, starting
from explorer.page.catalogue import Form
from explorer.page.prefetch import Ahead, Pair
from explorer.page.run_limits import Limits
from tests.page.conftest import desk, first_model, methods_of

METHOD, MODEL = methods_of("causal")[0], first_model("causal")
OTHER_METHOD, OTHER = methods_of("masked")[0], first_model("masked")
PAIR, NEXT = (METHOD, MODEL), (OTHER_METHOD, OTHER)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loads]:
    """Nothing is loaded, and what is from now on is noted."""
    made = Loads(zoo._load)
    monkeypatch.setattr(zoo, "_loaded", type(zoo._loaded)())
    monkeypatch.setattr(zoo, "_load", made)
    yield made
    made.go.set()


class Loads:
    """The loader, which notes the names and waits until it may go on."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real, self.names, self.begun, self.go = real, list[str](), threading.Event(), threading.Event()

    def __call__(self, name: str, **options: Any) -> Any:
        self.names.append(name)
        self.begun.set()
        assert self.go.wait(60)
        return self.real(name, **options)


def asked(loader: Ahead, *pairs: Pair) -> list[str]:
    """What a page that names these is told is loading."""
    value = json.dumps([{"method": method, "model": model} for method, model in pairs])
    told: list[str] = json.loads(loader.ask(value))["loading"]
    return told


def finished(loader: Ahead) -> None:
    if thread := loader._thread:
        thread.join(60)
        assert not thread.is_alive()


def test_a_chosen_model_is_loaded_once_and_a_run_waits_for_it(loads: Loads) -> None:
    loader = Ahead(desk())
    assert asked(loader, PAIR) == [MODEL]
    assert loads.begun.wait(60)
    runs: list[Any] = []
    run = threading.Thread(target=lambda: runs.append(Form(METHOD, MODEL, {}).begin("hello", 0, loader.desk.limits)))
    run.start()
    assert asked(loader, PAIR) == [MODEL], "it is being loaded, and is not loaded again for being named again"
    loads.go.set()
    run.join(60)
    finished(loader)
    assert loads.names.count(MODEL) == 1 and len(runs) == 1
    runs[0].close()
    assert asked(loader, PAIR) == [] and loader._thread is None
    assert engines.load_model(MODEL).warm_up() == 0.0, "its first calls are made, too"


def test_the_model_that_was_chosen_last_wins_and_what_was_left_takes_no_memory(loads: Loads) -> None:
    loader = Ahead(desk())
    asked(loader, PAIR)
    assert loads.begun.wait(60)
    assert asked(loader, NEXT) == [OTHER]
    loads.go.set()
    finished(loader)
    assert engines.is_loaded(OTHER) and not engines.is_loaded(MODEL)


def test_a_model_in_memory_is_given_out_while_another_one_is_loaded(loads: Loads) -> None:
    loads.go.set()
    known = engines.load_model(OTHER)
    loads.go.clear()
    loads.begun.clear()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(engines.load_model, MODEL)
        assert loads.begun.wait(60)
        assert pool.submit(engines.load_model, OTHER).result(60) is known
        loads.go.set()
        waiting.result(60)


def test_nothing_is_loaded_while_something_runs(loads: Loads) -> None:
    loads.go.set()
    loader = Ahead(desk())
    job = loader.desk.sessions.of("visitor").begin()
    assert asked(loader, PAIR) == [MODEL]
    assert not loads.begun.wait(3 * prefetch.LOOK)
    job.finished.set()
    finished(loader)
    assert loads.names == [MODEL]


def test_a_public_host_loads_each_model_ahead_once(loads: Loads) -> None:
    loads.go.set()
    loader = Ahead(desk(public=True))
    asked(loader, PAIR)
    finished(loader)
    zoo._loaded.clear()
    assert asked(loader, PAIR) == [] and loads.names == [MODEL]


@pytest.mark.parametrize("public", [False, True])
def test_only_what_is_on_this_machine_and_offered_is_loaded(public: bool, loads: Loads, tmp_path: Path) -> None:
    loader = Ahead(desk(public=public))
    far = [(METHOD, "somebody/model"), (METHOD, str(tmp_path / "none")), ("none", MODEL), (OTHER_METHOD, MODEL)]
    assert asked(loader, *far) == []
    fetched = tuple(replace(model, where="download") for model in loader.desk.catalogue.models)
    if not public:
        loader.desk.catalogue = replace(loader.desk.catalogue, models=fetched)
        assert asked(loader, PAIR) == []
    for value in (None, 7, "{", "[1]", "[" * 9000, '[{"method": 1}]'):
        assert json.loads(loader.ask(value))["loading"] == []
    assert loads.names == []


def test_a_load_that_fails_says_nothing_and_the_run_says_why(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(name: str, **options: Any) -> Any:
        assert loads.go.wait(60)
        raise UserError("the weights are damaged.")

    monkeypatch.setattr(zoo, "_load", damaged)
    loader = Ahead(desk())
    assert asked(loader, PAIR) == [MODEL]
    loads.go.set()
    finished(loader)
    assert asked(loader, PAIR) == [] and loader._thread is None
    with pytest.raises(UserError, match="damaged"):
        Form(METHOD, MODEL, {}).begin("hello", 0, loader.desk.limits)


def test_a_lent_machine_loads_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(prefetch.of(desk()), Ahead)
    monkeypatch.setattr(prefetch, "lent", lambda: True)
    assert prefetch.of(desk()) is None


def test_of_a_model_in_memory_no_model_is_looked_up_again_at_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing them reads the cards of all: 34 ms between the click and the header."""
    engines.load_model(MODEL)
    monkeypatch.setattr(zoo, "list_models", lambda: pytest.fail("listed"))
    limits = Limits(1000, 100, 60, False)
    assert starting.needs(Form(METHOD, MODEL, {}), limits) == "" == starting.loading(Form(METHOD, MODEL, {}), limits)


def test_a_page_with_row_invariant_forwards_asks_for_them_where_a_model_can_have_them(monkeypatch):
    monkeypatch.setenv("EXPLORER_ROW_INVARIANT", "1")
    limits = Limits.from_env()
    causal = Form("greedy", "tiny-ar-s", {}).begin("add: 1 + 2", 0, limits).header.models[0]
    masked = Form("threshold", "tiny-dlm", {}).begin("add: 1 + 2", 0, limits).header.models[0]
    assert causal.options == {"row_invariant": True} and masked.options == {}
