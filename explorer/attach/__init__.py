"""Watch a running server decode: OpenAI's interfaces, llama.cpp's and SGLang's own, streamed.

    from explorer.attach import attach
    trace = attach("http://127.0.0.1:8000", model="smollm2", prompt="The capital of France is", api="completions")

The trace is one like any other, with what a server does not tell marked as not recorded."""

from contextlib import closing
from typing import Any

from engines import Trace
from explorer.attach.address import KEY_VARIABLE, key_for, read_address
from explorer.attach.session import Attached
from explorer.importers.answers import FORMATS

__all__ = ["FORMATS", "KEY_VARIABLE", "Attached", "attach", "key_for", "read_address"]


def attach(url: str, model: str = "", prompt: str = "", **options: Any) -> Trace:
    """The finished answer of a server. options: as in `Attached`; a key is read from the environment. Raises
    UserError."""
    options.setdefault("key", key_for(read_address(url)))
    with closing(Attached(url, model, prompt, **options)) as run:
        for _ in run:
            pass
    return run.trace()
