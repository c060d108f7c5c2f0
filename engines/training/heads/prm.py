"""Trains the process reward model of a tiny reasoner: are all steps right so far? `python -m engines.training prm
MODEL`.

It reads traces that the model itself wrote at two temperatures about chains of the training split, and as many of the
overthinker that the model learned from, with values altered at random. Behind every step, and at the end, the label is
exact: each operation's latest value is the right one (and so is the answer). No human and no other model takes part.

The labels alone do not teach a network of this size to reckon (AUC 0.74 on held-out questions), so it also learns to
write the overthinker's traces on, as the model did; what it writes is not used."""

from __future__ import annotations

import math
import random
import re
import time
from argparse import ArgumentParser, Namespace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from engines.core.errors import UserError
from engines.core.machine import trained_on
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.models.parts.step_reward import StepReward, build, states
from engines.tasks.base import split_of
from engines.tasks.chains import CHAINS, sound
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.parts import install_part
from engines.training.heads.judge import auc
from engines.training.tiny.overthinker import trace
from engines.training.tiny.reasoner import POSITIONS, written

WIDTH, LAYERS, MLP = 48, 2, 128
TEMPERATURES, DRAWS = (1.0, 1.4), 2  # of each question
BATCH, STEPS, RATE = 48, 2400, 4e-3
RISE = 0.15  # the share of the steps on which the rate rises
ALTERED = 0.12  # of the values of a made-up trace
QUESTIONS, HELD = 250, 60


def labelled(model: Any, question: str, chain: str, text: str) -> tuple[list[int], list[float]]:
    """Token ids [L] of a trace, and at each token 1 or 0 behind a step or the end, -1 elsewhere."""
    body = model.tokenizer.encode(text + "$")
    ids = [*model.tokenizer.encode(question), *body]
    start, marks = len(ids) - len(body), [-1.0] * len(ids)
    for i, letter in enumerate(text + "$"):
        if letter in ";$":
            marks[start + i] = float(sound(chain, text[:i], ended=letter == "$"))
    return ids, marks


def traces(model: Any, split: str, questions: int, seed: int) -> list[tuple[list[int], list[float]]]:
    """What the model writes about questions of a split, with labels; texts that came to no end are left out."""
    drawn, found = torch.Generator().manual_seed(seed), []
    for example in islice(CHAINS.generate(split, seed + 7), questions):
        chain = example.prompt.partition(": ")[2]
        question = f"^{chain}?"
        for temperature in TEMPERATURES:
            ids = model.tokenizer.encode(question)
            for text in written(model.model, ids, DRAWS, drawn, temperature):
                if len(question) + len(text) < POSITIONS and "<" not in text:  # it came to an end, without a stray pad
                    found.append(labelled(model, question, chain, text))
    return found


def training_chain(rng: random.Random) -> str:
    """A chain of the training split."""
    while True:
        chain = CHAINS.make(rng, rng.randint(*CHAINS.sizes))[0]
        if split_of(f"{CHAINS.slug}: {chain}") == "train":
            return chain


def altered(model: Any, rng: random.Random) -> tuple[list[int], list[float]]:
    """A trace of the overthinker about a training question, some of its values replaced, with labels."""
    chain = training_chain(rng)
    other = lambda m: str(rng.randrange(10)) if rng.random() < ALTERED else m[0]  # noqa: E731
    text = re.sub(r"(?<=[=#])\d", other, trace(chain, rng))
    return labelled(model, f"^{chain}?", chain, text)


def padded(rows: list[tuple[list[int], list[float]]]) -> tuple[Tensor, Tensor]:
    """(ids, labels), each [n, L]."""
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids, _ in rows])
    return ids, torch.tensor([[*marks, *[-1.0] * (longest - len(marks))] for _, marks in rows])


def plain(model: Any, rng: random.Random) -> tuple[list[int], list[float]]:
    """A trace of the overthinker as it is, without labels."""
    chain = training_chain(rng)
    return model.tokenizer.encode(f"^{chain}?" + trace(chain, rng) + "$"), []


