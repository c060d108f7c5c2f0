"""Trains the filter of a masked model: which of a block's proposals are final already? `python -m engines.training
filter MODEL [--prompts N]`.

Follows arXiv 2509.25188 (and `generate_training_data.py`, `train.ipynb` of ims-kdks/Learning-to-Parallel-Decoding):
every prompt is decoded twice. The first pass writes one token per forward, the reference. The second one starts from
masks again and records, at every forward, the confidences of the block's b proposals and whether each equals the
reference; then it commits exactly those that do, and copies the reference where the proposals no longer change.

We depart in two points. The paper splits the records 80/10/10; neighbouring records of one prompt are nearly the same,
so we split the prompts. And the weights kept are those with the least validation loss; the rate of false positives at
0.9, which the notebook watches, is reported beside it."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from engines.core.errors import UserError
from engines.core.kinds import MaskedLM
from engines.core.machine import trained_on
from engines.core.masks import block_of, mask_positions, require_divisor
from engines.core.sampling import token_probability
from engines.models.loading.zoo import load_model
from engines.models.parts import folder_of
from engines.models.parts.filters import COMMAND, KEYS, BlockFilter, from_state
from engines.training.core.commands import Command, flags, usual
from engines.training.core.loop import Loss, Training, Until, checkpoint_file, restore, run
from engines.training.core.parts import cleared, install_part, prompts_of, recorded, split

ACCEPT = (0.5, 0.7, 0.8, 0.9, 0.96, 0.99)  # lines at which the card says what is accepted
PLAIN = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # plain thresholds on the confidence, for comparison
EVERY = 20  # epochs between two looks at the validation records
LEARNING_RATE = 3e-3  # the paper's
USUAL = {"prompts": 300, "length": 48, "block": 16, "epochs": 6000, "seed": 0}


@dataclass(frozen=True)
class Records:
    """One row per forward: confidences c [N, b], whether the proposal is the reference's, right [N, b], and what was a
    mask, hidden [N, b]."""

    c: Tensor
    right: Tensor
    hidden: Tensor

    def __len__(self) -> int:
        return len(self.c)


def greedy(model: MaskedLM, prompt: Sequence[int], length: int, b: int) -> Tensor:
    """Pass 1: the reference [prompt + length], block by block, the most confident proposal at each forward."""
    x = torch.tensor([*prompt, *[model.mask_id] * length])
    while len(masks := mask_positions(x, model.mask_id)):
        inside = masks[masks < block_of(int(masks[0]), len(prompt), b, len(x))[1]]
        z = model(x)[inside.to(model.record.device)].cpu()
        tokens = z.argmax(-1)
        best = int(token_probability(z, tokens, torch.float32).argmax())
        x[inside[best]] = tokens[best]
    return x


def replay(model: MaskedLM, prompt: Sequence[int], y: Tensor, b: int) -> Records:
    """Pass 2: decode towards the reference y [prompt + length], committing exactly what equals it; one record per
    forward, decoded places included."""
    x = torch.full_like(y, model.mask_id)
    x[: len(prompt)] = y[: len(prompt)]
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    before: tuple[int, list[int]] = (-1, [])
    while len(masks := mask_positions(x, model.mask_id)):
        a, e = block_of(int(masks[0]), len(prompt), b, len(x))
        z = model(x)[a:e].cpu()
        x0 = z.argmax(-1)
        right, hidden = x0 == y[a:e], x[a:e] == model.mask_id
        rows.append((token_probability(z, x0, torch.float32), right, hidden))
        now = (a, x0.tolist())
        x[a:e] = y[a:e] if now == before else torch.where(hidden & right, x0, x[a:e])
        before = now
    return Records(*(torch.stack(column) for column in zip(*rows, strict=True)))


def joined(parts: Sequence[Records]) -> Records:
    """All records in one."""
    return Records(
        torch.cat([r.c for r in parts]), torch.cat([r.right for r in parts]), torch.cat([r.hidden for r in parts])
    )


class FilterTraining(Training):
    """AdamW on the binary cross entropy of all b outputs, the whole set at once; the tensors with the least validation
    loss are kept."""

    clip = None

    def __init__(self, train: Records, validation: Records, epochs: int, seed: int, name: str, command: str) -> None:
        super().__init__()
        b = train.c.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = [nn.Linear(b, b), nn.Linear(b, b)]
        self.network = nn.Sequential(self.layers[0], nn.ReLU(), self.layers[1])
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=LEARNING_RATE)
        self.train, self.validation, self.epochs, self.error = train, validation, epochs, nn.BCEWithLogitsLoss()
        self.name, self.command, self.settings = name, command, f"{name} {epochs} {seed} {b} {len(train)}"
        self.best: dict[str, Tensor] = {}
        self.facts = {"epoch": 0.0, "validation_loss": float("inf")}

    def context(self) -> AbstractContextManager[Any]:
        """Plain float32."""
        return nullcontext()

    def batch(self, share: float) -> Records:
        """All records."""
        return self.train

    def loss(self, batch: Records) -> Loss:
        """Binary cross entropy, in nats per slot."""
        return Loss(self.error(self.network(batch.c), batch.right.float()))

    @torch.no_grad()
    def after_step(self, loss: float, shown: float, facts: dict[str, float] | None) -> None:
        """Now and then a look at the validation records."""
        epoch = self.progress.step
        if epoch % EVERY and epoch != self.epochs:
            return
        logits, right = self.network(self.validation.c), self.validation.right
        unseen = float(self.error(logits, right.float()))
        if unseen < self.facts["validation_loss"]:
            wrong = int(((logits.sigmoid() > 0.9) & ~right).sum()) / max(1, int((~right).sum()))
            self.facts = {"epoch": epoch, "train_loss": loss, "validation_loss": unseen}
            self.facts["validation_false_positive_rate_at_0.9"] = wrong
            tensors = [tensor for layer in self.layers for tensor in (layer.weight, layer.bias)]
            self.best = {key: value.detach().clone() for key, value in zip(KEYS, tensors, strict=True)}

    def state(self) -> dict[str, Any]:
        """The best so far."""
        return {"best": self.best, "facts": self.facts}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.best, self.facts = state["best"], state["facts"]


def fit(
    train: Records,
    validation: Records,
    *,
    epochs: int,
    seed: int,
    name: str = "filter",
    command: str = "",
    resume: bool = False,
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The tensors with the least validation loss, and how they came. A name that is a command's is checkpointed."""
    training = FilterTraining(train, validation, epochs, seed, name, command)
    file = checkpoint_file(name) if command else None
    if resume and file is not None and file.is_file():
        restore(training, file)
    run(training, Until(epochs), checkpoint=file)
    return training.best, {key: round(value, 5) for key, value in training.facts.items()}


