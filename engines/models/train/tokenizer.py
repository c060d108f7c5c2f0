"""The one tokenizer of the tiny family: byte-level BPE, digits apart, names and task words single readable tokens.

Every byte has a token of its own, so any text can be written. It is trained once (`python -m engines.models.train tokenizer`), because a part of
its text, the stories, is not kept in the repository; all models use the file that ships.
"""

from __future__ import annotations

import random
import shutil
from itertools import islice
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from engines.models.train.stories import read_stories
from engines.tasks import TASKS

SIZE = 2048
SPECIALS = ("<pad>", "<mask>", "<eos>", "<user>", "<turn>")  # ids 0-4, fixed for the family; <turn> ends a user's turn
CHAT_TEMPLATE = "{% for m in messages %}{{ '<user> ' + (m['content'] | trim) + '<turn>' if m['role'] == 'user' else ' ' + m['content'] + '<eos>' }}{% endfor %}"
FOLDER = Path(__file__).resolve().parents[3] / "assets" / "models" / "tokenizer"
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def prompt_text(prompt: str) -> str:
    """A user's turn as the models see it."""
    return f"<user> {prompt}<turn>"


def answer_text(answer: str) -> str:
    """An answer as the models see it, with its end."""
    return f" {answer}<eos>"


def train_tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """Train on 400 examples of every task and the written stories. Deterministic for a seed and the same stories."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n *| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]|\s+?"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False)
    corpus = [f" {text}" for task in TASKS.values() for e in islice(task.generate("train", seed), 400) for text in (e.prompt, e.answer)]
    corpus += [f" {story['text']}" for story in read_stories("train")]
    random.Random(seed).shuffle(corpus)
    core.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        mask_token="<mask>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<turn>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def load_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer that ships."""
    return PreTrainedTokenizerFast.from_pretrained(FOLDER)


def copy_tokenizer(folder: Path) -> None:
    """Put the family's tokenizer beside a model's weights."""
    for name in FILES:
        shutil.copyfile(FOLDER / name, folder / name)
