"""What a machine is called: by its processor's own name where the system knows one."""

import os
import platform
import subprocess
from types import SimpleNamespace

import pytest
import torch

from engines.core import machine as named


@pytest.fixture(autouse=True)
def afresh():
    named.processor.cache_clear()
    yield
    named.processor.cache_clear()


def test_linux_tells_the_model_name(tmp_path, monkeypatch):
    monkeypatch.setattr(named, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: AMD  EPYC 9V74\t80-Core\nmodel name : another\n")
    assert named.processor() == f"AMD EPYC 9V74 80-Core ({platform.machine()})"
    assert (
        named.machine() == f"AMD EPYC 9V74 80-Core ({platform.machine()}), {os.cpu_count()} cores, {platform.system()}"
    )


def test_without_a_name_the_kind_stands_alone(tmp_path, monkeypatch):
    """Many ARM boards list features only; some systems know no processor at all."""
    monkeypatch.setattr(named, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor : 0\nFeatures : fp asimd\n")
    for told in ("", platform.machine()):
        named.processor.cache_clear()
        monkeypatch.setattr(platform, "processor", lambda told=told: told)
        assert named.processor() == platform.machine()


def test_a_mac_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(named, "CPUINFO", tmp_path / "none")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="Apple M9\n"))
    assert named.processor() == f"Apple M9 ({platform.machine()})"


def test_gpus_come_first_and_once(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device[5:]}")
    assert named.machine(["cuda:1", "cpu", "cuda:0", "cuda:1"]).startswith("GPU 0, GPU 1, ")
    assert named.trained_on("cuda:1").startswith("GPU 1, cuda:1, ")
    assert (
        named.trained_on() == f"{named.processor()}, cpu, {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
