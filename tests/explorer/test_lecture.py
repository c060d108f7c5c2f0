"""The list of a lecture: what ships, every form of link, and whatever else a file may hold."""

import json
from pathlib import Path

import pytest

from engines import TraceError, UserError
from explorer import lecture
from explorer.cli import main
from explorer.runs.gallery import gallery
from tests.explorer.runs.test_scenarios import written


def scene(link: str, kept=None, **more: object) -> lecture.Scene:
    return lecture.read(json.dumps([{"link": link, **more}]), "x").scenes(gallery(), kept)[0]


def test_each_scene_of_the_lecture_that_ships_is_recorded_and_what_it_says_of_a_step_is_so():
    """`written` of every sentence, as for the scenes."""
    scenes = lecture.own().scenes(gallery())
    assert scenes and all(one.minutes for one in scenes) and any(one.voice and one.voice.lever for one in scenes)
    checked = 0
    for one in scenes:
        assert one.dead == "" and one.voice and one.voice.question and one.voice.watch
        assert one.query == f"?run={','.join(one.voice.traces)}"
        runs = [gallery().get(name) for name in one.voice.traces]
        for said in (said for said in one.voice.says if said.written):
            assert [written(run, said.at) for run in runs] == list(said.written), (one.title, said.at)
            checked += 1
    assert checked


STEADY = ("278-waiting-names", "279-credit-seven")
STREAKS = ("180-blockffn-streaks", "181-moe-speckle")


@pytest.mark.parametrize(
    "link,names,query",
    [
        ("?gallery=03-threshold-sum", ("03-threshold-sum",), "?run=03-threshold-sum"),
        (
            "http://127.0.0.1:7860/?run=03-threshold-sum%2C06-reckless-sum&step=2&clock=work#x",
            ("03-threshold-sum", "06-reckless-sum"),
            "?run=03-threshold-sum,06-reckless-sum&clock=work&step=2",
        ),
        ("?scene=steady-guesses-sooner", STEADY, f"?run={','.join(STEADY)}"),
        ("?method=blockffn", STREAKS, f"?run={','.join(STREAKS)}"),
    ],
)
def test_a_link_in_the_page_s_own_language_leads_to_runs(link, names, query):
    found = scene(link)
    assert found.dead == "" and found.voice and found.voice.traces == names and found.query == query


def test_a_scene_speaks_unless_the_entry_says_something_else_and_kept_runs_are_asked_for():
    link, later = "?gallery=270-names-one-by-one,271-names-threshold", [{"at": 2, "say": "Two."}]
    plain, asked, said = scene(link).voice, scene(link, question="Why?").voice, scene(link, say="Look.").voice
    assert (asked.question, asked.says) == ("Why?", plain.says)
    assert (said.watch, said.says[0].say) == ("Look.", "Look.")
    assert (said.says[1:], said.lever) == (plain.says[1:], plain.lever)
    both = scene(link, say="Look.", says=later).voice
    assert both and [(one.at, one.say) for one in both.says] == [(0, "Look."), (2, "Two.")] and both.lever
    found = scene("?gallery=03-threshold-sum", title="Sums").voice  # without a scene the recording says what to watch
    card = next(card for card in gallery().cards if card.id == "03-threshold-sum")
    assert found and (found.title, found.question, found.watch) == ("Sums", "Sums", card.watch)

    def gone(name: str) -> None:
        raise TraceError(f"there is no run {name} here.")

    assert scene("?run=20260101-000000-abcd", lambda name: None).dead == ""
    assert "there is no run 20260101-000000-abcd" in scene("?run=20260101-000000-abcd", gone).dead
    assert scene("?run=20260101-000000-abcd").dead


@pytest.mark.parametrize(
    "link,said",
    [
        ("?scene=steady-gases-sooner", "there is no scene 'steady-gases-sooner' here; the nearest is ?scene=steady-"),
        ("?gallery=gone", "there is no recorded trace 'gone'."),
        ("?method=gone", "there is no recorded run of 'gone' here"),
        ("?tab=docs", "the link names no run, scene, lesson or method"),
        ("?gallery=a,b,c,d,e", "the link names 5 runs; at most 4 are shown at once."),
        ("?gallery=03-threshold-sum&step=x", "step=x in the link is not allowed"),
        ("?gallery=03-threshold-sum&clock=sand", "clock=sand in the link is not known"),
        ("?" + "&".join(f"a{n}=1" for n in range(30)), "the address has more than 20 parts"),
    ],
)
def test_a_dead_link_is_named_in_a_sentence(link, said):
    found = scene(link, title="T")
    assert found.dead.startswith(f"Scene 1 is left out: {said}") and found.dead.endswith(".")
    assert (found.title, found.query, found.voice) == ("T", "", None)


@pytest.mark.parametrize(
    "text,said",
    [
        ('[{"title": "T"}]', "is not understood .*`link`"),
        ('[{"link": "?x", "color": "red"}]', "is not understood .*color"),
        (json.dumps([{"link": "?" + "x" * 2000}]), "is not understood"),
        ("[" * 50_000, "is not understood"),
        ("[]", "has no scene"),
        (json.dumps([{"link": "?x"}] * 61), "has 61 scenes; at most 60"),
        ('[{"link": "?x"}]' + " " * 100_000, "has more than 100,000 bytes"),
        ("\ud800", "is not text in UTF-8"),
        (None, "is not text"),
    ],
)
def test_a_text_that_is_no_lecture_is_refused_in_a_sentence(text, said):
    with pytest.raises(UserError, match=f"the lecture 'mine.json' {said}") as found:
        lecture.read(text, "mine.json")
    assert str(found.value).endswith(".") and "\n" not in str(found.value)


def test_a_file_is_named_by_the_command_or_the_environment(tmp_path: Path, monkeypatch, capsys):
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    mine.write_bytes(b'\xef\xbb\xbf[{"link": "?gallery=a"}]')  # as an editor on Windows writes it
    other.write_text('[{"link": "?gallery=b"}]', "utf-8")
    monkeypatch.delenv("EXPLORER_LECTURE", raising=False)
    assert lecture.chosen() == lecture.own()
    monkeypatch.setenv("EXPLORER_LECTURE", str(other))
    assert lecture.chosen().entries[0].link == "?gallery=b"
    assert lecture.chosen(mine).entries[0].link == "?gallery=a"
    for content, said in ((b"\xff\xfe\x00", "is not text in UTF-8"), (b" " * 100_001, "100,000 bytes")):
        mine.write_bytes(content)
        with pytest.raises(UserError, match=said):
            lecture.chosen(mine)
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="there is no lecture file"):
            lecture.chosen(missing)
    mine.write_text("{", "utf-8")
    assert main(["serve", "--lecture", str(mine)]) != 0, "the page does not start with a broken one"
    assert "the lecture 'mine.json' is not understood" in capsys.readouterr().err
