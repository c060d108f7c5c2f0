"""What is measured: calls on the meter, a model by itself, rows whose costs are kept, and what a machine is called."""

import json
import math
import os
import platform
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
import torch

import engines
from engines.core import costs
from engines.core import machine as named
from engines.core.costs import SIZES, TURNS, measured, row_costs_of
from engines.core.kinds import counted
from engines.core.meter import Meter, OverBudget
from engines.core.row_costs import RowCosts
from engines.models.loading.zoo import load_model
from tests.engines.fakes import TableCausal, TableMasked
from tests.engines.refusals import refuses


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "decoding-explorer" / costs.KEPT


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(costs, "SECONDS", 0.01)
    monkeypatch.setattr(costs, "_busy", lambda *_: "")


def test_a_table_never_falls_and_the_shortest_of_all_turns_counts(monkeypatch):
    C = RowCosts.of({1: 2.0, 2: 3.0, 4: 2.4, 8: 4.0})
    assert C.seconds == (2.0, 2.4, 2.4, 4.0)  # two rows can take as little as four
    assert [C(n) for n in (1, 2, 3, 4, 6, 8, 12)] == pytest.approx([1, 1.2, 1.2, 1.2, 1.6, 2, 2.8])
    assert [RowCosts.sloped(0.25)(n) for n in (1, 2, 5, 101)] == pytest.approx([1, 1.25, 2, 26])
    seconds = iter([9.0, 5.0, 6.0, 4.0, 7.0])  # a warm-up, then two turns
    now = iter([0.0, 0.1, 9.0])
    monkeypatch.setattr(costs, "RowClock", lambda model, rows: SimpleNamespace(seconds=lambda rows: next(seconds)))
    monkeypatch.setattr(costs.time, "perf_counter", lambda: next(now))
    found = measured(TableCausal(), RowCosts((1, 8), (4.5, 5.5), 3), sizes=(1, 8))
    assert found == RowCosts((1, 8), (4.0, 5.5), 5)


def test_a_table_is_kept_for_the_model_and_read_by_the_next_process(kept, quiet, monkeypatch):
    def better(model, before):
        return RowCosts(SIZES, tuple(float(n) for n in SIZES), (before.turns if before else 0) + TURNS // 2)

    refuses(engines.UserError, "needs a causal model", row_costs_of, TableMasked())
    monkeypatch.setattr(costs, "measured", better)
    turns = [row_costs_of(TableCausal()).turns for _ in range(4)]
    assert turns == [TURNS // 2, TURNS, TURNS, TURNS], "a few processes make it better, then it stays"
    assert row_costs_of(model := TableCausal()) is row_costs_of(model)
    (entry,) = json.loads(kept.read_text()).values()
    assert set(map(int, entry["seconds"])) == set(SIZES)
    made = TableCausal()
    made.record.options = {"row_invariant": True}
    assert row_costs_of(made).warning == "", "nothing was kept for it, so nothing fails to hold"
    assert len(json.loads(kept.read_text())) == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({1: "abc"}, "with other weights"),
        ({2: "bfloat16"}, "in bfloat16"),
        ({4: "Other CPU (riscv64), 3 cores"}, "on another machine (Other CPU (riscv64), 3 cores)"),
        ({5: "99"}, "with 99 threads"),
        ({2: "bfloat16", 5: "99"}, "in bfloat16 and with 99 threads"),
    ],
)
def test_costs_kept_for_something_else_are_not_taken_and_that_is_told(kept, quiet, change, told):
    assert row_costs_of(TableCausal(name="other")).warning == ""
    assert row_costs_of(TableCausal()).warning == "", "other models do not count, and nothing was kept: no fallback"
    ((key, entry),) = [one for one in json.loads(kept.read_text()).items() if one[0].startswith("table")]
    fields = [change.get(at, value) for at, value in enumerate(key.split(costs.SEPARATOR))]
    far = {1: "x", 2: "float16", 5: "7", 6: "0"}
    farther = [far.get(at, value) for at, value in enumerate(fields)]
    kept.write_text(json.dumps({costs.SEPARATOR.join(farther): {}, costs.SEPARATOR.join(fields): entry}))
    found = row_costs_of(TableCausal()).warning
    assert found == f"The kept row costs of table were measured {told}, so they were measured anew.", "the nearest"
    assert len(json.loads(kept.read_text())) == 3  # all are kept from now on
    assert row_costs_of(TableCausal()).warning == ""


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("", "The file of the kept row costs (row-costs-2.json) is damaged"),
        ("[" * 100_000, "The file of the kept row costs (row-costs-2.json) is damaged"),
        ('{"KEY": 3}', "The kept row costs of table are damaged"),
        ('{"KEY": {"seconds": {"1": -1}, "turns": 9}}', "The kept row costs of table are damaged"),
        ('{"KEY": {"seconds": {"x": 1}}}', "The kept row costs of table are damaged"),
        ('{"KEY": {"seconds": SECONDS, "turns": 1e999}}', "The kept row costs of table are damaged"),
        ('{"table | float32": {}}', "The kept row costs of table are of another version of this program"),
    ],
)
def test_damage_is_told_once_and_mended(kept, quiet, damage, told):
    row_costs_of(TableCausal())
    ((key, entry),) = json.loads(kept.read_text()).items()
    damage = damage.replace("KEY", key.replace('"', "")).replace("SECONDS", json.dumps(entry["seconds"]))
    kept.write_text(damage)
    assert row_costs_of(TableCausal()).warning == f"{told}, so they were measured anew."
    assert row_costs_of(TableCausal()).warning == ""


