"""Trains the acceptance head of a pair: will the target keep this drafted token? `python -m engines.models.train.accept_head TARGET [--draft NAME]`.

Follows arXiv 2405.19715 (and data/*.py, train.py of Kaffaljidhmah2/SpecDec_pp). The target answers a prompt by sampling: X. The drafter reads prompt and
X and draws a token Y_i of its own at every place; its label is the chance that the target keeps it, min(1, p(Y_i) / q(Y_i)), both given X before i. Then
the drafter reads a mixture Z, X_i with chance r = 0.15 and else Y_i, and the head learns the label of each Y_i that stayed from the hidden state at that
very token. The drafter is frozen. The loss weighs refusals by w = 6, so the head is pessimistic on purpose; the card says what its figures mean without
that weight.

We depart in three points: the mixture is drawn several times from each answer, the weights kept are those with the least validation loss, and blocks of
our own training have weights of their own (`--shared` repeats one, as released).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.core.models import CausalLM
from engines.core.sampling import draw
from engines.models import smollm2
from engines.models.accept_head import COMMAND, AcceptHead, folder_of, from_state
from engines.models.train.parts import install_part, prompts_of, split
from engines.models.zoo import companion, load_model

LEARNING_RATE, BATCH = 1e-3, 256
CHAT_SEED, TOGETHER = 70_000, 32  # a seed that no answers for the draft are written with; prompts answered at once
TASK_PROMPTS = "of the train split of engines/tasks, the tasks in turn"
DEFAULTS = {"prompts": 300, "length": 64, "copies": 4, "layers": 2, "epochs": 12, "weight": 6.0, "mixing": 0.15, "seed": 0}


@dataclass(frozen=True)
class Records:
    """Drafted tokens: hidden states h [n, d] at them, labels y [n] (the chance to be kept), and the drafter's own q [n] for comparison."""

    h: Tensor
    y: Tensor
    q: Tensor

    def __len__(self) -> int:
        return len(self.y)


def labels(logp_target: Tensor, logp_draft: Tensor) -> Tensor:
    """min(1, p/q) from log-probabilities, same shape."""
    return (logp_target - logp_draft).clamp(max=0).exp()


def loss_of(logits: Tensor, y: Tensor, weight: float) -> Tensor:
    """-[w (1 - y) log P(refuse) + y log P(accept)], summed and divided by the sum of w (1 - y) + y; logits [n, 2], y [n]."""
    log_p = logits.log_softmax(-1)
    refused = weight * (1 - y)
    return -(refused * log_p[:, 0] + y * log_p[:, 1]).sum() / (refused + y).sum()


@torch.inference_mode()
def answer(target: CausalLM, prompt: Sequence[int], length: int, rng: Generator) -> list[int]:
    """X: up to `length` tokens drawn from the target, its end mark included."""
    cache, ids = target.new_cache(len(prompt) + length), list(prompt)
    while len(ids) < len(prompt) + length and not (len(ids) > len(prompt) and ids[-1] in target.eos_ids):
        z = target.extend(ids[cache.length :], cache, last_only=True).logits[0]
        ids.append(draw(z.double().softmax(-1), rng))
    return ids[len(prompt) :]


@torch.inference_mode()
def record(target: CausalLM, drafter: CausalLM, prompt: Sequence[int], X: Sequence[int], copies: int, mixing: float, rng: Generator) -> Records:
    """Labels and hidden states of the tokens that the drafter draws along X, of `copies` mixtures."""
    n, m = len(X), len(prompt)
    fed = [*prompt, *X]
    p, q = (model.extend(fed[:-1], model.new_cache(m + n)).logits[m - 1 :].double().log_softmax(-1).cpu() for model in (target, drafter))  # [n, V]
    v = min(p.shape[-1], q.shape[-1])  # families pad their vocabularies differently
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(copies):
        Y = torch.multinomial(q[:, :v].exp(), 1, generator=rng)  # [n, 1]
        kept = torch.rand(n, generator=rng) >= mixing
        Z = torch.where(kept, Y[:, 0], torch.tensor(X))
        h = drafter.extend([*prompt, *Z.tolist()], drafter.new_cache(m + n), hidden=(drafter.num_layers,)).hidden[drafter.num_layers][m:]
        own = q.gather(-1, Y)[:, 0]
        rows.append((h.float().cpu()[kept], labels(p.gather(-1, Y)[:, 0], own).float()[kept], own.exp().float()[kept]))
    return Records(*(torch.cat(column) for column in zip(*rows, strict=True)))


