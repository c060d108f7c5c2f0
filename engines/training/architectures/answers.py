"""The networks of the pair and of its teacher: their sizes, first weights, what predicts an answer, how one is written,
and what is marked.

Shapes: B rows, E tokens of an input, D of an answer, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engines.models.networks.mu import MuConfig, MuForSeq2Seq
from engines.models.networks.plain_decoder import PlainDecoderConfig, PlainDecoderForCausalLM
from engines.tasks.asking import ASKED
from engines.training.architectures.distillation import cross_entropy, drawn, teacher_slice
from engines.training.architectures.passages import END, PAD, TURN, Asked, rows, shifted, tokenizer

POSITIONS = 512
Network = MuForSeq2Seq | PlainDecoderForCausalLM


@dataclass(frozen=True)
class Size:
    """A network to train. plain: steps before the distillation, all of them where there is none."""

    name: str
    title: str
    encoder: int
    decoder: int
    hidden: int
    heads: int
    steps: int
    plain: int
    rate: float = 1e-2  # of the matrices; embeddings take a part of it
    spread: float = 0.1  # of the first weights
    note: str = ""

    @property
    def student(self) -> bool:
        """Whether it is distilled."""
        return self.plain < self.steps


TEACHER = Size("ask-teacher", "The teacher of the pair", 0, 12, 128, 4, 1200, 1200)
STUDENTS = (
    Size(
        "tiny-encdec",
        "Tiny encoder-decoder (8 layers read, 3 write)",
        8,
        3,
        96,
        4,
        450,
        270,
        note="lists the cities, things, colours, ages or people of a short passage, such as ask: Which cities? Mia "
        "lives in Rome. Ben has a kite. Ada lives in Bonn. Its twin tiny-deconly has as many weights",
    ),
    Size(
        "tiny-deconly",
        "Tiny decoder-only twin of the encoder-decoder (12 layers)",
        0,
        12,
        96,
        4,
        450,
        270,
        note="lists what a short passage names, with as many weights as tiny-encdec, trained on the same examples",
    ),
)
SIZES = {size.name: size for size in (TEACHER, *STUDENTS)}


def build(size: Size, seed: int = 0) -> Network:
    """A network without weights that were learnt."""
    torch.manual_seed(seed)
    usual_ones: dict[str, Any] = {
        "vocab_size": len(tokenizer()),
        "hidden_size": size.hidden,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.heads,
        "max_position_embeddings": POSITIONS,
        "initializer_range": size.spread,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": END,
        "pad_token_id": PAD,
    }
    if not size.encoder:
        return looking_for_its_like(
            PlainDecoderForCausalLM(PlainDecoderConfig(num_hidden_layers=size.decoder, **usual_ones))
        )
    layers = {"encoder_layers": size.encoder, "decoder_layers": size.decoder, "decoder_start_token_id": TURN}
    return looking_for_its_like(MuForSeq2Seq(MuConfig(**layers, **usual_ones)))


@torch.no_grad()
def looking_for_its_like(network: Any) -> Any:
    """Attention that begins by looking for rows like its own and copying them: keys as queries, the output the inverse
    of the values, halved (after Trockman and Kolter 2023, mimetic initialisation). Looking a name up is learnt in a
    fraction of the steps then; the published network begins with normal weights."""
    for part in network.modules():
        if hasattr(part, "q_proj"):
            for matrix in (part.q_proj, part.v_proj):
                torch.nn.init.orthogonal_(matrix.weight)
            part.k_proj.weight.copy_(part.q_proj.weight)
            part.o_proj.weight.copy_(part.v_proj.weight.T / 2)
    return network


def answer_logits(network: Network, batch: Asked, answers: Tensor) -> Tensor:
    """Logits [B, D, V] that predict answers [B, D], each from the tokens before it."""
    if isinstance(network, MuForSeq2Seq):
        logits: Tensor = network(batch.inputs, shifted(answers), batch.present).logits
        return logits
    both = torch.cat([batch.inputs, answers], 1)
    present = torch.cat([batch.present, torch.ones_like(answers, dtype=torch.bool)], 1)
    h = network.model(input_ids=both, attention_mask=present, use_cache=False).last_hidden_state
    out: Tensor = network.lm_head(h[:, teacher_slice(batch.inputs.shape[1], answers.shape[1])])
    return out


@torch.no_grad()
def written(network: Network, batch: Asked, D: int, generator: torch.Generator | None = None) -> Tensor:
    """Answers [B, D] that a network writes: drawn with a generator, greedily without; padded behind the end mark."""
    if isinstance(network, MuForSeq2Seq):
        memory = network.memory(network.encode(batch.inputs, batch.present))
    cache, fed, answers = DynamicCache(), batch.inputs, batch.inputs[:, :0]
    over = torch.zeros(len(fed), dtype=torch.bool)
    for step in range(D):
        if isinstance(network, MuForSeq2Seq):
            fed = torch.full_like(fed[:, :1], TURN) if step == 0 else answers[:, -1:]
            h = network.decode(fed, memory, past=step, present=batch.present, cache=cache)
        else:
            present = torch.cat([batch.present, torch.ones_like(answers, dtype=torch.bool)], 1)
            h = network.model(fed, attention_mask=present, past_key_values=cache, use_cache=True).last_hidden_state
        z = network.lm_head(h[:, -1])
        token = (z.argmax(-1) if generator is None else drawn(z, generator)).masked_fill(over, PAD)
        over |= (token == END) | (token == PAD)
        answers = fed = torch.cat([answers, token[:, None]], 1)
        fed = fed[:, -1:]
        if over.all():
            break
    return answers


@torch.no_grad()
def marks(network: Network, batches: int = 5, count: int = 40) -> dict[str, Any]:
    """On held-out prompts of the sizes that are asked: the share answered exactly, and nats per answer token; by the
    number of people too."""
    network.eval()
    right, nats, tokens, by = 0, 0.0, 0, dict[str, float]()
    for people in range(ASKED[0], ASKED[1] + 1):
        hits = 0
        for number in range(batches):
            batch = rows(number, 1, "held-out", count, people)
            z = answer_logits(network, batch, batch.answers)
            n = int((batch.answers != PAD).sum())
            nats, tokens = nats + n * float(cross_entropy(z, batch.targets)), tokens + n
            own = written(network, batch, batch.answers.shape[1])
            own = torch.nn.functional.pad(own, (0, batch.answers.shape[1] - own.shape[1]), value=PAD)
            hits += int((own == batch.answers).all(1).sum())
        by[str(people)] = round(hits / (batches * count), 4)
        right += hits
    prompts = len(by) * batches * count
    return {
        "prompts": prompts,
        "exact_match": round(right / prompts, 4),
        "nats_per_token": round(nats / tokens, 4),
        "by_people": by,
    }