def test_costs_of_a_busy_machine_are_told_and_do_not_stay(kept, monkeypatch):
    monkeypatch.setattr(costs, "SECONDS", 0.05)
    monkeypatch.setattr(costs.time, "thread_time", lambda: 0.0)  # the thread did not run at all
    found = row_costs_of(TableCausal())
    assert found.warning == (
        "The machine was busy while row costs were measured (the measuring thread ran in 0 % of the time), so the bets "
        "may be off."
    )
    assert 0 < found.turns < TURNS
    assert row_costs_of(TableCausal()).warning == found.warning  # it was measured again, and it still was busy
    assert costs._busy("cuda:0", 1.0, 0.0) == ""  # an accelerator computes while its thread waits


def test_logits_behind_a_text_are_the_models_own():
    model = TableCausal(memory=None)
    found = engines.next_logits(model, [1, 2, 3], [0, 5])
    wanted = model.logits([1, 2, 3])[0][[0, 5]].tolist()
    assert found == {"alone": pytest.approx(wanted), "together": pytest.approx(wanted)}
    assert [len(fed) for _, fed in model.calls] == [2, 1, 3]  # a row by itself behind the text, then all at once
    model = engines.load_model("tiny-ar-s", dtype="float32")
    found = engines.next_logits(model, model.tokenizer.encode_prompt("sort: Mia, Leo"), list(range(20)))
    torch.testing.assert_close(torch.tensor(found["alone"]), torch.tensor(found["together"]), atol=1e-4, rtol=0)
    for ids, tokens in (([], [1]), ([1, 99], [1]), ([1], [-1])):
        refuses(engines.UserError, "ids from 0 to 7", engines.next_logits, TableCausal(), ids, tokens)


def test_likelihoods_sum_to_one_and_that_of_a_text_is_the_chain_of_its_tokens():
    model = TableCausal(memory=None)
    found = [engines.log_likelihood(model, [3, 1, token], 2) for token in range(8)]
    assert sum(math.exp(score) for score, _ in found) == pytest.approx(1)
    best = max(range(8), key=lambda token: found[token][0])
    assert [greedy for _, greedy in found] == [token == best for token in range(8)]
    refuses(engines.UserError, "needs a causal model", engines.log_likelihood, TableMasked(), [1, 2], 1)
    refuses(engines.UserError, "start=2 leaves nothing to score in", engines.log_likelihood, TableCausal(), [1, 2], 2)
    with pytest.raises(engines.UserError, match="has room for 4 in all"):
        engines.log_likelihood(TableCausal(max_positions=4), [1, 2, 3, 4, 5, 6], 1)
    model, text = TableCausal(memory=None), [1, 2, 3, 4, 5]
    rows = model.logits(text[:2], text[:3], text[:4]).double().log_softmax(-1)
    found, greedy = engines.log_likelihood(model, text, 2)
    assert found == pytest.approx(float(rows[[0, 1, 2], text[2:]].sum())) and not greedy
    assert [len(fed) for _, fed in model.calls] == [4]  # one forward


def test_row_costs_are_of_the_rows_asked_for():
    model = TableCausal(memory=1)
    found = engines.row_costs(model, rows=(1, 4), repeats=3, past=10)
    assert list(found) == [1, 4] and all(seconds > 0 for seconds in found.values())
    assert [(len(cached), len(fed)) for cached, fed in model.calls] == [(0, 10), *[(10, 1), (10, 4)] * 4]
    refuses(engines.UserError, "masked; this measurement needs a causal model", engines.row_costs, TableMasked())