def joined(parts: Sequence[Records]) -> Records:
    """All records in one."""
    return Records(*(torch.cat([getattr(part, name) for part in parts]) for name in ("h", "y", "q")))


def fit(train: Records, validation: Records, *, layers: int, shared: bool, epochs: int, weight: float, seed: int) -> tuple[dict[str, Tensor], dict[str, float]]:
    """AdamW over shuffled batches. Returns the tensors with the least validation loss, and how they came."""
    d, n = train.h.shape[1], min(layers, 1) if shared else layers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        out = torch.nn.Linear(d, 2)
    W, b = ([torch.zeros(*shape, requires_grad=True) for _ in range(n)] for shape in ((d, d), (d,)))  # a block begins as the identity
    head = AcceptHead("", "", tuple(W), tuple(b), out.weight, out.bias, layers)
    names = [f"blocks.{i}.{part}" for part in ("weight", "bias") for i in range(n)] + ["out.weight", "out.bias"]
    tensors = dict(zip(names, [*W, *b, out.weight, out.bias], strict=True))
    optimizer, rng = torch.optim.AdamW(list(tensors.values()), lr=LEARNING_RATE), Generator().manual_seed(seed)
    best: dict[str, Tensor] = {}
    facts = {"epoch": 0.0, "validation_loss": float("inf")}
    for epoch in tqdm(range(1, epochs + 1), desc="epochs", unit="epoch"):
        seen = 0.0
        for batch in torch.randperm(len(train), generator=rng).split(BATCH):
            optimizer.zero_grad()
            loss = loss_of(head.logits(train.h[batch]), train.y[batch], weight)
            loss.backward()
            optimizer.step()
            seen += float(loss.detach()) * len(batch)
        with torch.no_grad():
            unseen = float(loss_of(head.logits(validation.h), validation.y, weight))
        if unseen < facts["validation_loss"]:
            facts = {"epoch": epoch, "train_loss": seen / len(train), "validation_loss": unseen}
            best = {key: value.detach().clone() for key, value in tensors.items()}
    return best, {key: round(value, 5) for key, value in facts.items()}


def auc(score: Tensor, y: Tensor) -> float:
    """The chance that a kept token scores above a refused one, where y [n] is each token's chance to be kept; equal scores count half."""
    values, place = score.unique(return_inverse=True)
    kept, refused = (torch.zeros(len(values), dtype=torch.float64).index_add(0, place, w.double()) for w in (y, 1 - y))
    below = refused.cumsum(0) - refused
    return float((kept * (below + refused / 2)).sum() / (kept.sum() * refused.sum()))


def calibration(chance: Tensor, y: Tensor, bins: int = 10) -> tuple[list[list[float]], float]:
    """([predicted, observed, count] of every bin that is not empty, the mean gap between predicted and observed)."""
    found, gap = [], 0.0
    place = (chance * bins).long().clamp(max=bins - 1)
    for i in range(bins):
        if n := int((place == i).sum()):
            predicted, observed = float(chance[place == i].mean()), float(y[place == i].mean())
            found.append([round(predicted, 4), round(observed, 4), n])
            gap += abs(predicted - observed) * n / len(y)
    return found, round(gap, 4)


def marks(head: AcceptHead, test: Records, weight: float) -> dict[str, Any]:
    """What the head is worth on prompts that it has not seen, beside a constant and beside the drafter's own probability."""
    with torch.no_grad():
        logits = head.logits(test.h)
    chance, share = logits.softmax(-1)[:, 1], float(test.y.mean())
    constant = torch.tensor([weight * (1 - share), share]).log().expand(len(test), 2)  # the best that knows nothing of the token
    unweighted = weight * chance / (weight * chance + 1 - chance)  # odds times w: what the head would say, had refusals counted once
    (table, error), (plain, plain_error) = calibration(chance, test.y), calibration(unweighted, test.y)
    return {
        "tokens": len(test),
        "mean_chance_to_be_kept": round(share, 4),
        "auc": round(auc(chance, test.y), 4),
        "auc_of_the_drafters_own_probability": round(auc(test.q, test.y), 4),
        "loss": round(float(loss_of(logits, test.y, weight)), 4),
        "loss_of_the_best_constant": round(float(loss_of(constant, test.y, weight)), 4),
        "calibration_error": error,
        "calibration": table,
        "calibration_error_without_the_weight": plain_error,
        "calibration_without_the_weight": plain,
    }


