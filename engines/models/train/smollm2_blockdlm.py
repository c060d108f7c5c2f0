"""SmolLM2-135M-Instruct made a block-diffusion model, the Fast-dLLM v2 way (arXiv:2509.26328): `python -m engines.models.train.smollm2_blockdlm --device cuda`.

Every row is learnt twice, with masks and with their complement, in front of a clean copy of itself (`data.block_batch`). Learnt are a low-rank addition
B A to every matrix of the layers (arXiv:2106.09685) and the embedding of a mask token that is added to the tokenizer: an adapter small enough to ship.
`--rank 0` learns all weights, as the official script does.

The texts are yours (`--data FILE`), one JSON object a line: {"prompt": ..., "answer": ...}, {"messages": [{"role": ..., "content": ...}, ...]}, of which the
last answer is learnt, or {"prompt": ..., "ids": [...]} with the answer in the base's own tokens. Without a file SmolLM2 answers bundled prompts first
(`own_answers.py`).

We depart from the paper in these points: rows are chat turns filled up to whole blocks, not texts packed to 512 tokens; blocks of 8 instead of 32, which
a small budget reaches first; the adapter's rate is 2e-4 (all weights: 2e-5, the official one). The paper takes about a billion tokens, the defaults here
a hundredth of that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize
from tqdm import tqdm

from engines.core.errors import UserError
from engines.models.hub import check_folder
from engines.models.smollm2 import cache_folder, ensure
from engines.models.train.data import Batch, Pair, block_batch
from engines.models.train.networks import loss_of
from engines.models.train.own_answers import answers_file, write_answers

MASK_TOKEN = "<|mask|>"
COPIES = 4  # noisy and clean half, and both again with the complementary mask
SAVE_SECONDS = 120.0
FORM = '{"prompt": "...", "answer": "..."} or {"messages": [...]}'
Chat = tuple[list[dict[str, str]], str | list[int]]  # the turns before the answer, and the answer: a text, or ids


@dataclass(frozen=True)
class Settings:
    """rank: of the additions, 0 for all weights. batch: tokens per step, all four copies and padding included. longest: tokens of a row. Raises UserError."""

    base: str = "smollm2"
    block: int = 8
    rank: int = 32
    steps: int = 2400
    batch: int = 16384
    longest: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("block", 1), ("rank", 0), ("steps", 1), ("batch", 1), ("longest", 2)):
            if getattr(self, name) < least:
                raise UserError(f"{name}={getattr(self, name)} is too small; give {least} or more.")

    @property
    def rate(self) -> float:
        """Learning rate after the warm-up over the first 3 % of the steps."""
        return 2e-4 if self.rank else 2e-5


def checkpoint_file() -> Path:
    """Where a training that is not finished keeps its state."""
    return cache_folder().parent / "train" / "smollm2-blockdlm.pt"


def read_chats(file: Path) -> list[Chat]:
    """The chats of a JSONL file. Raises UserError for a file or a line that is none."""
    if not file.is_file():
        raise UserError(f"'{file}' is not there; give a JSONL file with {FORM} on every line.")
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            turns = entry["messages"] if "messages" in entry else [{"role": "user", "content": entry["prompt"]}]
            *turns, last = turns if "messages" in entry else [*turns, {"role": "assistant", "content": entry.get("ids") or entry["answer"]}]
            assert last["role"] == "assistant" and turns and last["content"] and all(isinstance(t["content"], str) for t in turns)
            assert isinstance(last["content"], str) or all(isinstance(token, int) for token in last["content"])
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise UserError(f"line {number} of {file} is no chat that ends with an answer; give {FORM}.") from None
        found.append((turns, last["content"]))
    return found


def load_base(settings: Settings) -> tuple[Any, Any, int]:
    """The network in float32 as a block-diffusion one, its tokenizer and the id of the mask, which is added where the tokenizer has none."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = ensure()[0] if settings.base == "smollm2" else Path(settings.base)
    check_folder(folder, settings.base)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if tokenizer.mask_token_id is None:
        tokenizer.add_special_tokens({"mask_token": MASK_TOKEN})
    mask_id = int(tokenizer.mask_token_id)
    if mask_id >= network.config.vocab_size:
        network.resize_token_embeddings(mask_id + 1, mean_resizing=False)
        rows = network.get_input_embeddings().weight.data
        rows[mask_id] = rows[:mask_id].mean(0)
    network.config.update({"is_causal": False, "mask_token_id": mask_id, "shift_logits": True, "block_size": settings.block})
    return network, tokenizer, mask_id


