"""Tokens per model call of ways of drafting, with 95 % intervals over prompts (drawn again with replacement), and how
much more each has than every later one on the same prompts, the first 40 that the text cache of a tiny model holds out:

    python -m tests.engines.methods.heads.calls tiny-ar-l "hidden-transfer transfer_layer=2" eagle "medusa nodes=12"
"""

import sys
from itertools import combinations, islice
from typing import Any

import engines
from engines.core.statistics import bootstrap
from engines.training.core.parts import prompts_of
from engines.training.heads.drafters import Counted, counted, rate
from engines.training.heads.own_text import EVERY, PROMPTS

WAYS = ("hidden-transfer transfer_layer=2", "eagle", "hydra", "medusa")


def more(pairs: list[tuple[Counted, Counted]]) -> float:
    """Tokens per call of the first way less those of the second, over all prompts together."""
    return rate([a for a, _ in pairs]) - rate([b for _, b in pairs])


def main(name: str, *ways: str) -> None:
    """Decode, and print."""
    model: Any = engines.load_model(name, kind="layered", dtype="float32")
    held_out = islice(islice(prompts_of(0), 0, PROMPTS, EVERY), 40)
    asked, found = [list(model.tokenizer.encode_prompt(text)) for text in held_out], dict[str, list[Counted]]()
    for text in ways or WAYS:
        slug, *given = text.split()
        params = dict(one.split("=", 1) for one in given)
        checked = {p.name: p.check(params[p.name]) for p in engines.get_method(slug).info.params if p.name in params}
        found[text] = counted(slug, model, asked, checked)
        low, high = bootstrap(found[text], rate)
        print(f"{text}: {rate(found[text]):.2f} ({low:.2f} to {high:.2f}), {len(asked)} prompts", flush=True)
    for one, other in combinations(found, 2):
        pairs = list(zip(found[one], found[other], strict=True))
        low, high = bootstrap(pairs, more)
        told = "" if low > 0 or high < 0 else ": not told apart"
        print(f"{one} over {other}: {more(pairs):+.2f} ({low:+.2f} to {high:+.2f}){told}")


if __name__ == "__main__":
    main(*sys.argv[1:])
