"""The command `advise`: a verdict for each method, the record, what Ctrl-C leaves, and one sentence for bad input."""

import json
import os
import signal

import msgspec

from explorer.bench import advise
from explorer.cli.options import read_prompts
from explorer.figures.advice import Advice
from tests.explorer.commands import call, refused

ASKED = ("advise", "--model", "tiny-ar-s", "--method", "token-recycling", "--max-new-tokens", "4", "--seconds", "60")


def test_it_says_a_verdict_its_conditions_and_why(capsys, tmp_path):
    file = tmp_path / "a.json"
    code, out, err = call(
        capsys, *ASKED, "--prompt", "sort: Mia, Leo, Ada", "--param", "token-recycling:template=7", "--json", str(file)
    )
    found = msgspec.json.decode(file.read_bytes(), type=Advice)
    one = found.methods[0]
    assert code == 0 and out.startswith(found.sentence) and found.conditions in out
    of = "measured in" if one.low is None else f"{100 * one.level:.3g} % over"  # on a busy machine too few may be left
    assert f"Token Recycling (template=7): {one.verdict} ({of} {one.values} repeat" in out
    assert "Same text as the control." in out and one.why in out
    assert "Greedy autoregressive: 0 of 14 runs\n" in err, "it is not silent where standard error is no terminal"
    assert found.command.startswith("decoding-explorer advise --model tiny-ar-s ") and found.date


def test_prompts_come_from_a_file_as_well(capsys, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("\ufeffone {\n\n  two\r\n")
    assert read_prompts(str(file)) == ["one {", "two"], "a text file has a prompt a line"
    lines = [json.dumps({"prompt": f"sort: {name}, Leo", "id": 1}) for name in ("Mia", "Ada", "Tom", "Eva", "Ben")]
    file.write_text("\n".join([*lines, ""]))
    code, out, _ = call(capsys, *ASKED, "--prompts", str(file), "--prompt", "add: 4 + 5", "--repeats", "1", "--json")
    found = json.loads(out)
    assert code == 0 and found["prompts"] == 6 and found["repeats"] == 1
    assert found["methods"][0]["unit"] == "prompt" and found["methods"][0]["prompts"] == 6


def test_ctrl_c_judges_what_was_measured_so_far(capsys, monkeypatch):
    real, made = advise.Stopwatch.run, []

    def run(self, slug, prompt, params, detail):
        made.append(slug)
        if len(made) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, slug, prompt, params, detail)

    monkeypatch.setattr(advise.Stopwatch, "run", run)
    before = signal.getsignal(signal.SIGINT)
    code, out, _ = call(capsys, *ASKED, "--prompt", "sort: Mia, Leo, Ada")
    assert code == 130 and len(made) == 5 and "Stopped after" in out and signal.getsignal(signal.SIGINT) is before
    assert "1 of at least 6" in out or "too busy" in out


def test_bad_input_costs_one_line_and_a_file_is_named_with_its_own(capsys, tmp_path):
    assert "no prompt is given; write --prompt TEXT" in refused(capsys, *ASKED)
    assert "tiny-ar-s has room for 512 in all" in refused(capsys, *ASKED, "--prompt", "a " * 900)
    assert "there is no file 'no-such-file.txt'" in refused(capsys, *ASKED, "--prompts", "no-such-file.txt")
    file = tmp_path / "prompts"
    for data, says in (
        (b'{"prompt": "one"}\n\n{"prompt": \n', "line 3 is not JSON"),
        (b'{"prompt": "one"}\n{"text": "two"}\n', 'line 2 has no text "prompt"'),
        (b"\xff", "is not UTF-8 text (byte 0)"),
        (b"\xff\xfe\0", "is not UTF-16-LE text (byte 0)"),
        (b'{"prompt": ' + b"[" * 100_000, "line 1 is not JSON"),
    ):
        file.write_bytes(data)
        line = refused(capsys, *ASKED, "--prompts", str(file))
        assert says in line and str(file) in line
