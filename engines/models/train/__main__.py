"""Command line: python -m engines.models.train NAME [--device cuda] [--minutes N] [--steps N] [--resume] [--out FOLDER].

NAME is a recipe, or "tokenizer" (trains the family's tokenizer), or "table" (writes assets/models/README.md from the cards).
"""

import argparse
import json
import sys
from pathlib import Path

from engines.core.errors import UserError
from engines.models.train.card import write_card, write_table
from engines.models.train.loop import MODELS, folder_of, train
from engines.models.train.recipes import RECIPES
from engines.models.train.tokenizer import FOLDER, train_tokenizer

parser = argparse.ArgumentParser(prog="python -m engines.models.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", help=f"{', '.join(RECIPES)}, tokenizer or table")
parser.add_argument("--device", default="cpu")
parser.add_argument("--minutes", type=float, help="stop after this many minutes; the learning rate falls to match")
parser.add_argument("--steps", type=int, help="instead of the recipe's number")
parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
parser.add_argument("--mark", action="store_true", help="train nothing: mark the weights that are there again and rewrite their card")
parser.add_argument("--out", type=Path, help="instead of assets/models/NAME")
a = parser.parse_args()
try:
    if a.name == "tokenizer":
        train_tokenizer().save_pretrained(FOLDER)
    elif a.name == "table":
        write_table(MODELS)
    elif a.mark and a.name in RECIPES:
        folder = a.out or folder_of(a.name)
        write_card(folder, json.loads((folder / "card.json").read_text()))
        write_table(MODELS)
    else:
        print(train(a.name, device=a.device, minutes=a.minutes, resume=a.resume, steps=a.steps, out=a.out))
except (UserError, FileNotFoundError) as error:
    sys.exit(str(error))
