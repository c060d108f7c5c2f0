"""A folder beside the repository with the files of more methods, each as it would be inside: `methods/<family>/*.py` or
`methods/<family>/<slug>/__init__.py`, `papers/<id>.json`, `traces/<id>.json.gz`. The variable DECODING_EXPLORER_EXTRA
names it.

Its method files are run like any Python program, so a public host refuses them (`explorer.page.server`)."""

import os
from pathlib import Path

from engines.core.errors import UserError
from engines.core.places import expanded

VARIABLE = "DECODING_EXPLORER_EXTRA"


def extra_folder() -> Path | None:
    """The folder, or None where none is named. Raises UserError where the named one is not there."""
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return None
    folder = expanded(given).resolve()
    if not folder.is_dir():
        raise UserError(f"{VARIABLE} names '{given}', which is not a folder; make it, or unset the variable.")
    return folder


def extra_methods() -> list[Path]:
    """The method files of that folder, of a method's own folder its `__init__.py`, in the order of their families. Runs
    none of them. Raises UserError."""
    folder = extra_folder()
    paths = [*(folder / "methods").glob("*/*")] if folder else []
    files = [path for path in paths if path.suffix == ".py"] + [
        path / "__init__.py" for path in paths if (path / "__init__.py").is_file()
    ]
    return sorted(path for path in files if path.relative_to(folder or path).parts[2][0] not in "_.")
