"""The cells of a sweep: one run of one setting on one prompt, its outcome, and the place where finished ones are kept.

A cell is found again by a hash of all that decides it: method, parameters, weights, prompt, seed, code and libraries.
So a sweep that was stopped goes on where it was, and one with another grid runs only what is new. The number of threads
is not part of it; it can only change how sums are rounded."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, product
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

import engines
from engines import Trace, UserError
from engines.tasks import TASKS, Example, check
from explorer.bench.quality import SEED, Setting, canvas, fitted

KEPT = 50_000  # finished cells; beyond that the oldest tenth is forgotten
IN_MEMORY = 4_000
T = TypeVar("T")


class Cell(msgspec.Struct, frozen=True):
    """Everything that it takes to run it again. setting: its place in the plan; number: of the task's held-out prompts;
    answer: a right one."""

    setting: int
    method: str
    params: dict[str, Any]
    task: str
    number: int
    prompt: str
    answer: str
    seed: int

    def again(self, model: Any, **options: Any) -> Trace:
        """Run it with everything recorded. Raises UserError."""
        return engines.run(self.method, model, self.prompt, params=self.params, seed=self.seed, **options)

    def work(self, model: Any) -> Outcome:
        """Decode and mark it."""
        outcome = decode(self, model)
        assert outcome is not None  # nothing stops it here
        return outcome


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came out: marked exactly, counted, and how long it took. wrong: index of the first wrong word. refused: why
    it could not run."""

    right: bool
    forwards: int
    fed: int
    tokens: int
    seconds: float
    text: str = ""
    wrong: int | None = None
    refused: str = ""


def cells(settings: Sequence[Setting], tasks: Sequence[str], prompts: int, seed: int, model: Any) -> list[Cell]:
    """All runs, prompt by prompt and not setting by setting: a sweep that is cut off has run all settings on the same
    prompts."""
    infos = [engines.get_method(setting.method).info for setting in settings]
    asked = {task: list(islice(TASKS[task].generate("held-out", SEED), prompts)) for task in tasks}
    every = list[Cell]()
    for number, task in product(range(prompts), tasks):
        example = asked[task][number]
        for i, (setting, info) in enumerate(zip(settings, infos, strict=True)):
            params = fitted(info, canvas(task, model)) | setting.params
            every.append(Cell(i, setting.method, params, task, number, example.prompt, example.answer, seed))
    return every


