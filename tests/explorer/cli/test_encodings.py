"""Every file that a person gives is read as Windows writes it: UTF-16 as `>` of its shell does, UTF-8 with a byte order
mark as its editors do, lines that end in CR LF."""

import argparse
import json

import pytest

import engines
from engines.models.files.hub import read_json
from engines.training.smollm2.blockdlm_rows import read_chats
from explorer import ASSETS, lecture, own_files
from explorer.cli import main
from explorer.cli.diagnose import record_file
from explorer.cli.options import read_prompts
from explorer.cli.run import read_prompt
from explorer.importers import import_trace
from explorer.papers.schema import parse
from explorer.runs.gallery import Gallery, read_pasted
from tests.explorer.commands import refused
from tests.explorer.test_importers import FILES

FORMS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be")
LOG = FILES["llada-log.txt"]
TRACE = import_trace(LOG)
STUDY = next((ASSETS / "studies").glob("*.json"))
PAPER = ASSETS / "papers" / "eagle.json"
CHAT = {"messages": [{"role": "user", "content": "a\u2028b"}, {"role": "assistant", "content": "c\x85d"}]}
DRAFTS = {"ids": [1, 2, 3], "rounds": [{"place": 2, "drafted": [3]}]}


def replayed(path):
    assert main(["replay", str(path)]) == 0
    return True


READ = {
    "a record": (FILES["sglang.json"], lambda path: main(["import", str(path), "--json", f"{path}.out"]) == 0),
    "a log": (LOG, lambda path: main(["import", str(path), "--json", f"{path}.out"]) == 0),
    "a trace": (TRACE.to_json(), replayed),
    "a gallery": (TRACE.to_json(), lambda path: Gallery(path.parent).get("given") == TRACE),
    "prompts": ("one\n\ntwo\n", lambda path: read_prompts(str(path)) == ["one", "two"]),
    "prompts of JSON": ('{"prompt": "a\u2028b"}\n', lambda path: read_prompts(str(path)) == ["a\u2028b"]),
    "a prompt": (
        "Grüße\n",
        lambda path: read_prompt(argparse.Namespace(prompt=None, prompt_ids=None, prompt_file=str(path))) == "Grüße",
    ),
    "a lecture": ('[{"link": "?gallery=a"}]', lambda path: len(lecture.chosen(path).entries) == 1),
    "drafts": (json.dumps(DRAFTS), lambda path: record_file(str(path)).ids == (1, 2, 3)),
    "a study": (
        STUDY.read_text("utf-8"),
        lambda path: engines.read_study(path.read_bytes()) == engines.read_study(STUDY.read_bytes()),
    ),
    "a paper": (
        PAPER.read_text("utf-8"),
        lambda path: parse("eagle", path.read_bytes()) == parse("eagle", PAPER.read_bytes()),
    ),
    "a config": ('{"model_type": "é"}', lambda path: read_json(path) == {"model_type": "é"}),
    "chats": (json.dumps(CHAT, ensure_ascii=False) + "\n", lambda path: len(read_chats(path)) == 1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", READ)
def test_a_file_that_windows_wrote_is_read(what, form, tmp_path, capsys):
    text, reads = READ[what]
    mark = b"\xfe\xff" if form == "utf-16-be" else b""
    (tmp_path / "given.json").write_bytes(mark + text.replace("\n", "\r\n").encode(form))
    assert reads(tmp_path / "given.json")


def test_files_of_ours_may_have_been_saved_again(tmp_path, monkeypatch):
    monkeypatch.setattr(own_files, "ASSETS", tmp_path)
    (tmp_path / "own.json").write_text("[1]", "utf-16")
    assert own_files.own_json("own.json") == [1]


def test_a_pasted_text_may_begin_with_the_mark():
    assert read_pasted("\ufeff" + TRACE.to_json()) == TRACE == read_pasted("\ufeff" + LOG)


def test_another_encoding_is_named_in_one_sentence(tmp_path, capsys):
    file = tmp_path / "given.json"
    for data, said in ((b"[\xe9", "UTF-8 text (byte 1)"), (b"\xff\xfe[\0\0", "UTF-16-LE text (byte 2)")):
        file.write_bytes(data)
        line = refused(capsys, "import", str(file), "--json", "-")
        assert f"is not {said}; save it as UTF-8" in line and str(file) in line
