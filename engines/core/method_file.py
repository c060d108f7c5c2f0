"""A Python file outside the package that declares methods, or a folder with an `__init__.py` that does and helpers
beside it: read, run as a module of its own, and what goes wrong in it told with its line.

The file is run like any Python program, with everything that the person who started it may do."""

import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from engines.core.errors import OTHER_ENDS, UserError, described
from engines.core.method import Method
from engines.core.sentences import PaperFiles, paper_files, with_sentences
from engines.core.trace import GROUPS

MAX_BYTES = 2**20
PACKAGE = "__init__.py"  # of a method's own folder; its other files are imported as `from .rule import ...`


def declared_in(path: Path, papers: Callable[[], PaperFiles] | None = paper_files) -> list[Method]:
    """The methods that a file or a folder declares, each with the file and the sha256 of its text (of all texts of a
    folder), and with the sentences that the paper's file has where it has none itself; without `papers` it may have
    none. Raises UserError for no such file, one that does not run or declares none, or a sentence in neither."""
    path = path / PACKAGE if (path / PACKAGE).is_file() else path
    source, here = _source(path), str(path.resolve())
    methods = [value for value in vars(_module(path, here, source)).values() if isinstance(value, Method)]
    if not methods:
        raise UserError(
            f"'{path}' declares no method; put @method(...) above a generator, as in `decoding-explorer template`."
        )
    version = hashlib.sha256(source if path.name != PACKAGE else b"\0".join(texts_of(path).values())).hexdigest()
    ours = [
        Method(msgspec.structs.replace(method.info, file=here, version=version), method.decode, method.check)
        for method in methods
    ]
    try:
        return [with_sentences(method, papers) for method in ours] if papers else ours
    except UserError as error:
        raise UserError(f"'{path}': {error}") from None


def texts_of(path: Path) -> dict[str, bytes]:
    """What a method needs to be loaded elsewhere: its file by its name, or all Python files of its folder by their
    paths from the one that holds it."""
    if path.name != PACKAGE:
        return {path.name: path.read_bytes()}
    folder = path.parent
    return {file.relative_to(folder.parent).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*.py"))}


def _source(path: Path) -> bytes:
    if path.is_dir():
        raise UserError(
            f"'{path}' is a folder without {PACKAGE}; give the Python file that holds your method, or its folder."
        )
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
    spec = importlib.util.spec_from_loader(name, loader, is_package=path.name == PACKAGE)
    assert spec
    module = importlib.util.module_from_spec(spec)
    for old in [module_name for module_name in sys.modules if module_name.startswith(f"{name}.")]:
        del sys.modules[old]  # helpers that were read before
    sys.modules[name] = module  # dataclasses and type hints look their module up
    cached, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside a person's files
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
    finally:
        sys.dont_write_bytecode = cached
    return module


def _hint(error: BaseException) -> str:
    message = described(error)
    if isinstance(error, TypeError) and "method()" in message and "emits" in message:
        return (
            f" Name there what `run.step` is given, for example emits={{'commits', 'note'}}; there is "
            f"{', '.join(sorted(GROUPS))}."
        )
    return ""


def where(error: BaseException, file: str) -> str:
    """' (my.py, line 12: x = y)': the last line of the author's own file, or of a file of its folder, on the way to the
    error."""
    own = f"{Path(file).parent}{os.sep}" if Path(file).name == PACKAGE else file
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(own)]
    if not frames:
        return ""
    frame = frames[-1]
    return f" ({Path(frame.filename).name}, line {frame.lineno}: {(frame.line or '').strip()[:80]})"
