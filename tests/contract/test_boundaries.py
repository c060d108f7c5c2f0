"""Who may know what, measured on the source itself. The rules are in `assets/docs/design.md`; here they are
enforced.

**Slugs.** No module outside `engines/methods/<family>/` and the tests may name a method, so that adding one touches its
own files only. A slug with a hyphen, a digit or an underscore, or one that is no ordinary word of this program, may not
appear as a string literal anywhere else. Some slugs (`greedy`, `threshold`, `llada`, ...) are also words for other
things: commit causes, lanes, parameters, the `model_type` of a checkpoint. Those words are read out of the
declarations, of `engines/core/trace` and of the comparisons with a model type, not listed here by hand, and for them
only the *use as a method* is refused: as an argument of a call, or in a comparison, whose other side is about methods
(`run("greedy", ...)`, `x.method == "greedy"`, `method="greedy"`, `slug in ("greedy",)`)."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

import engines

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {p.name for p in (ROOT / "engines" / "methods").iterdir() if p.is_dir() and (p / "__init__.py").exists()}
SURFACES = {"engines", "explorer"}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
DECLARING = {"method", "Int", "Float", "Bool", "Choice", "Text", "Code", "LaneInfo"}
MAX_FUNCTION, MAX_DECODE, MAX_FILE = 70, 70, 350


def sources(*roots: str) -> list[Path]:
    found: list[Path] = []
    for root in roots:
        path = ROOT / root
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [p for p in found if "__pycache__" not in p.parts]


Nodes = list[ast.AST]  # of a whole file, the file itself first


@cache
def trees() -> dict[Path, Nodes]:
    """Every file of the program, parsed and walked once for all tests."""
    found = (path for path in sources("engines", "explorer", "app.py") if path.exists())
    gc.disable()  # it would look through a million nodes again and again, which takes longer than to parse them
    try:
        return {path: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in found}
    finally:
        gc.enable()


def under(*roots: str) -> Iterator[tuple[str, Nodes]]:
    for path, nodes in trees().items():
        name = path.relative_to(ROOT).as_posix()
        if any(name == root or name.startswith(root + "/") for root in roots):
            yield name, nodes


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """(line, module, names) of every import, wherever in the file it stands."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or ""), tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func) in (
            "importlib.import_module",
            "import_module",
            "__import__",
        ):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value), ()


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name, or of attributes of whatever stands before them; "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return ""
    before = node.value
    return f"{dotted(before) if isinstance(before, (ast.Name, ast.Attribute)) else ast.unparse(before)}.{node.attr}"


def test_engines_know_nothing_of_the_page():
    forbidden = {"gradio", "plotly", "explorer", "app"}
    wrong = [
        f"{name}:{line} imports {module}"
        for name, nodes in under("engines")
        for line, module, _ in imports(nodes)
        if module.split(".")[0] in forbidden
    ]
    assert not wrong, "\n".join(wrong)


def test_core_imports_nothing_above_it():
    """Not even late, inside of functions; names for the type checker alone do not count."""
    graph = import_graph({path: nodes for path, nodes in trees().items() if path.is_relative_to(ROOT / "engines")})
    above = {
        f"{name} imports {one}"
        for name, found in graph.items()
        if name.startswith("engines.core")
        for one in found
        if not one.startswith("engines.core")
    }
    assert not above, "\n".join(sorted(above))


