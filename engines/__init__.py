"""The decoding methods, usable without the app.

    import engines
    trace = engines.run("threshold", engines.load_model("tiny-dlm"), "sort: Mia, Leo, Ada")
    print(trace.text, trace.totals.forwards)

Importing this package, listing methods and listing models load neither torch nor transformers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engines.core import texts
from engines.core.devices import gigabytes
from engines.core.errors import UserError, visible
from engines.core.extra import extra_folder, extra_methods
from engines.core.kinds import kinds_of
from engines.core.measure import RowClock, log_likelihood, network_choices, next_logits, row_costs
from engines.core.method import MethodInfo
from engines.core.params import Param
from engines.core.places import ASSETS
from engines.core.registry import broken_methods, get_method, list_methods
from engines.core.sentences import Sentences
from engines.core.statistics import median_interval, wilson
from engines.core.stops import Alternatives, texts_beside
from engines.core.study import (
    Partial,
    Study,
    StudyInfo,
    broken_studies,
    get_study,
    list_studies,
    read_study,
    run_study,
)
from engines.core.trace import (
    SCHEMA_VERSION,
    Commits,
    Edit,
    Header,
    ModelRecord,
    Origin,
    Step,
    Trace,
    TraceError,
    Tree,
    read_trace,
)
from engines.core.user_methods import load_method_file, method_texts
from engines.core.validation import prompt_room
from engines.core.verify import FileReport, checks, differ, verify
from engines.core.version import code_version
from engines.driver.fork import fork, models_of, stream_fork
from engines.driver.roles import assign_roles
from engines.driver.run import Run, run, stream
from engines.driver.watched import digest, forking_method

if TYPE_CHECKING:
    from engines.studies import parallelbench

__all__ = [
    "ASSETS",
    "SCHEMA_VERSION",
    "Alternatives",
    "Commits",
    "DraftRecord",
    "Edit",
    "FileReport",
    "Header",
    "MethodInfo",
    "ModelRecord",
    "Origin",
    "Param",
    "RowClock",
    "Run",
    "Sentences",
    "Step",
    "Study",
    "StudyInfo",
    "Trace",
    "TraceError",
    "Tree",
    "UserError",
    "assign_roles",
    "before_weights",
    "broken_methods",
    "broken_studies",
    "checks",
    "code_version",
    "companion",
    "diagnose",
    "diagnosing",
    "differ",
    "digest",
    "drafts_of",
    "extra_folder",
    "extra_methods",
    "fork",
    "forking_method",
    "get_method",
    "get_study",
    "gigabytes",
    "is_known",
    "is_loaded",
    "joint",
    "kinds_of",
    "list_methods",
    "list_models",
    "list_studies",
    "llama_cpp",
    "llama_cpp_installed",
    "load_method_file",
    "load_drafter",
    "load_model",
    "loaded_bytes",
    "log_likelihood",
    "median_interval",
    "method_texts",
    "models_of",
    "network_choices",
    "next_logits",
    "parallelbench",
    "prompt_room",
    "published_costs",
    "read_study",
    "read_trace",
    "row_costs",
    "run",
    "size_of",
    "stream",
    "stream_fork",
    "study",
    "target_and_drafter",
    "texts",
    "texts_beside",
    "verify",
    "visible",
    "watch",
    "watching_downloads",
    "wilson",
    "with_drafter",
]


def study(
    name: str,
    /,
    *,
    progress: Callable[[int, int], None] | None = None,
    partial: Partial | None = None,
    **inputs: Any,
) -> Study:
    """Compute a study with these inputs, its defaults for the others. progress(parts done, of all); partial(make):
    make() is what is there by now. Raises UserError for an unknown study or bad inputs."""
    return run_study(name, inputs, progress, partial)


def __getattr__(name: str) -> Any:
    """The zoo, the mathematics of joint distributions, the benchmark with its records and the watching of other loops
    are imported at first use: they may pull heavy modules."""
    if name in ("load_model", "list_models", "companion", "is_known", "is_loaded", "size_of", "target_and_drafter"):
        from engines.models.loading import zoo

        return getattr(zoo, name)
    if name == "loaded_bytes":
        from engines.models.loading.zoo import loaded_bytes

        return loaded_bytes
    if name in ("diagnose", "diagnosing", "DraftRecord", "drafts_of"):
        from engines import diagnosis

        return getattr(diagnosis, name)
    if name in ("load_drafter", "with_drafter"):
        from engines.models import drafters

        return getattr(drafters, name)
    if name in ("llama_cpp", "llama_cpp_installed"):
        from engines.models.gguf import library, trial

        return trial.llama_cpp if name == "llama_cpp" else library.installed
    if name == "watching_downloads":
        from engines.models.files.downloads import watching_downloads

        return watching_downloads
    if name == "before_weights":
        from engines.models.loading.wanted import before_weights

        return before_weights
    if name == "joint":
        from engines.models.measures import joint

        return joint
    if name == "watch":
        from engines.watching import watch

        return watch
    if name == "published_costs":
        from engines.studies._decode_costs import published

        return published
    if name == "parallelbench":
        from engines.studies import parallelbench

        return parallelbench
    raise AttributeError(f"module 'engines' has no attribute '{name}'")
