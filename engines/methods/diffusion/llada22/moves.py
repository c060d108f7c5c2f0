"""Where the positions of a block go in LLaDA2.2, and what is recorded of it.

Letters: L positions of the board, B of a block, n of those that may be written, V vocabulary."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engines.kit import Span, Step, Tensor, token_probability, torch
from engines.methods.diffusion._editing import BlockForward, Past

NEW = -1  # where a position that a move brought in was before


def follow(past: Past, a: int, origins: Sequence[int]) -> None:
    """Let what is known of positions follow them in the block at a, whose places now hold what its places `origins`
    held."""
    b = a + len(origins)
    past.held[a:b] = [[] if i == NEW else past.held[a + i] for i in origins]
    past.last[a:b] = [past.mask_id if i == NEW else past.last[a + i] for i in origins]
    now = {a + i: a + place for place, i in enumerate(origins) if i != NEW}
    past.fixed = {now.get(i, i) for i in past.fixed if i in now or not a <= i < b}


class Place(NamedTuple):
    """A position of the block after a forward: where in the block its token was, what it holds, and why; no cause where
    it was left alone."""

    origin: int
    token: int
    cause: str = ""


def moved(forward: BlockForward, v: Tensor, causes: Mapping[int, str], orders: tuple[int, int]) -> list[Place]:
    """The block once the proposals v [B] that have a cause are written and obeyed: B places or more, of which those
    behind the first B have no room."""
    delete, split = orders
    places = list[Place]()
    for i, (old, new) in enumerate(zip(forward.stood.tolist(), v.tolist(), strict=True)):
        if i not in causes or new == old:
            places.append(Place(i, old))
        elif new == split:
            places += [Place(NEW, forward.past.mask_id, "inserted"), Place(i, old)]
        elif new != delete:
            places.append(Place(i, new, causes[i]))
    return [*places, *[Place(NEW, forward.past.mask_id, "appended")] * (len(v) - len(places))]


def recorded(forward: BlockForward, v: Tensor, places: list[Place], spans: list[Span]) -> Step:
    """The step of a forward that proposed v [B] and left these places."""
    a, B, chance = forward.a, len(v), token_probability(forward.z, v, torch.float32)
    fates = fates_of(forward, v, places)
    here, now = places[:B], [q for q, place in enumerate(places[:B]) if place.cause]
    sources = [
        places[q + 1] if here[q].cause == "inserted" else here[q] for q in now
    ]  # where it was ordered or written
    gone = sorted({*range(B)}.difference(place.origin for place in here))
    new = [q for q, place in enumerate(here) if place.origin == NEW]
    changed, deleted = fates.count("changed"), fates.count("deleted")
    inserted = [place.cause for place in here].count("inserted")
    return forward.run.step(
        commits=(
            [a + q for q in now],
            [here[q].token for q in now],
            [here[q].cause for q in now],
            [None if place.origin == NEW else float(chance[place.origin]) for place in sources],
        ),
        removed=[a + i for i in gone],
        inserted=[a + q for q in new],
        **forward.groups(v, chance, fates.__getitem__, spans),
        facts={"changed": changed, "deleted": deleted, "inserted": inserted},
        note=f"Masks written: {fates.count('written')} of {int(forward.masked.sum())}. Tokens changed: {changed}, "
        f"positions deleted: {deleted}, masks inserted: {inserted}.",
    )


def fates_of(forward: BlockForward, v: Tensor, places: list[Place]) -> list[str]:
    """What became of each of the B positions: see `Edits`."""
    B, at = len(v), {place.origin: q for q, place in enumerate(places)}

    def fate(i: int) -> str:
        q = at.get(i)
        if q is None or q >= B:
            return "deleted" if q is None else "pushed"
        if places[q - 1].cause == "inserted" and q:
            return "split"
        if places[q].cause:
            return "changed" if places[q].cause == "changed" else "written"
        return "open" if forward.masked[i] else "kept" if v[i] == forward.stood[i] else "doubted"

    return [fate(i) for i in range(B)]
