"""The meter under two threads: every call is booked, none is lost."""

import threading
import time

import pytest

from engines.core.models import Meter


class Slow(dict):
    """A table that lets the other thread in between reading a count and writing it back."""

    def get(self, key, default=None):
        found = super().get(key, default)
        time.sleep(0.001)
        return found


def test_calls_from_two_threads_are_all_booked():
    meter = Meter(forwards=Slow())
    both = threading.Barrier(2)

    def work():
        both.wait()
        for _ in range(20):
            meter.call("target", "cpu", 3, lambda: time.sleep(0.0005))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.forwards == {"target": 40} and meter.tokens_fed == 120 and len(meter.calls) == 40
    assert abs(meter.seconds - covered(meter)) < 1e-9 < meter.seconds


def covered(meter):
    """Seconds in which any call ran."""
    until = total = 0.0
    for _, began, ended, _ in sorted(meter.calls, key=lambda call: call[1]):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def test_what_two_calls_share_counts_once():
    """Two calls that wait for each other overlap; each is booked whole, and the seconds are the time that passed."""
    meter, both = Meter(), threading.Barrier(2, timeout=10)
    threads = [threading.Thread(target=meter.call, args=(role, "cpu", 1, lambda: (both.wait(), time.sleep(0.02)))) for role in ("draft", "target")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (_, a, b, _), (_, c, d, _) = meter.calls
    assert max(a, c) < min(b, d) and abs(meter.seconds - (max(b, d) - min(a, c))) < 1e-9
    assert meter.forwards == {"draft": 1, "target": 1}


def test_a_call_inside_a_longer_one_and_one_that_fails():
    meter, begun, end = Meter(), threading.Event(), threading.Event()
    outer = threading.Thread(target=meter.call, args=("target", "cpu", 1, lambda: (begun.set(), end.wait(10))))
    outer.start()
    begun.wait(10)
    meter.call("draft", "cpu", 1, lambda: time.sleep(0.005))
    assert meter.seconds == 0.0, "the longer call still runs"
    end.set()
    outer.join()
    with pytest.raises(ValueError, match="no weights"):
        meter.call("draft", "cpu", 1, lambda: (_ for _ in ()).throw(ValueError("no weights")))
    before = meter.seconds
    meter.call("draft", "cpu", 1, lambda: time.sleep(0.002))
    assert before >= 0.005 and meter.seconds >= before + 0.002 and len(meter.calls) == 3


def test_a_reset_keeps_what_lives_as_long_as_the_run():
    meter = Meter(forbidden={3: {1}})
    meter.call("target", "cpu", 2, lambda: None)
    meter.reset()
    assert (meter.forwards, meter.tokens_fed, meter.seconds, meter.calls, meter.forbidden) == ({}, 0, 0.0, [], {3: {1}})
