"""Golden cases of speculative Jacobi decoding: the test of a window, and whole decodings of a Markov model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines.core.golden_cases import Case, checks, differ
from engines.core.lazy import torch
from engines.methods.multimodal.sjd.window import first_guess, iterate

from .cases import Given, float64


@checks("sjd", sections=("verify", "runs"))
def sjd(case: Case, data: Given, folder: Path) -> str | None:
    """Accepted drafts, refused token, ratio, residual and replacement; or every iteration of a run."""
    return _verify(case) if "draft_tokens" in case else _run(case)


def _verify(case: Case) -> str | None:
    drafts, p, q = case["draft_tokens"], _rows(case["target_prob"]), _rows(case["draft_prob"])
    last = torch.full_like(p[:1], 1 / p.shape[1])  # a row behind the drafts, whose fresh token nobody asks for
    uniforms = [*[0.5] * (len(drafts) + 1), *case["accept_uniform"], case["residual_uniform"]]
    found = iterate(torch.cat([p, last]), drafts, list(q), uniforms)
    refused = found.left is not None
    got = {
        "accepted": found.accepted,
        "rejected_token": drafts[found.accepted] if refused else None,
        "ratio": found.chances[-1] if refused else None,
        "residual": found.left.tolist() if found.left is not None else None,
        "token": found.committed[-1] if refused else None,
    }
    return differ("", got, case["expected"], 1e-6)


def _run(case: Case) -> str | None:
    first, following = _rows([case["initial"]]), _rows(case["transition"])
    uniforms, filled = iter(case["uniforms"]), iter(case["random_init"])
    length, window, tokens = case["length"], case["window"], list[int]()
    drafts, q, seen = list[int](), list[Any](), []
    while len(tokens) < length:
        width = min(window, length - len(tokens))
        drafts, q = drafts[: width - 1], q[: width - 1]
        while len(drafts) < width - 1:
            drafts.append(_guess(case, tokens, drafts, filled))
            q.append(torch.eye(case["vocab"], dtype=torch.float64)[drafts[-1]])
        behind = [*tokens[-1:], *drafts]
        p = following[behind] if tokens else torch.cat([first, following[drafts]])
        found = iterate(p, drafts, q, _given(uniforms, 2 * width))
        seen.append(
            {
                "start": len(tokens),
                "fed": drafts,
                "fresh": found.fresh,
                "accepted_drafts": found.accepted,
                "rejected": drafts[found.accepted] if found.left is not None else None,
                "committed": found.committed,
            }
        )
        n = len(found.committed)
        tokens, drafts, q = [*tokens, *found.committed], found.fresh[n:], list(p[n:])
    got = {"iterations": seen, "tokens": tokens, "forwards": len(seen)}
    return differ("", got, {name: case[name] for name in got}, 0)


def _guess(case: Case, tokens: list[int], drafts: list[int], filled: Iterator[list[int]]) -> int:
    """The first guess of the next place: the run's own random token where one is drawn, else a copy."""
    place, init = len(tokens) + len(drafts), "left" if case["init"] == "repeat_left" else "random"
    token, how = first_guess(init, [*tokens, *drafts], case["row_width"], place, 0.0, range(case["vocab"]))
    if how != "random":
        return token
    at, token = next(filled)
    assert at == place, f"a random guess at {place} and not at {at}"
    return token


def _given(uniforms: Iterator[float], count: int) -> list[float]:
    return [next(uniforms) for _ in range(count)]


def _rows(values: Any) -> Any:
    return float64(values)
