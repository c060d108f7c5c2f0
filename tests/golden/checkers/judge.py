"""Golden cases of judge decoding: the standard test or the judge, and what each keeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks
from engines.methods.speculative.judge_decoding.rule import or_mask

from .speculative import by_kind


def mask(given: Mapping[str, Any]) -> dict[str, Any]:
    """The mask and how many tokens it keeps, with and without the judge, from the judge's logits."""
    plain = given["standard_accept"]
    score = torch.tensor(given["judge_logits"], dtype=torch.float64).sigmoid().tolist()
    accept, accepted = or_mask(plain, score, given["delta"])
    return {"accept": accept, "accepted": accepted, "accepted_standard": or_mask(plain, score, 1.0)[1]}


@checks("judge")
def check(case: Case, _: Mapping[str, Any], __: Path) -> str | None:
    """The one kind of case in the file."""
    return by_kind({"or_mask": mask}, case)
