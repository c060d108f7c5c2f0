"""Golden cases of aggressive decoding: where copying resumes, the steps of an edit, where a block bifurcates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.core.lazy import torch
from engines.core.verify import Case, checks, differ
from engines.methods.speculative._verify import Draft, verify, written
from engines.methods.speculative.aggressive_decoding import anchor, occurrences
from engines.methods.speculative.generalized_aggressive_decoding import bifurcation

GRAM = 3  # of the official loop


def match(given: Mapping[str, Any]) -> dict[str, Any]:
    """Where copying resumes."""
    longest = given["max_gram"]
    return {"resume_at": anchor(occurrences(given["source"], longest), given["tokens"], longest).at}


def spans(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every step of an edit whose greedy text is given: what a forward would put first follows from the place alone,
    for only right copies are kept."""
    x, y = given["source"], given["greedy_output"][: given["max_len"]]
    index, steps = occurrences(x, GRAM), []
    tokens: list[int] = []
    while len(tokens) < len(y):
        at = anchor(index, tokens, GRAM).at if tokens else 0
        pasted = x[at:] if at >= 0 else []
        ahead = [*y[len(tokens) :], *[given["eos"]] * len(pasted)][: len(pasted) + 1]
        z = torch.nn.functional.one_hot(torch.tensor(ahead), max(*x, *y) + 1).float()
        draft = Draft.of([0, *pasted], range(-1, len(pasted)), "retrieval")
        verdict = verify(z, draft, 0.0, torch.Generator(), frozenset({given["eos"]}))
        gained = written(draft, verdict)
        steps.append(
            {
                "mode": "copy" if pasted else "single",
                "source_index": at if pasted else -1,
                "drafted": len(pasted),
                "accepted": len(verdict.path) - 1,
                "emitted": gained,
            }
        )
        tokens += gained
    return {"steps": steps, "forward_passes": len(steps), "output": tokens}


def block(given: Mapping[str, Any]) -> dict[str, Any]:
    """The bifurcation of a block; tokens that are not in the verifier's list are out of question."""
    k, beta = given["k"], len(given["topk"][0])
    tokens = max(*given["block"], *(t for row in given["topk"] for t in row)) + 1
    z = torch.full((k + 1, tokens), -torch.inf, dtype=torch.float64)
    for row, (ids, scores) in enumerate(zip(given["topk"], given["topk_score"], strict=True)):
        z[row, ids] = torch.tensor(scores, dtype=torch.float64)
    b = bifurcation(z, given["block"], beta, given["tau"])
    return {"bifurcation": b, "emitted": [*given["block"][:b], int(z[b].argmax())]}


COMPUTED = {"iad_match": match, "iad_spans": spans, "gad_block": block}


@checks(*COMPUTED)
def check(case: Case, data: Mapping[str, Any], _: Path) -> str | None:
    """iad_match.json, iad_spans.json and gad_block.json."""
    return differ("", COMPUTED[data["kind"]](case["in"]), case["out"])
