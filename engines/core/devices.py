"""Where something can be computed, and how much room is there."""

import ctypes
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch

AUTO = "auto"
GIGABYTE = 1e9
GROUP = Path("/sys/fs/cgroup")  # of the container, where this process runs in one


def chosen_device(device: str) -> str:
    """The device that is meant; for `auto` cuda where torch has it, else mps (Apple's), else cpu."""
    if device != AUTO:
        return device
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def loaded_with(own: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A loader's own options with those that were asked for, which win; a device and a map of devices are one place."""
    place = {"device", "device_map"}
    gone = place if place & asked.keys() else set()
    return {**{name: value for name, value in own.items() if name not in gone}, **asked}


def cards() -> list[str]:
    """The graphics cards that torch can use."""
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def free_bytes(device: str) -> int | None:
    """Memory that is free on a device: of a card, of what macOS recommends for Apple's, of the machine or its container
    for the CPU. None where that cannot be told."""
    kind = device.partition(":")[0]
    if kind == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if kind == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    if kind != "cpu":
        return None
    import psutil

    return min(int(psutil.virtual_memory().available), _left_in_group())


def gigabytes(count: float) -> str:
    """Bytes in GB (10^9), few of them in MB."""
    if count < GIGABYTE:
        return f"{count / 1e6:,.3g} MB"
    return f"{count / GIGABYTE:.3g} GB" if count < 99.5 * GIGABYTE else f"{count / GIGABYTE:,.0f} GB"


def give_back() -> None:
    """Give memory that was let go back to the system where the C library keeps it: glibc keeps what the pieces of
    weights took while they were read (853 MB were held for 506 MB of weights that had been widened to float32)."""
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def _left_in_group() -> int:
    """What the container may still take; without a limit, more than any machine has."""
    try:
        most, used = ((GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines()).get("inactive_file", 0)
        return int(most) - int(used) + int(cached)
    except (OSError, ValueError):  # none, another version of cgroups, or `max`
        return 1 << 62
