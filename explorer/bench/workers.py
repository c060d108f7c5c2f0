"""Who does the jobs, such as the cells of a sweep: this process, local processes, or a Ray cluster. What comes out of
them always comes in the order of the jobs."""

import multiprocessing
import os
import queue
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

import engines
from engines import UserError
from explorer.bench.cells import Cell, Outcome, decode

LOOK_EVERY = 0.2  # seconds between two looks at the clock while workers are busy
Stopped = Callable[[], bool]
R = TypeVar("R", covariant=True)
W = TypeVar("W")


class Job(Protocol[R]):
    """Something that takes a loaded model, and can be sent to another process."""

    def work(self, model: Any) -> R:
        """Do it. Raises UserError where it cannot be done."""
        ...


class Task(msgspec.Struct, frozen=True):
    """What a worker has to know: the model with its options, method files, and its threads. own: of each method
    what `engines.method_texts` says."""

    model: str
    options: dict[str, Any]
    own: list[dict[str, str]]
    threads: int


def task(model: str, options: dict[str, Any], threads: int) -> Task:
    """With the method files that are loaded here."""
    files = dict.fromkeys(info.file for info in engines.list_methods() if info.file)
    return Task(model, options, [engines.method_texts(file) for file in files], threads)


def crew(
    here: Callable[[Sequence[Any]], Generator[Any, None, None]],
    model: str,
    options: dict[str, Any],
    number: int,
    threads: int | None,
    ray: str | None,
    stopped: Stopped = lambda: False,
) -> Callable[[Sequence[Any]], Generator[Any, None, None]]:
    """Who does the jobs: this process, as `here` does them, where one worker is enough. model: its name."""
    if number == 1 and not ray:
        if threads:
            import torch

            torch.set_num_threads(threads)
        return here
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    about = task(model, options, threads or max(1, cores // number))  # an equal share of this machine's cores
    if ray:
        return partial(on_ray, about, number, ray, stopped=stopped)
    return partial(in_processes, about, number, stopped=stopped)


class Worker:
    """One model in one process."""

    def __init__(self, about: Task) -> None:
        import torch

        torch.set_num_threads(about.threads)
        for texts in about.own:
            place = Path(tempfile.mkdtemp(prefix="decoding-explorer-"))
            for name, text in texts.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, "utf-8")
            engines.load_method_file(place / next(iter(texts)).split("/")[0], sentences=False)
        self.model = engines.load_model(about.model, **about.options)

    def run(self, job: Job[R]) -> R:
        """Do one job."""
        return job.work(self.model)


def in_turn(model: Any, cells: Sequence[Cell], stopped: Stopped, **options: Any) -> Generator[Outcome, None, None]:
    """Here, one after the other; `stopped` is asked before every step. options: as in `decode`."""
    for cell in cells:
        outcome = None if stopped() else decode(cell, model, stopped=stopped, **options)
        if outcome is None:
            return
        yield outcome


def in_processes(about: Task, workers: int, jobs: Sequence[Job[R]], stopped: Stopped) -> Generator[R, None, None]:
    """In `workers` processes, each with its own model. Closing the generator, or `stopped`, ends them at once. Raises
    UserError if one cannot work."""
    spawn = multiprocessing.get_context("spawn")
    crew: list[tuple[Connection, Any]] = []
    try:
        for _ in range(min(workers, len(jobs))):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(theirs, about), daemon=True)
            process.start()
            theirs.close()
            crew.append((ours, process))
        yield from _in_order(jobs, crew, _done_by, stopped)
    finally:
        for pipe, process in crew:
            process.terminate()
            process.join()
            pipe.close()


def _in_order(
    jobs: Sequence[Job[R]], workers: Sequence[W], ask: Callable[[W, Job[R]], R], stopped: Stopped
) -> Generator[R, None, None]:
    """What comes of the jobs, in their order. ask: waits for what a worker makes of a job; a thread of its own does
    that for each worker."""
    idle = queue.SimpleQueue[W]()
    for worker in workers:
        idle.put(worker)

    def work(job: Job[R]) -> R:
        worker = idle.get()
        try:
            return ask(worker, job)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(max(1, len(workers)))
    try:
        for future in [threads.submit(work, job) for job in jobs]:
            while not wait([future], LOOK_EVERY).done:
                if stopped():
                    return
            if stopped():
                return
            yield future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _done_by(worker: tuple[Connection, Any], job: Job[R]) -> Any:
    pipe, process = worker
    with suppress(BrokenPipeError):  # what it said before it ended is in the pipe
        pipe.send(job)
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        process.join(1)
        raise UserError(
            f"a worker ended with exit status {process.exitcode}; perhaps memory was short. Try fewer with --workers."
        ) from None
    if isinstance(answer, str):
        raise UserError(answer)
    return answer


def _serve(pipe: Connection, about: Task) -> None:
    """A worker process: a job in, what comes of it out, until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    try:
        worker = Worker(about)
        while True:
            pipe.send(worker.run(pipe.recv()))
    except EOFError:
        return
    except UserError as error:
        pipe.send(str(error))
    except Exception as error:
        pipe.send(f"a worker failed: {type(error).__name__}: {error}")


def on_ray(
    about: Task, workers: int, address: str, jobs: Sequence[Job[R]], stopped: Stopped
) -> Generator[R, None, None]:
    """On a Ray cluster, an actor per worker; address: 'local' starts one here, else as `ray.init` takes it. The program
    must be installed on its nodes.

    Raises UserError where Ray is not installed or cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise UserError(
            '--ray needs the package ray, which is not installed; pip install "decoding-explorer[ray]", or use '
            "--workers."
        ) from None
    _answers(address)
    try:
        ray.init(
            address=None if address == "local" else address,
            log_to_driver=False,
            include_dashboard=False if address == "local" else None,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster answers at '{address}': {error}; give its address, or local.") from None
    try:
        make = ray.remote(Worker).options(num_cpus=about.threads)
        actors = [make.remote(about) for _ in range(min(workers, len(jobs)))]
        yield from _in_order(jobs, actors, lambda actor, job: ray.get(actor.run.remote(job)), stopped)
    except ray.exceptions.RayError as error:
        if isinstance(error, UserError):  # of a job, on one of the nodes
            raise UserError(str(error.cause)) from None  # type: ignore[attr-defined]
        raise UserError(f"the Ray cluster gave up: {str(error).strip().splitlines()[-1][:300]}.") from None
    finally:
        ray.shutdown()


def _answers(address: str) -> None:
    """Raises UserError where nobody listens at host:port; Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^/:]+):(\d{1,5})", address)
    if place is None:
        return  # local, auto
    try:
        socket.create_connection((place[1], int(place[2])), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"no Ray cluster answers at '{address}': {error}; give the address of one that runs, or local."
        ) from None


def until(seconds: float | None) -> Stopped:
    """True once that many seconds have passed from now; never for None."""
    end = None if seconds is None else time.monotonic() + seconds
    return lambda: end is not None and time.monotonic() > end