class LowRank(nn.Module):
    """W + B A in place of a matrix W [out, in]; B [out, r] starts at 0, so that nothing is changed at first."""

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.A = nn.Parameter((torch.randn(rank, weight.shape[1], generator=generator) / weight.shape[1] ** 0.5).to(weight.device))
        self.B = nn.Parameter(weight.new_zeros(weight.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """[out, in] -> [out, in]"""
        return weight + self.B @ self.A


def prepare(network: Any, mask_id: int, settings: Settings) -> dict[str, nn.Parameter]:
    """What is learnt, by name: additions to the layers' matrices and the mask's embedding, or all weights."""
    if not settings.rank:
        return dict(network.named_parameters())
    network.requires_grad_(False)
    learnt, generator = {}, torch.Generator().manual_seed(settings.seed)
    for name, module in network.model.layers.named_modules():
        if isinstance(module, nn.Linear):
            part = LowRank(module.weight, settings.rank, generator)
            parametrize.register_parametrization(module, "weight", part)
            learnt |= {f"{name}.A": part.A, f"{name}.B": part.B}
    embedding = network.get_input_embeddings()
    row = learnt["mask"] = nn.Parameter(embedding.weight[mask_id].clone())
    network.mask_hook = embedding.register_forward_hook(lambda _, ids, out: torch.where((ids[0] == mask_id)[..., None], row, out))
    return learnt


def merge(network: Any, mask_id: int, learnt: dict[str, nn.Parameter]) -> None:
    """Put the adapter into the weights, in place; afterwards the network is a plain one."""
    if "mask" not in learnt:
        return
    for module in network.model.layers.modules():
        if isinstance(module, nn.Linear):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    network.mask_hook.remove()
    del network.mask_hook
    network.get_input_embeddings().weight.data[mask_id] = learnt["mask"].data


def encode(chats: Sequence[Chat], tokenizer: Any, settings: Settings) -> tuple[list[Pair], list[Pair]]:
    """(rows to learn, rows held out), each rising in length; a twentieth of the prompts is held out. Raises UserError where too few are left."""
    prompts: dict[tuple[int, ...], list[Pair]] = {}
    for turns, answer in chats:
        prompt = list(tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False))
        ids = answer if isinstance(answer, list) else tokenizer(answer, add_special_tokens=False)["input_ids"]
        ids = [*ids, *([] if ids[-1:] == [tokenizer.eos_token_id] else [tokenizer.eos_token_id])]
        if len(prompt) + len(ids) <= settings.longest:
            prompts.setdefault(tuple(prompt), []).append((prompt, ids))
    if len(prompts) < 2:
        raise UserError(f"{len(prompts)} different prompts have answers within {settings.longest} tokens; give at least two, one is held out.")
    groups = list(prompts.values())
    random.Random(settings.seed).shuffle(groups)
    few = max(1, len(groups) // 20)
    held, kept = (sorted((pair for group in part for pair in group), key=lambda pair: len(pair[0]) + len(pair[1])) for part in (groups[:few], groups[few:]))
    return kept, held


def batch_of(pairs: Sequence[Pair], settings: Settings, key: object, end_id: int, mask_id: int) -> Batch:
    """Training rows of about equal length, the same for a key and a seed: a drawn one and its shorter neighbours, as many as the batch takes."""
    rng = random.Random(f"{settings.seed}/{key}")
    last, block = rng.randrange(len(pairs)), settings.block
    length = -(-(len(pairs[last][0]) + len(pairs[last][1])) // block) * block
    rows = pairs[max(0, last + 1 - max(1, settings.batch // (COPIES * length))) : last + 1]
    ids = torch.full((len(rows), length), end_id)
    answered = torch.zeros((len(rows), length), dtype=torch.bool)
    for i, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        answered[i, len(prompt) : -(-end // block) * block] = True  # end marks up to the end of the block
    return block_batch(ids, answered, block, mask_id, torch.Generator().manual_seed(rng.getrandbits(48)))


class Training:
    """A training that can be interrupted: network, what of it is learnt, optimizer, and how far it is."""

    def __init__(self, settings: Settings, chats: Sequence[Chat], device: str = "cpu") -> None:
        """Raises UserError where the device is not there or the chats are too few."""
        self.settings, self.device = settings, device
        self.network, self.tokenizer, self.mask_id = load_base(settings)
        self.pairs, self.held = encode(chats, self.tokenizer, settings)
        try:
            self.network.to(device)
        except (RuntimeError, AssertionError) as error:
            raise UserError(f"device '{device}' is not available here ({str(error).splitlines()[0]}); use cpu or cuda.") from None
        self.learnt = prepare(self.network, self.mask_id, settings)
        self.optimizer = torch.optim.AdamW(self.learnt.values(), lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.0)
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.loss_before = self.held_out_loss()

    def loss(self, pairs: Sequence[Pair], key: object) -> Tensor:
        """Mean cross-entropy of one batch, under bfloat16 autocast."""
        batch = batch_of(pairs, self.settings, key, self.tokenizer.eos_token_id, self.mask_id)
        self.tokens += batch["input_ids"].numel() if torch.is_grad_enabled() else 0
        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16):
            return loss_of(self.network, {name: value.to(self.device) for name, value in batch.items()})

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Over four batches that nobody learns from, always the same."""
        return sum(self.loss(self.held, f"held out/{i}").item() for i in range(4)) / 4

    def run(self, minutes: float | None = None) -> Iterator[float]:
        """Train up to the last step or for so many minutes; yields the loss of every step, after it."""
        began, before = time.monotonic(), self.seconds
        warmup = max(1, round(0.03 * self.settings.steps))
        while self.step < self.settings.steps and (minutes is None or self.seconds < 60 * minutes):
            loss = self.loss(self.pairs, self.step)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.learnt.values(), 1.0)
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.rate * min(1.0, (self.step + 1) / warmup)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.step, self.seconds = self.step + 1, before + time.monotonic() - began
            yield loss.item()

    def save(self) -> None:
        """Write the checkpoint; the last whole one stays where this fails."""
        path = checkpoint_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        state = {"settings": repr(self.settings), "learnt": {k: v.detach() for k, v in self.learnt.items()}, "optimizer": self.optimizer.state_dict()}
        torch.save(state | {key: getattr(self, key) for key in ("step", "seconds", "tokens", "loss_before")}, partial)
        os.replace(partial, path)

    def restore(self) -> None:
        """Go on from the checkpoint. Raises UserError where there is none, or one of other settings."""
        path = checkpoint_file()
        if not path.is_file():
            raise UserError(f"there is no checkpoint to go on from ({path}); leave --resume out.")
        state = torch.load(path, weights_only=True, map_location="cpu")
        if state["settings"] != repr(self.settings):
            raise UserError(f"the checkpoint {path} was made with other settings ({state['settings']}); give the same ones, or leave --resume out.")
        fill(self.learnt, state["learnt"], path)
        self.optimizer.load_state_dict(state["optimizer"])
        for key in ("step", "seconds", "tokens", "loss_before"):
            setattr(self, key, state[key])

    def install(self, folder: Path) -> Path:
        """Merge and save what `load_model(folder, kind="block")` reads, with the adapter and the figures beside it. Ends the training."""
        figures = {"step": self.step, "tokens": self.tokens, "minutes": round(self.seconds / 60, 1), "rows": len(self.pairs), "held_out_rows": len(self.held)}
        figures |= {"held_out_loss_before": self.loss_before, "held_out_loss": self.held_out_loss(), "settings": vars(self.settings), "device": self.device}
        return install(self.network, self.tokenizer, self.mask_id, self.learnt, folder, figures)


def fill(learnt: dict[str, nn.Parameter], given: dict[str, Tensor], source: Path) -> None:
    """Copy saved values into what is learnt. Raises UserError where names or shapes differ."""
    if {k: v.shape for k, v in learnt.items()} != {k: v.shape for k, v in given.items()}:
        raise UserError(f"{source} does not fit this base and rank; give the ones that it was made with.")
    for name, value in given.items():
        learnt[name].data.copy_(value)


def install(network: Any, tokenizer: Any, mask_id: int, learnt: dict[str, nn.Parameter], folder: Path, figures: dict[str, Any]) -> Path:
    """Put the merged model into `folder` at once, in bfloat16: weights, config, tokenizer, adapter.safetensors and training.json."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if "mask" in learnt:
        save_file({name: value.detach().cpu().bfloat16().contiguous() for name, value in learnt.items()}, partial / "adapter.safetensors")
        figures["adapter_bytes"] = (partial / "adapter.safetensors").stat().st_size
    merge(network, mask_id, learnt)
    network.cpu().to(torch.bfloat16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "training.json").write_text(json.dumps(figures, indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)
    return folder


def from_adapter(file: Path, settings: Settings, folder: Path) -> Path:
    """Build the model in `folder` from the base and a saved adapter, without training."""
    network, tokenizer, mask_id = load_base(settings)
    learnt = prepare(network, mask_id, settings)
    fill(learnt, load_file(file), file)
    return install(network, tokenizer, mask_id, learnt, folder, {"settings": vars(settings), "adapter": file.name})


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m engines.models.train.smollm2_blockdlm", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", default=Settings.base, help="a folder with another Llama-like chat model")
    parser.add_argument("--data", type=Path, help="JSONL with chats; default: SmolLM2's own answers")
    parser.add_argument("--answers", type=int, default=6000, help="own answers to write first where there are fewer")
    for name in ("block", "rank", "steps", "batch", "longest", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings, name))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, help="stop after this many minutes")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--adapter", type=Path, help="train nothing: build the model from this adapter")
    parser.add_argument("--out", type=Path, default=cache_folder().parent / "smollm2-blockdlm")
    a = parser.parse_args(arguments)
    try:
        settings = Settings(a.base, a.block, a.rank, a.steps, a.batch, a.longest, a.seed)
        if a.adapter:
            print(from_adapter(a.adapter, settings, a.out))
            return
        if a.data is None:
            write_answers(a.answers, a.device, a.seed)
        train(Training(settings, read_chats(a.data or answers_file()), a.device), a.out, a.minutes, a.resume)
    except UserError as error:
        sys.exit(str(error))


def train(training: Training, out: Path, minutes: float | None = None, resume: bool = False) -> Path:
    """Run a training with a bar, checkpoints and its figures at the end. Raises UserError where it is interrupted: then the checkpoint is kept."""
    if resume:
        training.restore()
    saved, smooth = time.monotonic(), 0.0
    try:
        with tqdm(total=training.settings.steps, initial=training.step, desc="smollm2-blockdlm", mininterval=5, dynamic_ncols=True) as bar:
            for loss in training.run(minutes):
                smooth = loss if smooth == 0 else 0.95 * smooth + 0.05 * loss
                bar.update()
                bar.set_postfix(loss=f"{smooth:.4f}", refresh=False)
                if time.monotonic() - saved > SAVE_SECONDS:
                    training.save()
                    saved = time.monotonic()
    except KeyboardInterrupt:
        training.save()
        raise UserError(f"stopped at step {training.step}; go on with the same command and --resume.") from None
    training.save()  # kept until the folder is whole
    folder = training.install(out)
    checkpoint_file().unlink(missing_ok=True)
    print(f"{folder}: {(folder / 'training.json').read_text()}")
    return folder


if __name__ == "__main__":
    main()
