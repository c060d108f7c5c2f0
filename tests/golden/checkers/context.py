"""Golden cases of Context-STR: spelling, the two scores together, the best crop and the gate."""

from __future__ import annotations

from .cases import Given, Values, computes


@computes("context_str")
def context_str(given: Given) -> Values:
    """Every item as released: L against the whole caption."""
    from engines.methods.multimodal.context_str.context import gate, score

    alpha, beta = given["alpha"], given["beta"]
    got = []
    for item in given["items"]:
        caption = item["caption"]
        full = score(item["full_text"], item["full_semantic"], caption, alpha, beta)
        crops = [score(crop["text"], crop["semantic"], caption, alpha, beta) for crop in item["crops"]]
        found = gate(full, crops, given["tau"])
        got.append(
            {
                "L1": found.full.L,
                "C1": found.full.C,
                "best_crop": found.best.text if found.best else None,
                "C3": found.best.C if found.best else None,
                "fallback": not found.bypass,
                "final": found.answer if found.bypass else None,
            }
        )
    return got