def fit(model: Any, rows: list[tuple[list[int], list[float]]], seed: int) -> nn.ModuleDict:
    """The network after STEPS steps: cross-entropy of the labels on traces of the model and altered ones, half each,
    and of the next token on plain traces."""
    torch.manual_seed(seed)
    network, rng = build(model.vocab_size, WIDTH, LAYERS, MLP, POSITIONS), random.Random(seed)
    optimizer, loss_of = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01), nn.functional
    embedding = network["body"].embed_tokens.weight
    for step in range(STEPS):
        share = step / STEPS
        cosine = 0.5 * (1 + math.cos(math.pi * (share - RISE) / (1 - RISE)))
        optimizer.param_groups[0]["lr"] = RATE * (max(0.04, share / RISE) if share < RISE else cosine)
        judged = [rng.choice(rows) for _ in range(BATCH // 2)] + [altered(model, rng) for _ in range(BATCH // 2)]
        ids, y = padded(judged)
        z = network["head"](states(network, ids))[..., 0]
        text, _ = padded([plain(model, rng) for _ in range(BATCH)])
        ahead = states(network, text[:, :-1]) @ embedding.T
        loss = loss_of.binary_cross_entropy_with_logits(z[y >= 0], y[y >= 0])
        loss = loss + loss_of.cross_entropy(ahead.flatten(0, 1), text[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


@torch.no_grad()
def marks_of(network: nn.ModuleDict, rows: list[tuple[list[int], list[float]]]) -> dict[str, Any]:
    """How well it tells right states from wrong ones, on traces about held-out questions."""
    ids, y = padded(rows)
    score, right = network["head"](states(network, ids))[..., 0].sigmoid()[y >= 0], y[y >= 0]
    return {
        "states": len(right),
        "right": round(float(right.mean()), 4),
        "auc": auc(score, right),
        "decided_right_at_one_half": round(float(((score > 0.5) == (right > 0)).float().mean()), 4),
        "mean_of_right": round(float(score[right > 0].mean()), 4),
        "mean_of_wrong": round(float(score[right == 0].mean()), 4),
    }


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="a tiny reasoner, as tiny-reasoner")
    usual(parser, "out", "seed")


def _run(a: Namespace) -> None:
    model: Any = load_model(a.model, dtype="float32")
    if len(model.tokenizer.encode("c4+8=2;#1")) != 9:
        raise UserError(f"'{a.model}' does not write steps character by character; choose one of the tiny reasoners.")
    began = time.monotonic()
    rows, held = traces(model, "train", QUESTIONS, a.seed), traces(model, "held-out", HELD, a.seed)
    network = fit(model, rows, a.seed)
    state, out = (
        {**network.state_dict(), "positions": torch.tensor(POSITIONS)},
        a.out or folder_of("prm", model.record.name),
    )
    every = [mark for _, marks in rows for mark in marks if mark >= 0]
    install_part(
        out,
        state,
        {
            "name": out.name,
            "kind": "process reward model of the steps of a chain",
            "target": model.record.name,
            "bases": {"target": model.record.sha256},
            "reads": "the tokens of the question and of the steps so far",
            "data": f"{len(rows)} traces that the model wrote about training questions at temperatures "
            f"{' and '.join(map(str, TEMPERATURES))}, and as many of the overthinker "
            "(engines/training/tiny/overthinker.py) with values altered; exact labels",
            "labels": {"states": len(every), "right": round(sum(every) / len(every), 4)},
            "held_out": marks_of(network, held),
            "seed": a.seed,
            "steps": STEPS,
            "parameters": sum(t.numel() for t in network.parameters()),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "machine": trained_on("cpu"),
            "licence": "Apache-2.0 (trained here, on synthetic data)",
            "command": f"{PROGRAM} prm {model.record.name}{flags([('seed', a.seed, 0)])}",
        },
    )
    StepReward(state)  # what was written can be read
    print(out)


def commands() -> dict[str, Command]:
    """The reward model of a reasoner."""
    return {"prm": Command("MODEL's process reward model of steps (A*-decoding)", str(__doc__), _options, _run)}
