"""LLaDA2.2: insertion and deletion, or tokens of a block that make room for others (code: JointThresholdInDel in sglang
0.5.23, Apache-2.0).

LLaDA2.1's forward, and two tokens that are orders instead of text. Where the model says *delete*, the position goes:
what is behind it in the block moves up, and masks come in at the block's end. Where it says *split*, a mask comes in
front of the token that stands there: what is behind it moves on, and what has no room falls off the block's end. Each
forward fills one original mask at least, and owes as many more as moves brought in. Once the original ones are filled,
R forwards remain; the last writes words alone, no orders. A block that comes back to a state that it had before is
pushed out of its circle: the least probable change takes the best token not tried at its position yet. A forward that
writes nothing ends the block, too.

The rules are those of the code; a paper was not to be had. We depart in: the mask token is never proposed (official: it
may replace a token, and may stay where a move brought it in); finished blocks are stored by a forward of their own
(official: by the last one, where it changes nothing, else by one more); what the last block holds past
`max_new_tokens` stays in the answer; a block with an end mark may end the run (official: left to the engine). The
published network, which picks a set of experts for each block, is not here.

Letters: L positions of the board, B of a block, m masks, n positions written, V vocabulary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engines.kit import (
    BlockMaskedLM,
    Bool,
    Int,
    Params,
    Recorder,
    Span,
    Step,
    Steps,
    Tensor,
    UserError,
    max_new_tokens,
    method,
    token_probability,
    torch,
)
from engines.methods.diffusion._editing import EMITS, LANES_TOO, PARAMS, BlockForward, Edits, Past
from engines.methods.diffusion._open_block import OpenBlock, ended, enough, propose

NEW = -1  # where a position that a move brought in was before
NONE = -1  # the id of an order that a model does not have


@dataclass
class Block:
    """What the open block has been through: its forwards, those of them without an original mask, the states that it
    had, and the tokens and orders that each position was given."""

    forwards: int = 0
    post: int = 0
    seen: set[tuple[int, ...]] = field(default_factory=set)
    given: dict[int, set[int]] = field(default_factory=dict)


@method(
    "llada22",
    title="LLaDA2.2",
    code="https://github.com/sgl-project/sglang",
    summary="LLaDA2.1's writing and replacing, and two tokens that delete a position or insert a mask in front of it.",
    needs="block",
    params=[
        max_new_tokens(),
        *PARAMS[:3],
        Int("delete_token_id", NONE, NONE, 1_000_000, source="a token of the model's own"),
        Int("split_token_id", NONE, NONE, 1_000_000, source="a token of the model's own"),
        Bool("eos_early_stop", True, source="on in the examples of LLaDA2.1's models"),
    ],
    signature="edits",
    emits=EMITS,
    records={"edits": Edits},
    lanes=LANES_TOO,
)
def decode(model: BlockMaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One step per forward of the open block, and one for each that stores what is finished."""
    P, B = len(prompt), model.block_size
    x = run.canvas(-(-(P + p.max_new_tokens) // B) * B - P, model.record.device)  # [L], whole blocks
    blocks, past = OpenBlock(model, len(x)), Past(x, model.mask_id)
    original = x == model.mask_id  # [L]: masks that no move brought in
    a, block = past.start // B * B, Block()
    while a < len(x):
        edit, done = None, False
        orders, R = checked(model, p.delete_token_id, p.split_token_id), p.max_post_steps
        if blocks.lacks(a):
            edit = yield blocks.store(run, x, a)
        else:
            forward = BlockForward(run, x, blocks(x, a), a, past, p)
            v, chance = propose(forward.z, 0.0, 0, 1.0, run.rng)  # [B]
            owed = forward.masked & original[a : a + B]
            block.forwards, block.post = block.forwards + 1, block.post + (not owed.any())
            last = block.forwards > B + R or (not owed.any() and block.post >= R)
            filled, causes = fill(forward, owed, chance, p.threshold, last)
            if R == 0 and owed.sum() == owed[filled].sum() and not last:
                last, (filled, causes) = True, fill(forward, owed, chance, p.threshold, True)
            chosen = torch.cat([filled, forward.edits(v, chance)])  # [n]
            if last:
                words_alone(forward.z, v, chosen, orders)
            else:
                leave_circle(block, forward, v, chance, chosen)
            causes += ["changed"] * (len(chosen) - len(filled))
            places = moved(forward, v, dict(zip(chosen.tolist(), causes, strict=True)), orders)
            step, done = recorded(forward, v, places, blocks.spans(a)), last or not len(chosen)
            origins = [place.origin for place in places[:B]]
            x[a : a + B] = torch.tensor([place.token for place in places[:B]]).to(x)
            original[a : a + B] = torch.tensor([i != NEW and bool(original[a + i]) for i in origins]).to(original)
            follow(past, a, origins)
            edit = yield step
        x = run.apply_edit(edit, x)
        blocks.forget(edit)
        past.see(x, edit)
        if edit and (touched := [*edit.force, *edit.remask]):
            original[list(edit.remask)] = True
            a, block = min(a, min(touched) // B * B), Block()
        elif done:
            a, block = a + B, Block()
            if p.eos_early_stop and ended(x[P:a], model.eos_ids):
                return


def fill(forward: BlockForward, owed: Tensor, chance: Tensor, threshold: float, last: bool) -> tuple[Tensor, list[str]]:
    """The masks [m] that are filled, and why: all in a last forward and where no original one is left; else all above
    the threshold, but one and as many as moves brought in, so that an original one is among them. owed [B]: the
    original ones."""
    masks = forward.masked.nonzero()[:, 0]
    quota = len(masks) if last or not owed.any() else 1 + len(masks) - int(owed.sum())
    best, causes = enough(chance[masks], threshold, quota)
    return masks[best], causes


def words_alone(z: Tensor, v: Tensor, chosen: Tensor, orders: tuple[int, int]) -> None:
    """Put the best word in the place of each order among the proposals v [B] at the chosen positions [n]."""
    given = [order for order in orders if order != NONE]
    spoilt = chosen[torch.isin(v[chosen], torch.tensor(given).to(v))]
    z = z[spoilt].clone()
    z[:, given] = -torch.inf
    v[spoilt] = z.argmax(-1)


def leave_circle(block: Block, forward: BlockForward, v: Tensor, chance: Tensor, chosen: Tensor) -> None:
    """Where the block [B] had this state before, change the least probable change of the proposals v [B] at the chosen
    positions [n]: to the best token not given to that position yet. Note the state and what is given."""
    state, changing = tuple(forward.stood.tolist()), chosen[v[chosen] != forward.stood[chosen]]
    if state in block.seen and len(changing):
        i = int(changing[chance[changing].argmin()])
        z = forward.z[i].clone()
        z[[*block.given.get(i, ())]] = -torch.inf
        v[i] = z.argmax()
    block.seen.add(state)
    for i in chosen.tolist():
        block.given.setdefault(i, set()).add(int(v[i]))


def checked(model: BlockMaskedLM, delete: int, split: int) -> tuple[int, int]:
    """The ids of both orders. Raises UserError where one is no word of the model, or they are one and the same."""
    size = model.vocab_size
    for name, token in (("delete_token_id", delete), ("split_token_id", split)):
        if token >= size or token == model.mask_id:
            raise UserError(
                f"{name} {token} is {'the mask' if token == model.mask_id else 'no token of this model'}; take one of "
                f"0 to {size - 1} that is not the mask, or -1 for none."
            )
    if delete == split != NONE:
        raise UserError(f"delete_token_id and split_token_id are both {split}; take two tokens, or -1 for none.")
    return delete, split


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
