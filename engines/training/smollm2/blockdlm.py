"""SmolLM2-135M-Instruct made a block-diffusion model, the Fast-dLLM v2 way (arXiv:2509.26328): `python -m
engines.training smollm2-blockdlm --device cuda`.

Every row is learnt twice, with masks and with their complement, in front of a clean copy of itself
(`data.block_batch`). Learnt are a low-rank addition B A to every matrix of the layers (arXiv:2106.09685) and the
embedding of a mask token that is added to the tokenizer: an adapter small enough to ship. `--rank 0` learns all
weights, as the official script does.

The texts are yours (`--data FILE`), one JSON object a line: {"prompt": ..., "answer": ...}, {"messages": [{"role": ...,
"content": ...}, ...]}, of which the last answer is learnt, or {"prompt": ..., "ids": [...]} with the answer in the
base's own tokens. Without a file SmolLM2 answers bundled prompts first (`own_answers.py`).

We depart from the paper in these points: rows are chat turns filled up to whole blocks, not texts packed to 512 tokens;
blocks of 8 instead of 32, which a small budget reaches first; the adapter's rate is 2e-4 (all weights: 2e-5, the
official one). The paper takes about a billion tokens, the defaults here a hundredth of that."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engines.models.files.smollm2 import cache_folder
from engines.training.core import loop
from engines.training.core.commands import PROGRAM, Command, usual
from engines.training.core.data import Pair
from engines.training.core.loop import Loss, Until, restore
from engines.training.smollm2.blockdlm_model import Settings, fill, from_adapter, install, load_base, prepare
from engines.training.smollm2.blockdlm_rows import Chat, batch_of, encode, read_chats
from engines.training.smollm2.own_answers import answers_file, write_answers
from engines.training.tiny.networks import loss_of
from engines.training.tiny.train import on_device

NAME = "smollm2-blockdlm"
HELD_OUT = 4  # batches that nobody learns from, always the same


def checkpoint_file() -> Path:
    """Where a training that is not finished keeps its state."""
    return loop.checkpoint_file(NAME)


class Training(loop.Training):
    """A training of the additions, or of all weights: network, what of it is learnt, optimizer."""

    name = NAME
    command = f"{PROGRAM} {NAME} with the same options"

    def __init__(self, settings: Settings, chats: Sequence[Chat], device: str = "cpu") -> None:
        """Raises UserError where the device is not there or the chats are too few."""
        super().__init__()
        self.how, self.device, self.settings = settings, device, repr(settings)
        self.network, self.tokenizer, self.mask_id = load_base(settings)
        self.pairs, self.held = encode(chats, self.tokenizer, settings)
        on_device(self.network, device)
        self.parts = prepare(self.network, self.mask_id, settings)
        self.optimizer = torch.optim.AdamW(self.parts.values(), lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.loss_before = self.held_out_loss()

    def batch(self, share: float) -> dict[str, Tensor]:
        """Rows of about equal length, drawn from the number of the step."""
        return self._rows(self.pairs, self.progress.step)

    def _rows(self, pairs: Sequence[Pair], key: object) -> dict[str, Tensor]:
        return batch_of(pairs, self.how, key, self.tokenizer.eos_token_id, self.mask_id)

    def loss(self, batch: dict[str, Tensor]) -> Loss:
        """Mean cross-entropy, in nats per masked token."""
        moved = {name: value.to(self.device) for name, value in batch.items()}
        return Loss(loss_of(self.network, moved), batch["input_ids"].numel())

    def context(self) -> AbstractContextManager[Any]:
        """bfloat16 autocast."""
        return torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16)

    def learnt(self) -> Iterable[nn.Parameter]:
        """The additions and the mask's embedding, or all weights."""
        return self.parts.values()

    def rate(self, share: float) -> float:
        """A rise over the first 3 % of the steps."""
        warmup = max(1, round(0.03 * self.how.steps))
        return self.how.rate * min(1.0, (self.progress.step + 1) / warmup)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Over four batches that nobody learns from, always the same."""
        with self.context():
            losses = [self.loss(self._rows(self.held, f"held out/{i}")).value.item() for i in range(HELD_OUT)]
        return sum(losses) / HELD_OUT

    def weights(self) -> dict[str, Tensor]:
        """What is learnt."""
        return {name: value.detach() for name, value in self.parts.items()}

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """Raises UserError where names or shapes differ."""
        fill(self.parts, weights, "the checkpoint")

    def state(self) -> dict[str, Any]:
        """The loss before the first step; the data follow from the step."""
        return {"loss_before": self.loss_before}

    def load(self, state: dict[str, Any]) -> None:
        """That back."""
        self.loss_before = state["loss_before"]

    def install(self, folder: Path) -> Path:
        """Merge and save what `load_model(folder, kind="block")` reads, with the adapter and the figures beside it.
        Ends the training."""
        figures = {
            "step": self.progress.step,
            "tokens": self.progress.tokens,
            "minutes": round(self.progress.seconds / 60, 1),
            "rows": len(self.pairs),
            "held_out_rows": len(self.held),
            "held_out_loss_before": self.loss_before,
            "held_out_loss": self.held_out_loss(),
            "settings": vars(self.how),
            "device": self.device,
        }
        return install(self.network, self.tokenizer, self.mask_id, self.parts, folder, figures)


def train(training: Training, out: Path, minutes: float | None = None, resume: bool = False) -> Path:
    """Run a training with a bar, checkpoints and its figures at the end. Raises UserError where it is interrupted: then
    the checkpoint is kept."""
    if resume:
        restore(training, checkpoint_file())
    loop.run(training, Until(training.how.steps, minutes), checkpoint=checkpoint_file())
    folder = training.install(out)
    checkpoint_file().unlink(missing_ok=True)
    print(f"{folder}: {(folder / 'training.json').read_text()}")
    return folder


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--base", default=Settings.base, help="a folder with another Llama-like chat model")
    add("--data", type=Path, help="JSONL with chats; default: SmolLM2's own answers")
    add("--answers", type=int, default=6000, help="own answers to write first where there are fewer")
    for name in ("block", "rank", "steps", "batch", "longest", "seed"):
        add(f"--{name}", type=int, default=getattr(Settings, name))
    usual(parser, "device", "minutes", "resume")
    add("--adapter", type=Path, help="train nothing: build the model from this adapter")
    add("--out", type=Path, default=cache_folder().parent / NAME)


def _run(a: Namespace) -> None:
    settings = Settings(a.base, a.block, a.rank, a.steps, a.batch, a.longest, a.seed)
    if a.adapter:
        print(from_adapter(a.adapter, settings, a.out))
        return
    if a.data is None:
        write_answers(a.answers, a.device, a.seed)
    train(Training(settings, read_chats(a.data or answers_file()), a.device), a.out, a.minutes, a.resume)


def commands() -> dict[str, Command]:
    """SmolLM2 made a block-diffusion model."""
    return {NAME: Command("SmolLM2 made a block-diffusion model (Fast-dLLM v2)", str(__doc__), _options, _run)}
