"""SmolLM2 as a block-diffusion network: the base with a mask token, its low-rank additions, merging and saving."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils import parametrize

from engines.core.errors import UserError
from engines.models.files.hub import check_folder
from engines.models.files.smollm2 import ensure
from engines.training.core.weights import replaced, write_network

MASK_TOKEN = "<|mask|>"


@dataclass(frozen=True)
class Settings:
    """rank: of the additions, 0 for all weights. batch: tokens per step, all four copies and padding included. longest:
    tokens of a row. Raises UserError."""

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


def load_base(settings: Settings) -> tuple[Any, Any, int]:
    """The network in float32 as a block-diffusion one, its tokenizer and the id of the mask, which is added where the
    tokenizer has none."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = ensure()[0] if settings.base == "smollm2" else Path(settings.base)
    check_folder(folder, settings.base)
    network = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if tokenizer.mask_token_id is None:
        tokenizer.add_special_tokens({"mask_token": MASK_TOKEN})
    mask_id = int(tokenizer.mask_token_id)
    if mask_id >= network.config.vocab_size:
        network.resize_token_embeddings(mask_id + 1, mean_resizing=False)
        rows = network.get_input_embeddings().weight.data
        rows[mask_id] = rows[:mask_id].mean(0)
    network.config.update(
        {"is_causal": False, "mask_token_id": mask_id, "shift_logits": True, "block_size": settings.block}
    )
    return network, tokenizer, mask_id


class LowRank(nn.Module):
    """W + B A in place of a matrix W [out, in]; B [out, r] starts at 0, so that nothing is changed at first."""

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.A = nn.Parameter(
            (torch.randn(rank, weight.shape[1], generator=generator) / weight.shape[1] ** 0.5).to(weight.device)
        )
        self.B = nn.Parameter(weight.new_zeros(weight.shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        """[out, in] -> [out, in]"""
        return weight + self.B @ self.A


def prepare(network: Any, mask_id: int, settings: Settings) -> dict[str, nn.Parameter]:
    """What is learnt, by name: additions to the layers' matrices and the mask's embedding, or all weights."""
    if not settings.rank:
        return dict(network.named_parameters())
    network.requires_grad_(False)
    generator, learnt = torch.Generator().manual_seed(settings.seed), dict[str, nn.Parameter]()
    for name, module in network.model.layers.named_modules():
        if isinstance(module, nn.Linear):
            part = LowRank(module.weight, settings.rank, generator)
            parametrize.register_parametrization(module, "weight", part)
            learnt |= {f"{name}.A": part.A, f"{name}.B": part.B}
    embedding = network.get_input_embeddings()
    row = learnt["mask"] = nn.Parameter(embedding.weight[mask_id].clone())
    network.mask_hook = embedding.register_forward_hook(
        lambda _, ids, out: torch.where((ids[0] == mask_id)[..., None], row, out)
    )
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


def fill(learnt: dict[str, nn.Parameter], given: dict[str, Tensor], source: Path | str) -> None:
    """Copy saved values into what is learnt. Raises UserError where names or shapes differ."""
    if {k: v.shape for k, v in learnt.items()} != {k: v.shape for k, v in given.items()}:
        raise UserError(f"{source} does not fit this base and rank; give the ones that it was made with.")
    for name, value in given.items():
        learnt[name].data.copy_(value)


def install(
    network: Any, tokenizer: Any, mask_id: int, learnt: dict[str, nn.Parameter], folder: Path, figures: dict[str, Any]
) -> Path:
    """Put the merged model into `folder` at once, in bfloat16: weights, config, tokenizer, adapter.safetensors and
    training.json."""
    with replaced(folder) as new:
        if "mask" in learnt:
            adapter = {name: value.detach().cpu().bfloat16().contiguous() for name, value in learnt.items()}
            save_file(adapter, new / "adapter.safetensors")
            figures["adapter_bytes"] = (new / "adapter.safetensors").stat().st_size
        merge(network, mask_id, learnt)
        write_network(new, network.cpu().to(torch.bfloat16))
        tokenizer.save_pretrained(new)
        (new / "training.json").write_text(json.dumps(figures, indent=1) + "\n")
    return folder


def from_adapter(file: Path, settings: Settings, folder: Path) -> Path:
    """Build the model in `folder` from the base and a saved adapter, without training."""
    network, tokenizer, mask_id = load_base(settings)
    learnt = prepare(network, mask_id, settings)
    fill(learnt, load_file(file), file)
    return install(network, tokenizer, mask_id, learnt, folder, {"settings": vars(settings), "adapter": file.name})
