"""The tiny reasoners: a model of 0.16 M parameters and one of 0.03 M that think aloud, character by character, about
chains of operations (engines/tasks/chains.py), and sometimes too long.

They learn the traces of a synthetic overthinker (overthinker.py): long traces are worse by construction. Four minutes
on one core for the large one, which is right for a third of the questions only at a third of its steps: do not stop it
early. The small one is wanted for its errors: it ends in the middle of its cycle, after a minute, where its greedy
answers are right for 85 of 100 held-out questions (53 at step 1,100, 97 at 1,400, all at 2,400)."""

from __future__ import annotations

import random
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from engines.tasks.base import split_of
from engines.tasks.chains import CHAINS, answer_of
from engines.training.core.card import spent, write_card
from engines.training.core.commands import PROGRAM, Command, flags, usual
from engines.training.core.data import IGNORED
from engines.training.core.loop import Loss, Training, Until, attention, checkpoint_file, restore, run
from engines.training.core.weights import replaced, write_network
from engines.training.tiny.overthinker import CHARACTERS, END, PAD, WORST, example
from engines.training.tiny.tokenizer import FOLDER

POSITIONS = 128
BATCH = 48
RATE, RISE = 4e-3, 0.15  # the highest rate, and the share of the steps on which it rises
TEMPLATE = (
    "{%- for c in messages[0]['content'] -%}{%- if c not in '0123456789+-* ' -%}"
    "{{- raise_exception('it reads chains of digits and the signs + - * alone, such as 4+8-9*7') -}}"
    "{%- endif -%}{%- endfor -%}^{{- messages[0]['content'] | replace(' ', '') -}}?"
)


@dataclass(frozen=True)
class Size:
    """A model: its name, layers, width, heads, width of the MLP, steps of the cycle of the learning rate, the step at
    which the training ends, and what it is called."""

    name: str
    layers: int
    hidden: int
    heads: int
    mlp: int
    steps: int
    last: int
    title: str


SIZES = (
    Size("tiny-reasoner", 3, 64, 4, 192, 2000, 2000, "Tiny reasoner (thinks aloud about chains of operations)"),
    Size("tiny-reasoner-s", 2, 32, 2, 112, 2400, 1300, "Tiny reasoner, small (thinks aloud, and errs more)"),
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each character; whatever else is typed is <pad>."""
    vocabulary = {token: i for i, token in enumerate((PAD, END, *CHARACTERS))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    made.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, pad_token=PAD, eos_token=END, unk_token=PAD)
    fast.chat_template = TEMPLATE
    return fast


def build(size: Size, seed: int = 0) -> LlamaForCausalLM:
    """A network without weights that were learnt."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(CHARACTERS) + 2,
            hidden_size=size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.heads,
            intermediate_size=size.mlp,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


class Reasoning(Training):
    """Next characters of traces, behind their question."""

    def __init__(self, size: Size, seed: int, steps: int) -> None:
        super().__init__()
        self.name, self.settings = size.name, repr((size, seed, steps))
        self.command = f"{PROGRAM} {size.name}{flags([('seed', seed, 0), ('steps', steps, size.steps)])}"
        self.network = build(size, seed)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=RATE, weight_decay=0.01)
        self.steps, self.seed, self.ids = steps, seed, {token: i for i, token in enumerate((PAD, END, *CHARACTERS))}

    def batch(self, share: float) -> dict[str, torch.Tensor]:
        """Made from the step's number, so that a training that goes on sees what it would have seen."""
        rng = random.Random(f"{self.seed}/{self.progress.step}")
        rows, targets = list[list[int]](), list[list[int]]()
        while len(rows) < BATCH:
            chain, _ = CHAINS.make(rng, rng.randint(*CHAINS.sizes))
            if split_of(f"{CHAINS.slug}: {chain}") != "train":
                continue
            question, thought = example(rng, chain)
            rows.append([self.ids[c] for c in question + thought])
            targets.append([IGNORED] * len(question) + rows[-1][len(question) :])
        longest = max(map(len, rows))
        pad = lambda row, value: row + [value] * (longest - len(row))  # noqa: E731
        return {
            "input_ids": torch.tensor([pad(row, 0) for row in rows]),
            "labels": torch.tensor([pad(row, IGNORED) for row in targets]),
        }

    def loss(self, batch: dict[str, torch.Tensor]) -> Loss:
        """Cross-entropy in nats per character."""
        z = self.network(batch["input_ids"]).logits[:, :-1]
        value = torch.nn.functional.cross_entropy(
            z.flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=IGNORED
        )
        return Loss(value, batch["input_ids"].numel())

    def rate(self, share: float) -> float:
        """One cycle: a rise, then half a cosine down to nothing."""
        share = self.progress.step / self.steps
        if share < RISE:
            return RATE * (0.04 + 0.96 * share / RISE)
        return RATE * 0.5 * (1 + float(torch.cos(torch.tensor(torch.pi * min(1.0, (share - RISE) / (1 - RISE))))))

    def context(self) -> AbstractContextManager[None]:
        """float32: a network this small gains nothing from less."""
        return attention("cpu")


