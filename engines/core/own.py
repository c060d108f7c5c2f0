"""Methods of a person's own: a local file with `@method` in it becomes part of the registry, and what goes wrong in it becomes a sentence with its line.

The file is run like any Python program, with everything that the person who started it may do. It is for files that you wrote or have read; a public
host refuses it (`explorer.page.server`).
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from engines.core.errors import UserError
from engines.core.events import Edit, Step
from engines.core.method import GROUPS, Method, MethodInfo
from engines.core.registry import registry

MAX_BYTES = 2**20


def load_method_file(name: str | Path) -> list[MethodInfo]:
    """Register the methods that a local Python file declares, and return their declarations; the same file again replaces them.

    Raises UserError where there is no such file, it does not run, it declares no method, or a slug is taken.
    """
    path = Path(name).expanduser()
    source = _source(path)
    here, known = str(path.resolve()), registry().methods
    found = [value for value in vars(_module(path, here, source)).values() if isinstance(value, Method)]
    if not found:
        raise UserError(f"'{path}' declares no method; put @method(...) above a generator, as in `decoding-explorer template`.")
    for one in found:
        slug = one.info.slug
        if ((taken := known.get(slug)) and taken.info.file != here) or [m.info.slug for m in found].count(slug) > 1:
            raise UserError(f"'{path}' declares the method '{slug}', and that name is taken; choose another one in @method(...).")
        if not inspect.isgeneratorfunction(one.decode):
            raise UserError(f"'{slug}' in '{path}' never yields; a method ends every forward with `yield run.step(...)`.")
    for old in [slug for slug, one in known.items() if one.info.file == here]:
        del known[old]
    version = hashlib.sha256(source).hexdigest()
    for one in found:
        known[one.info.slug] = Method(msgspec.structs.replace(one.info, file=here, version=version), one.decode, one.check)
    return [known[one.info.slug].info for one in found]


def _source(path: Path) -> bytes:
    if path.is_dir():
        raise UserError(f"'{path}' is a folder; give the Python file that holds your method.")
    if not path.is_file():
        raise UserError(f"there is no file '{path}'; `decoding-explorer template > {path.name}` writes one to start from.")
    source = path.read_bytes()
    if len(source) > MAX_BYTES:
        raise UserError(f"'{path}' has more than {MAX_BYTES:,} bytes, which is no method file.")
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
        code = loader.source_to_code(source, here)  # from the bytes that were hashed; no cached bytecode of an older text
        loader.get_code = lambda fullname: code  # type: ignore[method-assign,misc]
        loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise UserError(f"'{path}' is not Python: {error.msg} (line {error.lineno}: {(error.text or '').strip()[:80]}).") from None
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        what = f"'{path}' cannot be loaded: {type(error).__name__}: {error}"
        raise UserError(f"{what}{_where(error, here)}.{_hint(error)}") from error
    return module


def _hint(error: BaseException) -> str:
    if isinstance(error, TypeError) and "method()" in str(error) and "emits" in str(error):
        return f" Name there what `run.step` is given, for example emits={{'commits', 'note'}}; there is {', '.join(sorted(GROUPS))}."
    return ""


def _where(error: BaseException, file: str) -> str:
    """' (my.py, line 12: x = y)': the last line of the author's own file on the way to the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        return ""
    frame = frames[-1]
    return f" ({Path(frame.filename).name}, line {frame.lineno}: {(frame.line or '').strip()[:80]})"


def explained(info: MethodInfo, generator: Generator[Step, Edit | None, None]) -> Generator[Step, Edit | None, None]:
    """A local method's generator, whose mistakes are `UserError`s that tell its author where to look."""
    edit: Edit | None = None
    steps = 0
    try:
        while True:
            try:
                step = generator.send(edit)
            except StopIteration:
                return
            except UserError:
                raise
            except Exception as error:
                raise UserError(_failure(info, steps, error)) from error
            _check(info, step)
            edit = yield step
            steps += 1
    finally:
        generator.close()


def _failure(info: MethodInfo, steps: int, error: Exception) -> str:
    what = f"{type(error).__name__}: {error}"
    if (
        isinstance(error, KeyError)
        and error.args
        and error.args[0] not in info.lanes
        and "_lanes" in {f.name for f in traceback.extract_tb(error.__traceback__)}
    ):
        what = f"the score lane '{error.args[0]}' is not declared; add it to lanes= in @method(...)"
    where = _where(error, info.file) or f" ({Path(info.file).name})"
    return f"'{info.slug}' failed after {steps} step{'' if steps == 1 else 's'}: {what}{where}."


def _check(info: MethodInfo, step: Any) -> None:
    """Refuse what is no step, and groups that the declaration does not name: the page draws what is declared."""
    if not isinstance(step, Step):
        raise UserError(f"'{info.slug}' yielded {type(step).__name__} instead of a step; write `yield run.step(...)` ({Path(info.file).name}).")
    if extra := sorted(group for group in GROUPS - info.emits if getattr(step, group, None)):
        raise UserError(f"'{info.slug}' records {', '.join(extra)}, which its declaration does not name; add it to emits= in @method(...).")
