"""Passages with a question (engines/tasks/asking.py) as rows: inputs padded on the left to E tokens, answers on the
right to D, so that row E - 1 of a decoder-only model and row 0 of a decoder predict the first token of every answer.

Their tokenizer is the family's, restricted to what the task is written in: every byte, the words of the task and the
merges that lead to them. A vocabulary of 2,048 would be an eighth of a network this small, and most of it never used.

Shapes: B rows, E tokens of an input, D of an answer."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from engines.tasks.asking import ASKING
from engines.tasks.base import Example, Split, split_of
from engines.tasks.rows import answer_text, prompt_text
from engines.training.core.data import IGNORED
from engines.training.tiny.tokenizer import CHAT_TEMPLATE, SPECIALS, load_tokenizer

ROWS, GROWTH = 24, 40  # of a batch; batches after which passages may have one person more
BYTES = 256
PAD, END, TURN = (SPECIALS.index(name) for name in ("<pad>", "<eos>", "<turn>"))


@dataclass(frozen=True)
class Asked:
    """Inputs [B, E] with the pad in front, and answers [B, D] with their end mark and pads behind."""

    inputs: Tensor
    answers: Tensor

    @property
    def present(self) -> Tensor:
        """Which tokens of the inputs there are, boolean [B, E]."""
        return self.inputs != PAD

    @property
    def targets(self) -> Tensor:
        """The answers [B, D], IGNORED where they are padded."""
        return self.answers.masked_fill(self.answers == PAD, IGNORED)

    @property
    def fed(self) -> Tensor:
        """What a decoder is fed to predict the answers: the start token in front, the last one left out, [B, D]."""
        return shifted(self.answers)


def shifted(answers: Tensor) -> Tensor:
    """Answers [B, D] behind the start token, without their last, [B, D]."""
    return torch.cat([torch.full_like(answers[:, :1], TURN), answers[:, :-1]], 1)


def rows(number: int, seed: int = 0, split: Split = "train", count: int = ROWS, people: int | None = None) -> Asked:
    """`count` prompts of one size with their answers, those of batch `number`, drawn from their number alone: the first
    ones are of one or two people, and every so many batches they may be of one more."""
    rng = random.Random(f"{seed}/{split}/{number}")
    size = people or rng.randint(1, min(ASKING.sizes[1], 2 + number // GROWTH))
    found: list[Example] = []
    while len(found) < count:
        text, answer = ASKING.make(rng, size)
        if split_of(prompt := f"{ASKING.slug}: {text}") == split:
            found.append(Example(ASKING.slug, prompt, answer))
    return encoded(found)


def encoded(examples: list[Example]) -> Asked:
    """Examples as rows."""
    known = tokenizer()
    inputs, answers = (
        known([text(one) for one in examples])["input_ids"]
        for text in (lambda one: prompt_text(one.prompt), lambda one: answer_text(one.answer))
    )
    E, D = (max(map(len, part)) for part in (inputs, answers))
    return Asked(
        torch.tensor([[PAD] * (E - len(row)) + row for row in inputs]),
        torch.tensor([row + [PAD] * (D - len(row)) for row in answers]),
    )


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """The family's tokenizer without what the task does not need; it cuts the task's texts as the family's does."""
    family = load_tokenizer()
    texts = [
        part(text)
        for size in range(ASKING.sizes[0], ASKING.sizes[1] + 1)
        for one in islice(ASKING.generate("train", size=size), 300)
        for text, part in ((one.prompt, prompt_text), (one.answer, answer_text))
    ]
    used = {token for ids in family(texts)["input_ids"] for token in ids}
    core = json.loads(family.backend_tokenizer.to_str())
    core["model"] |= _restricted(core["model"]["vocab"], core["model"]["merges"], used)
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(core)),
        pad_token="<pad>",
        mask_token="<mask>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<turn>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def _restricted(vocabulary: dict[str, int], merges: list[list[str]], used: set[int]) -> dict[str, object]:
    """The vocabulary of special tokens, bytes, `used` ids and what those are merged from, numbered anew in its order,
    and its merges."""
    made_of = {a + b: (a, b) for a, b in reversed(merges)}  # the earliest merge that makes it
    kept = {name for name, i in vocabulary.items() if i < len(SPECIALS) + BYTES or i in used}
    todo = list(kept)
    while todo:
        for part in made_of.get(todo.pop(), ()):
            if part not in kept:
                kept.add(part)
                todo.append(part)
    order = sorted(kept, key=vocabulary.__getitem__)
    inside = [[a, b] for a, b in merges if {a, b, a + b} <= kept]
    return {"vocab": {name: i for i, name in enumerate(order)}, "merges": inside}
