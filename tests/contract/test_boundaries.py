"""Who may know what, measured on the source itself. The rules are in `assets/docs/design.md`; here they are
enforced.

**Slugs.** No module outside `engines/methods/<family>/` and the tests may name a method, so that adding one touches its
own files only. A slug with a hyphen, a digit or an underscore, or one that is no ordinary word of this program, may not
appear as a string literal anywhere else. Some slugs (`greedy`, `threshold`, `llada`, ...) are also words for other
things: commit causes, lanes, parameters, the `model_type` of a checkpoint. Those words are read out of the
declarations, of `engines/core/trace` and of the comparisons with a model type, not listed here by hand, and for them
only the *use as a method* is refused: as an argument of a call, or in a comparison, whose other side is about methods
(`run("greedy", ...)`, `x.method == "greedy"`, `method="greedy"`, `slug in ("greedy",)`)."""

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import engines
from engines.methods import __main__ as command

ROOT = Path(__file__).resolve().parents[2]
DECLARING = {"method", "drafting", "unmasking", "Int", "Float", "Bool", "Choice", "Text", "Code", "LaneInfo"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
METHODS = ROOT / "engines" / "methods"
MAX_FUNCTION = 70  # lines


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
        elif isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("import_module", "__import__"):
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


PROGRAM = ("engines", "explorer", "app.py")
MAY_NOT = {  # what is told of a fault: which files, and a pattern of modules that they may not import
    "engines know nothing of the page": (("engines",), r"(gradio|plotly|explorer|app)(\.|$)"),
    "the core knows no family": (("engines/core", "engines/driver", "engines/models"), r"engines\.methods"),
    "the tasks know no model": (("engines/tasks",), r"engines\.models"),
    "the wheel has no training": (PROGRAM, r"engines\.training"),
    "figures and methods use no chance of their own": (("explorer", "engines/methods"), r"(random|secrets)(\.|$)"),
    "no pickle is read": (PROGRAM, r"(pickle|cloudpickle|dill|joblib|marshal|shelve)(\.|$)"),
}


@pytest.mark.parametrize("rule", MAY_NOT)
def test_no_file_imports_what_it_may_not_know(rule: str):
    roots, pattern = MAY_NOT[rule]
    wrong = [
        f"{name}:{line} imports {one}"
        for name, nodes in under(*roots)
        if not (name.startswith("engines/training/") and "training" in rule)
        for line, module, names in imports(nodes)
        for one in (module, *(f"{module}.{part}" for part in names))
        if re.match(pattern, one)
    ]
    assert not wrong, "\n".join(wrong)


def test_core_imports_nothing_above_it():
    """Not even late, inside of functions; names for the type checker alone do not count."""
    graph = import_graph({path: nodes for path, nodes in trees().items() if path.is_relative_to(ROOT / "engines")})
    core = {name: found for name, found in graph.items() if name.startswith("engines.core")}
    above = [f"{name} imports {one}" for name in core for one in core[name] if not one.startswith("engines.core")]
    assert not above, "\n".join(sorted(above))


MODELS = "files measures tokenizers layers networks configs adapters forwards parts drafters gguf loading".split()
"""The folders of engines/models: each may import those before it."""


def test_folders_of_models_import_only_those_below_them():
    """Not even late, inside of functions, as for the core."""
    graph = import_graph({path: nodes for path, nodes in trees().items() if path.is_relative_to(ROOT / "engines")})
    place = {f"engines.models.{folder}": i for i, folder in enumerate(MODELS)}
    folder_of = {name: place.get(".".join(name.split(".")[:3])) for name in graph}
    found = {name for name in graph if name.startswith("engines.models.")}
    assert {name.split(".")[2] for name in found} == {*MODELS}, "a folder is new; say where it stands"
    up = [
        f"{name} imports {one}"
        for name in found
        for one in graph[name]
        if (theirs := folder_of[one]) is not None and theirs > (folder_of[name] or 0)
    ]
    assert not up, "\n".join(sorted(up))


def test_explorer_uses_only_the_public_surface_of_engines():
    here = imports(ast.parse(Path(engines.__file__).read_text("utf-8")).body)
    eager = {name for _, module, names in here if module.startswith("engines") for name in names}
    public, wrong = {*eager, *engines.LATER, "study", "tasks"}, []
    assert all(hasattr(engines, name) for name in public)
    for name, nodes in under("explorer"):
        for line, module, names in imports(nodes):
            ours = module.split(".")[0] == "engines" and module != "engines.tasks"
            if ours and (module != "engines" or set(names) - public):
                wrong.append(f"{name}:{line} imports {', '.join(names)} from {module}")
        uses = [node for node in nodes if isinstance(node, ast.Attribute) and dotted(node.value) == "engines"]
        wrong += [f"{name}:{node.lineno} uses engines.{node.attr}" for node in uses if node.attr not in public]
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


def folder_of(module: str) -> str:
    """The layer that a module belongs to: its folder below the package, or itself."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("what", [str, folder_of], ids=["modules", "folders"])
def test_there_is_no_circle_of_imports(what):
    """`engines` itself is left out: it hands out what lies behind it. `explorer` is the topmost layer of its own."""
    graph: dict[str, set[str]] = {}
    for name, found in import_graph(trees()).items():
        if name != "engines":
            graph.setdefault(what(name), set()).update({what(one) for one in found - {"engines"}} - {what(name)})
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_app_is_a_door():
    path = ROOT / "app.py"
    assert len(path.read_text().splitlines()) <= 40
    foreign = {m.split(".")[0] for _, m, _ in imports(trees()[path])} - {"explorer", "spaces", *sys.stdlib_module_names}
    assert not foreign


def strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, text) of every string literal."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def vocabulary() -> set[str]:
    """Words that the trace, the lanes, the parameters and the checkpoints use for other things than methods."""
    words: set[str] = set()
    for info in engines.list_methods():
        words |= {p.name for p in info.params} | {c for p in info.params for c in p.choices}
        words |= {*info.lanes, *info.needs, *info.emits, *info.records}
    for _, nodes in under("engines/models"):
        about_types = [node for node in nodes if isinstance(node, ast.Compare) and "model_type" in ast.unparse(node)]
        words |= {text for node in about_types for _, text in strings(ast.walk(node))}
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
            spoken = [side for side in sides if not isinstance(side, ast.Constant)]
            suspects = sides if any(map(is_about_methods, spoken)) else []
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
            yield from ((line, text) for line, text in strings(ast.walk(suspect)) if text in shared)


def test_no_slug_outside_its_family():
    """Nor in a script, the player's or the page's: a view is found by what a record holds, or by the name that it
    declares."""
    slugs = {info.slug for info in engines.list_methods()}
    shared, wrong = slugs & vocabulary(), []
    for name, nodes in under(*PROGRAM):
        if not name.startswith("engines/methods/"):
            wrong += [f"{name}:{line} names '{slug}'" for line, slug in strings(nodes) if slug in slugs - shared]
            wrong += [f"{name}:{line} uses '{slug}' as a method" for line, slug in used_as_method(nodes, shared)]
    scripts = [*(ROOT / "assets/client").rglob("*.js")]
    for path in scripts:
        quoted = set(re.findall(r"""["'`]([\w-]+)["'`]""", path.read_text(encoding="utf-8")))
        wrong += [f"{path.relative_to(ROOT)} names '{slug}'" for slug in quoted & (slugs - shared)]
    assert scripts and not wrong, "\n".join(wrong)


def test_the_slug_rule_bites():
    bad = (
        'run("greedy", model)\nif header.method == "greedy": pass\nshow(method="greedy")\nDEFAULT_METHODS = '
        '("greedy", "x")\n'
    )
    assert [slug for _, slug in used_as_method(ast.walk(ast.parse(bad)), {"greedy"})] == ["greedy"] * 4
    fine = 'causes = ["greedy"]\nif cause == "greedy": pass\npack("greedy")\n'
    assert not list(used_as_method(ast.walk(ast.parse(fine)), {"greedy"}))


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


def test_a_function_is_read_at_a_glance():
    """Decorators are declarations and do not count."""
    for path, nodes in trees().items():
        for node in (node for node in nodes if isinstance(node, FUNCTIONS)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= MAX_FUNCTION, f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {lines} lines"


NAMELESS = {"one", "found", "told", "said", "written", "turn", "walk", "lane", "slot"}
MOST_NAMELESS = 180  # places: slots of the page and lanes of scores, and six fields that are written into files
MODULES = {"against", "ahead", "early", "elsewhere", "quiet", "told", "fed", "shown", "stick", "trying", "whole"}


def test_names_say_what_a_thing_is():
    """Locals, parameters, functions and modules of the product."""
    product = {path: nodes for path, nodes in under(*PROGRAM) if not path.startswith("engines/training")}
    called = [
        name
        for nodes in product.values()
        for node in nodes
        for name in [getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "name", None)]
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef) and name in NAMELESS
    ]
    assert len(called) <= MOST_NAMELESS, Counter(called)
    assert not MODULES & {Path(path).stem for path in product}


def test_a_methods_folder_is_flat():
    folders = [path.parent for path in METHODS.glob("*/*/__init__.py")]
    assert not [one for one in folders if any(part.is_dir() and part.name != "__pycache__" for part in one.iterdir())]


def test_every_method_runs_by_its_slug_in_a_terminal(monkeypatch, capsys):
    """With what the gallery shows of it, or with a model and a prompt."""
    shown = {}
    with monkeypatch.context() as patch:
        patch.setattr(command, "show", lambda slug, model, prompt, **params: shown.update({slug: (model, prompt)}))
        for info in engines.list_methods():
            command.main([info.slug])
    assert set(shown) == {info.slug for info in engines.list_methods()} and all(map(all, shown.values()))
    command.main(["greedy", "tiny-ar-l", "add: 4 + 8"])
    assert " tokens in " in capsys.readouterr().out
    for given, refusal in (([], SystemExit), (["greedy", "tiny-ar-l"], SystemExit), (["nothing"], engines.UserError)):
        with pytest.raises(refusal):
            command.main(given)


def test_what_methods_share_has_several_users():
    """An underscore file beside the methods is read by several of them; what one alone needs is its own."""
    files = [path for path in METHODS.glob("*/_*.py") if path.name != "__init__.py"]
    graph = import_graph({path: nodes for path, nodes in trees().items() if path.is_relative_to(ROOT / "engines")})
    users = {file.stem: sum(module_of(file) in found for found in graph.values()) for file in files}
    alone = {name for name, number in users.items() if number < 2}
    assert not alone, f"{alone} have one user each"


DRAWS = r"(^|\.)(random|randint|rand|randn|shuffle|uniform|normal|default_rng)(\.|$)"
OF_A_METHOD = (
    r"(torch\..*(rand|randn|rand\w*_like|randint|randperm|multinomial|normal|bernoulli|random\.\w+)"
    r"|(np|numpy)\.random\..+)$"
)


def test_figures_draw_nothing_and_methods_only_from_the_run():
    """In a method file every drawing call names its generator."""
    wrong = []
    for name, nodes in under("explorer", "engines/methods"):
        for node in (node for node in nodes if isinstance(node, ast.Call)):
            called, given = dotted(node.func), {k.arg for k in node.keywords}
            of_a_method = name.startswith("engines/")
            if re.match(OF_A_METHOD, called) and "generator" not in given if of_a_method else re.search(DRAWS, called):
                wrong.append(f"{name}:{node.lineno} calls {called}")
    assert not wrong, "\n".join(wrong)


ARCHIVES = "engines/models/drafters/files.py"  # half of the published drafters are nothing but PyTorch archives
RUNS_TEXT = ("eval", "exec", "compile", "os.system", "builtins.eval", "builtins.exec")


def test_nothing_foreign_is_executed():
    """No eval or exec, no shell, no archive of PyTorch but weights, no code from a model's repository."""
    wrong = []
    for name, nodes in under(*PROGRAM):
        for node in (node for node in nodes if isinstance(node, ast.Call)):
            called, given = dotted(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
            trained = name.startswith("engines/training/") or name == ARCHIVES
            for bad, why in (
                (called in RUNS_TEXT, f"calls {called}"),
                (given.get("trust_remote_code", "False") != "False", "may trust remote code"),
                (called == "torch.load" and not (trained and given.get("weights_only") == "True"), "reads a pickle"),
                (called.startswith("subprocess.") and given.get("shell", "False") != "False", "uses a shell"),
            ):
                wrong += [f"{name}:{node.lineno} {why}"] * bad
    assert not wrong, "\n".join(wrong)
