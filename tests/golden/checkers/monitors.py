"""Golden cases of monitors: the state before each token and the tokens that are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.core.verify import Case, checks, differ
from engines.methods.sampling.mgd.names import Trie, begun, rests

from .cases import Given


def states(case: Case) -> list[dict[str, Any]]:
    """The state before each generated token, and behind the last. The names are those of the first dot; at any later
    one the analyser has none."""
    trie, text = Trie(dict(enumerate(case["vocab"]))), case["prompt"]
    names, found = {case["prompt"]: case["legal_completions"]}, []
    for token in [*case["generated"], None]:
        before, written = begun(text) or ("", "")
        allowed = trie.allowed(rests(names.get(before, ()), written).values())
        found.append({"constrained": bool(allowed), "allowed": allowed or None})
        text += "" if token is None else case["vocab"][token]
    return [*found, {"text": text}]


@checks("mgd")
def mgd(case: Case, data: Given, folder: Path) -> str | None:
    """mgd.json."""
    return differ("steps", states(case), [*case["steps"], {"text": case["text"]}])
