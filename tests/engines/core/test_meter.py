"""The meter under two threads: every call is booked, none is lost."""

import threading
import time

import pytest
import torch

from engines.core.kinds import counted
from engines.core.meter import Meter, OverBudget
from engines.models.zoo import load_model


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
    threads = [
        threading.Thread(target=meter.call, args=(role, "cpu", 1, lambda: (both.wait(), time.sleep(0.02))))
        for role in ("draft", "target")
    ]
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


def test_layer_rows_are_booked_by_role_and_part_of_a_forward_is_no_forward():
    meter = Meter()
    meter.call("target", "cpu", 5, lambda: None, layer_rows=15, forward=False)
    meter.call("draft", "cpu", 2, lambda: None, layer_rows=4)
    meter.call("target", "cpu", 0, lambda: None, layer_rows=20, forward=False)
    meter.call("target", "cpu", 0, lambda: None)
    with pytest.raises(ValueError, match="no weights"):
        meter.call("draft", "cpu", 1, lambda: (_ for _ in ()).throw(ValueError("no weights")), layer_rows=9)
    assert meter.work == {"target": 35, "draft": 4} and meter.forwards == {"draft": 1, "target": 1}
    assert meter.tokens_fed == 7 and len(meter.calls) == 4
    meter.reset()
    assert (meter.work, meter.forwards) == ({}, {})


def test_every_kind_of_model_books_its_rows_times_its_layers():
    meter = Meter()
    causal, masked, block, pair, oracle = (
        counted(load_model(name), name, meter)
        for name in ("tiny-ar-s", "tiny-dlm", "tiny-blockdlm", "tiny-encdec", "oracle")
    )
    assert [m.num_layers for m in (causal, masked, block, pair, oracle)] == [3, 6, 6, 3, 0]
    causal.extend([1, 2, 3], causal.new_cache(8), last_only=True)
    masked(torch.full((2, 10), masked.mask_id))  # two boards in one forward
    board, cache = torch.full((10,), masked.mask_id), masked.new_cache(10)
    masked.feed(board, cache, 0, 10)
    masked.feed(board, cache, 4, 7)
    cache, whole = block.new_cache(32), [block.mask_id] * block.block_size
    block.denoise(whole, cache)
    block.denoise(whole[:4], cache, 2)
    block.store(whole, cache)
    memory = pair.encode([5, 6, 7, 8])
    pair.extend([pair.start_id, 9], pair.new_cache(memory, 12))
    oracle(torch.tensor([*oracle.tokenizer.encode_prompt("copy: Mia"), *[oracle.mask_id] * 4]))
    size = block.block_size
    assert meter.work == {
        "tiny-ar-s": 3 * 3,
        "tiny-dlm": (20 + 10 + 3) * 6,
        "tiny-blockdlm": (size + 4 + size) * 6,
        "tiny-encdec": 4 * pair.encoder_layers + 2 * 3,
    }
    assert meter.forwards["oracle"] == 1 and meter.forwards["tiny-encdec"] == 1


def test_what_a_run_is_compared_with_stands_beside_it():
    """Calls on the meter beside count nothing on the run's own, and stop with it."""
    meter = Meter()
    meter.aside().call("twin", "cpu", 3, lambda: time.sleep(0.01), layer_rows=6)
    assert meter.aside() is meter.beside and meter.aside().forbidden is meter.forbidden
    assert (meter.forwards, meter.tokens_fed, meter.work, meter.seconds, meter.calls) == ({}, 0, {}, 0.0, [])
    assert meter.beside.forwards == {"twin": 1} and meter.beside.work == {"twin": 6} and meter.beside.seconds > 0
    meter.reset()
    assert not meter.beside.forwards and not meter.beside.seconds
    meter.spent = True
    with pytest.raises(OverBudget):
        meter.beside.call("twin", "cpu", 1, lambda: None)


def test_seconds_in_which_a_calls_thread_ran_are_told_from_those_in_which_it_waited():
    def work():
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    meter = Meter()
    meter.call("target", "cpu", 1, work)
    ran, called = meter.processor, meter.called
    assert called >= ran >= 0.02
    meter.reset()
    meter.call("target", "cpu", 1, lambda: time.sleep(0.1))
    assert meter.called >= called + 0.1, "sums over the whole run"
    assert meter.processor - ran < 0.05
