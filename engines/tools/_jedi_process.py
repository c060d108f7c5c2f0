"""The analyser's own process: questions as lines of JSON in, answers out. Started by `engines.tools.completion` with
`-I -S`, so that neither the environment nor installed packages reach it. An empty line says that it is ready.

Arguments: a folder for the cache, then the folders that hold jedi and parso. Once those are imported, only the standard
library can be found from here; jedi imports modules without source to look at them, and nothing else is ever run."""

import json
import sys
from pathlib import Path
from typing import Any

STUBS = "typeshed"  # in the path of the standard library's stubs that the analyser carries
MEMORY = 2 << 30  # bytes that the process may ask for, where the system can limit it


def main(cache: str, *homes: str) -> None:
    """Answer until the input ends."""
    standard = list(sys.path)
    sys.path[:0] = homes
    import jedi
    import jedi.inference.sys_path

    sys.path[:] = standard
    jedi.inference.sys_path.check_sys_path_modifications = lambda context: []  # the text does not choose what is read
    jedi.settings.cache_directory = cache
    jedi.settings.auto_import_modules = []
    environment = jedi.api.environment.InterpreterEnvironment()
    _limit()
    print(flush=True)  # ready
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"rows": _rows(jedi, environment, standard, **json.loads(line))}
        except Exception as error:  # jedi fails in many ways on unfinished code; then it does not know
            answer = {"error": type(error).__name__}
        print(json.dumps(answer), flush=True)


def _limit() -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _rows(
    jedi: Any,
    environment: Any,
    standard: list[str],
    folder: str,
    main: str,
    about: str,
    text: str,
    line: int,
    column: int,
) -> list[Any]:
    """(name, detail) of each member at that place; about "signatures": the forms of the call, a row (name, kind,
    required, text) for each parameter."""
    project = jedi.Project(folder, sys_path=[folder, *standard], smart_sys_path=False, load_unsafe_extensions=False)
    script = jedi.Script(text, path=Path(folder) / main, project=project, environment=environment)
    within = [Path(folder), *(Path(path) for path in standard if path)]
    if not all(_known(definition, within) for definition in script.infer(line, max(0, column - 1))):
        return []
    if about == "signatures":
        forms = script.get_signatures(line, column)
        return [[_parameter(parameter) for parameter in form.params] for form in forms if _known(form, within)]
    completions = script.complete(line, column)
    return [(completion.name, _detail(completion, Path(folder))) for completion in completions if _plain(completion)]


def _parameter(parameter: Any) -> tuple[str, str, bool, str]:
    text, kind = parameter.to_string(), parameter.kind.name
    return parameter.name, kind, "=" not in text and not kind.startswith("VAR_"), text[:80]


def _plain(completion: Any) -> bool:
    return completion.type != "keyword" and completion.name.isidentifier()


def _known(definition: Any, within: list[Path]) -> bool:
    """Whether a definition is the project's or the standard library's. A package without files of its own has no path
    and is looked for by its name."""
    if definition.type == "namespace":
        return (within[0] / str(definition.full_name or "/").replace(".", "/")).is_dir()
    path = definition.module_path
    return path is None or any(folder in Path(path).parents for folder in within) or STUBS in Path(path).parts


def _detail(completion: Any, folder: Path) -> str:
    """The line that defines a name, with its place, where that is a file of the project; else what kind of thing it
    is."""
    if completion.type == "module":  # where it lies is looked up by importing paths: 0.2 s for each of hundreds
        return "module"
    path = completion.module_path
    if path is None or folder not in Path(path).parents or completion.line is None:
        return str(completion.type)
    code = completion.get_line_code().strip()
    return f"{code[:80]}  {Path(path).relative_to(folder).as_posix()}:{completion.line}"


if __name__ == "__main__":
    main(*sys.argv[1:])
