"""The decoding methods, usable without the app.

    import engines
    trace = engines.run("threshold", engines.load_model("tiny-dlm"), "sort: Mia, Leo, Ada")
    print(trace.text, trace.totals.forwards)

Importing this package, listing methods and listing models load neither torch nor transformers.
"""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from engines.core import texts
from engines.core.alternatives import Alternatives, texts_beside
from engines.core.devices import gigabytes
from engines.core.errors import UserError, visible
from engines.core.extra import extra_folder, extra_methods
from engines.core.golden_cases import FileReport, checks, differ, verify
from engines.core.kinds import kinds_of
from engines.core.measure import RowClock, log_likelihood, network_choices, next_logits, row_costs
from engines.core.method import MethodInfo
from engines.core.params import Param
from engines.core.places import ASSETS
from engines.core.registry import broken_methods, get_method, list_methods
from engines.core.sentences import Sentences
from engines.core.statistics import median_interval, wilson
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
from engines.core.version import code_version
from engines.driver.fork import fork, models_of, stream_fork
from engines.driver.roles import assign_roles
from engines.driver.run import Run, run, stream
from engines.driver.watched import digest, forking_method

if TYPE_CHECKING:
    from engines.studies import parallelbench

LATER = {  # imported at first use, since they may pull heavy modules
    "DraftRecord": "engines.diagnosis:DraftRecord",
    "before_weights": "engines.models.loading.wanted:before_weights",
    "companion": "engines.models.loading.zoo:companion",
    "diagnose": "engines.diagnosis:diagnose",
    "diagnosing": "engines.diagnosis:diagnosing",
    "drafts_of": "engines.diagnosis:drafts_of",
    "is_known": "engines.models.loading.zoo:is_known",
    "is_loaded": "engines.models.loading.zoo:is_loaded",
    "joint": "engines.models.measures.joint",
    "list_models": "engines.models.loading.zoo:list_models",
    "llama_cpp": "engines.models.gguf.trial:llama_cpp",
    "llama_cpp_installed": "engines.models.gguf.llama_cpp:installed",
    "load_drafter": "engines.models.drafters:load_drafter",
    "load_model": "engines.models.loading.zoo:load_model",
    "loaded_bytes": "engines.models.loading.zoo:loaded_bytes",
    "parallelbench": "engines.studies.parallelbench",
    "published_costs": "engines.studies.decoding_cost:published",
    "size_of": "engines.models.loading.zoo:size_of",
    "target_and_drafter": "engines.models.loading.zoo:target_and_drafter",
    "watch": "engines.watching:watch",
    "watching_downloads": "engines.models.files.downloads:watching_downloads",
    "with_drafter": "engines.models.drafters:with_drafter",
}


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
    if name in LATER:
        return resolve_name(LATER[name])
    raise AttributeError(f"module 'engines' has no attribute '{name}'")