@torch.no_grad()
def marks(network: LlamaForCausalLM, questions: int = 100, draws: int = 8) -> dict[str, Any]:
    """Exact answers on held-out questions: greedily, and drawn at temperature 1, there also by how often the trace
    looks again."""
    network.eval()
    ids = {token: i for i, token in enumerate((PAD, END, *CHARACTERS))}
    asked = list(islice(CHAINS.generate("held-out", seed=1), questions))
    drawn = torch.Generator().manual_seed(0)
    greedy, single, by_looks = 0, [], dict[int, list[bool]]()
    for one in asked:
        question = [ids[c] for c in f"^{one.prompt.partition(': ')[2]}?"]
        greedy += answer_of(written(network, question, 1, None)[0]) == one.answer
        for text in written(network, question, draws, drawn):
            single.append(answer_of(text) == one.answer)
            by_looks.setdefault(min(4, text.count("w")), []).append(single[-1])
    share = lambda found: round(sum(found) / len(found), 4)  # noqa: E731
    return {
        "greedy": greedy / len(asked),
        "drawn_at_temperature_1": share(single),
        "by_second_looks": {str(n): {"right": share(found), "of": len(found)} for n, found in sorted(by_looks.items())},
    }


@torch.no_grad()
def written(
    network: LlamaForCausalLM, question: list[int], n: int, drawn: torch.Generator | None, temperature: float = 1.0
) -> list[str]:
    """n texts behind a question, without end marks; greedy where nothing is drawn."""
    rows, names = torch.tensor([question] * n), (PAD, END, *CHARACTERS)
    while rows.shape[1] < POSITIONS and not (rows == 1).any(1).all():
        z = network(rows).logits[:, -1]
        chosen = (
            z.argmax(-1, keepdim=True)
            if drawn is None
            else (z / temperature).softmax(-1).multinomial(1, generator=drawn)
        )
        rows = torch.cat([rows, chosen], 1)
    texts = ("".join(names[i] for i in row[len(question) :]) for row in rows.tolist())
    return [text.partition(END)[0] for text in texts]


def train(
    size: Size, *, seed: int = 0, steps: int | None = None, resume: bool = False, out: Path | None = None
) -> Path:
    """Train one of the sizes and put weights, tokenizer, config and card into `out` (assets/models/NAME). Raises
    UserError for a checkpoint of other settings."""
    training = Reasoning(size, seed, steps or size.steps)
    if resume:
        restore(training, checkpoint_file(size.name))
    progress = run(training, Until(steps or size.last), checkpoint=checkpoint_file(size.name))
    folder = out or FOLDER.parent / size.name
    with replaced(folder) as partial_folder:
        write_network(partial_folder, training.network.to(torch.bfloat16), "lossless")
        tokenizer().save_pretrained(partial_folder)
        write_card(partial_folder, _facts(size, seed, training, progress))
    checkpoint_file(size.name).unlink(missing_ok=True)
    return folder


def _facts(size: Size, seed: int, training: Reasoning, progress: Any) -> dict[str, Any]:
    network = training.network.float()
    return {
        "name": size.name,
        "title": size.title,
        "kind": "causal",
        "note": f"synthetic overthinker: {WORST}; asked with chains such as 4+8-9*7",
        "data": "traces of engines/training/tiny/overthinker.py about the train split of engines/tasks/chains.py",
        "seed": seed,
        **spent(progress),
        "licence": "Apache-2.0 (trained here, on synthetic data)",
        "command": training.command,
        "parameters": sum(p.numel() for p in network.parameters()),
        "tasks": [CHAINS.slug],
        "held_out_questions": 100,
        "held_out_right": marks(network),
    }


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")


def _run(size: Size, a: Namespace) -> None:
    print(train(size, seed=a.seed, steps=a.steps, resume=a.resume, out=a.out))


def commands() -> dict[str, Command]:
    """One for each size."""
    return {size.name: Command(size.title, str(__doc__), _options, partial(_run, size)) for size in SIZES}
