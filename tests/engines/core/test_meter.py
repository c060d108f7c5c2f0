"""The meter under two threads: every call is booked, none is lost."""

import threading
import time

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
    assert abs(meter.seconds - sum(ended - began for _, began, ended, _ in meter.calls)) < 1e-9


def test_overlapping_calls_count_each_for_itself():
    """Two calls that wait for each other overlap; the sum of their seconds is longer than the time that passed."""
    meter, both = Meter(), threading.Barrier(2, timeout=10)
    threads = [threading.Thread(target=meter.call, args=(role, "cpu", 1, lambda: (both.wait(), time.sleep(0.02)))) for role in ("draft", "target")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (_, a, b, _), (_, c, d, _) = meter.calls
    assert max(a, c) < min(b, d) and meter.seconds > max(b, d) - min(a, c)
    assert meter.forwards == {"draft": 1, "target": 1}


def test_a_reset_keeps_what_lives_as_long_as_the_run():
    meter = Meter(forbidden={3: {1}})
    meter.call("target", "cpu", 2, lambda: None)
    meter.reset()
    assert (meter.forwards, meter.tokens_fed, meter.seconds, meter.calls, meter.forbidden) == ({}, 0, 0.0, [], {3: {1}})
