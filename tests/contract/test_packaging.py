"""The distribution: one list of dependencies in three files that agree, a command that exists, and a wheel that carries
what the code reads."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

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
    return {normal(re.match(r"[A-Za-z0-9._-]+", one)[0]): re.sub(r"^[A-Za-z0-9._-]+", "", one) for one in listed}


def everything_asked_for() -> dict[str, str]:
    return requirements(
        [*PROJECT["dependencies"], *(d for extra in PROJECT["optional-dependencies"].values() for d in extra)]
    )


def test_constraints_pin_every_direct_dependency_within_its_range():
    packaging = pytest.importorskip("packaging.specifiers")
    constraints = pins("constraints.txt")
    for name, allowed in everything_asked_for().items():
        assert name in constraints, f"constraints.txt lacks {name}"
        assert packaging.SpecifierSet(allowed).contains(constraints[name]), (
            f"{name}=={constraints[name]} is outside {allowed}"
        )


def test_constraints_pin_what_those_need():
    """Every dependency of every pinned and installed package is pinned as well (markers evaluated for this Python)."""
    from importlib import metadata

    from packaging.requirements import Requirement

    constraints = pins("constraints.txt")
    missing = set()
    for name in constraints:
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for one in map(Requirement, wanted):
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                missing |= {f"{one.name} (for {name})"} - {
                    f"{one.name} (for {name})" if normal(one.name) in constraints else ""
                }
    cuda = re.compile(r"(nvidia|cuda|triton)")  # torch from PyPI pins these itself
    assert not [m for m in missing if not cuda.match(m)]


def test_the_space_installs_what_pyproject_asks_for():
    constraints = pins("constraints.txt")
    assert pins("requirements.txt") == {name: constraints[name] for name in requirements(PROJECT["dependencies"])}


def test_the_hashed_constraints_hold_the_same_versions_and_a_hash_of_each():
    """For hosts that install nothing else; `.ci/hashes` makes the file."""
    entries = re.findall(
        r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        (ROOT / "constraints-hashed.txt").read_text("utf-8"),
        re.MULTILINE,
    )
    assert {normal(name): version for name, version, _ in entries} == pins("constraints.txt")
    assert subprocess.run([ROOT / ".ci" / "hashes", "--check"], check=False).returncode == 0


def test_the_space_card_names_the_same_gradio():
    card = (ROOT / "README.md").read_text()
    version = re.search(r"^sdk_version:\s*\"?([0-9.]+)", card, re.MULTILINE)
    assert version, "README.md has no sdk_version in its front matter"
    assert version[1] == pins("constraints.txt")["gradio"]


def test_the_command_exists():
    module, _, name = PROJECT["scripts"]["decoding-explorer"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_licence_is_complete():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0" in text and "END OF TERMS AND CONDITIONS" in text


def test_a_wheel_carries_methods_page_and_assets(tmp_path: Path):
    """Built from a copy (weights left out, they would only take time); each file that the code reads at run time must
    be inside."""
    copy = tmp_path / "tree"
    for part in ("engines", "explorer", "assets"):
        shutil.copytree(
            ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors", "checkpoint.pt")
        )
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, copy / part)
    weights = copy / "assets" / "models" / "some-model" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            ".",
            "--no-deps",
            "--no-build-isolation",
            "--quiet",
            "-w",
            str(tmp_path),
        ],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    inside = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    expected = {
        p.relative_to(copy).as_posix()
        for p in copy.rglob("*")
        if p.is_file() and p.relative_to(copy).parts[0] in ("engines", "explorer", "assets")
    }
    training = {name for name in expected if name.startswith("engines/training/")}
    assert training and not training & inside, "what makes the models stays in the repository"
    assert not sorted(expected - training - inside)
    assert not [
        name
        for name in inside
        if name.split("/")[0] not in ("engines", "explorer", "assets") and ".dist-info/" not in name
    ]
