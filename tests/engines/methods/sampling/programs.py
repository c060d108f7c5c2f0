"""Forty small functions that a chat model is asked for, and whether what it writes passes their asserts: AdaDec against
greedy decoding and beam search.

    python -m tests.engines.methods.sampling.programs [--model smollm2] [--tokens 96] [--first N]

What a model writes is run: in a process of its own, with an empty environment, in an empty folder, without a network or
other processes, with limits of time, memory and output. That holds against accidents, not against an attacker, so a
public host refuses it."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import engines
from engines.kit import UserError

TASKS = Path(__file__).resolve().parents[4] / "assets" / "tasks" / "code_functions.json"
SETTINGS: dict[str, tuple[str, dict[str, float]]] = {
    "greedy": ("greedy", {}),
    "beam 3": ("beam", {"width": 3}),
    "adadec": ("adadec", {}),
}
SECONDS, MEMORY, OUTPUT = 3, 2**29, 2**16  # of one program; bytes
GUARD = """
import sys
def _refuse(event, given):
    writes = event == "open" and (not isinstance(given[1], str) or set(given[1]) & set("wax+"))
    if writes or event.split(".")[0] in ("socket", "subprocess", "ctypes", "shutil", "urllib", "http", "ftplib") or (
        event.startswith("os.") and event not in ("os.listdir", "os.scandir", "os.walk", "os.fwalk")):
        raise PermissionError(event + " is not allowed here")
sys.addaudithook(_refuse)
"""


def program_of(answer: str) -> str:
    """The code of an answer: its first fenced block, or all of it where it has none."""
    found = re.search(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    return found[1] if found else answer


def run_program(code: str, asserts: Sequence[str]) -> str:
    """ "passed", or why not in a few words. Raises UserError on a public host, and where limits cannot be set."""
    if os.environ.get("SPACE_ID") or os.environ.get("EXPLORER_PUBLIC") == "1":
        raise UserError("programs that a model wrote are not run on a public host; run this on a machine of your own.")
    if os.name != "posix":
        raise UserError("programs are run with limits that only Linux and macOS have; run this there.")
    told = uuid.uuid4().hex  # said at the end: a program that stops early cannot pass
    checks = "\n".join(f"assert {one}" for one in asserts)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        file = Path(folder) / "program.py"
        file.write_text(f"{GUARD}\n{code}\n{checks}\nprint({told!r})\n", encoding="utf-8")
        try:
            streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": subprocess.STDOUT}
            alone = {"cwd": folder, "env": {}, "preexec_fn": _limits, "start_new_session": True}
            command = [sys.executable, "-I", "-S", "-B", str(file)]
            subprocess.run(command, timeout=2 * SECONDS, check=False, **streams, **alone)
        except subprocess.TimeoutExpired:
            return f"stopped after {2 * SECONDS} s"
        said.seek(0)
        lines = said.read(OUTPUT).decode("utf-8", "replace").strip().splitlines() or ["stopped by a limit"]
    return "passed" if lines[-1] == told else f"failed: {lines[-1][:120]}"


def _limits() -> None:
    """Set in the new process: seconds of processor, memory, bytes of output, open files, no core dump."""
    import resource

    for what, most in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, OUTPUT),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def main() -> None:
    """Decode all tasks with each setting, run what was written, and print shares with their 95 % intervals."""
    from engines.core.statistics import wilson

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--first", type=int, default=40)
    given = parser.parse_args()
    model, tasks = engines.load_model(given.model), json.loads(TASKS.read_text())["tasks"][: given.first]
    outcomes: dict[str, list[str]] = {}
    for name, (slug, options) in SETTINGS.items():
        params = {"max_new_tokens": given.tokens, **options}
        traces = [engines.run(slug, model, task["prompt"], params=params, detail="light") for task in tasks]
        answers = zip(traces, tasks, strict=True)
        outcomes[name] = [run_program(program_of(trace.text), task["asserts"]) for trace, task in answers]
        passed, tokens = outcomes[name].count("passed"), sum(trace.totals.tokens for trace in traces)
        low, high = wilson(passed, len(tasks))
        forwards = sum(trace.totals.forwards for trace in traces) / tokens
        print(f"{name:8s} {passed} of {len(tasks)} pass ({low:.0%} to {high:.0%}); {forwards:.2f} forwards a token")
    for task, *found in zip(tasks, *outcomes.values(), strict=True):
        print(f"{task['signature']:28s}", " | ".join(one[:40].ljust(40) for one in found))


if __name__ == "__main__":
    main()
