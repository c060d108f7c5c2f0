"""The one tokenizer of the tiny family: byte-level BPE, digits apart, every name and task word a single readable token."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from engines.tasks import TASKS

SPECIALS = ("<pad>", "<mask>", "<eos>", "<user>", "<answer>")  # ids 0-4, fixed for the family
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<user> ' + (m['content'] | trim) + '<answer>' if m['role'] == 'user' else ' ' + m['content'] + '<eos>' }}{% endfor %}"
)


def build_tokenizer(vocab_size: int = 640, seed: int = 0) -> PreTrainedTokenizerFast:
    """Train the tokenizer on 400 examples of every task. Deterministic for a seed."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\n|\s+?"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    corpus = [f" {e.prompt}\n {e.answer}" for task in TASKS.values() for e in islice(task.generate("train", seed), 400)]
    random.Random(seed).shuffle(corpus)
    core.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        mask_token="<mask>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<answer>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )


def save_tokenizer(folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json into a model's folder."""
    build_tokenizer().save_pretrained(folder)
