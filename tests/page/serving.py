"""What the measurements of this folder share: a page in a process of its own, the numbers of its handlers, and
memory."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def process(serve: Callable[..., None], *given: Any) -> Iterator[tuple[Any, int]]:
    """`serve(pipe, *given)` in a process of its own, which ends with this: our end of the pipe, and its number."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs, *given), daemon=True)
    server.start()
    theirs.close()  # so that a server that ends is an EOFError here and no wait without an end
    try:
        yield ours, server.pid or 0
    finally:
        server.kill()
        server.join(10)


def answering(pipe: Any, first: Any, **answers: Callable[[], Any]) -> None:
    """Sends the first message, then what is asked for by its name, until whoever asks has gone."""
    pipe.send(first)
    try:
        while True:
            pipe.send(answers[pipe.recv()]())
    except EOFError:
        os._exit(0)


def ask(pipe: Any, what: str) -> Any:
    pipe.send(what)
    return pipe.recv()


def numbers_of(demo: Any) -> dict[str, list[int]]:
    """Those of a page's handlers by their qualified names."""
    numbers: dict[str, list[int]] = {}
    for number, fn in demo.fns.items():
        numbers.setdefault(getattr(fn.fn, "__qualname__", ""), []).append(number)
    return numbers


def resident(pid: int | str = "self", what: str = "VmRSS") -> float:
    """Megabytes of a process in memory; VmHWM: at most, so far."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith(what)).split()[1]) / 1024
