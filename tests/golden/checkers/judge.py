"""Golden cases of judge decoding: the standard test or the judge, and what each keeps."""

from __future__ import annotations

from engines.methods.speculative.judge_decoding.rule import or_mask

from .cases import Given, Values, float64, kinds


def mask(given: Given) -> Values:
    """The mask and how many tokens it keeps, with and without the judge, from the judge's logits."""
    plain = given["standard_accept"]
    score = float64(given["judge_logits"]).sigmoid().tolist()
    accept, accepted = or_mask(plain, score, given["delta"])
    return {"accept": accept, "accepted": accepted, "accepted_standard": or_mask(plain, score, 1.0)[1]}


kinds("judge", or_mask=mask)
