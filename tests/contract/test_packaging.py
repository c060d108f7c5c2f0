"""The distribution: one list of dependencies in three files that agree, a command that exists, and a wheel that carries
what the code reads."""

import importlib
import itertools
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
    found: dict[str, str] = {}
    for line in lines:
        if not line or line.startswith(("#", "--extra-index-url")):
            continue
        match = PIN.fullmatch(line)
        assert match, f"{file}: '{line}' is not an exact pin (a build tag such as +cpu would tie it to one index)"
        assert normal(match[1]) not in found, f"{file}: {match[1]} stands twice"
        found[normal(match[1])] = match[2]
    return found


def requirements(listed: list[str]) -> dict[str, str]:
    """name -> specifier"""
    return {normal(one.name): str(one.specifier) for one in map(Requirement, listed)}


def test_constraints_pin_every_direct_dependency_within_its_range():
    constraints, extras = pins("constraints.txt"), PROJECT["optional-dependencies"].values()
    for name, allowed in requirements([*PROJECT["dependencies"], *itertools.chain(*extras)]).items():
        assert name in constraints, f"constraints.txt lacks {name}"
        assert SpecifierSet(allowed).contains(constraints[name]), f"{name} is outside {allowed}"


def test_constraints_pin_what_those_need():
    """Every dependency of every pinned and installed package is pinned as well (markers evaluated for this Python)."""
    constraints, missing = pins("constraints.txt"), set()
    for name in constraints:
        try:
            wanted = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:
            continue
        needed = [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
        missing |= {f"{one} (for {name})" for one in needed if normal(one) not in constraints}
    cuda = re.compile(r"(nvidia|cuda|triton)")  # torch from PyPI pins these itself
    assert not [m for m in missing if not cuda.match(m)]


def test_the_space_installs_what_pyproject_asks_for():
    constraints = pins("constraints.txt")
    assert pins("requirements.txt") == {name: constraints[name] for name in requirements(PROJECT["dependencies"])}
    version = re.search(r"^sdk_version:\s*\"?([0-9.]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert version and version[1] == constraints["gradio"]
    module, _, name = PROJECT["scripts"]["decoding-explorer"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_hashed_constraints_hold_the_same_versions_and_a_hash_of_each():
    """For hosts that install nothing else; `.ci/hashes` makes the file."""
    entries = re.findall(
        r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        (ROOT / "constraints-hashed.txt").read_text("utf-8"),
        re.MULTILINE,
    )
    assert {normal(name): version for name, version, _ in entries} == pins("constraints.txt")
    assert subprocess.run([ROOT / ".ci" / "hashes", "--check"], check=False).returncode == 0


def test_a_wheel_carries_methods_page_and_assets(tmp_path: Path):
    """Built from a copy (weights left out, they would only take time); each file that the code reads at run time must
    be inside."""
    copy, folders = tmp_path / "tree", ("engines", "explorer", "assets")
    leave = shutil.ignore_patterns("__pycache__", "*.safetensors", "checkpoint.pt")
    for part in folders:
        shutil.copytree(ROOT / part, copy / part, ignore=leave)
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, copy / part)
    weights = copy / "assets" / "models" / "some-model" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    command = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--quiet"]
    built = subprocess.run(
        [*command, "-w", str(tmp_path)], cwd=copy, capture_output=True, text=True, timeout=240, check=False
    )
    assert built.returncode == 0, built.stderr[-2000:]
    inside = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    files = [path.relative_to(copy) for part in folders for path in (copy / part).rglob("*") if path.is_file()]
    expected = {path.as_posix() for path in files}
    training = {name for name in expected if name.startswith("engines/training/")}
    assert training and not training & inside, "what makes the models stays in the repository"
    assert not sorted(expected - training - inside)
    assert not [name for name in inside if name.split("/")[0] not in folders and ".dist-info/" not in name]