def marks(score: Tensor, records: Records, lines: Sequence[float]) -> dict[str, dict[str, float | None]]:
    """Per line: precision, recall and false-positive rate of "score [N, b] above the line" over the masked places; None
    where nothing can be divided."""
    found = {}
    right, wrong = records.hidden & records.right, records.hidden & ~records.right
    for line in lines:
        accepted = score > line
        true, false = int((accepted & right).sum()), int((accepted & wrong).sum())
        shares = {
            "precision": (true, true + false),
            "recall": (true, int(right.sum())),
            "false_positive_rate": (false, int(wrong.sum())),
        }
        found[f"{line:g}"] = {name: round(part / whole, 4) if whole else None for name, (part, whole) in shares.items()}
    return found


def equivalents(g: BlockFilter, accept: float, rest: float) -> list[float | None]:
    """Per slot, the least confidence (in steps of 0.005) that the filter accepts while the others stand at `rest`; None
    where it accepts no confidence."""
    grid = torch.linspace(0, 1, 201)
    found: list[float | None] = []
    for j in range(g.size):
        c = torch.full((len(grid), g.size), rest)
        c[:, j] = grid
        accepted = (g(c)[:, j] > accept).nonzero()[:, 0]
        found.append(round(float(grid[accepted[0]]), 3) if len(accepted) else None)
    return found


def as_thresholds(g: BlockFilter) -> dict[str, Any]:
    """What the filter amounts to as a plain threshold, per accept line: every slot with the rest decided (1.0), and the
    median with the rest unsure (0.2)."""
    found: dict[str, Any] = {}
    for accept in (0.9, 0.96):
        decided, unsure = equivalents(g, accept, 1.0), [t for t in equivalents(g, accept, 0.2) if t is not None]
        known = [t for t in decided if t is not None]
        medians = {
            "median": round(median(known), 3) if known else None,
            "median_with_the_rest_at_0.2": round(median(unsure), 3) if unsure else None,
        }
        found[f"{accept:g}"] = {"per_slot": decided, **medians}
    return found


