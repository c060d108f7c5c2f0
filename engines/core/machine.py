"""The machine in words: its processor's or accelerator's own name, as on others the same code gives other ratios."""

import os
import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from engines.core.lazy import torch

CPUINFO = Path("/proc/cpuinfo")


@cache
def processor() -> str:
    """The processor's name as the system knows it, with the kind of machine: "AMD EPYC (x86_64)"; the kind alone where
    there is none."""
    name, kind = "", platform.machine()
    if CPUINFO.is_file():  # Linux
        name = next(
            (
                line.partition(":")[2]
                for line in CPUINFO.read_text(errors="replace").splitlines()
                if line.startswith("model name")
            ),
            "",
        )
    elif platform.system() == "Darwin":
        asked = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
        name = asked.stdout
    name = " ".join((name or platform.processor()).split())[:80]
    return f"{name} ({kind})" if name and name != kind else kind


def computes_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16, or wide enough ones that torch makes up for them. Without
    (AVX2) its products take 3 to 75 times as long as those in float32, from two rows on."""
    return torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")


def machine(devices: Iterable[str] = ()) -> str:
    """Processor, cores and system, and the name of every GPU among `devices`, as "cuda:0"."""
    gpus = sorted({torch.cuda.get_device_name(device) for device in devices if device.startswith("cuda")})
    return ", ".join([*gpus, processor(), f"{os.cpu_count()} cores", platform.system()])


def trained_on(device: str = "cpu") -> str:
    """For an asset's card: what computed, with how many threads, and torch's version."""
    what = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return f"{what}, {device}, {torch.get_num_threads()} threads, torch {torch.__version__}"