def test_what_a_network_chooses_by_itself_does_not_go_through_our_cache(monkeypatch):
    model = engines.load_model("tiny-ar-s")
    trace = engines.run("greedy", model, "add: 4 + 5", params={"max_new_tokens": 8})
    ids, start = [*trace.header.prompt_ids, *trace.output_ids], len(trace.header.prompt_ids)
    monkeypatch.setattr(type(model), "extend", None)
    assert engines.network_choices(model, ids, start) == trace.output_ids
    assert engines.network_choices(TableCausal(), ids, start) is None


@pytest.fixture(autouse=True)
def afresh():
    named.processor.cache_clear()
    yield
    named.processor.cache_clear()


KIND = platform.machine()


def test_a_processor_is_called_by_its_own_name_or_its_kind_and_gpus_come_first(tmp_path, monkeypatch):
    """Many ARM boards list features only; some systems know no processor at all; a Mac is asked."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(named, "CPUINFO", file)
    file.write_text("processor : 0\nmodel name\t: AMD  EPYC 9V74\t80-Core\nmodel name : another\n")
    assert named.processor() == f"AMD EPYC 9V74 80-Core ({KIND})"
    assert named.machine() == f"{named.processor()}, {os.cpu_count()} cores, {platform.system()}"
    file.write_text("processor : 0\nFeatures : fp asimd\n")
    for told in ("", KIND):
        named.processor.cache_clear()
        monkeypatch.setattr(platform, "processor", lambda told=told: told)
        assert named.processor() == KIND
    named.processor.cache_clear()
    file.unlink()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="Apple M9\n"))
    assert named.processor() == f"Apple M9 ({KIND})"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device[5:]}")
    assert named.machine(["cuda:1", "cpu", "cuda:0", "cuda:1"]).startswith("GPU 0, GPU 1, ")
    assert named.trained_on("cuda:1").startswith("GPU 1, cuda:1, ")
    threads = torch.get_num_threads()
    assert named.trained_on() == f"{named.processor()}, cpu, {threads} threads, torch {torch.__version__}"


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
    until = total = 0.0  # seconds in which any call ran
    for _, began, ended, _ in sorted(meter.calls, key=lambda call: call[1]):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    assert abs(meter.seconds - total) < 1e-9 < meter.seconds


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


def test_layer_rows_are_booked_by_role_and_part_of_a_forward_is_no_forward():
    meter = Meter(forbidden={3: {1}})
    meter.call("target", "cpu", 5, lambda: None, layer_rows=15, forward=False)
    meter.call("draft", "cpu", 2, lambda: None, layer_rows=4)
    meter.call("target", "cpu", 0, lambda: None, layer_rows=20, forward=False)
    meter.call("target", "cpu", 0, lambda: None)
    with pytest.raises(ValueError, match="no weights"):
        meter.call("draft", "cpu", 1, lambda: (_ for _ in ()).throw(ValueError("no weights")), layer_rows=9)
    assert meter.work == {"target": 35, "draft": 4} and meter.forwards == {"draft": 1, "target": 1}
    assert meter.tokens_fed == 7 and len(meter.calls) == 4
    meter.reset()  # keeps what lives as long as the run
    found = meter.work, meter.forwards, meter.tokens_fed, meter.seconds, meter.calls, meter.forbidden
    assert found == ({}, {}, 0, 0.0, [], {3: {1}})


def test_every_kind_of_model_books_its_rows_times_its_layers():
    meter = Meter()
    names = ("tiny-ar-s", "tiny-dlm", "tiny-blockdlm", "tiny-encdec", "oracle")
    causal, masked, block, pair, oracle = (counted(load_model(name), name, meter) for name in names)
    assert [m.num_layers for m in (causal, masked, block, pair, oracle)] == [3, 6, 6, 3, 0]
    causal.extend([1, 2, 3], causal.new_cache(8), last_only=True)
    masked(torch.full((2, 10), masked.mask_id))  # two boards in one forward
    board, cache = torch.full((10,), masked.mask_id), masked.new_cache(10)
    masked.feed(board, cache, 0, 10)
    masked.feed(board, cache, 4, 7)
    size, cache = block.block_size, block.new_cache(32)
    whole = [block.mask_id] * size
    block.denoise(whole, cache)
    block.denoise(whole[:4], cache, 2)
    block.store(whole, cache)
    pair.extend([pair.start_id, 9], pair.new_cache(pair.encode([5, 6, 7, 8]), 12))
    oracle(torch.tensor([*oracle.tokenizer.encode_prompt("copy: Mia"), *[oracle.mask_id] * 4]))
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
