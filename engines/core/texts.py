"""Text from elsewhere: the encoding of a file, and where a line ends; and counts as a sentence says them."""

import codecs
import re

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BARE = {"utf-16-le": [False, True] * 2, "utf-16-be": [True, False] * 2}  # zero bytes of two characters of ASCII
_LINE_END = re.compile(r"\r\n|\r|\n")


def utf8(data: bytes) -> bytes:
    """A text file in UTF-8 without a byte order mark, whichever of UTF-8, UTF-16 and UTF-32 a program of Windows wrote
    it in. What has no mark and does not look like UTF-16 is left as it is. Raises UnicodeDecodeError."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding).encode()
    zeros = [byte == 0 for byte in data[:4]]
    encoding = next((name for name, form in BARE.items() if zeros == form and not len(data) % 2), "")
    return data.decode(encoding).encode() if encoding else data


def decoded(data: bytes) -> str:
    """The text of such a file. Raises UnicodeDecodeError."""
    return utf8(data).decode("utf-8")


def lines(text: str) -> list[str]:
    """The lines of a text. Unlike `str.splitlines`, only CR and LF end one: JSON and logs hold the other characters,
    such as U+2028, inside their lines."""
    return _LINE_END.split(text)


def many(n: int, word: str, plural: str = "") -> str:
    """A count with its word in the right number: "1 token", "1,200 tokens", "3 branches". plural: if not with an s."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"
