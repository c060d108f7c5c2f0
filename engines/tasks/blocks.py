"""A small picture as a row of whole numbers, one for each block of 4 x 4 pixels, and as text: two colours of a block
and which of its pixels have the second one (block truncation coding, Delp and Mitchell 1979, with means as in absolute
moment block truncation coding, Lema and Mitchell 1984). So a picture of a person's own stands in a prompt, and what is
run, linked and recorded is what the model sees.

Shapes: H x W pixels of C channels, n blocks in reading order, m = 16 pixels of a block."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Any

from engines.core.errors import UserError

SIDE = 4  # of a block, in pixels
PIXELS = SIDE * SIDE
WORD = "picture"  # a prompt is picture: and the text of the blocks
DIGITS = ascii_letters[26:] + ascii_letters[:26] + digits + "-_"  # six bits each, as in base64 for addresses


@dataclass(frozen=True)
class Blocks:
    """Pictures of a size. levels: bits of a channel of a colour."""

    height: int
    width: int
    channels: int
    levels: int

    @property
    def count(self) -> int:
        """n."""
        return self.height * self.width // PIXELS

    @property
    def bits(self) -> int:
        """Of a block."""
        return PIXELS + 2 * self.channels * self.levels

    @property
    def digits(self) -> int:
        """Characters of a block."""
        return -(-self.bits // 6)

    @property
    def ids(self) -> range:
        """Whole numbers that stand for blocks among the ids of a prompt: far above any vocabulary."""
        return range(1 << self.bits, 2 << self.bits)

    def cut(self, picture: Any) -> list[int]:
        """The ids of a picture, uint8 [H, W] or [H, W, C]. A block's pixels are parted at their mean brightness."""
        import numpy as np

        x = np.asarray(picture, dtype=np.float64).reshape(self.height // SIDE, SIDE, self.width // SIDE, SIDE, -1)
        x = x.transpose(0, 2, 1, 3, 4).reshape(self.count, PIXELS, self.channels)  # [n, m, C]
        bright = x.mean(-1)
        second = bright > bright.mean(1, keepdims=True) + 1e-9  # [n, m]
        ids = []
        for pixels, mask in zip(x, second, strict=True):
            low = pixels[~mask].mean(0)  # one of them is there: not all are above their mean
            high = pixels[mask].mean(0) if mask.any() else low
            value = 1
            for bit in mask:
                value = 2 * value + int(bit)
            for level in np.rint(np.concatenate([low, high]) / 255 * ((1 << self.levels) - 1)):
                value = (value << self.levels) + int(level)
            ids.append(value)
        return ids

    def pixels(self, ids: Sequence[int]) -> Any:
        """The picture of n ids: uint8 [H, W, C], without C where that is 1."""
        import numpy as np

        most, parts = (1 << self.levels) - 1, 2 * self.channels
        shifts = range(self.levels * (parts - 1), -1, -self.levels)
        levels = np.array([[value >> shift & most for shift in shifts] for value in ids], dtype=np.float64)
        colours = np.rint(levels * 255 / most).astype(np.uint8).reshape(-1, 2, self.channels)
        masks = [[value >> self.bits - 1 - i & 1 for i in range(PIXELS)] for value in ids]
        x = np.take_along_axis(colours, np.array(masks)[..., None], 1)  # [n, m, C]
        x = x.reshape(self.height // SIDE, self.width // SIDE, SIDE, SIDE, self.channels).transpose(0, 2, 1, 3, 4)
        return x.reshape(self.height, self.width, *([self.channels] if self.channels > 1 else []))

    def text(self, ids: Sequence[int]) -> str:
        """The characters of n ids."""
        return "".join(
            DIGITS[value - (1 << self.bits) >> 6 * place & 63]
            for value in ids
            for place in range(self.digits - 1, -1, -1)
        )

    def read(self, text: str) -> list[int]:
        """The ids of such a text, blanks left out. Raises UserError for any other."""
        characters, ids = "".join(text.split()), list[int]()
        if bad := next((character for character in characters if character not in DIGITS), None):
            raise UserError(
                f"a picture in a prompt has letters, digits, - and _, and not '{bad}'; choose its file again."
            )
        if len(characters) != self.count * self.digits:
            raise UserError(
                f"the picture in the prompt has {len(characters):,} characters and this model's have "
                f"{self.count * self.digits:,}; choose its file again, for this model."
            )
        for i in range(0, len(characters), self.digits):
            value = 0
            for digit in characters[i : i + self.digits]:
                value = 64 * value + DIGITS.index(digit)
            if value >> self.bits:
                raise UserError(
                    "the picture in the prompt was changed by hand and is none any more; choose its file again."
                )
            ids.append(value + (1 << self.bits))
        return ids


SCENES = Blocks(24, 24, 3, 6)  # of 52 bits, so that an id is a whole number that a browser counts exactly
WORDS = Blocks(32, 128, 1, 4)


def own_picture(prompt: str) -> str | None:
    """What stands behind `picture:`; None for any other prompt."""
    verb, colon, rest = prompt.strip().partition(":")
    return rest.strip() if colon and verb.strip().lower() == WORD else None
