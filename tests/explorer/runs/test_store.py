"""Kept runs: whole files or none, names by content, room for new ones, what a killed process leaves; on disks, locks
and clocks that fail a sentence for the person, and no copy of a run is lost."""

import errno
import gzip
import multiprocessing
import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

import engines
from engines import Trace, TraceError, UserError
from explorer.page.feed import Feed
from explorer.page.sessions import Job
from explorer.record import decisions
from explorer.runs import disk
from explorer.runs.gallery import read_bytes
from explorer.runs.journal import Journal, read_journal, recover
from explorer.runs.store import RunStore
from tests.page.conftest import PROMPT, first_model, methods_of

LONG = "copy: Mia, Leo, Ada, Tom, Kim, Eva, Ben"  # six steps and more by any method
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def run_() -> Trace:
    return engines.run(methods_of("masked")[0], first_model("masked"), PROMPT, params={"max_new_tokens": 32})


def variant(trace: Trace, seed: int) -> Trace:
    """The same run under another name, so that it is another content."""
    other = Trace.from_json(trace.to_json())
    other.header.seed = seed
    return other


@pytest.fixture
def keep(tmp_path) -> RunStore:
    return RunStore(tmp_path / "runs")


def test_a_kept_run_comes_back_equal_and_is_kept_once(keep, run_):
    name = keep.save(run_)
    assert keep.save(run_) == name and len(keep.cards()) == 1
    assert RunStore(keep.folder).get(name) == run_
    card = keep.card(name)
    assert (card.steps, card.tokens, card.forwards) == (len(run_.steps), run_.totals.tokens, run_.totals.forwards)
    assert card.mark in ("right", "wrong") and card.prompt == PROMPT
    assert name == card.sha256[:16] and not list(keep.folder.glob(".tmp-*"))
    twin = msgspec.structs.replace(card, sha256=name + "0" * 48)  # another content that begins alike
    keep._cards[name] = (keep._cards[name][0], twin)
    assert keep.save(run_) == card.sha256[:24]


def test_a_run_with_edits_is_kept_whatever_the_order_of_its_keys(keep):
    first = engines.run(methods_of("masked")[0], first_model("masked"), PROMPT, params={"max_new_tokens": 16})
    at = len(first.header.prompt_ids)
    run = engines.stream(methods_of("masked")[0], first_model("masked"), PROMPT, params={"max_new_tokens": 16})
    journal = Journal(keep, run)
    journal.step(next(run))
    journal.step(run.send(engines.Edit(force={at: first.output_ids[0], at + 3: first.output_ids[0]})))
    left = read_journal(next(keep.live.glob("*.journal")).read_bytes())
    trace = run.trace()
    assert (left.header.edits, left.steps) == (run.header.edits, run.steps) and left.output_ids == trace.output_ids
    name = keep.save(trace)
    turned = Trace.from_json(trace.to_json())
    turned.header.edits[0].edit.force = dict(reversed(turned.header.edits[0].edit.force.items()))
    assert keep.get(name) == trace and keep.save(turned) == name
    journal.close()


@pytest.mark.parametrize("name", ["../secret", "", "x" * 16, "0" * 16, "0123456789abcdef/../x", None])
def test_an_id_is_only_ever_an_id(keep, name):
    (keep.folder.parent / "secret.json.gz").write_bytes(b"")
    with pytest.raises(TraceError, match="there is no run"):
        keep.get(name)


@pytest.fixture(scope="module")
def size(tmp_path_factory, run_) -> int:
    """What the run takes in a store, with an owner's digest on its card."""
    keep = RunStore(tmp_path_factory.mktemp("size"))
    keep.save(run_)
    return keep.used() + 40


def test_the_oldest_that_nobody_pinned_make_room(tmp_path, run_, size):
    small = RunStore(tmp_path, limit_mb=3.5 * size / 1e6)
    names = [small.save(variant(run_, 0))]
    small.pin(names[0], True)
    names += [small.save(variant(run_, seed)) for seed in range(1, 6)]
    assert [card.id for card in small.cards()] == [names[5], names[4], names[0]]
    assert small.used() <= small.limit
    small.delete(names[4])
    before = small.used()
    (small.live / "1-0.journal").write_bytes(b"x" * size)
    assert small.used() == before + size, "journals count as room"
    small.pin(names[5], True)
    with pytest.raises(UserError, match="are pinned or being written; unpin or delete"):
        small.save(variant(run_, 9))
    assert len(small.cards()) == 2


