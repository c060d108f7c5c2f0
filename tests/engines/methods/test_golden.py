"""The recorded cases of the methods' rules: all of a file are run, and pass."""

import importlib
import pkgutil

import pytest

from engines.core.verify import verify_file
from tests.engines.conftest import GOLDEN
from tests.golden import checkers

for module in pkgutil.iter_modules(checkers.__path__):  # each registers its checkers
    importlib.import_module(f"{checkers.__name__}.{module.name}")

WHOLE = [
    *(f"architecture/{topic}" for topic in ("blockffn", "lean_attention", "moe_comm", "readme", "ultramem_v2")),
    *(f"diffusion/{topic}" for topic in ("dimple", "dream")),
    *(f"diffusion2026/{folder}/cases" for folder in ("diffusion_gemma", "nemotron_labs_diffusion")),
    *(f"heads/{topic}" for topic in ("eagle2_tree", "falcon_mask", "lud", "ppd_buffers", "ppd_dynamic_tree")),
    *(f"heads/{topic}" for topic in ("greedy_accept", "tree_buffers", "typical_accept")),
    *(
        f"speculative/{topic}"
        for topic in ("dyspec", "gad_block", "iad_match", "iad_spans", "judge", "reflective", "rsd")
    ),
    *(f"systems/{topic}" for topic in ("easyspec", "mirror_sd", "rapid", "specmemo_bytes")),
]
SOME = {"sampling/a_star": 6, "sampling/ffs": 10, "sampling/rpc": 9}  # others of their cases are other methods'


@pytest.mark.parametrize("topic", [*WHOLE, *SOME])
def test_every_recorded_case_is_run_and_passes(topic):
    report = verify_file(GOLDEN / f"{topic}.json", GOLDEN)
    assert (report.state, report.mismatch) == ("passed", "")
    assert report.covered == SOME.get(topic, report.cases) > 0
