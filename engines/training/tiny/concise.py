"""A reasoner that learned to be brief: `tiny-reasoner-concise` (ConCISE, arXiv:2505.04881, supervised fine-tuning).

tiny-reasoner answers questions of the train split with its doubt replaced and its end brought forward (method
`concise`, both switches on); of the traces those with a right answer are kept, and the model goes on training on them.
It is decoded plainly afterwards. A confident mood that was put in stays in the trace, because a step has to have one.

Its data is a synthetic overthinker's, in which doubt comes with errors: that brevity makes it right more often is a
property of that data."""

from __future__ import annotations

import random
from argparse import ArgumentParser, Namespace
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from engines.tasks.chains import CHAINS, answer_of
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import IGNORED
from engines.training.core.loop import Until, checkpoint_file, restore, run
from engines.training.core.weights import replaced, write_network
from engines.training.tiny.overthinker import CHARACTERS, END, PAD, WORST
from engines.training.tiny.reasoner import SIZES, Reasoning, marks, tokenizer, written
from engines.training.tiny.tokenizer import FOLDER

NAME, BASE = "tiny-reasoner-concise", "tiny-reasoner"
QUESTIONS, STEPS, BATCH, RATE = 600, 150, 32, 3e-4
NOTE = f"learned to be brief by ConCISE from a synthetic overthinker: {WORST}; asked with chains such as 4+8-9*7"


def traces(seed: int = 0, questions: int = QUESTIONS) -> list[tuple[str, str]]:
    """(question, brief trace) of the train questions whose brief trace ends with the right answer."""
    import engines
    from engines.methods.reasoning.concise import decode

    model, kept = engines.load_model(BASE), []
    for number, one in enumerate(islice(CHAINS.generate("train", seed), questions)):
        chain = one.prompt.partition(": ")[2]
        text = engines.run(decode.info.slug, model, chain, seed=seed + number, detail="none").text
        if answer_of(text) == one.answer:
            kept.append((f"^{chain}?", text + END))
    return kept


class Brief(Reasoning):
    """Next characters of the kept traces, behind their question."""

    def __init__(self, seed: int, steps: int, kept: list[tuple[str, str]]) -> None:
        import engines

        super().__init__(SIZES[0], seed, steps)
        self.name, self.settings = NAME, repr((NAME, seed, steps, len(kept)))
        self.command = f"{PROGRAM} {NAME}{flags([('seed', seed, 0), ('steps', steps, STEPS)])}"
        base = engines.load_model(BASE, dtype="float32").model  # type: ignore[attr-defined]
        self.network = deepcopy(base).requires_grad_(True).train()  # loaded models are shared
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.01)
        self.kept = kept

    def batch(self, share: float) -> dict[str, torch.Tensor]:
        """Drawn by the step's number."""
        chosen = random.Random(f"{self.seed}/{self.progress.step}").choices(self.kept, k=BATCH)
        rows = [[self.ids[c] for c in question + thought] for question, thought in chosen]
        targets = [
            [IGNORED] * len(question) + row[len(question) :] for (question, _), row in zip(chosen, rows, strict=True)
        ]
        longest = max(map(len, rows))
        pad = lambda row, value: row + [value] * (longest - len(row))  # noqa: E731
        return {
            "input_ids": torch.tensor([pad(row, 0) for row in rows]),
            "labels": torch.tensor([pad(row, IGNORED) for row in targets]),
        }

    def rate(self, share: float) -> float:
        """The same throughout."""
        return RATE


@torch.no_grad()
def plainly(network: Any, questions: int = 300) -> dict[str, float]:
    """Decoded plainly at temperature 1 on held-out questions: share right, characters, second looks of a trace."""
    ids = {token: i for i, token in enumerate((PAD, END, *CHARACTERS))}
    drawn, asked = torch.Generator().manual_seed(0), list(islice(CHAINS.generate("held-out", seed=1), questions))
    texts = [written(network, [ids[c] for c in f"^{one.prompt.partition(': ')[2]}?"], 1, drawn)[0] for one in asked]
    right = sum(answer_of(text) == one.answer for text, one in zip(texts, asked, strict=True))
    return {
        "right": round(right / questions, 4),
        "characters": round(sum(map(len, texts)) / questions, 2),
        "second_looks": round(sum(text.count("w") for text in texts) / questions, 3),
    }


def train(*, seed: int = 0, steps: int | None = None, resume: bool = False, out: Path | None = None) -> Path:
    """Make the traces, train, and put weights, tokenizer, config and card into `out` (assets/models/NAME). Raises
    UserError for a checkpoint of other settings."""
    import engines

    kept = traces(seed)
    training = Brief(seed, steps or STEPS, kept)
    if resume:
        restore(training, checkpoint_file(NAME))
    progress = run(training, Until(training.steps), checkpoint=checkpoint_file(NAME))
    folder, network = out or FOLDER.parent / NAME, training.network
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network.to(torch.bfloat16), "lossless")
        tokenizer().save_pretrained(partial_folder)
        network = network.float().eval()
        base = engines.load_model(BASE, dtype="float32").model  # type: ignore[attr-defined]
        facts = {
            "name": NAME,
            "title": "Tiny reasoner, concise (learned to be brief)",
            "kind": "causal",
            "note": NOTE,
            "data": f"{len(kept)} right traces of {QUESTIONS}, made by the method concise on {BASE}, train split",
            "base": BASE,
            "seed": seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here, on synthetic data)",
            "command": training.command,
            "parameters": sum(p.numel() for p in network.parameters()),
            "tasks": [CHAINS.slug],
            "held_out_questions": 100,
            "held_out_right": marks(network),
            "decoded_plainly": {"questions": 300, "this": plainly(network), "base": plainly(base)},
        }
        write_card(partial_folder, facts)
    checkpoint_file(NAME).unlink(missing_ok=True)
    return folder


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")


def _run(a: Namespace) -> None:
    print(train(seed=a.seed, steps=a.steps, resume=a.resume, out=a.out))


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return {NAME: Command("Tiny reasoner that learned to be brief (ConCISE)", str(__doc__), _options, _run)}
