"""A file's first use on a machine, in a process of its own: llama.cpp ends the whole process where it meets what it
does not expect, a damaged tensor or an instruction that the processor lacks. What is measured there (`bits`) is kept.

`python -m engines.models.gguf.trial FILE LAYERS THREADS` writes it as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from engines.core.errors import UserError
from engines.core.machine import processor
from engines.core.places import keep, kept
from engines.models.gguf.header import GGUFHeader, read_header
from engines.models.gguf.library import installed_version

ROOT = Path(__file__).resolve().parents[3]  # where `engines` lies
COMMAND = (sys.executable, "-m", "engines.models.gguf.trial")
PATIENCE = 600.0  # seconds: a large file is read whole
KEPT = "gguf-trials.json"


def tried(header: GGUFHeader, digest: str, layers: int, threads: int) -> float | None:
    """By how much a row's logits moved with rows beside it (`bits.same_bits`); None for a masked model, whose boards
    are fed whole. Measured once for a file, a version of llama.cpp, a number of threads and a processor. Raises
    UserError where the file cannot be used."""
    key = f"{digest} {installed_version()} {layers} {threads} {processor()}"
    held = kept(KEPT)
    moved = held.get(key, "")
    if not (moved is None or (isinstance(moved, (int, float)) and moved >= 0)):
        moved = _try(header, layers, threads)
        keep(KEPT, {**held, key: moved})
    return moved


def _try(header: GGUFHeader, layers: int, threads: int) -> float | None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        run = subprocess.run(
            [*COMMAND, str(header.path), str(layers), str(threads)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": path},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"llama.cpp did not read '{header.path.name}' within {PATIENCE:g} seconds; take a smaller file."
        ) from None
    lines = run.stdout.decode("utf-8", "replace").splitlines()
    if run.returncode == 0 and lines:
        told: dict[str, Any] = json.loads(lines[-1])
        if "error" in told:
            raise UserError(str(told["error"]))
        return told["moved"]  # type: ignore[no-any-return]
    last = (run.stderr.decode("utf-8", "replace").strip().splitlines() or ["without a word"])[-1]
    raise UserError(
        f"llama.cpp ends its process on '{header.path.name}' (status {run.returncode}: {last[:200]}); the file may be "
        "damaged, or llama.cpp was built for what this processor does not grant: download the file again, or build "
        "llama.cpp with `CMAKE_ARGS=-DGGML_NATIVE=OFF pip install --force-reinstall --no-cache-dir --no-deps "
        "llama-cpp-python`."
    )


def main(path: str, layers: int, threads: int) -> None:
    """Load a file and use it; the last line of the output is what `tried` reads."""
    import torch

    from engines.models.bits import same_bits
    from engines.models.gguf.opening import opened

    torch.set_num_threads(threads)
    try:
        header = read_header(Path(path))
        mask = {} if header.causal or header.mask_id is not None else {"mask_id": 0}  # it matters to no forward
        model: Any = opened(header, header.path.name, layers, **mask)
        found = same_bits(model)[1] if model.record.kind == "causal" else model.warm_up() and None
        print(json.dumps({"moved": found}))
    except UserError as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