def chats(n: int, length: int, seed: int) -> tuple[list[str], list[list[int]]]:
    """n prompts as SmolLM2's draft was trained on, but others, and what SmolLM2 answers at temperature 1 in up to `length` tokens; many at once."""
    from engines.models.train.draft_data import Writer, load_target

    writer = Writer(*load_target(), seed=CHAT_SEED + seed)
    asked = list(islice(writer.prompts(), n))
    answers = [
        a["ids"]
        for part in (asked[i : i + TOGETHER] for i in range(0, n, TOGETHER))
        for a in writer.write([ids for _, ids in part], torch.ones(len(part)), length, keep_top=False)
    ]
    return [prompt for prompt, _ in asked], answers


def train_head(
    target: CausalLM,
    drafter: CausalLM,
    prompts: Sequence[str],
    settings: Mapping[str, Any],
    *,
    shared: bool,
    out: Path,
    command: str,
    answers: Sequence[Sequence[int]] = (),
) -> Path:
    """Record, train, mark and write model.safetensors and card.json into the folder `out`, replaced when all is there. Returns it.

    settings: as in DEFAULTS, without the number of prompts. answers: X of every prompt where they were written already.
    """
    began, rng = time.perf_counter(), Generator().manual_seed(settings["seed"])
    records = []
    for i, prompt in enumerate(tqdm(prompts, desc="answers", unit="prompt")):
        ids = target.tokenizer.encode_prompt(prompt)
        length = min(settings["length"], min(target.max_positions, drafter.max_positions) - len(ids))
        X = answers[i] if answers else answer(target, ids, length, rng)
        records.append(record(target, drafter, ids, X, settings["copies"], settings["mixing"], rng))
    recorded = time.perf_counter()
    train, validation, test = (joined(part) for part in split(records, settings["seed"]))
    fixed = {name: settings[name] for name in ("layers", "epochs", "weight", "seed")}
    state, facts = fit(train, validation, shared=shared, **fixed)
    head = from_state(state, out.name, settings["layers"])
    card = {
        "name": out.name,
        "kind": "acceptance head",
        "target": target.record.name,
        "target_sha256": target.record.sha256,
        "draft": drafter.record.name,
        "draft_sha256": drafter.record.sha256,
        "data": f"{len(prompts)} prompts {'drawn as for the draft, but others' if answers else TASK_PROMPTS}, answered by the target at temperature 1",
        **{name: settings[name] for name in ("seed", "layers", "copies", "mixing", "epochs")},
        "weight_of_refusals": settings["weight"],
        "shared": shared,
        "parameters": sum(t.numel() for t in state.values()),
        "tokens": {"train": len(train), "validation": len(validation), "held_out": len(test)},
        "split": "80/10/10 of the prompts",
        "kept": facts,
        "minutes": round((time.perf_counter() - began) / 60, 1),
        "minutes_of_them_recording": round((recorded - began) / 60, 1),
        "machine": trained_on(target.record.device),
        "held_out": marks(head, test, settings["weight"]),
        "licence": "Apache-2.0 (trained here, on what the models wrote for synthetic prompts)",
        "command": command,
    }
    return install_part(out, state, card)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="a causal model by name, folder or hub id, as tiny-ar-l")
    parser.add_argument("--draft", help="the drafter (default: the target's companion)")
    parser.add_argument("--shared", action="store_true", help="one block for all layers, as released")
    for name, usual in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=type(usual), default=usual, help=f"default {usual:g}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="instead of assets/models/TARGET-accept-head")
    a = parser.parse_args(argv)
    try:
        target = load_model(a.target, kind="causal", device=a.device)
        drafter_name = a.draft or companion(target.record.name, "draft")
        if drafter_name is None:
            raise UserError(f"no drafter is known for {target.record.name}; name one with --draft.")
        drafter = load_model(drafter_name, kind="causal", device=a.device)
        own = [f" --{name} {getattr(a, name):g}" for name, usual in DEFAULTS.items() if getattr(a, name) != usual]
        command = f"{COMMAND} {target.record.name}{f' --draft {a.draft}' if a.draft else ''}{' --shared' if a.shared else ''}{''.join(own)}"
        if target.record.name == smollm2.NAME:
            prompts, answers = chats(a.prompts, a.length, a.seed)
        else:
            prompts, answers = list(islice(prompts_of(a.seed), a.prompts)), []
        settings = {name: getattr(a, name) for name in DEFAULTS if name != "prompts"}
        print(train_head(target, drafter, prompts, settings, shared=a.shared, out=a.out or folder_of(target.record.name), command=command, answers=answers))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
