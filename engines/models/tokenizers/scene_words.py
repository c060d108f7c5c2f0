"""The words of the models that see scenes, and how a prompt becomes ids: a description is drawn, so that the places of
its picture stand first, then what is asked.

Prompts: `small red circle top left, large blue square middle right` or `scene 12` (a held-out one) asks for a caption;
behind `form:` for a filled form, behind `answer:` for either; behind `words:` there is no picture, only the words.
`picture:` and the text of its blocks (engines/tasks/blocks.py) is a picture of a person's own."""

import re
from collections.abc import Sequence

from engines.core.errors import UserError
from engines.core.trace import Piece
from engines.tasks.blocks import SCENES, own_picture
from engines.tasks.grid_scenes import COLOURS, COLUMNS, LATER, ROWS, SHAPES, SIZES, described, held_out, scene_of
from engines.tasks.pictures import ASKED, NUMBERED

SPECIAL = ("<pad>", "<eos>", "<mask>", "<scene>", "<patch>", "<words>")
SIGNS = (".", ",", ":", ";")
WORDS: tuple[str, ...] = (
    *SPECIAL,
    *ASKED,
    *SIGNS,
    *("there", "is", "a", "at", "the"),
    *" ".join(LATER).split(),
    *("size", "colour", "shape", "place"),
    *SIZES,
    *COLOURS,
    *SHAPES,
    *ROWS,
    *COLUMNS,
)
SCENE_WORDS = {*SIZES, *COLOURS, *SHAPES, *ROWS, *COLUMNS, "at", "the"}  # of a description
EXAMPLE = "small red circle top left, large blue square middle right"


def asked_of_own(text: str) -> tuple[str, str] | None:
    """What is asked of a picture of a person's own, and the text of its blocks; None for any other prompt."""
    verb, _, rest = text.partition(":")
    asked = verb.strip().lower()
    blocks = own_picture(rest) if asked in ASKED else own_picture(text)
    return None if blocks is None else (asked if asked in ASKED else ASKED[0], blocks)


class SceneTokenizer:
    """A word or a sign is a token. patches: places of a picture."""

    def __init__(self, patches: int) -> None:
        self.patches = patches
        self.ids = {word: i for i, word in enumerate(WORDS)}

    def encode_prompt(self, text: str) -> list[int]:
        """The places of the picture and what is asked. Raises UserError for what is no scene."""
        if (own := asked_of_own(text)) is not None:
            asked, blocks = own
            if self.patches != SCENES.count:
                raise UserError(
                    f"this model cuts a picture into {self.patches} patches; one of your own needs {SCENES.count}."
                )
            return [self.ids["<scene>"], *SCENES.read(blocks), self.ids[asked]]
        verb, colon, rest = text.strip().lower().partition(":")
        asked, description = (verb.strip(), rest) if colon else (ASKED[0], verb)
        if asked == "words":
            return [self.ids["<words>"], *self.encode(description.replace(",", " , ")), self.ids[ASKED[0]]]
        if asked not in ASKED:
            raise UserError(
                f"'{asked[:20]}:' is not known to this model; begin with form:, answer: or words:, or with the scene."
            )
        if re.fullmatch(r"\s*scene\s+[0-9]+\s*", description):
            number = description.split()[1]
            if len(number) > len(str(NUMBERED)) or not 1 <= int(number) <= NUMBERED:
                raise UserError(f"there is no scene {number[:9]}; choose one from 1 to {NUMBERED}.")
            description = described(held_out(int(number)))
        if (scene := scene_of(description)) is None:
            if bad := next((word for word in description.replace(",", " ").split() if word not in SCENE_WORDS), None):
                raise UserError(
                    f"'{bad[:20]}' is not a word of a scene; write a size ({', '.join(SIZES)}), a colour "
                    f"({', '.join(COLOURS)}), a shape ({', '.join(SHAPES)}), a row ({', '.join(ROWS)}) and a column "
                    f"({', '.join(COLUMNS)}), such as {EXAMPLE}."
                )
            raise UserError(
                f"'{description.strip()[:60]}' describes no scene; write two or three objects in different "
                "places, such as "
                f"{EXAMPLE}, or scene 12."
            )
        words = [word for thing in scene for word in thing]
        words += ["<patch>"] * (self.patches - len(words))
        return [self.ids[word] for word in ["<scene>", *words, asked]]

    def encode(self, text: str) -> list[int]:
        """Ids of words and signs with blanks between them. Raises UserError for any other word."""
        words = text.replace(".", " .").replace(";", " ;").replace(":", " :").split()
        if bad := next((word for word in words if word not in self.ids), None):
            raise UserError(f"this model does not know '{bad[:20]}'; its words are {', '.join(WORDS[len(SPECIAL) :])}.")
        return [self.ids[word] for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; special tokens and ids that stand for nothing are left out."""
        return "".join(self.piece(i).text for i in ids if len(SPECIAL) <= i < len(WORDS)).strip()

    def piece(self, token: int) -> Piece:
        """A word with the blank before it, a full stop or comma without, or a special token."""
        if token in SCENES.ids:
            return Piece(token, "<patch>", "special")
        if not 0 <= token < len(WORDS):
            return Piece(token, f"<unused {token}>", "special")
        word = WORDS[token]
        if token < len(SPECIAL):
            return Piece(token, word, "special")
        return Piece(token, word if word in ".,;" else f" {word}")

    def vocabulary(self) -> dict[int, str]:
        """What each id stands for."""
        return dict(enumerate(WORDS))
