"""The list of a lecture: what ships, every form of link, and whatever else a file may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines import TraceError, UserError
from explorer import lecture
from explorer.runs.gallery import gallery
from tests.explorer.runs.test_scenarios import written


def scene(link: str, kept=None, **more: object) -> lecture.Scene:
    return lecture.read(json.dumps([{"link": link, **more}]), "x").scenes(gallery(), kept)[0]


def test_each_scene_of_the_lecture_that_ships_is_recorded():
    scenes = lecture.own().scenes(gallery())
    assert scenes and all(one.minutes for one in scenes)
    for one in scenes:
        assert one.dead == "" and one.voice and one.voice.question and one.voice.watch
        assert one.query == f"?run={','.join(one.voice.traces)}"
    assert any(one.voice and one.voice.lever for one in scenes)


STEADY = ("278-waiting-names", "279-credit-seven")
STREAKS = ("180-blockffn-streaks", "181-moe-speckle")


@pytest.mark.parametrize(
    "link,names,query",
    [
        ("?gallery=03-threshold-sum", ("03-threshold-sum",), "?run=03-threshold-sum"),
        ("gallery=03-threshold-sum", ("03-threshold-sum",), "?run=03-threshold-sum"),
        (
            "http://127.0.0.1:7860/?run=03-threshold-sum%2C06-reckless-sum&step=2&clock=work#x",
            ("03-threshold-sum", "06-reckless-sum"),
            "?run=03-threshold-sum,06-reckless-sum&clock=work&step=2",
        ),
        ("?scene=steady-guesses-sooner", STEADY, f"?run={','.join(STEADY)}"),
        ("?lesson=blockffn", STREAKS, f"?run={','.join(STREAKS)}"),
        ("?method=blockffn", STREAKS, f"?run={','.join(STREAKS)}"),
    ],
)
def test_a_link_in_the_page_s_own_language_leads_to_runs(link, names, query):
    found = scene(link)
    assert found.dead == "" and found.voice and found.voice.traces == names and found.query == query


def test_a_scene_speaks_unless_the_entry_says_something_else():
    link = "?gallery=270-names-one-by-one,271-names-threshold"
    plain, asked, said = scene(link).voice, scene(link, question="Why?").voice, scene(link, say="Look.").voice
    assert plain and asked and said
    assert plain.says and plain.lever and plain.question.startswith("A small masked model")
    assert (asked.question, asked.says) == ("Why?", plain.says)
    assert (said.watch, said.says[0].say) == ("Look.", "Look.")
    assert (said.says[1:], said.lever) == (plain.says[1:], plain.lever)


def test_an_entry_speaks_while_its_runs_play():
    link, later = "?gallery=270-names-one-by-one,271-names-threshold", [{"at": 2, "say": "Two."}]
    both, alone = scene(link, say="Look.", says=later).voice, scene(link, says=later).voice
    assert both and alone
    assert [(one.at, one.say) for one in both.says] == [(0, "Look."), (2, "Two.")] and both.lever
    assert [one.say for one in alone.says] == ["Two."]
    assert scene(link).prompt.startswith("sort: ")


def test_what_the_lecture_says_of_a_step_is_so():
    """`written` of every sentence of the list that ships, as for the scenes."""
    scenes = lecture.own().scenes(gallery())
    told = [(found, one) for found in scenes for one in (found.voice.says if found.voice else ())]
    checked = [(found, one) for found, one in told if one.written]
    assert any(found.voice and len(found.voice.traces) == 1 for found, _ in checked)
    for found, one in checked:
        runs = [gallery().get(name) for name in found.voice.traces]
        assert [written(run, one.at) for run in runs] == list(one.written), (found.title, one.at)


def test_without_a_scene_the_recording_says_what_to_watch():
    found = scene("?gallery=03-threshold-sum", title="Sums").voice
    card = next(card for card in gallery().cards if card.id == "03-threshold-sum")
    assert found and (found.title, found.question, found.watch) == ("Sums", "Sums", card.watch)


def gone(name: str) -> None:
    raise TraceError(f"there is no run {name} here.")


@pytest.mark.parametrize(
    "link,said",
    [
        ("?scene=steady-gases-sooner", "there is no scene 'steady-gases-sooner' here; the nearest is ?scene=steady-"),
        ("?gallery=gone", "there is no recorded trace 'gone'."),
        ("?run=gone,03-threshold-sum", "there is no recorded trace 'gone'."),
        ("?gallery=a,b,c,d,e", "the link names 5 runs; at most 4 are shown at once."),
        ("?gallery=03-threshold-sum&step=x", "step=x in the link is not allowed"),
        ("?gallery=03-threshold-sum&clock=sand", "clock=sand in the link is not known"),
        ("?tab=docs", "the link names no run, scene, lesson or method"),
        ("?lesson=gone", "there is no recorded run of 'gone' here"),
        ("?method=gone", "there is no recorded run of 'gone' here"),
        ("?" + "&".join(f"a{n}=1" for n in range(30)), "the link has more than 20 parts"),
    ],
)
def test_a_dead_link_is_named_in_a_sentence(link, said):
    found = scene(link, title="T")
    assert found.dead.startswith(f"Scene 1 is left out: {said}") and found.dead.endswith(".")
    assert (found.title, found.query, found.voice) == ("T", "", None)


def test_kept_runs_are_asked_for_where_some_are_kept():
    assert scene("?run=20260101-000000-abcd", lambda name: None).dead == ""
    assert "there is no run 20260101-000000-abcd" in scene("?run=20260101-000000-abcd", gone).dead
    assert scene("?run=20260101-000000-abcd").dead


@pytest.mark.parametrize(
    "text,said",
    [
        ("{]", "is not understood"),
        ("{}", "is not understood"),
        ('["?gallery=x"]', "is not understood"),
        ('[{"title": "T"}]', "is not understood .*`link`"),
        ('[{"link": "?x", "minutes": "two"}]', "is not understood"),
        ('[{"link": "?x", "minutes": 1e999}]', "is not understood"),
        ('[{"link": "?x", "color": "red"}]', "is not understood .*color"),
        (json.dumps([{"link": "?x", "title": "t" * 401}]), "is not understood"),
        (json.dumps([{"link": "?" + "x" * 2000}]), "is not understood"),
        ("[" * 50_000, "is not understood"),
        ("[]", "has no scene"),
        (json.dumps([{"link": "?x"}] * 61), "has 61 scenes; at most 60"),
        ('[{"link": "?x"}]' + " " * 100_000, "has more than 100,000 bytes"),
        ("\ud800", "is not text in UTF-8"),
        (None, "is not text"),
    ],
)
def test_a_file_that_is_no_lecture_is_refused_in_a_sentence(text, said):
    with pytest.raises(UserError, match=f"the lecture 'mine.json' {said}") as found:
        lecture.read(text, "mine.json")
    assert str(found.value).endswith(".") and "\n" not in str(found.value)


def test_a_file_is_named_by_the_command_or_the_environment(tmp_path: Path, monkeypatch):
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    mine.write_bytes(b'\xef\xbb\xbf[{"link": "?gallery=a"}]')  # as an editor on Windows writes it
    other.write_text('[{"link": "?gallery=b"}]', "utf-8")
    monkeypatch.delenv("EXPLORER_LECTURE", raising=False)
    assert lecture.chosen() == lecture.own()
    monkeypatch.setenv("EXPLORER_LECTURE", str(other))
    assert lecture.chosen().entries[0].link == "?gallery=b"
    assert lecture.chosen(mine).entries[0].link == "?gallery=a"


@pytest.mark.parametrize(
    "content,said",
    [
        (None, "there is no lecture file"),
        ("a folder", "there is no lecture file"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b" " * 100_001, "100,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content, said):
    file = tmp_path / "mine.json"
    if content == "a folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        lecture.chosen(file)


def test_the_page_does_not_start_with_a_broken_lecture(tmp_path: Path, capsys):
    from explorer.cli import main

    file = tmp_path / "mine.json"
    file.write_text("{", "utf-8")
    assert main(["serve", "--lecture", str(file)]) != 0
    assert "the lecture 'mine.json' is not understood" in capsys.readouterr().err
