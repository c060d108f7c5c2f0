"""The card of a kept run, and which runs make room for a new one."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from engines import Trace, tasks
from explorer.figures.calls import in_words, target_role

_CLIP = 400  # characters of a prompt or an output on a card


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The card of a kept run: what a list shows without reading the trace. `saved_at` is Unix time, `size` bytes of the
    packed trace."""

    id: str
    sha256: str
    saved_at: float
    size: int
    method: str
    title: str
    models: list[str]
    prompt: str
    text: str
    steps: int
    forwards: int | None  # None: not recorded, in a trace from elsewhere
    tokens: int
    seconds: float | None
    reason: str
    message: str = ""
    mark: str = ""  # right or wrong, where the prompt is one of the checkable tasks
    pinned: bool = False
    label: str = ""
    calls: str = ""  # in words, those of the target first; "" where they were not recorded
    owner: str = ""  # on a public host, who had it kept: a keyed digest of the address; never shown


def card_of(trace: Trace, name: str, digest: str, size: int, saved_at: float, label: str = "") -> Kept:
    """The card of a trace."""
    example, sums = tasks.recognise(trace.header.prompt), trace.totals
    missing = set(trace.header.missing)
    return Kept(
        id=name,
        sha256=digest,
        saved_at=saved_at,
        size=size,
        method=trace.header.method,
        title=trace.header.title,
        models=[model.name for model in trace.header.models],
        prompt=trace.header.prompt[:_CLIP],
        text=trace.text[:_CLIP],
        steps=len(trace.steps),
        forwards=None if "forwards" in missing else sums.forwards,
        tokens=sums.tokens,
        seconds=None if "model_seconds" in missing else sums.model_seconds + sums.method_seconds,
        reason=trace.end.reason,
        message=trace.end.message[:_CLIP],
        mark="" if example is None else "right" if tasks.check(example, trace.text).correct else "wrong",
        label=label,
        calls="" if "forwards" in missing else in_words(trace.steps, target_role(trace)),
    )


def leaving(
    cards: Sequence[Kept], takes: Mapping[str, int], owner: str, needed: int, over: int, share: int
) -> list[Kept]:
    """The runs that go so that `needed` bytes of this owner fit, none of them pinned, the oldest of an owner first:
    their own as long as they keep more than `share` bytes, then, as long as `over` bytes are too many, those of whoever
    keeps most. So nobody loses a link to someone who keeps more than they do.

    cards: newest first; takes: bytes by id. At home all runs have one owner, "", and the oldest go."""
    held: Counter[str] = Counter()
    queues: dict[str, list[Kept]] = {}
    for card in reversed(cards):
        held[card.owner] += takes[card.id]
        if not card.pinned:
            queues.setdefault(card.owner, []).append(card)
    held[owner] += needed
    dropped: list[Kept] = []

    def drop(whose: str) -> None:
        nonlocal over
        card = queues[whose].pop(0)
        dropped.append(card)
        over -= takes[card.id]
        held[whose] -= takes[card.id]

    while held[owner] > share and queues.get(owner):
        drop(owner)
    while over > 0 and any(queues.values()):
        drop(max((whose for whose, queue in queues.items() if queue), key=lambda whose: held[whose]))
    return dropped
