"""The models that the slots name are loaded when they are chosen, not when Run is pressed.

One thread loads one model at a time, the one chosen last first; what is not named any more is given up before its
weights take memory. It begins only while nothing runs, so that no run's seconds are those of a load beside it. A load
that fails says nothing: the run fails in the same way, and says so. Where a machine is lent for each run nothing is
loaded ahead, and on a public host each model once, so that no visitor makes it load again and again what others use."""

import importlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import engines
from engines import UserError, tasks
from explorer.links import SLOTS
from explorer.page.catalogue import Form
from explorer.page.feed import MODEL_LOCK
from explorer.page.form import read_as
from explorer.page.handlers.desk import Desk
from explorer.page.parts import LAST, fresh, hidden
from explorer.page.starting import lent

HEAVY = ("torch", "transformers")
PROMPT = "sort: Mia, Leo, Ada"  # of a run that is prepared and closed; a model of another task is asked its own example
LOOK = 0.25  # seconds between two looks whether the server is idle
log = logging.getLogger("decoding-explorer")

Pair = tuple[str, str]  # a method and a model


class GivenUp(UserError):
    """Another model was chosen meanwhile."""


class Ahead:
    """Prepares runs on the models that are named, in a thread that ends when there is nothing to do. desk: what is
    offered, and whether something runs."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._lock = threading.Lock()
        self._wanted: list[Pair] = []
        self._thread: threading.Thread | None = None
        self._once: set[str] = set()  # models that a public host has loaded ahead
        self._ready: set[Pair] = set()
        self._failed: set[Pair] = set()
        self._tasks = {model.name: model.tasks for model in desk.catalogue.models}

    def want(self, pairs: Sequence[Pair]) -> list[str]:
        """From now on these are to be ready, the first one first, and nothing else; returns the models of those that
        are not."""
        with self._lock:
            kept = [pair for pair in pairs if pair in self._wanted]
            self._wanted = [pair for pair in pairs if pair in kept or self._may(pair)]
            if self._wanted and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="prefetch", daemon=True)
                self._thread.start()
            models = dict.fromkeys(model for _, model in self._wanted)
        return [model for model in models if not engines.is_loaded(model, self.desk.limits.device)]

    def ask(self, value: Any) -> str:
        """What the page's component gets for the one that it sent: JSON of the slots' forms, that changed last first.
        Anything else may come from anyone, and names nothing."""
        try:
            forms = read_as(list[Form], value, "method and model of each slot")[:SLOTS]
        except UserError:
            forms = []
        pairs = []
        for form in forms:
            try:
                plan = self.desk.catalogue.read_form(form)
            except UserError:  # which Run will say
                continue
            pairs.append((plan.method, plan.model))
        return fresh(loading=self.want(list(dict.fromkeys(pairs))))

    def _may(self, pair: Pair) -> bool:
        """Whether there is something to load that may be loaded unasked: what is on this machine, and on a public host
        what was not loaded ahead before."""
        _, model = pair
        loaded = engines.is_loaded(model, self.desk.limits.device)
        if pair in self._failed or (loaded and pair in self._ready):
            return False
        if self.desk.limits.public:
            return not loaded and model not in self._once
        return all(map(self._is_here, filter(None, engines.target_and_drafter(model))))

    def _is_here(self, name: str) -> bool:
        """Whether a model or drafter can be loaded without a download: one that ships, a file or folder, or one of the
        hub whose config is in its cache."""
        listed = next((model for model in self.desk.catalogue.models if model.name == name), None)
        if listed is not None:
            return bool(listed.where != "download")
        if os.path.exists(os.path.expanduser(name)):
            return True
        try:
            return isinstance(
                importlib.import_module("huggingface_hub").try_to_load_from_cache(name, "config.json"), str
            )
        except ValueError:  # no name of the hub
            return False

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                pair = self._wanted[0]
            self._prepare(pair)
            with self._lock:
                self._wanted = [other for other in self._wanted if other != pair]

    def _prepare(self, pair: Pair) -> None:
        def check(*_: Any) -> None:
            if pair not in self._wanted:
                raise GivenUp("another model was chosen.")

        try:
            while self.desk.sessions.busy:
                check()
                threading.Event().wait(LOOK)
            with MODEL_LOCK:
                for heavy in HEAVY:
                    importlib.import_module(heavy)
                check()
                self._once.add(pair[1])
                self._load(pair, check)
            self._ready.add(pair)
        except GivenUp:
            pass
        except Exception as error:  # the run will fail in the same way, and is what somebody waits for
            self._failed.add(pair)
            log.info("'%s' was not loaded ahead", pair[1], exc_info=not isinstance(error, UserError))

    def _load(self, pair: Pair, check: Callable[..., None]) -> None:
        """A run that is prepared and closed before its first step: its models are loaded and warmed up."""
        known = self._tasks.get(engines.target_and_drafter(pair[1])[0], ())
        prompt = tasks.example_of(known[0]) if known else PROMPT
        with engines.watching_downloads(_no_download), engines.before_weights(check):
            Form(*pair).begin(prompt, 0, self.desk.limits).close()


def _no_download(download: Any) -> None:
    raise UserError(f"{download} is fetched by a run only.")


def section(ahead: Ahead) -> None:
    """Hidden; sends what the slots name whenever that changes, and says in the slots which models are loaded now."""
    box = hidden("prefetch", "mountPrefetch(props, watch, () => trigger('submit'))")
    box.submit(ahead.ask, box, box, **LAST)


def of(desk: Desk) -> Ahead | None:
    """None where a machine is lent for each run."""
    return None if lent() else Ahead(desk)
