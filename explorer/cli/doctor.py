"""The command `doctor`: what of this program works on this machine, each thing tried and not assumed, and what to do
about the rest."""

import argparse
import importlib.util
import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

import msgspec
from packaging.requirements import Requirement

import engines
from engines import ASSETS, UserError
from explorer.cli.io import print_json, print_table
from explorer.cli.options import Command
from explorer.figures.calls import many
from explorer.words import printable

State = Literal["works", "limited", "broken"]
PORTS = range(7860, 7960)  # where the page looks for a free one


class Check(msgspec.Struct, frozen=True):
    """One thing that was tried. `do`: what a person can do about it, "" where nothing is to be done."""

    what: str
    state: State
    found: str
    do: str = ""


def add_arguments(doctor: Command) -> None:
    """Declare the options."""
    doctor.flag("--json", "print JSON")
    doctor.set_defaults(command=doctor_command)


def doctor_command(args: argparse.Namespace) -> int:
    """Try everything; 1 if something is broken."""
    checks = [check for look in CHECKS for check in tried(look)]
    broken = sum(check.state == "broken" for check in checks)
    if args.json:
        return print_json(checks, int(broken > 0))
    print_table(("state", "what", "found"), [(c.state, c.what, printable(c.found)) for c in checks])
    for check in checks:
        if check.do:
            print(f"{check.what}: {printable(check.do)}")
    limited = sum(check.state == "limited" for check in checks)
    print(f"{len(checks) - broken - limited} work, {limited} limited, {broken} broken")
    return int(broken > 0)


def tried(look: Callable[[], Iterator[Check]]) -> list[Check]:
    """The findings of one check; one that fails in a way nobody foresaw is a finding too."""
    try:
        return list(look())
    except UserError as error:
        return [Check(look.__name__, "broken", str(error))]
    except Exception as error:  # the point of the command is to come to its end
        return [Check(look.__name__, "broken", f"{type(error).__name__}: {error}"[:400])]


