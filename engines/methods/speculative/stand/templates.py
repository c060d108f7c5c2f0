"""Templates of draft trees chosen by what was accepted: draft on a large one, count how often each node is accepted,
keep the best (STAND, 2506.04708).

A template is the list of its nodes' child counts, breadth first. Run as a module it makes STAND's again with SmolLM2,
on prompts of its own."""

from collections.abc import Sequence

from engines.kit import CausalLM, Generator, children, from_child_counts, torch
from engines.methods.speculative._verify import Draft, verify


def broad(width: int, depth: int) -> list[int]:
    """Broad above, narrow below: a node whose rank path has the product P of (rank + 1) gets width // P children, down
    to `depth`."""
    counts: list[int] = []
    level = [1]
    for _ in range(depth):
        counts += [width // P for P in level]
        level = [P * (rank + 1) for P in level for rank in range(width // P)]
    return counts


def most_accepted(accepted: Sequence[int | None], keep: int) -> list[int]:
    """The `keep` rows accepted most often, equal ones breadth first, by rising row; `accepted[0]`, the root's, is not
    looked at.

    A node is accepted only with its parent, so that what is kept is a tree.
    """
    return sorted(sorted(range(1, len(accepted)), key=lambda row: (-(accepted[row] or 0), row))[:keep])


def pruned(counts: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The template's part on the root and the rows `kept`, which are rising and hold every kept row's parent."""
    parents, _ = from_child_counts(counts)
    return [sum(parents[child] == row for child in kept) for row in (0, *kept)]


def count_accepted(
    model: CausalLM,
    prompt: Sequence[int],
    counts: Sequence[int],
    rng: Generator,
    *,
    samples: int = 3,
    length: int = 64,
    temperature: float = 0.7,
) -> list[int]:
    """How often each row of the template is accepted while samples of one prompt are decoded on one store.

    A row is fed only when it has been accepted: its distribution is needed no sooner, so the template costs what plain
    decoding costs, whatever its size."""
    from engines.methods.speculative.stand.store import Store, grow, largest

    parents, _ = from_child_counts(counts)
    store, sizes, K = Store(), (3, 2, 1), 10
    accepted, cache = [0] * len(parents), model.new_cache(len(prompt) + length + 1)
    for _ in range(samples):
        ids, row = list(prompt), None
        cache.crop(min(cache.length, len(ids) - 1))
        while len(ids) < len(prompt) + length and (len(ids) == len(prompt) or ids[-1] not in model.eos_ids):
            if row is None:
                deepest = len(prompt) + length - len(ids)
                grown = grow(
                    store,
                    ids,
                    parents,
                    sizes,
                    vocab_size=model.vocab_size,
                    noise=lambda _, n: _uniforms(n, rng),
                    deepest=deepest,
                )
                below, row = children(grown.draft.parents), 0
            base = cache.length
            z = model.extend(ids[base:], cache).logits
            store.learn(ids, base, largest(z, temperature, K), sizes, K)
            level = Draft(ids[-1], distributions={0: grown.draft.distributions[row]} if below[row] else {})
            for child in below[row]:
                level.add(0, grown.draft.tokens[child])
            verdict = verify(
                z[-1:].expand(len(level), -1), level, temperature, rng
            )  # what it says behind an accepted child is not used
            row = below[row][verdict.path[1] - 1] if len(verdict.path) > 1 else None
            ids.append(verdict.emitted if row is None else grown.draft.tokens[row])
            accepted[grown.rows[row or 0]] += 1
    return accepted


def _uniforms(n: int, rng: Generator) -> list[float]:
    return torch.rand(n, dtype=torch.float64, generator=rng).tolist()


PROMPTS = [
    "Why is the sky blue? Explain it step by step.",
    "A train leaves at 9:40 and arrives at 12:15. How long does the ride take? Think step by step.",
    "Write a Python function that returns the largest number in a list.",
    "List five animals that live in the desert, with one sentence on each.",
    "Anna has 24 apples and gives a third of them to Paul. How many has she left? Think step by step.",
    "Describe how to make a cup of tea.",
    "What are the differences between a frog and a toad?",
    "Write a short letter that thanks a neighbour for watering the plants.",
]

if __name__ == "__main__":
    import engines

    large, target = broad(6, 10), engines.load_model("smollm2", dtype="float32")
    with torch.inference_mode():
        chance = torch.Generator().manual_seed(0)
        total = [
            sum(rows)
            for rows in zip(
                *(count_accepted(target, target.tokenizer.encode_prompt(prompt), large, chance) for prompt in PROMPTS),
                strict=True,
            )
        ]
    print(f"{len(total) - 1} nodes, {sum(total[1:])} accepted")
    for keep in (8, 16, 32, 80):
        print(f'"{keep}": "{"".join(map(str, pruned(large, most_accepted(total, keep)))).rstrip("0")}",')
