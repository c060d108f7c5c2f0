"""The kept runs on the command line."""

import json

import pytest

import engines
from engines import Trace
from explorer.runs.journal import Journal
from explorer.runs.store import RunStore
from tests.explorer.commands import call, refused
from tests.page.conftest import PROMPT, first_model, methods_of


@pytest.fixture(scope="module")
def made() -> list[Trace]:
    return [
        engines.run(methods_of(kind)[0], first_model(kind), PROMPT, params={"max_new_tokens": 16})
        for kind in ("masked", "causal")
    ]


@pytest.fixture
def keep(tmp_path, monkeypatch) -> RunStore:
    monkeypatch.setenv("EXPLORER_STORE", str(tmp_path / "store"))
    return RunStore.from_env()


def test_runs_are_listed_shown_pinned_deleted_and_exported(keep, made, capsys, tmp_path):
    def runs(*argv: str) -> str:
        code, out, _ = call(capsys, "runs", *argv)
        assert code == 0
        return out

    assert runs().startswith("0 runs, 0.0 of 512 MB in ")
    one, two = (keep.save(trace) for trace in made)
    out = runs("list")
    assert out == runs() and {line.split()[0] for line in out.splitlines()[1:3]} == {one, two}
    assert out.splitlines()[-1].startswith("2 runs, ")
    listed = json.loads(runs("list", "--json"))
    assert {card["id"] for card in listed["runs"]} == {one, two}
    assert (listed["broken"], listed["folder"]) == ({}, str(keep.folder))
    shown = runs("show", one[:5])
    assert one in shown and made[0].text in shown and "pinned" not in shown
    assert f"{made[0].totals.forwards} model calls" in shown
    assert runs("pin", one) and keep.card(one).pinned
    assert "pinned" in runs("show", one) and json.loads(runs("show", one, "--json"))["pinned"] is True
    assert runs("unpin", one) and not RunStore(keep.folder).card(one).pinned
    file = tmp_path / "out.json"
    runs("export", two, str(file))
    assert Trace.from_json(file.read_text("utf-8")) == Trace.from_json(runs("export", two, "-")) == made[1]
    assert runs("delete", two).startswith(f"run {two} is deleted")
    assert [card.id for card in keep.cards()] == [one]
    assert runs("restore", two) and keep.get(two) == made[1]
    runs("delete", two)
    assert runs("keep", str(file), "--label", " my  run ").strip() == two and keep.card(two).label == "my run"
    assert "my run" in runs()


def test_what_is_wrong_with_a_run_is_one_line(keep, made, capsys, tmp_path):
    one = keep.save(made[0])
    assert "no kept run begins with 'zz'" in refused(capsys, "runs", "show", "zz")
    assert "no kept run begins with '../" in refused(capsys, "runs", "delete", "../../etc")
    assert "not a whole id" in refused(capsys, "runs", "restore", one[:6])
    assert "gone for good" in refused(capsys, "runs", "restore", "0" * 16)
    assert "there is no folder" in refused(capsys, "runs", "export", one, str(tmp_path / "none" / "x.json"))
    twin = keep.folder / f"{one[0]}{'0' * 15}.json.gz"
    twin.write_bytes(b"not a trace")
    assert "2 kept runs begin with" in refused(capsys, "runs", "show", one[0])
    assert "broken: " in call(capsys, "runs")[1]
    assert refused(capsys, "runs", "show", twin.name[:16])
    assert call(capsys, "runs", "delete", twin.name[:16])[0] == 0 and not twin.exists()
    assert "there is no file" in refused(capsys, "runs", "keep", "nothing.json")


def test_recover_makes_runs_of_journals_and_says_what_cannot_be_read(keep, capsys):
    run = engines.stream(methods_of("masked")[0], first_model("masked"), PROMPT, params={"max_new_tokens": 16})
    journal = Journal(keep, run)
    journal.step(next(run))
    journal._file.close()  # its process is gone
    code, out, _ = call(capsys, "runs", "recover")
    (card,) = keep.cards()
    assert (code, out) == (0, f"recovered: {card.id}\n1 run recovered\n") and card.steps == 1
    (keep.live / "7-abc.journal").write_bytes(b"{}\n{}\n")
    code, out, _ = call(capsys, "runs", "recover")
    assert code == 1 and "broken: 7-abc.journal: the journal is damaged" in out
