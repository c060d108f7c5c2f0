"""Every method as a model of lm-evaluation-harness (the extra `eval`).

    import lm_eval
    from explorer.evaluation import DecodingLM

    lm_eval.simple_evaluate(model=DecodingLM(method, model, {"threshold": 0.8}), tasks=["gsm8k"])

Importing this package loads neither lm_eval nor torch."""

from typing import Any

__all__ = ["DecodingLM", "Failed", "keep_failing"]


def __getattr__(name: str) -> Any:
    """What stands on lm_eval is imported at first use."""
    if name == "DecodingLM":
        from explorer.evaluation.lm import DecodingLM

        return DecodingLM
    if name in ("Failed", "keep_failing"):
        from explorer.evaluation import failing

        return getattr(failing, name)
    raise AttributeError(f"module 'explorer.evaluation' has no attribute '{name}'")
