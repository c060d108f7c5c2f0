"""A draft model that shares its target's tokenizer, input embedding and output rows and stores only its own layers
(FastDraft, arXiv:2411.11055).

Its folder holds a few Llama layers, a final norm and `draft_ids`, the tokens it can propose; the logits of all others
are -inf. The embedding is read from the target's folder, whose name stands in config.json as `draft_of`. Shapes: n rows
fed, V vocabulary, v draft vocabulary, d hidden size."""

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from engines.core.errors import UserError
from engines.core.kinds.base import Ids
from engines.models.adapters.layered import HFLayeredLM
from engines.models.files import smollm2, stored
from engines.models.files.hub import read_json, shards

EMBEDDING = "model.embed_tokens.weight"
OWN_FIELDS = ("draft_of", "draft_vocabulary")  # in config.json beside the fields of a Llama


class SharedEmbedding(nn.Module):
    """Rows [n, d] of the target's embedding [V, d], looked up as it is stored and given in the draft's dtype. Not a
    parameter: never trained, never saved."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.dtype = weight, dtype

    def forward(self, ids: Tensor) -> Tensor:
        """Embeddings of token ids."""
        return nn.functional.embedding(ids, self.weight).to(self.dtype)


class HFDraftLM(HFLayeredLM):
    """A causal model whose output layer covers `draft_ids` [v] only; its logits still have the width of the target's
    vocabulary, those of the other tokens are -inf."""

    def __init__(self, *given: Any, draft_ids: Tensor) -> None:
        super().__init__(*given)
        self.draft_ids = draft_ids

    @torch.no_grad()
    def by_itself(self, tokens: Ids) -> Tensor:
        """See `HFCausalLM`."""
        few = super().by_itself(tokens)
        return few.new_full((len(few), self.vocab_size), -torch.inf).index_copy(1, self.draft_ids, few)

    def _logits(self, h: Tensor, vocabulary: Ids | None) -> Tensor:
        few = super()._logits(h, None)
        logits = few.new_full((*few.shape[:-1], self.vocab_size), -torch.inf)
        logits[..., self.draft_ids] = few
        return logits if vocabulary is None else logits[..., torch.as_tensor(vocabulary, device=logits.device)]


def target_folder(target: str, name: str) -> Path:
    """Where the target's files lie, fetched if need be. Raises UserError where they cannot be had, or for a target that
    has no draft here."""
    if target != smollm2.NAME:
        raise UserError(
            f"'{name}' is a draft of '{target}', which is not known; drafts of {smollm2.NAME} can be loaded."
        )
    try:
        return smollm2.ensure()[0]
    except UserError as error:
        raise UserError(
            f"'{name}' shares the embedding and the tokenizer of {target}, which are not on this machine: {error}"
        ) from error


def shared_embedding(folder: Path) -> Tensor:
    """The embedding [V, d] of the target in `folder`, as stored. Raises UserError if its files hold none."""
    for shard in shards(folder):
        with safe_open(shard, "pt") as file:
            if EMBEDDING in file.keys():  # noqa: SIM118 (not a dictionary)
                return file.get_tensor(EMBEDDING).clone()
    raise UserError(
        f"{folder} holds no '{EMBEDDING}'; fetch the target again: decoding-explorer models --fetch {smollm2.NAME}"
    )


def build(config: dict[str, Any], embedding: Tensor, draft_ids: Tensor, dtype: torch.dtype) -> LlamaForCausalLM:
    """A network with random layers of its own between the target's embedding [V, d] and, as output layer, its rows
    `draft_ids` [v]."""
    special = {key: config.get(key) for key in ("bos_token_id", "eos_token_id")}
    plain = {key: value for key, value in config.items() if key not in (*OWN_FIELDS, *special)}
    alone = {
        "vocab_size": 1,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    network = LlamaForCausalLM(LlamaConfig(**plain | alone)).to(dtype)
    network.model.embed_tokens = SharedEmbedding(embedding, dtype)
    network.lm_head = nn.Linear(embedding.shape[1], len(draft_ids), bias=False, dtype=dtype)
    network.lm_head.weight = nn.Parameter(embedding[draft_ids].to(dtype), requires_grad=False)
    network.config.update(special | {"vocab_size": len(embedding)})
    return network


def own_weights(network: LlamaForCausalLM) -> dict[str, Tensor]:
    """What a draft stores: everything but what it shares with the target."""
    return {key: value for key, value in network.state_dict().items() if not key.startswith("lm_head.")}


def load_draft(folder: Path, target: Path, dtype: Any, device: str) -> tuple[LlamaForCausalLM, Tensor]:
    """(network, draft ids [v]) from a draft's folder and its target's. Raises UserError if the two or the stored
    tensors do not fit."""
    config, weights, embedding = (
        read_json(folder / "config.json"),
        stored.read(shards(folder)[0]),
        shared_embedding(target),
    )
    draft_ids = weights.pop("draft_ids", torch.empty(0)).long()
    if (shape := tuple(embedding.shape)) != (expected := (config["vocab_size"], config["hidden_size"])):
        raise UserError(
            f"{folder.name} needs a target with an embedding of {expected[0]} x {expected[1]} and {target} has "
            f"{shape[0]} x {shape[1]}."
        )
    network = build(config, embedding, draft_ids, torch.bfloat16 if dtype == "auto" else dtype)
    if {k: v.shape for k, v in own_weights(network).items()} != {k: v.shape for k, v in weights.items()} or len(
        draft_ids
    ) != config["draft_vocabulary"]:
        raise UserError(
            f"the weights of '{folder.name}' are not those its config.json describes; restore the folder or train it "
            "again."
        )
    network.load_state_dict(weights, strict=False)
    embeddings = network.model.embed_tokens
    embeddings.weight = embeddings.weight.to(device)
    return network.to(device), draft_ids.to(device)
