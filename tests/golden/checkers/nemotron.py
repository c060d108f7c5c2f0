"""Golden cases of Nemotron-Labs-Diffusion: logits in both ways of attention, and every forward of its block diffusion
and of its self-speculation: what was fed where, in which way, and whether it was kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import engines
from engines.core.golden_cases import Case, NotCovered, checks, differ, loading
from engines.core.lazy import torch
from engines.methods.speculative.nemotron_self_speculation import TwoRoles
from engines.models.adapters.block import HFTwoWayLM

from .cases import Given

TOLERANCE = 1e-4
SLUGS = {"diffusion": "nemotron-diffusion", "spec": "nemotron-self-speculation"}
PARAMS = {"max_new_tokens", "block_length", "threshold", "steps", "causal_context"}


class Heard(HFTwoWayLM):
    """A loaded model that notes its forwards."""

    def __init__(self, model: HFTwoWayLM) -> None:
        self.__dict__.update(model.__dict__)
        self.forwards: list[dict[str, Any]] = []

    def warm_up(self) -> float:
        """Nothing: its forwards would be noted."""
        return 0.0

    def _note(self, mode: str, kept: bool, tokens: Any, first: int) -> None:
        ids = [int(token) for token in tokens]
        self.forwards.append({"mode": mode, "kept": kept, "fed": [first, first + len(ids)], "ids": ids})

    def extend(self, tokens: Any, cache: Any, **options: Any) -> Any:
        self._note("causal", True, tokens, cache.length)
        return super().extend(tokens, cache, **options)

    def denoise(self, tokens: Any, cache: Any, *, keep: bool = False) -> Any:
        self._note("bidirectional", keep, tokens, cache.length)
        return super().denoise(tokens, cache, keep=keep)


def loaded(folder: Path, **options: Any) -> Any:
    return engines.load_model(folder / "checkpoint", **loading(dtype="float32", **options))


@checks("nemotron_labs_diffusion", sections=("boards", "cases"))
def nemotron(case: Case, data: Given, folder: Path) -> str | None:
    """A board's logits, or a run of one of the two functions."""
    return board(case, data, folder) if case["section"] == "boards" else decoded(case, folder)


def board(case: Case, data: Given, folder: Path) -> str | None:
    """Prompt and block, read causally and the block in both directions; the mask is never proposed there."""
    from safetensors.torch import load_file

    model, wanted = loaded(folder), load_file(folder / "logits.safetensors")
    cache = model.new_cache(len(case["prompt"]) + len(case["block"]))
    rest = torch.arange(model.vocab_size) != data["mask_id"]
    got = {"prompt_causal": model.extend(case["prompt"], cache).logits}
    got["block_bidirectional"] = model.denoise(case["block"], cache)
    got["block_causal"] = model.extend(case["block"], cache).logits
    for name, z in got.items():
        off = float((z - wanted[f"{case['id']}.{name}"])[:, rest].abs().max())
        if off > TOLERANCE:
            return f"{name} is off by {off:.2g}"
    return None


def decoded(case: Case, folder: Path) -> str | None:
    """All forwards and the text. The official functions may end behind what is asked for; ours is cut there. Raises
    NotCovered for a parameter that our methods do not have."""
    p, expected = dict(case["params"]), case["expected"]
    ends = {"eos_id": p.pop("eos_token_id")} if "eos_token_id" in p else {}
    p.setdefault("threshold", 0.0)
    if unknown := {name for name, value in p.items() if value is not None} - PARAMS:
        raise NotCovered(f"{case['mode']} has no parameter {sorted(unknown)[0]}")
    model = Heard(loaded(folder, **ends))
    given = {name: value for name, value in p.items() if value is not None}
    trace = engines.run(SLUGS[case["mode"]], model, list(case["prompt"]), params=given)
    nfe = trace.totals.forwards - (case["mode"] == "diffusion")  # which leaves its prefill out
    text = [*case["prompt"], *trace.output_ids]
    checked = (
        differ("forwards", model.forwards, expected["forwards"]),
        differ("nfe", nfe, expected["nfe_reported"]),
        differ("sequence", text, expected["sequence"][: len(case["prompt"]) + p["max_new_tokens"]]),
        rounds(trace, expected.get("rounds")),
    )
    return next(filter(None, checked), None)


def rounds(trace: Any, wanted: Sequence[Given] | None) -> str | None:
    """What each round of self-speculation drafted, what the causal rows said of it, and how many tokens it wrote; the
    first step reads the prompt."""
    if wanted is None:
        return None
    records = [step.record("tworoles", TwoRoles) for step in trace.steps[1:]]
    ours = [{"draft": r.drafted, "verify": r.verdict, "accepted": r.accepted + 1} for r in records if r]
    return differ("rounds", ours, list(wanted))
