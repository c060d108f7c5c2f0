"""Methods of a person's own: a local file with `@method` in it becomes part of the registry, and what goes wrong in it
becomes a sentence with its line.

The file is run like any Python program, with everything that the person who started it may do. It is for files that you
wrote or have read; a public host refuses it (`explorer.page.server`)."""

import inspect
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

from engines.core.errors import OTHER_ENDS, UserError, described
from engines.core.method import MethodInfo
from engines.core.method_file import declared_in, texts_of, where
from engines.core.places import expanded
from engines.core.registry import check_records, registry
from engines.core.sentences import paper_files
from engines.core.trace import GROUPS, Edit, Step


def load_method_file(name: str | Path, *, sentences: bool = True) -> list[MethodInfo]:
    """Register the methods that a local Python file declares, or a folder with an `__init__.py`, and return their
    declarations; the same file again replaces them. sentences: whether each of them has to be there, which a process
    that only decodes does not need.

    Raises UserError where there is no such file, it does not run, it declares no method, or a slug is taken.
    """
    path = expanded(str(name))
    methods, known = declared_in(path, paper_files if sentences else None), registry().methods
    here = methods[0].info.file
    for method in methods:
        slug, taken = method.info.slug, known.get(method.info.slug)
        foreign = taken and taken.info.file != here and taken.info.version != method.info.version
        if foreign or [m.info.slug for m in methods].count(slug) > 1:
            raise UserError(
                f"'{path}' declares the method '{slug}', and that name is taken; choose another one in @method(...)."
            )
        try:
            check_records(method.info, known)
        except ValueError as error:
            raise UserError(f"'{path}': {error}.") from None
        if not inspect.isgeneratorfunction(method.decode):
            raise UserError(
                f"'{slug}' in '{path}' never yields; a method ends every forward with `yield run.step(...)`."
            )
    for old in [slug for slug, method in known.items() if method.info.file == here]:
        del known[old]
    known.update({method.info.slug: method for method in methods})
    return [method.info for method in methods]


def method_texts(file: str) -> dict[str, str]:
    """What the method of that file (`MethodInfo.file`) needs to be loaded elsewhere: texts by name; of a folder by the
    path from the one that holds it."""
    return {name: text.decode("utf-8") for name, text in texts_of(Path(file)).items()}


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
            except (Exception, *OTHER_ENDS) as error:
                if isinstance(error, UserError) and type(error).__str__ is BaseException.__str__:
                    raise  # it says what it was given to say
                raise UserError(_failure(info, steps, error)) from error
            _check(info, step)
            edit = yield step
            steps += 1
    finally:
        generator.close()


def _failure(info: MethodInfo, steps: int, error: BaseException) -> str:
    what = described(error)
    if (
        isinstance(error, KeyError)
        and error.args
        and isinstance(error.args[0], str)
        and error.args[0] not in info.lanes
        and "pack_scores" in {f.name for f in traceback.extract_tb(error.__traceback__)}
    ):
        what = f"the score lane '{error.args[0]}' is not declared; add it to lanes= in @method(...)"
    place = where(error, info.file) or f" ({info.own_file})"
    return f"'{info.slug}' failed after {steps} step{'' if steps == 1 else 's'}: {what}{place}."


def _check(info: MethodInfo, step: Any) -> None:
    """Refuse what is no step, and groups that the declaration does not name: the page draws what is declared."""
    if not isinstance(step, Step):
        raise UserError(
            f"'{info.slug}' yielded {type(step).__name__} instead of a step; write `yield run.step(...)` "
            f"({info.own_file})."
        )
    if extra := sorted(group for group in GROUPS - info.emits if getattr(step, group, None)):
        raise UserError(
            f"'{info.slug}' records {', '.join(extra)}, which its declaration does not name; add it to emits= in "
            "@method(...)."
        )
