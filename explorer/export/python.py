"""The Python lines that repeat a run: method, models, prompt, parameters, seed and edits, as a short script."""

from __future__ import annotations

from collections.abc import Iterable
from pprint import pformat
from typing import TYPE_CHECKING, Any

import engines
from engines import UserError

if TYPE_CHECKING:
    from engines import ModelRecord, Trace

WIDTH = 110


def lines(traces: Trace | Iterable[Trace], ids: bool = False) -> str:
    """A script that makes the same runs again and leaves the last trace in `trace`.

    With `ids` the prompt stands as token ids, which is exact also where it was given as ids. Raises UserError for a
    trace that another program made."""
    several: list[Trace] = [traces] if hasattr(traces, "to_json") else list(traces)  # type: ignore[list-item, arg-type]
    if not several:
        raise UserError("there is no run to write lines for; give at least one trace.")
    return "import engines\n\n" + "\n".join(_one(trace, ids) for trace in several)


def _one(trace: Trace, ids: bool) -> str:
    header = trace.header
    if header.imported_from:
        raise UserError(f"this run was imported from {header.imported_from}; it cannot be repeated here.")
    engines.forking_method(trace)  # raises for a watched loop, which has none; another one may be known elsewhere only
    models = {record.role: _model(record) for record in header.models}
    several = "{" + ", ".join(f"{role!r}: {source}" for role, source in models.items()) + "}"
    model = next(iter(models.values())) if len(models) == 1 else several
    arguments = [repr(header.method), "model", "prompt", f"params={_written(header.params)}", f"seed={header.seed!r}"]
    if header.detail != "full":
        arguments.append(f"detail={header.detail!r}")
    if header.edits:
        edits = ", ".join(f"({change.after_step!r}, {_edit(change.edit)})" for change in header.edits)
        arguments.append(f"edits=[{edits}]")
    if trace.end.reason != "complete":
        arguments.append(f"max_steps={max(1, len(trace.steps))!r}")
    known = {listed_model.name for listed_model in engines.list_models()}
    apart = sorted({record.name for record in header.models if record.name not in known and "/" not in record.name})
    notes = "".join(f"# {name!r} was read from a folder: write its path below.\n" for name in apart)
    prompt = _written(header.prompt_ids) if ids else repr(header.prompt)
    call = ",\n    ".join(arguments)
    return f"{notes}model = {model}\nprompt = {prompt}\ntrace = engines.run(\n    {call},\n)\nprint(trace.text)\n"


def _model(record: ModelRecord) -> str:
    """The call that loads the weights as they were loaded then. Raises UserError for an option that no loader could
    have had."""
    options = "".join(f", {name}={value!r}" for name, value in record.loading.items())
    return f"engines.load_model({record.name!r}{options})"


def _edit(edit: Any) -> str:
    given = [(name, getattr(edit, name)) for name in edit.__struct_fields__]
    return f"engines.Edit({', '.join(f'{name}={value!r}' for name, value in given if value)})"


def _written(value: Any) -> str:
    """A dict with one entry per line, anything else in as few lines as fit; what follows the first line stands under
    it."""
    if isinstance(value, dict) and value:
        return "{\n" + "".join(f"        {key!r}: {entry!r},\n" for key, entry in value.items()) + "    }"
    return pformat(value, width=WIDTH, compact=True)
