"""Random walks over a cache of sequences: chains and trees anywhere, paths that are kept, texts that are cropped."""

import random
from collections.abc import Iterator
from typing import Any


def path_of(cache: Any, row: int) -> list[int]:
    """The rows that a row sees, in order."""
    return [*path_of(cache, cache.parents[row]), row] if row >= 0 else []


def walk(cache: Any, seed: int, turns: int, most: int, words: int) -> Iterator[tuple[Any, list[list[int]]]]:
    """(what `feed` gave, the tokens of each new row's path) of every turn. most: rows of a turn. words: how many tokens
    there are."""
    rng, texts = random.Random(seed), list[int]()  # the token of each row
    for turn in range(turns):
        held, above, depths = cache.length, list[int](), list[int]()
        for i in range(min(rng.randint(1, most), cache.capacity - held)):
            low = 0 if turn % 3 else held - 1 + i  # trees that grow anywhere, and chains
            row = rng.randint(min(low, held + i - 1), held + i - 1) if held + i else -1
            above.append(row)
            depths.append(0 if row < 0 else 1 + (cache.positions[row] if row < held else depths[row - held]))
        if above:
            fed = [rng.randrange(words) for _ in above]
            z = cache.feed(fed, above, depths)
            texts += fed
            yield z, [[texts[row] for row in path_of(cache, held + i)] for i in range(len(fed))]
        tip = rng.randrange(cache.length)
        path = path_of(cache, tip)
        if turn % 2:
            base = rng.randint(0, len(path))
            while path[:base] != list(range(base)):
                base -= 1
            cache.keep(base, [row - base for row in path[base:]])
            texts = [texts[row] for row in path]
        elif turn % 5 == 0:
            cache.crop(tip + 1)
            texts = texts[: tip + 1]