def python() -> Iterator[Check]:
    """The interpreter and the packages, held against what the installation asks for."""
    yield Check("python", "works", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        asked = metadata.requires("decoding-explorer") or []
    except metadata.PackageNotFoundError:
        do = "run `pip install -c constraints.txt -e .` in the folder that has pyproject.toml"
        yield Check("packages", "broken", "decoding-explorer is not installed in this Python", do)
        return
    wrong = [fault for line in asked if (fault := _unmet(Requirement(line)))]
    do = "run `pip install -c constraints.txt -e .` again" if wrong else ""
    needed = sum(Requirement(line).marker is None for line in asked)
    yield Check("packages", "broken" if wrong else "works", "; ".join(wrong) or f"{needed} as pyproject.toml asks", do)


def _unmet(asked: Requirement) -> str:
    if asked.marker and not asked.marker.evaluate({"extra": ""}):
        return ""
    try:
        version = metadata.version(asked.name)
    except metadata.PackageNotFoundError:
        return f"{asked.name} is missing"
    return "" if asked.specifier.contains(version, prereleases=True) else f"{asked.name} {version} is not {asked}"


def devices() -> Iterator[Check]:
    """What torch computes on."""
    import torch

    yield Check("torch", "works", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(i)
            x = torch.ones(8, 8, device=f"cuda:{i}")
            right = float((x @ x).sum()) == 512
            detail = f"{torch.cuda.get_device_name(i)}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
            yield Check(f"gpu {i}", "works" if right else "broken", detail)
    else:
        built = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch is a CPU build"
        do = "published checkpoints of 7 to 8 B want a GPU; everything that ships runs on the CPU"
        yield Check("gpu", "limited", f"none that torch can use; {built}", do)


def llama_cpp() -> Iterator[Check]:
    """What runs GGUF files."""
    try:
        name, card, kernels = engines.llama_cpp()
    except UserError as error:
        there = engines.llama_cpp_installed()
        detail = f"{there} cannot be used" if there else "no llama.cpp"
        yield Check("GGUF files", "broken" if there else "limited", detail, str(error))
        return
    where = "can use a card" if card else "for the processor alone"
    yield Check("GGUF files", "works", f"llama.cpp by {name}, {where}: {kernels}")


def methods() -> Iterator[Check]:
    """All method files."""
    infos, broken = engines.list_methods(), engines.broken_methods()
    for failure in broken:
        yield Check(
            f"method {failure.module}", "broken", failure.reason, "mend the file, or take it out of engines/methods"
        )
    yield Check("methods", "works", f"{len(infos)} load")


def weights() -> Iterator[Check]:
    """Every listed model: what is on this machine is loaded, which holds its files against their checksums."""
    for model in engines.list_models():
        if model.where == "download":
            do = f"its first run fetches it, or `decoding-explorer models --fetch {model.name}` does now"
            yield Check(f"model {model.name}", "limited", "not on this machine yet", do)
            continue
        start = time.perf_counter()
        try:
            loaded = engines.load_model(model.name)
        except (UserError, OSError) as error:
            where = "assets/models" if model.where == "embedded" else "this model's folder in the cache"
            yield Check(f"model {model.name}", "broken", str(error), f"{where} is damaged: fetch it again")
            continue
        took = 1000 * (time.perf_counter() - start)
        yield Check(f"model {model.name}", "works", f"{loaded.record.kind}, loaded and checked in {took:.0f} ms")


def run() -> Iterator[Check]:
    """A real run of eight tokens on the smallest model that ships."""
    causal = [model for model in engines.list_models() if model.where == "embedded" and model.kind == "causal"]
    model = min(causal, key=lambda candidate: candidate.parameters)
    alone = [info for info in engines.list_methods() if list(info.needs.values()) == ["causal"]]
    method = next(info for info in alone if not info.baseline)  # plain decoding stands against nothing
    trace = engines.run(method.slug, engines.load_model(model.name), "4+8-9*7", params={"max_new_tokens": 8})
    seconds = trace.totals.model_seconds + trace.totals.method_seconds
    yield Check(
        "a run", "works", f"{method.title} on {model.name}: {many(len(trace.steps), 'step')} in {1000 * seconds:.0f} ms"
    )


def recordings() -> Iterator[Check]:
    """The recorded runs, each read whole, and the player's files."""
    from explorer.runs.gallery import read_bytes

    absent = [
        name for name in ("client/player/player.js", "theme.json", "scenarios.json") if not (ASSETS / name).is_file()
    ]
    damaged = []
    paths = sorted((ASSETS / "traces").glob("*.json.gz"))
    for path in paths:
        try:
            engines.read_trace(read_bytes(path))
        except (OSError, engines.TraceError):
            damaged.append(path.name)
    wrong = [*absent, *damaged]
    do = "fetch them again: `git checkout assets`" if wrong or not paths else ""
    detail = f"missing or damaged under {ASSETS}: {', '.join(wrong)}" if wrong else f"{len(paths)} read"
    yield Check("recorded runs", "broken" if do else "works", detail, do)


def store() -> Iterator[Check]:
    """Where runs are kept."""
    from explorer.runs.store import MEGABYTE, RunStore

    try:
        kept = RunStore.from_env()
        assert kept is not None  # only a public host has none
        probe = kept.folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except (UserError, OSError) as error:
        yield Check("store", "broken", str(error), "set EXPLORER_STORE to a folder that can be written")
        return
    free, room = shutil.disk_usage(kept.folder).free / MEGABYTE, kept.limit / MEGABYTE
    tight = free < room
    do = "make room, or set EXPLORER_STORE_MB lower" if tight else ""
    detail = f"{kept.folder}, up to {room:,.0f} MB, {free:,.0f} MB of the disk free"
    yield Check("store", "limited" if tight else "works", detail, do)


def memory() -> Iterator[Check]:
    """What a page that is open for long keeps in memory."""
    from explorer.bench.cells import IN_MEMORY
    from explorer.page.sessions import MAX_SESSIONS, OPENED

    _, most = engines.loaded_bytes()
    detail = f"the two models used last stay loaded, others up to {most / 1e6:,.0f} MB of weights with them"
    pages = f"the traces of {MAX_SESSIONS} pages (opened ones of a public page up to {OPENED / 1e6:,.0f} MB, packed)"
    yield Check("memory", "works", f"{detail}; {pages}; {many(IN_MEMORY, 'cell')} of sweeps on a public page")


def port() -> Iterator[Check]:
    """Where the page would be served."""
    for number in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
        yield Check("port", "works", f"{number} is free")
        return
    do = "give another: `python app.py --port N`"
    yield Check("port", "broken", f"{PORTS.start} to {PORTS.stop - 1} are all taken", do)


def extras() -> Iterator[Check]:
    """What only films and the tests need."""
    film = importlib.util.find_spec("imageio_ffmpeg") is not None
    do = "" if film else "`pip install imageio-ffmpeg`; GIF, SVG and PNG need nothing"
    yield Check("films as MP4", "works" if film else "limited", "imageio-ffmpeg" if film else "no imageio-ffmpeg", do)
    browser = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    do = "" if browser.exists() else "only the tests need it: `apt-get install chromium`, or name one in CHROMIUM"
    yield Check("chromium for the tests", "works" if browser.exists() else "limited", str(browser), do)


CHECKS = (python, devices, llama_cpp, methods, weights, run, recordings, store, memory, port, extras)