def decode(
    cell: Cell,
    model: Any,
    guard: Callable[[], AbstractContextManager[Any]] = nullcontext,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome | None:
    """Run a cell; None if it was stopped. guard: entered around every step. stopped: asked before every step."""
    began = time.perf_counter()
    try:
        with guard():
            run = engines.stream(cell.method, model, cell.prompt, params=cell.params, seed=cell.seed, detail="none")
        try:
            while not stopped():
                with guard():
                    step = next(run, None)
                if step is None:
                    return _outcome(cell, run.trace(), time.perf_counter() - began)
            return None
        finally:
            run.close()
    except UserError as error:
        return Outcome(False, 0, 0, 0, time.perf_counter() - began, refused=str(error))


def _outcome(cell: Cell, trace: Trace, seconds: float) -> Outcome:
    verdict = check(Example(cell.task, cell.prompt, cell.answer), trace.text)
    forwards, fed, tokens = trace.totals.forwards, trace.totals.tokens_fed, trace.totals.tokens
    return Outcome(verdict.correct, forwards, fed, tokens, seconds, trace.text[:2000], verdict.first_wrong)


def keys(sweep_cells: Sequence[Cell], model: Any) -> list[str | None]:
    """The hash of each cell; None where the weights cannot be told apart from others, so that nothing may be reused."""
    records = {method: weights_of(method, model) for method in dict.fromkeys(cell.method for cell in sweep_cells)}
    return [_key(cell, records[cell.method]) for cell in sweep_cells]


def weights_of(method: str, model: Any) -> list[Any] | None:
    """What tells the weights of all models of a method from others; None where that cannot be told. model: as
    `engines.run` takes it."""
    info = engines.get_method(method).info
    try:
        loaded = engines.assign_roles(info, model)
        drafter = getattr(loaded[info.role], "drafter", None)
        records = [loaded_model.record for loaded_model in loaded.values()]
        records += [drafter.record("head", loaded[info.role].record)] if drafter else []
    except UserError:
        return None  # decoding says why
    if any(not (record.sha256 or record.revision or record.parameters == 0) for record in records):
        return None
    return [info.version, *([r.name, r.kind, r.sha256, r.revision, r.dtype, r.device] for r in records)]


def _key(cell: Cell, weights: list[Any] | None) -> str | None:
    if weights is None:
        return None
    asked = [cell.method, sorted(cell.params.items()), cell.task, cell.prompt, cell.seed]
    decides = [engines.code_version(), weights, *asked]
    return hashlib.sha256(msgspec.json.encode(decides)).hexdigest()


# --- keeping them


class Memory:
    """Finished cells of this process, the latest `most` of them: for a host that strangers use."""

    def __init__(self, most: int = IN_MEMORY) -> None:
        self._all: OrderedDict[str, Outcome] = OrderedDict()
        self._most = most

    def get(self, key: str) -> Outcome | None:
        """The outcome of that cell, or None."""
        return self._all.get(key)

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep it; the oldest goes where there are too many."""
        self._all[key] = outcome
        while len(self._all) > self._most:
            self._all.popitem(last=False)


class Files(Generic[T]):
    """Finished work of one kind on disk, a small file each, written whole or not at all. By default in the user's
    cache; EXPLORER_SWEEPS names another place. Several kinds share the folder: their keys must differ."""

    def __init__(self, kind: type[T], folder: Path | None = None, most: int = KEPT) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.folder = folder or Path(os.environ.get("EXPLORER_SWEEPS") or Path(base) / "decoding-explorer" / "sweeps")
        self._kind = kind
        self.folder.mkdir(parents=True, exist_ok=True)
        files = sorted(self.folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)
        for path in files[: len(files) - most * 9 // 10] if len(files) > most else []:
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> T | None:
        """What was kept, or None; a damaged file counts as none."""
        try:
            return msgspec.json.decode(self._path(key).read_bytes(), type=self._kind)
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, key: str, outcome: T) -> None:
        """Keep it."""
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
        try:
            part.write_bytes(msgspec.json.encode(outcome))
            part.replace(path)
        except BaseException:  # a full disk, Ctrl-C: no half of a file stays
            part.unlink(missing_ok=True)
            raise


Kept = Memory | Files[Outcome]  # where finished cells are


class Pace:
    """How long runs took here, by model and method: what an estimate stands on. Kept in `file` where one is given."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        try:
            self._seen: dict[str, tuple[int, float]] = (
                msgspec.json.decode(file.read_bytes(), type=dict[str, tuple[int, float]]) if file else {}
            )
        except (OSError, msgspec.DecodeError):
            self._seen = {}

    def note(self, model: str, method: str, outcome: Outcome) -> None:
        """One more run."""
        if not outcome.refused:
            runs, seconds = self._seen.get(f"{model} {method}", (0, 0.0))
            self._seen[f"{model} {method}"] = (runs + 1, seconds + outcome.seconds)

    def expect(self, model: str, methods: Sequence[str]) -> tuple[float, int] | None:
        """(seconds of one run of each of these, runs that this is known from); a method not seen yet counts as the mean
        of the model's others."""
        seen = {name.partition(" ")[2]: tally for name, tally in self._seen.items() if name.partition(" ")[0] == model}
        runs = sum(n for n, _ in seen.values())
        if not runs:
            return None
        usual = sum(seconds for _, seconds in seen.values()) / runs
        return sum(seen[method][1] / seen[method][0] if method in seen else usual for method in methods), runs

    def save(self) -> None:
        """Write it down."""
        if self._file:
            self._file.write_bytes(msgspec.json.encode(self._seen))
