"""The command line in the process of the tests: its exit status, what it printed, and the one line of a refusal."""

import pytest

from explorer.cli import main


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line of a refusal."""
    code, out, err = call(capsys, *argv)
    assert code == 2 and out == ""
    assert err.startswith("decoding-explorer: ") and err.endswith("\n") and err.count("\n") == 1, err
    return err
