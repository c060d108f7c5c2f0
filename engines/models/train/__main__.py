"""Command line: python -m engines.models.train NAME [--device cuda] [--minutes N] [--steps N] [--resume] [--out FOLDER]."""

import argparse
from pathlib import Path

from engines.models.train.loop import train
from engines.models.train.recipes import RECIPES

parser = argparse.ArgumentParser(prog="python -m engines.models.train", description=__doc__)
parser.add_argument("name", choices=RECIPES)
parser.add_argument("--device", default="cpu")
parser.add_argument("--minutes", type=float, help="stop after this many minutes; the learning rate falls to match")
parser.add_argument("--steps", type=int, help="instead of the recipe's number")
parser.add_argument("--resume", action="store_true")
parser.add_argument("--out", type=Path)
a = parser.parse_args()
print(train(a.name, device=a.device, minutes=a.minutes, resume=a.resume, steps=a.steps, out=a.out))
