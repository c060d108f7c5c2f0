"""Kept runs on disks, locks and clocks that fail: a sentence for the person, and no copy of a run is lost."""

import errno
import os
import sys
import threading

import msgspec
import pytest

import engines
from engines import TraceError, UserError
from explorer.runs import disk
from explorer.runs.journal import Journal, read_journal, recover
from explorer.runs.store import RunStore
from tests.page.conftest import PROMPT, first_model, methods_of

SHORT = {"max_new_tokens": 4}


def begin() -> engines.Run:
    return engines.stream(methods_of("causal")[0], first_model("causal"), PROMPT, params=SHORT)


@pytest.fixture
def keep(tmp_path) -> RunStore:
    return RunStore(tmp_path)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def trace() -> engines.Trace:
    return engines.run(methods_of("causal")[0], first_model("causal"), PROMPT, params=SHORT)


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
        "token 1000000 stands there and is not in its token table": written(hole),
        "": b'{"header":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n{}\n",
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
    from explorer.page.feed import Feed
    from explorer.page.sessions import Job

    feed = Feed(Job(), 0, "a method", keep)
    with monkeypatch.context() as failing:
        failing.setattr("explorer.runs.store.write_whole", full)
        assert len(list(feed.play(begin, "a run"))) > 1
        assert "No space left" in feed.unkept and "runs recover" in feed.unkept
        assert recover(keep) == [] and "No space left" in next(iter(keep.aside.values()))
    [name] = recover(keep)
    assert keep.get(name).steps == feed.trace.steps and not list(keep.live.iterdir()) and keep.aside == {}


@pytest.mark.skipif(sys.platform == "win32", reason="no such lock there")
def test_a_lock_that_is_held_elsewhere_is_waited_for_and_then_named(keep, trace, monkeypatch):
    import fcntl

    with (keep.folder / ".lock").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with monkeypatch.context() as soon, pytest.raises(UserError, match="held the lock"):
            soon.setattr(disk, "LOCK_SECONDS", 0.2)
            keep.save(trace)
        threading.Timer(0.05, other.close).start()
        assert keep.save(trace)


def test_a_card_of_no_possible_time_is_made_again_and_a_pipe_is_no_run(keep, trace):
    path = keep.folder / f"{keep.save(trace)}.card.json"
    for time in (1e20, -1.0):
        path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "saved_at": time}))
        assert 1e9 < keep.cards()[0].saved_at < 1e10
    if hasattr(os, "mkfifo"):
        os.mkfifo(keep.folder / f"{'a' * 16}.json.gz")
        assert len(keep.cards()) == 1 and "not a file" in keep.broken["a" * 16]


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    for value in ("~nobody-of-that-name/x", "n" * 300, "/proc/runs"):
        monkeypatch.setenv("EXPLORER_STORE", value)
        with pytest.raises(UserError, match="Set EXPLORER_STORE"):
            RunStore.from_env()
