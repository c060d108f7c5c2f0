"""Trains the judge of a target: does a token, once read, look right? `python -m engines.training judge TARGET`.

Follows Judge Decoding (arXiv:2501.19309): a linear head w, b on the frozen target's state behind its last layer, before
the norm, at the row that reads a token; sigmoid(w e + b) is trained by cross-entropy on tokens that are known to be
right or wrong. SmolLM2 learns from answers with a planted error, the tiny family from tasks whose answers can be
checked: see `judge_data`.

Ours: both classes weigh the same (the paper's weights were not available), a fixed small penalty on standardised
inputs; the fit is convex and takes seconds. The card says what the judge keeps in the worlds that it learned from and,
trained without one of them, in that one."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.core.statistics import wilson
from engines.models.files import smollm2
from engines.models.loading.zoo import companion, load_model
from engines.models.parts import folder_of
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.parts import cleared, install_part, recorded
from engines.training.heads.judge_data import Labelled, court, mined

PENALTY, DELTA = 1e-3, 0.5
DEFAULTS = {"train": 120, "test": 40}  # of each world of the court
MINED = {"train": 1000, "test": 250, "length": 64, "tries": 4, "heat": 1.3}


def fit(e: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(w [d], b []) in float32 with the least balanced cross-entropy on e [n, d], y [n]. Raises UserError where a class
    is missing."""
    if not 0 < int(y.sum()) < len(y):
        raise UserError("the judge needs right and wrong tokens to learn from; give more with --train.")
    e, y = e.double(), y.double()
    mean, scale = e.mean(0), e.std(0) + 1e-6
    x = (e - mean) / scale
    weight = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    w, b = (torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in ((e.shape[1],), ()))
    optimizer = torch.optim.LBFGS([w, b], max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ w + b, y, weight=weight)
        loss = loss + PENALTY * w.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    folded = (w / scale).detach()
    return folded.float(), (b.detach() - folded @ mean).float()


def auc(score: Tensor, y: Tensor) -> float:
    """The chance that a right token scores above a wrong one, ties half."""
    right, wrong = score[y > 0].double(), score[y == 0].double()
    above = (right[:, None] > wrong).double() + 0.5 * (right[:, None] == wrong).double()
    return round(float(above.mean()), 4)


def share(kept: Tensor) -> dict[str, Any]:
    """How many of how many, with the 95 % interval."""
    n, k = len(kept), int(kept.sum())
    return {"tokens": n, "kept": k, "interval": [round(max(0.0, one), 4) for one in wilson(k, n)] if n else None}


def marks(w: Tensor, b: Tensor, rows: Sequence[Labelled]) -> dict[str, Any]:
    """What a judge keeps of these rows at the usual threshold, and how well it tells right from wrong beside the
    target's own log-probability."""
    e, y, first, logp = (torch.cat([getattr(row, name) for row in rows]) for name in ("e", "y", "first", "logp"))
    score = (e @ w + b).sigmoid()
    kept, right = score > DELTA, y > 0
    return {
        "right_and_first_choice": share(kept[right & first]),
        "right_and_not_first_choice": share(kept[right & ~first]),
        "wrong": share(kept[~right]),
        "auc": auc(score, y),
        "auc_of_log_probability": auc(logp, y),
    }


def marked(rows: Sequence[Labelled]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The judge of all training rows, and its marks: on held-out rows of the worlds it knows, and of each world when
    it was trained without that one."""

    def learned(chosen: Sequence[Labelled]) -> tuple[Tensor, Tensor]:
        return fit(torch.cat([row.e for row in chosen]), torch.cat([row.y for row in chosen]))

    train, test = [row for row in rows if not row.held], [row for row in rows if row.held]
    w, b = learned(train)
    off = {}
    for world in sorted({row.world for row in test}):
        unseen = [row for row in test if row.world == world]
        if 0 < sum(int(row.y.sum()) for row in unseen) < sum(len(row.y) for row in unseen):
            off[world] = marks(*learned([row for row in train if row.world != world]), unseen)
    facts = {"delta": DELTA, "trained_on_tokens": _count(train), "held_out": marks(w, b, test), "off_domain": off}
    return {"w": w, "b": b}, facts


def _count(rows: Sequence[Labelled]) -> dict[str, int]:
    right, n = sum(int(row.y.sum()) for row in rows), sum(len(row.y) for row in rows)
    return {"right": right, "wrong": n - right}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("target", help="a causal model by name, folder or hub id, as tiny-ar-l")
    for name in DEFAULTS:
        parser.add_argument(f"--{name}", type=int, help="cases of each world, or prompts of tasks")
    usual(parser, "device", "out", "seed", "resume")


def _run(a: Namespace) -> None:
    model: Any = load_model(a.target, kind="layered", device=a.device, dtype="float32")
    name, chat = model.record.name, model.record.name == smollm2.NAME
    usual_values = DEFAULTS if chat else MINED
    settings = usual_values | {key: getattr(a, key) for key in DEFAULTS if getattr(a, key) is not None}
    out = a.out or folder_of("judge", name)
    helper = None if chat else companion(name, "draft")
    if not chat and helper is None:
        raise UserError(f"no drafter is known for {name}, whose tokens the judge could learn from.")

    def record() -> list[Labelled]:
        if chat:
            return court(model, a.seed, **settings)
        return mined(model, load_model(str(helper), device=a.device, dtype="float32"), a.seed, **settings)

    key = f"{model.record.sha256} {settings} {a.seed}"
    rows, minutes = recorded(out.name, key, Labelled, record, a.resume)
    began = time.monotonic()
    state, facts = marked(rows)
    where = (
        "answers to made-up questions whose fact is in the prompt, right and with a planted error"
        if chat
        else f"answers to engines/tasks with a token of {helper} in them, right if the task's check passes"
    )
    given = [(key, getattr(a, key), None) for key in DEFAULTS] + [("seed", a.seed, 0)]
    card = {
        "name": out.name,
        "kind": "judge of drafted tokens",
        "target": name,
        "bases": {"target": model.record.sha256},
        "reads": "the stream behind the last layer, before the norm",
        "data": f"{where}; worlds: {', '.join(sorted({row.world for row in rows}))}",
        "seed": a.seed,
        **settings,
        "parameters": sum(t.numel() for t in state.values()),
        **facts,
        "minutes": round(minutes + (time.monotonic() - began) / 60, 1),
        "machine": trained_on(model.record.device),
        "licence": "Apache-2.0 (trained here, on synthetic text and on what the models wrote)",
        "command": f"{PROGRAM} judge {name}{flags(given)}",
    }
    install_part(out, state, card)
    cleared(out.name)
    print(out)


def commands() -> dict[str, Command]:
    """The judge of any target."""
    return {"judge": Command("TARGET's judge of drafted tokens (Judge Decoding)", str(__doc__), _options, _run)}
