"""llama.cpp's own server on a GGUF file, where the package `xllamacpp` is installed: what it writes greedily, which
goes through none of our code."""

import contextlib
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from engines import Trace, UserError
from explorer.figures.compare import Certificate, answer_ids, of_ids

SERVER = """
import sys, time, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port, given.n_ctx, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
given.n_parallel, given.warmup = 1, False
given.n_ctx_checkpoints = 0  # for them it reads the last tokens of a prompt apart, which moves their bits
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(given)
while sys.stdin.read(1):
    pass
"""
PATIENCE = 120.0  # seconds: until it is up, and for an answer
Ask = Callable[[Sequence[int], int], list[int]]


def available() -> bool:
    """Whether it can be started here. Imports nothing."""
    return importlib.util.find_spec("xllamacpp") is not None


@contextlib.contextmanager
def serving(file: Path, positions: int, threads: int) -> Iterator[Ask]:
    """The server in a process of its own; yields a function that gives the ids of its greedy answer to a prompt of ids,
    with at most so many tokens. positions: of its context. Raises UserError where it does not come up."""
    port = _free_port()
    command = [sys.executable, "-c", SERVER, str(file), str(port), str(positions), str(threads)]
    with subprocess.Popen(  # its standard input ends with this process, and it with that
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(process, address)
            with httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as client:

                def ask(prompt: Sequence[int], most: int) -> list[int]:
                    wish = {"prompt": list(prompt), "n_predict": most, "temperature": 0.0, "return_tokens": True}
                    reply = client.post("/completion", json={**wish, "cache_prompt": False}).raise_for_status().json()
                    return [int(token) for token in reply["tokens"]]

                yield ask
        except httpx.HTTPError as error:
            raise UserError(f"llama.cpp's server gives no answer ({error}); leave it out by --no-server.") from None
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code == httpx.codes.OK:
                return
        time.sleep(0.1)
    raise UserError("llama.cpp's own server did not start; leave it out by --no-server.")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def held_against(ask: Ask, model: Any, control: Trace) -> Certificate:
    """A greedy run on a GGUF file against the server's on the same prompt ids, with the logits of both tokens here
    where they part."""
    answer, ends = ask(control.header.prompt_ids, len(control.output_ids)), set(control.header.eos_ids)
    own = [token for token in answer if token not in ends]
    return of_ids(model, control, answer_ids(control), own, asked=True)