def train_filter(
    model: MaskedLM,
    prompts: Sequence[str],
    *,
    length: int,
    b: int,
    epochs: int,
    seed: int,
    out: Path,
    command: str,
    resume: bool = False,
) -> Path:
    """Record, train, mark and write model.safetensors and card.json into the folder `out`, replaced when all is there.
    Returns it. Interrupted, it keeps what was recorded and learnt for `resume`."""
    require_divisor("block", b, "length", length)

    def record() -> list[Records]:
        encoded = (model.tokenizer.encode_prompt(prompt) for prompt in tqdm(prompts, desc="two passes", unit="prompt"))
        return [replay(model, ids, greedy(model, ids, length, b), b) for ids in encoded]

    settings = f"{model.record.sha256} {len(prompts)} {length} {b} {seed}"
    records, minutes = recorded(out.name, settings, Records, record, resume)
    train, validation, test = (joined(part) for part in split(records, seed))
    began = time.monotonic()
    state, facts = fit(train, validation, epochs=epochs, seed=seed, name=out.name, command=command, resume=resume)
    card = {
        "name": out.name,
        "kind": "filter",
        "model": model.record.name,
        "model_sha256": model.record.sha256,
        "data": f"{len(prompts)} prompts of the train split of engines/tasks, the tasks in turn, each decoded twice "
        f"by the model on {length} masks",
        "seed": seed,
        "block_length": b,
        "parameters": sum(t.numel() for t in state.values()),
        "records": {"train": len(train), "validation": len(validation), "held_out": len(test)},
        "split": "80/10/10 of the prompts (the paper splits the records)",
        "forwards_per_prompt_by_the_oracle": round(sum(map(len, records)) / len(records), 2),
        "epochs": epochs,
        "kept": facts,
        "minutes": round(minutes + (time.monotonic() - began) / 60, 1),
        "minutes_of_them_recording": round(minutes, 1),
        "machine": trained_on(model.record.device),
        **held_out(from_state(state, out.name), test),
        "licence": "Apache-2.0 (trained here, on what the model wrote for synthetic prompts)",
        "command": command,
    }
    install_part(out, state, card)
    cleared(out.name)
    return out


def held_out(g: BlockFilter, test: Records) -> dict[str, Any]:
    """What the filter is worth on prompts that it has not seen."""
    right, wrong = int((test.hidden & test.right).sum()), int((test.hidden & ~test.right).sum())
    return {
        "held_out_masked_places": {"right": right, "wrong": wrong},
        "held_out_by_accept_line": marks(g(test.c), test, ACCEPT),
        "held_out_by_plain_threshold": marks(test.c, test, PLAIN),
        "as_plain_threshold": as_thresholds(g),
    }


def convert(file: Path) -> Path:
    """A published state dict (linear1, linear2; a PyTorch file, read without running anything in it) as safetensors
    beside it. Raises UserError."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        from_state(state, file.name)
    except (OSError, RuntimeError, EOFError, AttributeError, ValueError) as error:
        raise UserError(
            f"{file} cannot be read as a filter: {(str(error) or type(error).__name__).splitlines()[0][:200]}."
        ) from None
    except Exception as error:  # what is refused for safety has a name of its own in every version of torch
        raise UserError(f"{file} holds more than tensors and is not read ({type(error).__name__}).") from None
    target = file.with_suffix(".safetensors")
    save_file({key: state[key].float().contiguous() for key in KEYS}, target)
    return target


def _options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", nargs="?", help="a masked model by name, folder or hub id, as tiny-dlm")
    add("--prompts", type=int, help="two passes each (default 300)")
    add("--length", type=int, help="masks of the canvas (default 48)")
    add("--block", type=int, help="positions per block, the filter's inputs (default 16; 32 in the paper)")
    add("--epochs", type=int, help="passes over all records (default 6000; up to 40,000 in the paper)")
    usual(parser, "seed", "device", "out", "resume")
    help_ = "train nothing: rewrite a PyTorch state dict of others as safetensors"
    add("--convert", type=Path, metavar="FILE", help=help_)
    parser.set_defaults(**USUAL)


def _run(a: Namespace) -> None:
    if a.convert:
        print(convert(a.convert))
        return
    if not a.model:
        raise UserError("name a model, as tiny-dlm, or a file to --convert.")
    model: Any = load_model(a.model, kind="masked", device=a.device)
    command = f"{COMMAND} {model.record.name}{flags((k, getattr(a, k), usual_) for k, usual_ in USUAL.items())}"
    prompts = list(islice(prompts_of(a.seed), a.prompts))
    settings = {"length": a.length, "b": a.block, "epochs": a.epochs, "seed": a.seed}
    out = a.out or folder_of("filter", model.record.name)
    print(train_filter(model, prompts, **settings, out=out, command=command, resume=a.resume))


def commands() -> dict[str, Command]:
    """The filter of parallel decoding for any masked model."""
    return {"filter": Command("MODEL's filter of parallel decoding (Learn2PD)", str(__doc__), _options, _run)}