def test_core_knows_no_family():
    wrong = [
        f"{name}:{line} imports {module}"
        for name, nodes in under("engines/core", "engines/driver", "engines/models")
        for line, module, _ in imports(nodes)
        if module.startswith("engines.methods")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_product_imports_no_training():
    """The wheel has none."""
    wrong = [
        f"{name}:{line} imports {module}"
        for name, nodes in under("engines", "explorer", "app.py")
        if not name.startswith("engines/training/")
        for line, module, names in imports(nodes)
        if module.startswith("engines.training") or (module == "engines" and "training" in names)
    ]
    assert not wrong, "\n".join(wrong)


def test_explorer_uses_only_the_public_surface_of_engines():
    wrong = []
    for name, nodes in under("explorer"):
        for line, module, names in imports(nodes):
            if module.split(".")[0] != "engines" or module == "engines.tasks":
                continue
            private = [n for n in names if n not in engines.__all__ and n != "tasks"]
            if module != "engines" or private:
                wrong.append(f"{name}:{line} imports {', '.join(private or names) or module} from {module}")
        for node in nodes:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "engines"
                and node.attr not in (*engines.__all__, "tasks")
            ):
                wrong.append(f"{name}:{node.lineno} uses engines.{node.attr}")
    assert not wrong, "\n".join(wrong)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(trees: dict[Path, Nodes]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, wherever in the file; names for the type checker alone do not count."""
    known = {module_of(path): nodes for path, nodes in trees.items()}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, nodes in known.items():
        typing = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
        left_out = {id(part) for node in typing for line in node.body for part in ast.walk(line)}
        for _, module, names in imports(node for node in nodes if id(node) not in left_out):
            found = {f"{module}.{one}" for one in names if f"{module}.{one}" in known}
            graph[name] |= found or ({module} & set(known))
    return graph


def test_there_is_no_circle_of_imports():
    """The two public surfaces are left out: they hand out what lies behind them, and name the folder of the assets."""
    whole = import_graph(trees())
    graph = {name: found - SURFACES for name, found in whole.items() if name not in SURFACES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_a_circle_of_imports_is_found():
    a, b = ROOT / "engines/a.py", ROOT / "engines/b.py"
    there = "def f():\n    from engines.b import g"
    back = list(ast.walk(ast.parse("from engines import a")))
    with pytest.raises(CycleError):
        list(TopologicalSorter(import_graph({a: list(ast.walk(ast.parse(there))), b: back})).static_order())
    for_types = list(ast.walk(ast.parse("if TYPE_CHECKING:\n    from engines.b import g\nelse:\n    g = 1")))
    assert import_graph({a: for_types, b: back}) == {"engines.a": set(), "engines.b": {"engines.a"}}


def test_every_public_name_of_engines_exists():
    missing = [name for name in engines.__all__ if not hasattr(engines, name)]
    assert not missing


def test_app_is_a_door():
    path = ROOT / "app.py"
    assert len(path.read_text().splitlines()) <= 40
    foreign = {m.split(".")[0] for _, m, _ in imports(trees()[path])} - {"explorer", "spaces", *sys.stdlib_module_names}
    assert not foreign


# --- slugs


def vocabulary() -> set[str]:
    """Words that the trace, the lanes, the parameters and the checkpoints use for other things than methods."""
    words: set[str] = set()
    for info in engines.list_methods():
        words |= (
            {p.name for p in info.params}
            | {c for p in info.params for c in p.choices}
            | set(info.lanes)
            | set(info.needs)
            | set(info.emits)
            | set(info.records)
        )
    for _, nodes in under("engines/models"):
        about_types = [node for node in nodes if isinstance(node, ast.Compare) and "model_type" in ast.unparse(node)]
        words |= {
            part.value
            for node in about_types
            for part in ast.walk(node)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
    words |= set(re.findall(r"\b[a-z]+\b", "".join(p.read_text() for p in sources("engines/core/trace"))))
    return words


def is_about_methods(node: ast.AST) -> bool:
    return bool(re.search(r"method|slug|baseline", ast.unparse(node), re.IGNORECASE))


def used_as_method(nodes: Iterable[ast.AST], shared: set[str]) -> Iterator[tuple[int, str]]:
    """Places where a literal in `shared` is passed to, or compared with, something about methods."""
    for node in nodes:
        suspects: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            suspects = (
                sides if any(is_about_methods(side) for side in sides if not isinstance(side, ast.Constant)) else []
            )
        elif isinstance(node, ast.Call):
            called = dotted(node.func).split(".")[-1]
            suspects = list(node.args[:1]) if called in ("run", "stream", "get_method", "compare") else []
            suspects += [k.value for k in node.keywords if k.arg and is_about_methods(ast.Name(k.arg))]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            suspects = [node.value] if any(is_about_methods(target) for target in targets) else []
        elif isinstance(node, ast.Match) and is_about_methods(node.subject):
            suspects = [case.pattern for case in node.cases]
        for suspect in suspects:
            for part in ast.walk(suspect):
                if isinstance(part, ast.Constant) and part.value in shared:
                    yield part.lineno, str(part.value)


def test_no_slug_outside_its_family():
    slugs = {info.slug for info in engines.list_methods()}
    shared = slugs & vocabulary()
    unmistakable = slugs - shared
    wrong = []
    for name, nodes in under("engines", "explorer", "app.py"):
        if name.startswith("engines/methods/"):
            continue
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in unmistakable:
                wrong.append(f"{name}:{node.lineno} names the method '{node.value}'")
        wrong += [f"{name}:{line} uses '{slug}' as a method" for line, slug in used_as_method(nodes, shared)]
    assert not wrong, "\n".join(wrong)


def test_no_script_names_a_method():
    """Neither the player's nor the page's: a view is found by what a record holds, or by the name that it declares."""
    slugs = {info.slug for info in engines.list_methods()} - vocabulary()
    scripts = [path for root in ("assets/player", "explorer") for path in (ROOT / root).rglob("*.js")]
    wrong = [
        f"{path.relative_to(ROOT)} names '{slug}'"
        for path in scripts
        for slug in slugs & set(re.findall(r"""["'`]([\w-]+)["'`]""", path.read_text(encoding="utf-8")))
    ]
    assert scripts and not wrong, "\n".join(wrong)


def test_the_slug_rule_bites():
    bad = (
        'run("greedy", model)\nif header.method == "greedy": pass\nshow(method="greedy")\nDEFAULT_METHODS = '
        '("greedy", "x")\n'
    )
    assert [slug for _, slug in used_as_method(ast.walk(ast.parse(bad)), {"greedy"})] == ["greedy"] * 4
    fine = 'causes = ["greedy"]\nif cause == "greedy": pass\npack("greedy")\n'
    assert not list(used_as_method(ast.walk(ast.parse(fine)), {"greedy"}))


def of_one_method() -> set[str]:
    """Names of parameters and choices, lanes, roles and parts that one method alone has, and the views that show the
    idea of one method alone."""
    owners: dict[str, set[str]] = {}
    for info in engines.list_methods():
        choices = {choice for p in info.params for choice in p.choices}
        for name in {p.name for p in info.params} | choices | {*info.lanes, *info.needs, *info.parts, info.signature}:
            owners.setdefault(name, set()).add(info.slug)
    own = {name for name, slugs in owners.items() if len(slugs) == 1 and not name.isdigit()}
    return own - set(re.findall(r"\w+", "".join(p.read_text() for p in sources("engines/core/trace"))))


def test_what_one_paper_says_stands_in_its_file():
    """Not in the method's, where no language but English reads it. What several papers share is said where it is
    shared: in files whose name begins with _."""
    wrong = []
    for name, nodes in under("engines/methods"):
        if Path(name).name.startswith("_") and not name.endswith("__init__.py"):
            continue
        for call in (node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) in DECLARING):
            told = [k for k in call.keywords if k.arg in ("departures", "help") and ast.unparse(k.value) != "''"]
            if told or (dotted(call.func) == "LaneInfo" and len(call.args) + len(call.keywords) > 1):
                wrong.append(f"{name}:{call.lineno} says what belongs into `says` of its paper's file")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("file", ["runs.py", "test_every_method.py", "test_several_paths.py", "test_whole_answers.py"])
