"""A Python file outside the package that declares methods: read, run as a module of its own, and what goes wrong in it
told with its line.

The file is run like any Python program, with everything that the person who started it may do."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from engines.core.errors import OTHER_ENDS, UserError, described
from engines.core.method import Method
from engines.core.sentences import PaperFiles, paper_files, told
from engines.core.trace import GROUPS

MAX_BYTES = 2**20


def declared_in(path: Path, papers: Callable[[], PaperFiles] = paper_files) -> list[Method]:
    """The methods that a file declares, each with the file and the sha256 of its text, and with the sentences that the
    paper's file has where it has none itself. Raises UserError where there is no such file, it does not run, it
    declares none, or a sentence stands in neither."""
    source, here = _source(path), str(path.resolve())
    found = [value for value in vars(_module(path, here, source)).values() if isinstance(value, Method)]
    if not found:
        raise UserError(
            f"'{path}' declares no method; put @method(...) above a generator, as in `decoding-explorer template`."
        )
    version = hashlib.sha256(source).hexdigest()
    ours = [
        Method(msgspec.structs.replace(one.info, file=here, version=version), one.decode, one.check) for one in found
    ]
    try:
        return [told(one, papers) for one in ours]
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None


def _source(path: Path) -> bytes:
    if path.is_dir():
        raise UserError(f"'{path}' is a folder; give the Python file that holds your method.")
    if not path.is_file():
        raise UserError(
            f"there is no file '{path}'; `decoding-explorer template > {path.name}` writes one to start from."
        )
    source = path.read_bytes()
    if len(source) > MAX_BYTES:
        raise UserError(f"'{path}' has more than {MAX_BYTES:,} bytes, which is not a method file.")
    return source


def _module(path: Path, here: str, source: bytes) -> Any:
    """The file, run as a module of its own. Raises UserError with the line that failed."""
    name = f"own_method_{hashlib.sha256(here.encode()).hexdigest()[:12]}"
    loader = importlib.machinery.SourceFileLoader(name, here)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up
    try:
        code = loader.source_to_code(
            source, here
        )  # from the bytes that were hashed; no cached bytecode of an older text
        loader.get_code = lambda fullname: code  # type: ignore[method-assign,misc]
        loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise UserError(
            f"'{path}' is not Python: {error.msg} (line {error.lineno}: {(error.text or '').strip()[:80]})."
        ) from None
    except (Exception, *OTHER_ENDS) as error:
        del sys.modules[name]
        what = f"'{path}' cannot be loaded: {described(error)}"
        raise UserError(f"{what}{where(error, here)}.{_hint(error)}") from error
    return module


def _hint(error: BaseException) -> str:
    said = described(error)
    if isinstance(error, TypeError) and "method()" in said and "emits" in said:
        return (
            f" Name there what `run.step` is given, for example emits={{'commits', 'note'}}; there is "
            f"{', '.join(sorted(GROUPS))}."
        )
    return ""


def where(error: BaseException, file: str) -> str:
    """' (my.py, line 12: x = y)': the last line of the author's own file on the way to the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return ""
    frame = frames[-1]
    return f" ({Path(frame.filename).name}, line {frame.lineno}: {(frame.line or '').strip()[:80]})"
