"""The one tokenizer of the tiny family: byte-level BPE, digits apart, names and task words single readable tokens.

Every byte has a token of its own, so any text can be written. It is trained once (`python -m engines.training
tokenizer`), because a part of its text, the stories, is not kept in the repository; all models use the file that ships.
"""

from __future__ import annotations

import json
import random
import shutil
from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from engines.tasks import TASKS
from engines.training.core.commands import Command, usual
from engines.training.tiny.stories import read_stories

SIZE = 2048
SPECIALS = ("<pad>", "<mask>", "<eos>", "<user>", "<turn>")  # ids 0-4, fixed for the family; <turn> ends a user's turn
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<user> ' + (m['content'] | trim) + '<turn>' if m['role'] == 'user' else ' "
    "' + m['content'] + '<eos>' }}{% endfor %}"
)
FOLDER = Path(__file__).resolve().parents[3] / "assets" / "models" / "tokenizer"
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


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
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False
    )
    corpus = [
        f" {text}"
        for task in TASKS.values()
        for e in islice(task.generate("train", seed), 400)
        for text in (e.prompt, e.answer)
    ]
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


def give_tokenizer(folder: Path) -> None:
    """The family's tokenizer for a model: named in the config of one that stands beside it, copied into any other."""
    if folder.resolve().parent == FOLDER.parent:
        config = json.loads((folder / "config.json").read_text()) | {"tokenizer_from": FOLDER.name}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    else:
        copy_tokenizer(folder)


def copy_tokenizer(folder: Path) -> None:
    """Put the family's tokenizer beside a model's weights."""
    for name in FILES:
        shutil.copyfile(FOLDER / name, folder / name)


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "out")


def _run(a: Namespace) -> None:
    train_tokenizer(a.seed).save_pretrained(a.out or FOLDER)
    print(a.out or FOLDER)


def commands() -> dict[str, Command]:
    """Trains the family's tokenizer."""
    return {"tokenizer": Command("the one tokenizer of the tiny models", str(__doc__), _options, _run)}
