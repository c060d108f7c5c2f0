"""Golden cases of aggressive decoding: where copying resumes, the steps of an edit, where a block bifurcates."""

from __future__ import annotations

from engines.core.lazy import torch
from engines.methods.speculative._verify import written
from engines.methods.speculative.aggressive_decoding import anchor, occurrences
from engines.methods.speculative.generalized_aggressive_decoding import bifurcation

from .cases import Given, Values, chain, computes, float64, walked

GRAM = 3  # of the official loop


@computes("iad_match")
def match(given: Given) -> Values:
    """Where copying resumes."""
    longest = given["max_gram"]
    return {"resume_at": anchor(occurrences(given["source"], longest), given["tokens"], longest).at}


@computes("iad_spans")
def spans(given: Given) -> Values:
    """Every step of an edit whose greedy text is given: what a forward would put first follows from the place alone,
    for only right copies are kept."""
    x, y = given["source"], given["greedy_output"][: given["max_len"]]
    index, steps = occurrences(x, GRAM), []
    tokens: list[int] = []
    while len(tokens) < len(y):
        at = anchor(index, tokens, GRAM).at if tokens else 0
        pasted = x[at:] if at >= 0 else []
        ahead = [*y[len(tokens) :], *[given["eos"]] * len(pasted)][: len(pasted) + 1]
        draft = chain([0, *pasted])
        verdict = walked(ahead, draft, frozenset({given["eos"]}))
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


@computes("gad_block")
def block(given: Given) -> Values:
    """The bifurcation of a block; tokens that are not in the verifier's list are out of question."""
    k, beta = given["k"], len(given["topk"][0])
    tokens = max(*given["block"], *(t for row in given["topk"] for t in row)) + 1
    z = torch.full((k + 1, tokens), -torch.inf, dtype=torch.float64)
    for row, (ids, scores) in enumerate(zip(given["topk"], given["topk_score"], strict=True)):
        z[row, ids] = float64(scores)
    b = bifurcation(z, given["block"], beta, given["tau"])
    return {"bifurcation": b, "emitted": [*given["block"][:b], int(z[b].argmax())]}
