"""Handwritten digits, 8 x 8 pixels in 17 greys, asked for by their name: `tiny-digits`.

The data is the optical recognition set of the UCI repository (E. Alpaydin and C. Kaynak, CC BY 4.0) as scikit-learn
ships it: 1,797 pictures, of which every sixth is held out. Needs scikit-learn; nothing else here does. The pictures
stay where they are: with half of them moved by a pixel a nearest neighbour that knows moved digits read the wanted one
in 85 % of the drawn pictures only."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engines.core.errors import UserError
from engines.training.core.commands import Command, usual
from engines.training.pictures.pixels import Pixels, PixelTraining, drawn, nats, train

KIND = Pixels(
    name="tiny-digits",
    title="Tiny digits (draws a digit, pixel by pixel)",
    rows=8,
    columns=8,
    words=tuple("0123456789"),
    length=1,
    colours=tuple("#" + 3 * f"{255 - 255 * grey // 16:02x}" for grey in range(17)),
    signs="·abcdefghijklmnop",
    prompt="7",
    refusal="it draws one digit, so write a single digit such as 7",
    steps=1000,
    batch=64,
    task="digit",
)
HELD_OUT = 6  # every so many
DRAWN = 200


@cache
def pictures() -> tuple[Tensor, Tensor]:
    """Codes [1797, 64] from 0 to 16 and labels [1797]. Raises UserError without scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UserError("the digits come with scikit-learn; install it: pip install scikit-learn.") from None
    found = load_digits()
    return torch.tensor(found.data).long(), torch.tensor(found.target).long()


def split() -> tuple[Tensor, Tensor]:
    """The numbers of the pictures that are trained on, and of those held out."""
    every = torch.arange(len(pictures()[1]))
    return every[every % HELD_OUT != 0], every[every % HELD_OUT == 0]


class Digits(PixelTraining):
    """Pictures of the training part."""

    def rows(self, drawn: torch.Generator, count: int) -> tuple[Tensor, Tensor]:
        """See `PixelTraining`."""
        codes, labels = pictures()
        chosen = split()[0][torch.randint(len(split()[0]), (count,), generator=drawn)]
        return labels[chosen][:, None] + 2, codes[chosen]


def marks(network: Any) -> dict[str, Any]:
    """Nats per pixel on the held-out pictures; how often a linear classifier of real pictures reads the wanted digit in
    drawn ones, and in real ones that are held out."""
    from sklearn.linear_model import LogisticRegression

    codes, labels = pictures()
    learnt, held_out = split()
    judge = LogisticRegression(max_iter=2000).fit(codes[learnt].numpy() / 16, labels[learnt].numpy())
    with torch.no_grad():
        loss = nats(network, KIND, torch.cat([labels[held_out][:, None] + 2, codes[held_out] + KIND.first], 1))
    wanted = torch.arange(DRAWN) % 10
    made = drawn(network, KIND, wanted[:, None] + 2, torch.Generator().manual_seed(0))
    return {
        "held_out_pictures": len(held_out),
        "nats_per_pixel": round(float(loss), 4),
        "read_as_wanted": {
            "drawn": round(float((judge.predict(made.numpy() / 16) == wanted.numpy()).mean()), 3),
            "real": round(judge.score(codes[held_out].numpy() / 16, labels[held_out].numpy()), 3),
        },
    }


def _options(parser: ArgumentParser) -> None:
    usual(parser, "seed", "steps", "resume", "out")


def _run(a: Namespace) -> None:
    made = Digits(KIND, a.seed, a.steps or KIND.steps)
    data = (
        "Optical Recognition of Handwritten Digits (Alpaydin and Kaynak, UCI repository, CC BY 4.0) as scikit-learn "
        "ships it, five sixths of it"
    )
    note = "draws 8 x 8 pixels in 17 greys; asked with one digit such as 7"
    print(train(made, resume=a.resume, out=a.out, marks=marks, data=data, note=note))


def commands() -> dict[str, Command]:
    """See `engines.training.core.commands`."""
    return {KIND.name: Command(KIND.title, str(__doc__), _options, _run)}