def test_the_contract_knows_no_method(file: str):
    """Neither by its slug nor by what it alone has; how a method is tried stands in its paper's file."""
    slugs = {info.slug for info in engines.list_methods()}
    told = slugs - vocabulary() | of_one_method()
    nodes = list(ast.walk(ast.parse((Path(__file__).parent / file).read_text())))
    wrong = [f"{file}:{line} imports {module}" for line, module, _ in imports(nodes) if "engines.methods" in module]
    wrong += [
        f"{file}:{node.lineno} names '{node.value}', which one method alone has"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in told
    ]
    assert not wrong, "\n".join(wrong)


# --- what an import costs


HEAVY = {"torch", "transformers", "plotly", "lm_eval", "datasets"}
LIGHT = [  # code, and what it may not import, in the order in which one process runs it
    ("import explorer, explorer.evaluation, explorer.figures.metrics, explorer.runs.gallery", HEAVY | {"gradio"}),
    ("import engines; engines.list_methods(); engines.list_studies(); engines.list_models()", HEAVY | {"gradio"}),
    ("import explorer.cli; explorer.cli.parser()", HEAVY | {"gradio", "pandas"}),
    ("import explorer.page.server", HEAVY),
]


def test_imports_stay_light():
    code = "".join(f"{line}\nprint(*sys.modules)\n" for line, _ in LIGHT)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for (line, unwanted), modules in zip(LIGHT, done.stdout.splitlines(), strict=True):
        assert not unwanted & {*modules.split()}, line


