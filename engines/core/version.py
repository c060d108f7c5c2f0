"""Which code is running: versions of the libraries, and one sum over everything here that decides what a run gives."""

import hashlib
import platform
from functools import lru_cache
from importlib import metadata
from pathlib import Path

ENGINES = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Name -> version of what a run depends on."""
    packages = {}
    for name in ("decoding-explorer", "torch", "transformers", "numpy"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "not installed"
    return {**packages, "python": platform.python_version()}


@lru_cache(maxsize=1)
def code_version() -> str:
    """sha256 over the sources under `engines` (but the scripts that train) and the versions of the libraries."""
    files = sorted(path for path in ENGINES.rglob("*.py") if "training" not in path.relative_to(ENGINES).parts)
    sums = [f"{path.relative_to(ENGINES).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]
    return hashlib.sha256("\n".join([*sums, *map(str, versions().items())]).encode()).hexdigest()
