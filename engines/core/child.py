"""Programs of ours that work on what a stranger wrote: each is a process of its own, without the environment of this
one, that can be ended where it takes too long; one thread here talks to it, in lines of JSON."""

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from typing import Any

__all__ = ["START", "Child", "Late"]
START = 60.0  # seconds for a process to start, which no answer's time holds


class Child:
    """A program and the thread that talks to it. It is started when it is first needed, and anew after it was ended.

    It is run with `-I -S` and the arguments: a folder of its own, then the folders that hold `packages`. An empty line
    from it says that it is ready; then it answers each line with one."""

    def __init__(self, program: Path, *packages: str) -> None:
        self.program, self.packages = program, packages
        self._begin()
        if hasattr(os, "register_at_fork"):  # a fork has none of the threads, and the process answers its parent
            os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.end)

    def _begin(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self.program.stem.strip("_"))
        self.folder = ""  # one for each process: one that was ended may leave half a file
        self.process: subprocess.Popen[str] | None = None

    def ask(self, question: Mapping[str, object], seconds: float) -> dict[str, Any]:
        """The answer, {"error": ...} where the process ended. Raises Late where it does not come in time."""
        if not self._runs():
            start = self.thread.submit(self._up)
            try:
                start.result(timeout=START)
            except Late:
                if not start.cancel():
                    self.kill()
                raise
        task = self.thread.submit(self._talk, json.dumps(question))
        try:
            return task.result(timeout=seconds)
        except Late:
            if not task.cancel():  # it is this question that takes so long, and not one before it
                self.kill()
            raise

    def _runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _up(self) -> None:
        """Start the process if there is none, and wait until it can answer."""
        if not self._runs():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = tempfile.mkdtemp(prefix="decoding-explorer-")
            specs = (importlib.util.find_spec(name) for name in self.packages)
            homes = {str(Path(str(spec and spec.origin)).parents[1]) for spec in specs}
            command = [sys.executable, "-I", "-S", str(self.program), self.folder, *sorted(homes)]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, encoding="utf-8", env={}, cwd=self.folder, **pipes)
            assert self.process.stdout
            self.process.stdout.readline()  # it is ready, or it ended

    def _talk(self, question: str) -> dict[str, Any]:
        self._up()
        assert self.process and self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        return json.loads(line) if line.endswith("\n") else {"error": "it ended"}

    def kill(self) -> None:
        """End it now."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """With this program."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
