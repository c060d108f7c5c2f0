"""Whether a model that is being loaded is still wanted: asked when all is checked and nothing of it is in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_watcher: ContextVar[Callable[[], None] | None] = ContextVar("wanted", default=None)


@contextmanager
def before_weights(watcher: Callable[[], None]) -> Iterator[None]:
    """Inside, `watcher` is called before the weights of a model are read. It gives the model up by raising."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def still_wanted() -> None:
    """Called before weights are read. Raises what the watcher raises."""
    if watcher := _watcher.get():
        watcher()