def test_a_visitor_of_a_public_host_takes_an_eighth_at_most_and_whoever_keeps_most_makes_room(tmp_path, run_, size):
    store = RunStore(tmp_path / "b", limit_mb=8 * 3.5 * size / 1e6)
    victim, attacker = store.of("192.0.2.1"), store.of("192.0.2.2")
    mine = [victim.save(variant(run_, seed)) for seed in (1, 2)]
    theirs = [attacker.save(variant(run_, seed)) for seed in range(100, 120)]
    assert {card.id for card in store.cards()} == {*mine, *theirs[-3:]}, "they push out their own oldest only"
    assert store.of("192.0.2.2").owner == attacker.owner != victim.owner, "a restart does not forget who has what"
    assert not [f for f in (tmp_path / "b").rglob("*") if f.is_file() and b"192.0.2" in f.read_bytes()]
    tiny = RunStore(tmp_path / "c", limit_mb=4 * size / 1e6)
    with pytest.raises(UserError, match="one visitor may keep"):
        tiny.of("192.0.2.1").save(run_)
    assert len(tiny.save(run_)) == 16, "who owns the store has all of it"
    store = RunStore(tmp_path / "d", limit_mb=16.5 * size / 1e6)
    first = store.of("192.0.2.100").save(variant(run_, 1000))
    for visitor in range(8):
        for seed in range(2):
            store.of(f"192.0.2.{visitor}").save(variant(run_, 10 * visitor + seed))
    assert first in {card.id for card in store.cards()} and store.used() <= store.limit


def test_damaged_files_are_named_and_the_rest_works(keep, run_):
    names = [keep.save(variant(run_, seed)) for seed in range(4)]
    path = [keep.folder / f"{name}.json.gz" for name in names]
    path[0].write_bytes(path[0].read_bytes()[:50])
    path[1].write_bytes(gzip.compress(read_bytes(path[2]), compresslevel=1))  # a whole trace under the wrong name
    (keep.folder / f"{names[2]}.card.json").write_text("{")
    (keep.folder / f"{names[3]}.card.json").unlink()
    fresh = RunStore(keep.folder)
    assert {card.id for card in fresh.cards()} == {names[2], names[3]}
    assert set(fresh.broken) == {names[0], names[1]}
    assert fresh.get(names[3]).header.seed == 3
    for name in names[:2]:
        with pytest.raises(TraceError):
            fresh.get(name)
    assert len(fresh.save(variant(run_, 7))) == 16


def test_a_run_that_another_process_deletes_while_it_is_read_is_gone_and_not_broken(keep, run_, monkeypatch):
    name = keep.save(run_)
    file = keep.folder / f"{name}.json.gz"
    packed = file.read_bytes()

    def deleted_first(path):
        path.unlink(missing_ok=True)
        return read_bytes(path)

    def deleted_behind(path, data):
        file.unlink()
        path.write_bytes(data)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("explorer.runs.store.read_bytes", deleted_first)
        with pytest.raises(TraceError, match="there is no run"):
            keep.get(name)
        file.write_bytes(packed)
        (keep.folder / f"{name}.card.json").unlink()
        assert keep.cards() == [] and keep.broken == {}
    file.write_bytes(packed)
    monkeypatch.setattr("explorer.runs.store.write_whole", deleted_behind)
    assert keep.cards() == [] and keep.broken == {} and keep.used() == 0


def journalled(folder: str, pipe: Connection) -> None:
    """A process of its own that writes a run into its journal and waits after its fifth step."""
    run = engines.stream(methods_of("masked")[0], first_model("masked"), LONG, params={"max_new_tokens": 48}, seed=3)
    journal = Journal(RunStore(Path(folder)), run)
    for step in run:
        journal.step(step)
        if step.index == 5:
            pipe.send(step.index)
            pipe.recv()


def test_a_killed_process_leaves_the_prefix_of_its_run(tmp_path):
    slug, model = methods_of("masked")[0], first_model("masked")
    engines.load_model(model)
    keep, context = RunStore(tmp_path), multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=journalled, args=(str(tmp_path), theirs), daemon=True)
    process.start()
    assert ours.poll(240), "it did not come to its fifth step"
    assert recover(keep) == [] and len(list(keep.live.glob("*.journal"))) == 1  # it lives: its journal is its own
    process.kill()
    process.join()
    (name,) = recover(keep)
    assert not list(keep.live.glob("*")) and recover(keep) == []
    trace = keep.get(name)
    assert trace.end.reason == "stopped" and "ended without a word" in trace.end.message and 5 <= len(trace.steps) <= 7
    assert trace.header.missing == ["wall_seconds", "record_seconds"]
    whole = engines.run(slug, model, LONG, params={"max_new_tokens": 48}, seed=3, max_steps=len(trace.steps))
    assert decisions(trace) == decisions(whole)
    assert trace.output_ids == whole.output_ids and trace.text == whole.text


def test_a_journal_that_was_cut_anywhere_is_still_read_and_a_full_disk_ends_no_run(tmp_path):
    keep = RunStore(tmp_path)
    run = engines.stream(methods_of("causal")[0], first_model("causal"), PROMPT, params={"max_new_tokens": 8})
    journal = Journal(keep, run)
    steps = [next(run) for _ in range(3)]
    for step in steps:
        journal.step(step)
    data = next(keep.live.glob("*.journal")).read_bytes()
    ends = [i for i, byte in enumerate(data) if byte == 10]
    assert read_journal(data).steps == steps
    for cut in range(ends[2] + 1, ends[3], 37):
        assert read_journal(data[:cut]).steps == steps[:2]
    assert read_journal(data[: ends[0]]) is None and read_journal(b"") is None
    with pytest.raises(TraceError, match="damaged"):
        read_journal(b'{"x":1}\n{"y":2}\n')
    journal._file.close()
    journal._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - closed with the journal
    for step in run:
        journal.step(step)
    journal.close()
    assert "No space left" in journal.failed and run.trace().end.reason == "complete"
    assert not list(keep.live.glob("*")) and recover(keep) == []