# --- sizes


def functions() -> Iterator[tuple[int, str, bool]]:
    """(lines, place, is a method's decode loop); decorators are declarations and do not count."""
    for path, nodes in trees().items():
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno} {node.name}"
                yield (node.end_lineno or 0) - node.lineno + 1, place, node.name == "decode"


def test_functions_stay_short():
    found = list(functions())
    others = [n for n, _, loop in found if not loop]
    long = [f"{place} has {n} lines" for n, place, loop in found if n > (MAX_DECODE if loop else MAX_FUNCTION)]
    assert not long, "\n".join(long)
    assert median(others) <= 12


def test_files_stay_short():
    found = [(lines_of(path), path.relative_to(ROOT).as_posix()) for path in trees()]
    long = [f"{name} has {n} lines" for n, name in found if n > MAX_FILE]
    assert not long, "\n".join(long)


METHODS = ROOT / "engines" / "methods"
MAX_LOOP, MAX_FOLDER = 250, 600  # lines of a file that holds a method's loop, and of a method's folder
SHARED_FILES, SHARED_LINES = 20, 2600  # of the underscore files, which several methods share


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_a_method_file_shows_its_loop():
    """A paper's file is read whole; what is beyond 250 lines lies in a folder of the method, whose `__init__.py` has
    the declaration and the loop."""
    found = [
        (lines_of(path), path.relative_to(ROOT).as_posix())
        for path, nodes in trees().items()
        if path.is_relative_to(METHODS)
        and any(isinstance(node, ast.FunctionDef) and node.name == "decode" for node in nodes)
    ]
    long = [f"{name} has {n} lines" for n, name in found if n > MAX_LOOP]
    assert not long, "\n".join(long)
    assert median(n for n, _ in found) <= 180


def test_a_methods_folder_stays_small_and_runs_by_itself():
    folders = [path.parent for path in METHODS.glob("*/*/__init__.py")]
    found = [(sum(map(lines_of, one.glob("*.py"))), one.relative_to(ROOT).as_posix()) for one in folders]
    assert not [f"{name} has {n} lines" for n, name in found if n > MAX_FOLDER]
    assert not [one for one in folders if any(part.is_dir() and part.name != "__pycache__" for part in one.iterdir())]
    silent = [one.name for one in folders if not (one / "__main__.py").is_file()]
    assert not silent, f"`python -m` finds no __main__.py in {silent}"


