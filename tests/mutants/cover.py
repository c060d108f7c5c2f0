"""Which tests run a line: read from the data of coverage.py, whose contexts are the tests' names."""

import json
from collections.abc import Iterable
from pathlib import Path


class Map:
    """The tests that ran each line of a checkout, with what each took and how much else it ran."""

    def __init__(self, root: Path, data: Iterable[Path], ledgers: Iterable[Path]) -> None:
        from coverage import CoverageData

        self.root, self.data, self.breadth = root, [], {}
        for path in data:
            read = CoverageData(str(path))
            read.read()
            self.data.append(read)
        self.seconds: dict[str, float] = {}
        self.tiers: dict[str, list[str]] = {}
        for path in ledgers:
            for line in path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                if entry.get("out") == "passed":
                    self.seconds[entry["id"]], self.tiers[entry["id"]] = entry["cpu"], entry["marks"]
        for read in self.data:
            for file in read.measured_files():
                for context in {c for found in read.contexts_by_lineno(file).values() for c in found}:
                    test = context.partition("|")[0]
                    self.breadth[test] = self.breadth.get(test, 0) + 1

    def of(self, file: str, line: int) -> list[str]:
        """The tests that ran a line: the briefest of those that run few other files first."""
        found: set[str] = set()
        for read in self.data:
            at = read.contexts_by_lineno(str(self.root / file))
            found |= {context.partition("|")[0] for context in at.get(line, ())}
        return sorted(found & self.seconds.keys(), key=lambda t: (self.breadth.get(t, 0) // 8, self.seconds[t], t))

    def naming(self, word: str) -> list[str]:
        """For code that coverage.py does not see, or sees only where a browser asks for it: the tests of the player and
        the page in files that name a module; a file that is called after it first."""
        files = {test.partition("::")[0] for test in self.seconds if test.startswith(("tests/player", "tests/page"))}
        texts = {file: (self.root / file).read_text("utf-8") for file in files}
        named = {file for file, text in texts.items() if word in text or "*.test.mjs" in text}  # these name none
        stem = word.partition(".")[0]
        return sorted(
            (test for test in self.seconds if test.partition("::")[0] in named),
            key=lambda t: (stem not in t.partition("::")[0], "browser" in self.tiers[t], self.seconds[t]),
        )