def test_the_folder_comes_from_the_environment(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "here"))
    monkeypatch.setenv("EXPLORER_STORE_MB", "2")
    keep = RunStore.from_env()
    assert keep and keep.folder == tmp_path / "here" and keep.limit == 2_000_000
    wrong = [("_MB", "many", "not a size"), ("", str(tmp_path / "file"), "cannot be kept")]
    wrong += [("", value, "Set EXPLORER_STORE") for value in ("~nobody-of-that-name/x", "n" * 300, "/proc/runs")]
    for name, value, said in wrong:
        with monkeypatch.context() as changed, pytest.raises(UserError, match=said):
            changed.setenv(f"EXPLORER_STORE{name}", value)
            RunStore.from_env()
    monkeypatch.delenv("EXPLORER_STORE")
    assert RunStore.from_env(public=True) is None


SHORT = {"max_new_tokens": 4}


def begin() -> engines.Run:
    return engines.stream(methods_of("causal")[0], first_model("causal"), PROMPT, params=SHORT)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_damaged_journal_stops_a_start_and_each_says_what_it_lacks(keep):
    run = begin()
    journal = Journal(keep, run)
    for step in run:
        journal.step(step)
    lines = [msgspec.json.decode(line) for line in next(keep.live.glob("*.journal")).read_bytes().splitlines()]
    journal.close()

    def written(change) -> bytes:
        body = msgspec.json.decode(msgspec.json.encode(lines))
        change(body)
        return b"".join(msgspec.json.encode(line) + b"\n" for line in body)

    def hole(body):  # the answer begins one place later, and nothing says what stands before it
        for line in body[1:]:
            line["step"]["commits"]["positions"] = [p + 1 for p in line["step"]["commits"]["positions"]]
        body[0]["header"]["mask_id"] = 10**6

    wrong = {
        "a line has no pieces": written(lambda body: body[1].pop("pieces")),
        "a line has no header": written(lambda body: body[0].pop("header")),
        "token 1000000 is not in its token table": written(hole),
        "maximum recursion depth exceeded": b'{"header":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n{}\n",
        "damaged": b'{"header": {"missing": 1}, "pieces": [3]}\n\xff\xfe\n',
    }
    for number, (said, data) in enumerate(wrong.items()):
        (keep.live / f"{number}.journal").write_bytes(data)
        with pytest.raises(TraceError, match=said):
            read_journal(data)
    if hasattr(os, "mkfifo"):
        os.mkfifo(keep.live / "9-pipe.journal")
    assert recover(keep) == []
    assert len(keep.aside) == 5 and all("it is left as" in why for why in keep.aside.values())
    assert sorted(path.name[0] for path in keep.live.glob("*.broken")) == ["0", "1", "2", "3", "4"]
    keep.cards()
    assert keep.aside.items() <= keep.broken.items(), "the list names them"


def test_a_disk_that_is_full_at_the_end_leaves_the_journal_which_waits_for_room(keep, monkeypatch):
    feed = Feed(Job(), 0, "a method", keep)
    with monkeypatch.context() as failing:
        failing.setattr("explorer.runs.store.write_whole", full)
        assert len(list(feed.play(begin, "a run"))) > 1
        assert "No space left" in feed.unkept and "runs recover" in feed.unkept
        assert recover(keep) == [] and "No space left" in next(iter(keep.aside.values()))
    [name] = recover(keep)
    assert keep.get(name).steps == feed.trace.steps and not list(keep.live.iterdir()) and keep.aside == {}


@pytest.mark.skipif(sys.platform == "win32", reason="no such lock there")
def test_a_lock_that_is_held_elsewhere_is_waited_for_and_then_named(keep, run_, monkeypatch):
    import fcntl

    with (keep.folder / ".lock").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with monkeypatch.context() as soon, pytest.raises(UserError, match="held the lock"):
            soon.setattr(disk, "LOCK_SECONDS", 0.2)
            keep.save(run_)
        threading.Timer(0.05, other.close).start()
        assert keep.save(run_)


def test_a_card_of_no_possible_time_is_made_again_and_a_pipe_is_no_run(keep, run_):
    path = keep.folder / f"{keep.save(run_)}.card.json"
    for time in (1e20, -1.0):
        path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "saved_at": time}))
        assert 1e9 < keep.cards()[0].saved_at < 1e10
    if hasattr(os, "mkfifo"):
        os.mkfifo(keep.folder / f"{'a' * 16}.json.gz")
        assert len(keep.cards()) == 1 and "not a file" in keep.broken["a" * 16]
