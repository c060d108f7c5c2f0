"""Tokens per model call of ways of drafting, with 95 % intervals over prompts (drawn again with replacement), and how
much more each has than every later one on the same prompts, those that the text cache of a tiny model holds out:

    python -m tests.engines.methods.heads.calls tiny-ar-l "hidden-transfer transfer_layer=2" eagle "medusa nodes=12"
"""

from __future__ import annotations

import argparse
from itertools import combinations, islice
from typing import Any

import engines
from engines.core.statistics import bootstrap
from engines.training.core.parts import prompts_of
from engines.training.heads.drafters import Counted, counted, rate
from engines.training.heads.own_text import EVERY, PROMPTS


def held_out(model: Any, n: int) -> list[list[int]]:
    """The first n prompts that the model's text cache holds out."""
    texts = islice(prompts_of(0), 0, PROMPTS, EVERY)
    return [list(model.tokenizer.encode_prompt(text)) for text in islice(texts, n)]


def way(text: str) -> tuple[str, dict[str, Any]]:
    """'medusa nodes=12' as a method and its parameters."""
    slug, *given = text.split()
    info = engines.get_method(slug).info
    pairs = dict(one.split("=", 1) for one in given)
    return slug, {p.name: p.check(pairs[p.name]) for p in info.params if p.name in pairs}


def more(pairs: list[tuple[Counted, Counted]]) -> float:
    """Tokens per call of the first way less those of the second, over all prompts together."""
    return rate([a for a, _ in pairs]) - rate([b for _, b in pairs])


def main() -> None:
    """Decode, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("ways", nargs="*", default=["hidden-transfer transfer_layer=2", "eagle", "hydra", "medusa"])
    parser.add_argument("--prompts", type=int, default=40)
    a = parser.parse_args()
    model: Any = engines.load_model(a.model, kind="layered", dtype="float32")
    asked, found = held_out(model, a.prompts), dict[str, list[Counted]]()
    for text in a.ways:
        slug, params = way(text)
        found[text] = counted(slug, model, asked, params)
        low, high = bootstrap(found[text], rate)
        print(f"{text}: {rate(found[text]):.2f} ({low:.2f} to {high:.2f}), {len(asked)} prompts", flush=True)
    for one, other in combinations(found, 2):
        pairs = list(zip(found[one], found[other], strict=True))
        low, high = bootstrap(pairs, more)
        told = "" if low > 0 or high < 0 else ": not told apart"
        print(f"{one} over {other}: {more(pairs):+.2f} ({low:+.2f} to {high:+.2f}){told}")


if __name__ == "__main__":
    main()
