"""Counts as a sentence says them."""


def many(n: int, word: str, plural: str = "") -> str:
    """A count with its word in the right number: "1 token", "1,200 tokens", "3 branches". plural: if not with an s."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"
