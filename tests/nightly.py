"""The nightly tests, part by part, and tests/nightly.json: what each part found, at which commit and on what machine.

python -m tests.nightly [PART ...]   runs these parts; without a name, each that has no result for the code as it is
python -m tests.nightly --age        how many commits old each result is
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import ledger
from tests.tiers import NIGHTLY, expression

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path("tests/nightly.json")
NOT_CODE = [":/", f":(exclude,top){RECORD}"]  # a commit of the record alone makes no result older
Result = dict[str, Any]


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commits_since(commit: str) -> int | None:
    """How many commits of code came after it; None if it is no ancestor of what is checked out."""
    if (
        not commit
        or subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, check=False).returncode
    ):
        return None
    return int(git("rev-list", "--count", f"{commit}..HEAD", "--", *NOT_CODE))


def recorded() -> dict[str, Result]:
    """What tests/nightly.json says, by part."""
    path = ROOT / RECORD
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def machine() -> str:
    """The processor by its name, and how many of it."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def run(part: str) -> Result:
    """Runs a part; what came of it."""
    began = datetime.datetime.now(datetime.UTC)
    command = [sys.executable, "-m", "pytest", "-q", "-m", expression(part)]
    if part == "timing":
        command += ["-n", "0"]  # nothing runs beside what compares seconds
    with tempfile.TemporaryDirectory(prefix="ledger-") as folder:
        status = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"TESTS_LEDGER": folder},
            check=False,
        ).returncode
        rows = ledger.read(Path(folder))
    again = {row["repeated"] for row in rows if "repeated" in row}
    tests = [row for row in rows if "id" in row]
    failed = [row for row in tests if row["out"] == "failed" and row["id"] not in again]
    return {
        "commit": git("rev-parse", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no", "--", *NOT_CODE)),
        "began": began.isoformat(timespec="seconds"),
        "seconds": round((datetime.datetime.now(datetime.UTC) - began).total_seconds()),
        "machine": machine(),
        "status": status,  # pytest's: 0 where all passed
        "passed": sum(row["out"] == "passed" for row in tests),
        "skipped": sum(row["out"] == "skipped" for row in tests),
        "failed": [{"test": row["id"], "error": row.get("error", "")} for row in failed],
        "repeated": [{"test": row["repeated"], "error": row["error"]} for row in rows if "repeated" in row],
        "ledger": ledger.by_folder(rows),
    }


def age(part: str, result: Result | None) -> str:
    """A line about a part."""
    if result is None:
        return f"{part}: never run"
    since = commits_since(result["commit"])
    old = "at a commit that is not here" if since is None else f"{since} commit{'s' * (since != 1)} ago"
    came = f"{result['passed']} passed" if result["passed"] else f"{result['skipped']} skipped, none ran"
    if result["status"]:
        came = f"{len(result['failed'])} failed (status {result['status']})"
    more = f", {len(result['repeated'])} repeated" if result["repeated"] else ""
    return f"{part}: {came}{more}, {old}{', with changes' * result['changed']}, {result['seconds']} s"


def main() -> int:
    """1 where a test of the parts that ran failed."""
    p = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__.partition("\n")[0])
    p.add_argument("parts", nargs="*", choices=[[], *NIGHTLY], metavar="PART", help=", ".join(NIGHTLY))
    p.add_argument("--age", action="store_true", help="run nothing, say how old each result is")
    given = p.parse_args()
    found = recorded()
    if given.age:
        print("\n".join(age(part, found.get(part)) for part in NIGHTLY))
        return 0
    fresh = [
        p for p, one in found.items() if not one["changed"] and not one["status"] and commits_since(one["commit"]) == 0
    ]
    parts = given.parts or [part for part in NIGHTLY if part not in fresh]
    for part in parts:
        print(f"\n== {part}: {NIGHTLY[part]}", flush=True)
        found[part] = run(part)
        (ROOT / RECORD).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    print("\n".join(age(part, found.get(part)) for part in NIGHTLY))
    return int(any(found[part]["status"] for part in parts))


if __name__ == "__main__":
    raise SystemExit(main())
