"""llama.cpp in a process of its own, before it is loaded into this one: it ends the whole process where it meets what
it does not expect, a damaged tensor or an instruction that the processor lacks. There a file is used for the first time
on a machine, and what is measured of it (`bits`) is kept.

`python -m engines.models.gguf.trial [FILE LAYERS THREADS]` writes what it finds as lines of JSON."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.machine import processor
from engines.core.places import keep, kept
from engines.models.gguf import c_interface
from engines.models.gguf.header import GGUFHeader, read_header
from engines.models.gguf.llama_cpp import installed, library, require

ROOT = Path(__file__).resolve().parents[3]  # where `engines` lies
COMMAND = (sys.executable, "-m", "engines.models.gguf.trial")
PATIENCE = 600.0  # seconds: a large file is read whole
KEPT = "gguf-trials.json"
ILLEGAL = (-signal.SIGILL, 0xC000001D)  # as POSIX and Windows tell it
KILLED = -9
ABORTED = re.compile(r"^\S*?([^\s/\\]+\.\w+:\d+: .+)$", re.MULTILINE)  # file:line: words, as ggml_abort writes them
FULL = re.compile(r"bad_alloc|can't allocate memory|MemoryError")
THROWN = re.compile(r"terminate called after throwing an instance of '(.+)'(?:\s+what\(\):\s*(.+))?")


def tried(header: GGUFHeader, digest: str, layers: int, threads: int) -> float | None:
    """By how much a row's logits moved with rows beside it (`bits.same_bits`); None for a masked model, whose boards
    are fed whole. Measured once for a file, a version of llama.cpp, a number of threads and a processor. Raises
    UserError where the file cannot be used."""
    key = f"{digest} {installed()} {layers} {threads} {processor()}"
    held = kept(KEPT)
    moved = held.get(key, "")
    if not (moved is None or (isinstance(moved, (int, float)) and moved >= 0)):
        moved = _asked(header.path, layers, threads)["moved"]
        keep(KEPT, {**held, key: moved})
    return moved


@cache
def llama_cpp() -> tuple[str, bool, str]:
    """What runs GGUF files here: its name with the version, whether it can use a card, and the processor's instructions
    that it uses. Raises UserError where there is none, or none that can be used."""
    require()
    report = _asked()
    return report["name"], report["card"], report["kernels"]


def _asked(file: Path | None = None, *numbers: int) -> dict[str, Any]:
    """All that the process told. Raises UserError with what it told of an error, or with what ended it."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        run = subprocess.run(
            [*COMMAND, *([str(file), *map(str, numbers)] if file else [])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": path, "GGML_NO_BACKTRACE": "1"},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        name = file.name if file else ""
        raise UserError(f"llama.cpp did not read '{name}' within {PATIENCE:g} seconds; take a smaller file.") from None
    report: dict[str, Any] = {}
    for line in run.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("{"):
            report |= json.loads(line)
    if "error" in report:
        raise UserError(str(report["error"]))
    if run.returncode or not report.get("whole"):
        raise _end(run.returncode, run.stderr.decode("utf-8", "replace"), file, report)
    return report


def _end(status: int, log: str, file: Path | None, report: dict[str, Any]) -> UserError:
    """What ended the process, as an error. written: by llama.cpp, to the log."""
    name = report.get("name") or installed()
    when = f"while it read '{file.name}'" if file else "while it was loaded"
    if status in ILLEGAL:
        kernels = report.get("kernels", "–")
        return UserError(
            f"{name} came to an instruction that this processor lacks, {when} (processor: {processor()}; what it uses: "
            f"{kernels}); {c_interface.for_other_processors(name)}."
        )
    thrown, aborted = THROWN.search(log), ABORTED.search(log)
    if status == KILLED or FULL.search(log):
        return UserError(f"the memory of this machine did not suffice for {name}, {when}; take a smaller file.")
    words = aborted[1] if aborted else ": ".join(filter(None, thrown.groups())) if thrown else ""
    if not words:
        last = (log.strip().splitlines() or ["without a word"])[-1]
        words = f"{_signal(status) or f'status {status}'}, {last}"
    return UserError(
        f"{name} ended its process {when} ({words[:300]}); the file may be damaged, or of a kind that this version "
        "does not bear: download it again, or take another file of the model."
    )


def _signal(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return ""


def main(path: str = "", layers: int = 0, threads: int = 1) -> None:
    """Load llama.cpp, and a file if one is given, and use it; the lines of the output are what `_asked` reads."""
    try:
        llama = library()
        kernels = " ".join(re.findall(r"(\w+) = 1", llama.llama_print_system_info().decode()))
        report = {"name": llama.name, "card": llama.llama_supports_gpu_offload(), "kernels": kernels}
        print(json.dumps(report), flush=True)
        print(json.dumps({"moved": _moved(Path(path), layers, threads)} if path else {}))
        print(json.dumps({"whole": True}))
    except UserError as error:
        print(json.dumps({"error": str(error)}))


def _moved(path: Path, layers: int, threads: int) -> float | None:
    import torch

    from engines.models.gguf.adapter import opened
    from engines.models.measures.bits import same_bits

    torch.set_num_threads(threads)
    header = read_header(path)
    mask = {} if header.causal or header.mask_id is not None else {"mask_id": 0}  # it matters to no forward
    model: Any = opened(header, header.path.name, layers, **mask)
    if model.record.kind == "causal":
        model.record.moved = 0  # so that its contexts are steady, as far as the weights let them
        return same_bits(model)[1]
    model.warm_up()
    return None


if __name__ == "__main__":
    file, *numbers = sys.argv[1:] or [""]
    main(file, *map(int, numbers))
