"""What the picture models share: a prompt of a few words, then one token for each pixel in raster order.

Ids: <pad>, <any>, the words of the prompts, the pixels. In a tenth of the training rows every word is <any>, so that
the model also knows pictures of nothing in particular, which guidance needs (Ho and Salimans, arXiv:2207.12598)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, flags
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.weights import replaced, write_network
from engines.training.tiny.tokenizer import FOLDER

PAD, ANY = "<pad>", "<any>"
RATE, RISE = 3e-3, 0.1  # the highest rate, and the share of the steps on which it rises
UNNAMED = 0.1  # share of the rows whose words are <any>


@dataclass(frozen=True)
class Pixels:
    """A picture model. words: of its prompts, each one token, which may hold blanks; length: of a prompt, in words;
    colours: of the codes, as #rrggbb; signs: how each code is written, one character; prompt: an example; refusal: what
    a person is told whose words are others; pattern: a regular expression of the whole prompt."""

    name: str
    title: str
    rows: int
    columns: int
    words: tuple[str, ...]
    length: int
    colours: tuple[str, ...]
    signs: str
    prompt: str
    refusal: str
    steps: int
    batch: int
    task: str

    @property
    def vocabulary(self) -> dict[str, int]:
        """Token -> id."""
        return {token: i for i, token in enumerate((PAD, ANY, *self.words, *self.signs))}

    @property
    def first(self) -> int:
        """The id of code 0."""
        return 2 + len(self.words)

    @property
    def cells(self) -> int:
        """Pixels of a picture."""
        return self.rows * self.columns

    def ids(self, words: Sequence[str]) -> list[int]:
        """Ids of a prompt."""
        return [self.vocabulary[word] for word in words]


def tokenizer(kind: Pixels) -> PreTrainedTokenizerFast:
    """One token for each word and each pixel. Its template refuses a prompt of other words."""
    made = Tokenizer(models.WordLevel(kind.vocabulary, unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.Split(
        Regex("|".join(map(re.escape, [*sorted(kind.words, key=len, reverse=True), *kind.signs]))),
        "removed",
        invert=True,
    )
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, pad_token=PAD, unk_token=PAD)
    fast.chat_template = template(kind)
    return fast


def template(kind: Pixels) -> str:
    """A prompt's words in small letters with single blanks between them, or the refusal."""
    said = "messages[0]['content'].strip().lower().split() | join(' ')"
    left = f"({said})"
    for word in sorted(kind.words, key=len, reverse=True):
        left += f".replace('{word}', '#')"
    return (
        f"{{%- if {left}.replace(' ', '') != '{'#' * kind.length}' -%}}"
        f"{{{{- raise_exception('{kind.refusal}') -}}}}{{%- endif -%}}{{{{- {said} -}}}}"
    )


def build(kind: Pixels, seed: int = 0) -> LlamaForCausalLM:
    """A network of 0.16 M weights that were not learnt. `config.picture` says what its tokens draw."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(kind.vocabulary),
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=192,
        max_position_embeddings=kind.length + kind.cells,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    config.picture = {
        "rows": kind.rows,
        "columns": kind.columns,
        "first": kind.first,
        "colours": list(kind.colours),
        "blank": 1,
        "prompt": kind.prompt,
    }
    return LlamaForCausalLM(config)


class PixelTraining(Training):
    """Next pixels, behind the words. A subclass gives `rows`."""

    kind: Pixels

    def __init__(self, kind: Pixels, seed: int, steps: int) -> None:
        super().__init__()
        self.kind, self.name, self.settings = kind, kind.name, repr((kind, seed, steps))
        self.command = f"{PROGRAM} {kind.name}{flags([('seed', seed, 0), ('steps', steps, kind.steps)])}"
        self.network = build(kind, seed)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.01)
        self.steps, self.seed = steps, seed

    @abstractmethod
    def rows(self, drawn: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        """Words [count, length] and codes [count, cells] of training pictures."""

    def batch(self, share: float) -> Tensor:
        """Made from the step's number, so that a training that goes on sees what it would have seen."""
        drawn = torch.Generator().manual_seed(self.seed * 1_000_003 + self.progress.step)
        words, codes = self.rows(drawn, self.kind.batch)
        words[torch.rand(len(words), generator=drawn) < UNNAMED] = 1
        return torch.cat([words, codes + self.kind.first], 1)

    def loss(self, batch: Tensor) -> Loss:
        """Cross-entropy in nats per pixel."""
        return Loss(nats(self.network, self.kind, batch), batch.numel())

    def rate(self, share: float) -> float:
        """One cycle: a rise, then half a cosine down to nothing."""
        share = self.progress.step / self.steps
        if share < RISE:
            return RATE * (0.04 + 0.96 * share / RISE)
        return RATE * 0.5 * (1 + float(torch.cos(torch.tensor(torch.pi * min(1.0, (share - RISE) / (1 - RISE))))))

    def context(self) -> AbstractContextManager[None]:
        """float32: a network this small gains nothing from less."""
        return attention("cpu")


def nats(network: LlamaForCausalLM, kind: Pixels, rows: Tensor) -> Tensor:
    """Mean cross-entropy of the pixels of rows [n, length + cells], in nats."""
    z = network(rows).logits[:, kind.length - 1 : -1]
    return torch.nn.functional.cross_entropy(z.flatten(0, 1), rows[:, kind.length :].flatten())


@torch.no_grad()
def drawn(network: LlamaForCausalLM, kind: Pixels, words: Tensor, generator: torch.Generator) -> Tensor:
    """Codes [n, cells] of pictures that the model draws behind words [n, length], at temperature 1."""
    rows, cache = words, None
    fed = words
    for _ in range(kind.cells):
        out = network(fed, past_key_values=cache, use_cache=True)
        cache, p = out.past_key_values, out.logits[:, -1, kind.first :].softmax(-1)
        fed = p.multinomial(1, generator=generator) + kind.first
        rows = torch.cat([rows, fed], 1)
    return rows[:, kind.length :] - kind.first


def train(training: PixelTraining, *, resume: bool, out: Path | None, marks: Any, data: str, note: str) -> Path:
    """Train and put weights, tokenizer, config and card into `out` (assets/models/NAME). marks(network) -> what the
    card says of held-out pictures. Raises UserError for a checkpoint of other settings."""
    kind = training.kind
    if resume:
        restore(training, checkpoint_file(kind.name))
    progress = run(training, Until(training.steps), checkpoint=checkpoint_file(kind.name))
    folder = out or FOLDER.parent / kind.name
    network = training.network
    with replaced(folder) as partial_folder:
        write_network(partial_folder, network.to(torch.bfloat16), "lossless")
        tokenizer(kind).save_pretrained(partial_folder)
        network = network.float().eval()
        facts = {
            "name": kind.name,
            "title": kind.title,
            "kind": "causal",
            "note": note,
            "data": data,
            "seed": training.seed,
            **spent(progress),
            "licence": "Apache-2.0 (trained here)",
            "command": training.command,
            "parameters": sum(p.numel() for p in network.parameters()),
            "tasks": [kind.task],
            **marks(network),
        }
        write_card(partial_folder, facts)
    checkpoint_file(kind.name).unlink(missing_ok=True)
    return folder
