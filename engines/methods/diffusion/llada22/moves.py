"""What a forward of LLaDA2.2 finds in its block, where the block's positions go, and what is recorded of it.

Letters: L positions of the board, B of a block, n of those that may be written, V vocabulary."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engines.kit import Params, Recorder, Span, Step, Tensor, entropy, token_probability, torch
from engines.methods.diffusion._editing import EDITING, Edits, Past

NEW = -1  # where a position that a move brought in was before


class Look:
    """What a forward z [B, V] finds in the block that begins at a. masked, free [B]: where a mask is, and where a token
    is that may be replaced."""

    def __init__(self, run: Recorder, x: Tensor, z: Tensor, a: int, past: Past, p: Params) -> None:
        b = a + len(z)
        self.run, self.a, self.z, self.past, self.p = run, a, z, past, p
        self.stood, self.masked = x[a:b].clone(), x[a:b] == past.mask_id
        mine = torch.tensor([i >= run.prompt_length and i not in past.fixed for i in range(a, b)])
        self.free = ~self.masked & mine.to(x.device)

    def looked(self) -> Tensor:
        """The positions [n] outside the prompt whose token no person forced."""
        return (self.masked | self.free).nonzero()[:, 0]

    def rivals(self, v: Tensor) -> Tensor:
        """The tokens [r] in whose place something else is proposed: v [B]."""
        return (self.free & (v != self.stood)).nonzero()[:, 0]

    def edits(self, v: Tensor, chance: Tensor) -> Tensor:
        """Those of them [e] that are replaced: their proposals are more probable than θ_e. chance [B]."""
        rivals = self.rivals(v)
        return rivals[chance[rivals] > self.p.editing_threshold]

    def record(self, looked: Tensor, v: Tensor, chance: Tensor, fates: Sequence[str]) -> Edits:
        """The record of proposals v [B] with their probabilities, and of what became of each position."""
        return Edits(
            threshold=self.p.threshold,
            editing_threshold=self.p.editing_threshold,
            positions=(self.a + looked).tolist(),
            stood=self.stood[looked].tolist(),
            says=v[looked].tolist(),
            chances=chance[looked].tolist(),
            fates=[fates[i] for i in looked.tolist()],
            before=[self.past.times(self.a + i, int(v[i])) for i in looked.tolist()],
        )


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


def moved(look: Look, v: Tensor, causes: Mapping[int, str], orders: tuple[int, int]) -> list[Place]:
    """The block once the proposals v [B] that have a cause are written and obeyed: B places or more, of which those
    behind the first B have no room."""
    delete, split = orders
    places = list[Place]()
    for i, (old, new) in enumerate(zip(look.stood.tolist(), v.tolist(), strict=True)):
        if i not in causes or new == old:
            places.append(Place(i, old))
        elif new == split:
            places += [Place(NEW, look.past.mask_id, "inserted"), Place(i, old)]
        elif new != delete:
            places.append(Place(i, new, causes[i]))
    return [*places, *[Place(NEW, look.past.mask_id, "appended")] * (len(v) - len(places))]


def recorded(look: Look, v: Tensor, places: list[Place], spans: list[Span]) -> Step:
    """The step of a forward that proposed v [B] and left these places."""
    a, B, chance = look.a, len(v), token_probability(look.z, v, torch.float32)
    fates = fates_of(look, v, places)
    here, now = places[:B], [q for q, place in enumerate(places[:B]) if place.cause]
    sources = [
        places[q + 1] if here[q].cause == "inserted" else here[q] for q in now
    ]  # where it was ordered or written
    gone = sorted({*range(B)}.difference(place.origin for place in here))
    new = [q for q, place in enumerate(here) if place.origin == NEW]
    changed, deleted = fates.count("changed"), fates.count("deleted")
    inserted = [place.cause for place in here].count("inserted")
    masks, rivals, looked = look.masked.nonzero()[:, 0], look.rivals(v), look.looked()  # [m], [r], [n]
    return look.run.step(
        commits=(
            [a + q for q in now],
            [here[q].token for q in now],
            [here[q].cause for q in now],
            [None if place.origin == NEW else float(chance[place.origin]) for place in sources],
        ),
        removed=[a + i for i in gone],
        inserted=[a + q for q in new],
        scores=lambda: {
            "confidence": (a + masks, chance[masks]),
            "entropy": (a + masks, entropy(look.z[masks])),
            EDITING: (a + rivals, chance[rivals]),
        },
        thresholds={"confidence": look.p.threshold},
        candidates=lambda: (a + looked, look.z[looked]),
        spans=spans,
        records={"edits": lambda: look.record(looked, v, chance, fates)},
        facts={"changed": changed, "deleted": deleted, "inserted": inserted},
        note=f"Masks written: {fates.count('written')} of {int(look.masked.sum())}. Tokens changed: {changed}, "
        f"positions deleted: {deleted}, masks inserted: {inserted}.",
    )


def fates_of(look: Look, v: Tensor, places: list[Place]) -> list[str]:
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
        return "open" if look.masked[i] else "kept" if v[i] == look.stood[i] else "doubted"

    return [fate(i) for i in range(B)]
