"""Freed memory goes back to the system: in a process of its own, whose memory is all its own."""

import subprocess
import sys

import pytest

from explorer.page import allocator

MEGABYTES = 128
PROGRAM = f"""
import sys, threading, time
from explorer.page import allocator
allocator.EVERY, allocator.WORKED = 0.05, 0.0  # a busy machine gives little of a processor

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def fill():  # a large upload, of which one small piece in a thousand stays
    held = [bytes(2000) for _ in range({MEGABYTES} * 500)]
    kept.append(held[::1000])

kept = []
if "watch" in sys.argv:
    allocator.watch()
before = resident()
for _ in range(4):
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
least = resident()
for _ in range(1000 if "watch" in sys.argv else 20):
    if least - before < {MEGABYTES} / 4:
        break
    time.sleep(0.05)
    least = min(least, resident())
print(int(least - before), sum(t.name == "allocator" for t in threading.enumerate()))
"""


def grown(*options: str) -> list[int]:
    """MB beyond the beginning, the least of some time after four uploads, and threads that give back."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, *options], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return [int(word) for word in run.stdout.split()]


@pytest.mark.server
@pytest.mark.skipif(allocator._glibc() is None, reason="another C library")
def test_freed_memory_goes_back():
    left, watching = grown("watch")
    assert watching == 1 and left < MEGABYTES / 4
    left, watching = grown()
    assert watching == 0 and left > MEGABYTES / 4, "the C library gives it back by itself; then this can go"


def test_a_page_gives_back_and_another_c_library_is_left_alone(monkeypatch, address):
    assert allocator._watching.is_set() or allocator._glibc() is None
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert allocator._glibc() is None
    allocator.watch()