def test_what_methods_share_stays_small():
    """An underscore file beside the methods is read by several of them; what one alone needs is its own."""
    files = [path for path in METHODS.glob("*/_*.py") if path.name != "__init__.py"]
    lines = sum(map(lines_of, files))
    assert len(files) <= SHARED_FILES and lines <= SHARED_LINES
    graph = import_graph({path: nodes for path, nodes in trees().items() if path.is_relative_to(ROOT / "engines")})
    users = {file.stem: sum(module_of(file) in found for found in graph.values()) for file in files}
    alone = {name for name, number in users.items() if number < 2}
    assert not alone, f"{alone} have one user each"


def test_methods_cite_what_a_reader_can_find():
    """The paper's section or the official file; notes of ours are not there to be read."""
    cards = re.compile(r"\bCard\b|\bthe card's? (step|row|invariant)|\b[Ss]teps? [0-9-]+ of the card")
    wrong = [
        f"{path.relative_to(ROOT).as_posix()}:{number} {line.strip()}"
        for path in sources("engines/methods")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if cards.search(line)
    ]
    assert not wrong, "\n".join(wrong)


# --- what must never be done


def test_figures_and_views_use_no_randomness():
    wrong = []
    for name, nodes in under("explorer"):
        wrong += [
            f"{name}:{line} imports {module}"
            for line, module, _ in imports(nodes)
            if module.split(".")[0] in ("random", "secrets")
        ]
        for node in nodes:
            if isinstance(node, ast.Call) and re.search(
                r"(^|\.)(random|randint|rand|randn|shuffle|uniform|normal|default_rng)(\.|$)", dotted(node.func)
            ):
                wrong.append(f"{name}:{node.lineno} calls {dotted(node.func)}")
    assert not wrong, "\n".join(wrong)


def test_methods_draw_only_from_the_run():
    """In a method file every drawing call names its generator, and no module of chance is imported."""
    wrong = []
    for name, nodes in under("engines/methods"):
        wrong += [
            f"{name}:{line} imports {module}"
            for line, module, _ in imports(nodes)
            if module.split(".")[0] in ("random", "secrets")
        ]
        for node in nodes:
            drawing = isinstance(node, ast.Call) and dotted(node.func).startswith(
                ("torch.", "np.random.", "numpy.random.")
            )
            if drawing and re.search(
                r"(rand|randn|randint|randperm|multinomial|normal|bernoulli|random\.\w+|_like)$", dotted(node.func)
            ):
                if "rand" not in dotted(node.func) and dotted(node.func).endswith("_like"):
                    continue  # zeros_like and its kind draw nothing
                if "generator" not in {k.arg for k in node.keywords}:
                    wrong.append(f"{name}:{node.lineno} calls {dotted(node.func)} without a generator")
    assert not wrong, "\n".join(wrong)


ARCHIVES = "engines/models/drafters/files.py"  # half of the published drafters are nothing but PyTorch archives


def test_nothing_foreign_is_executed():
    """No eval or exec, no pickles, no code from a model's repository."""
    wrong = []
    for name, nodes in under("engines", "explorer", "app.py"):
        wrong += [
            f"{name}:{line} imports {module}" for line, module, _ in imports(nodes) if module.split(".")[0] in PICKLES
        ]
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            called, given = dotted(node.func), {k.arg: k.value for k in node.keywords}
            if called in ("eval", "exec", "compile", "os.system", "builtins.eval", "builtins.exec"):
                wrong.append(f"{name}:{node.lineno} calls {called}")
            trust = given.get("trust_remote_code")
            if trust is not None and not (isinstance(trust, ast.Constant) and trust.value is False):
                wrong.append(f"{name}:{node.lineno} may trust remote code")
            if called == "torch.load":
                safe = given.get("weights_only")
                allowed = name.startswith("engines/training/") or name == ARCHIVES
                if not (allowed and isinstance(safe, ast.Constant) and safe.value is True):
                    wrong.append(
                        f"{name}:{node.lineno} calls torch.load; safetensors only (training checkpoints: "
                        "weights_only=True)"
                    )
            if called.startswith("subprocess.") and isinstance(given.get("shell"), ast.Constant):
                wrong.append(f"{name}:{node.lineno} uses a shell")
    assert not wrong, "\n".join(wrong)
