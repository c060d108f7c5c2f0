"""One forward over a canvas, and what became of it: told by the next canvas, by the logits that the loop handed back to
the model, and by the draws, which are repeated from the state of the generator (see `draws`).

A position whose next token is not the noise that was drawn there holds a token of the model. Where the positions that
do are those of the lowest entropies, and hold what was drawn there from the model, the rule is an entropy bound; then a
token that both draws gave is told apart by its entropy.

Shapes: L positions of a canvas, V vocabulary."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engines.core.lazy import Tensor, torch
from engines.core.packing import exact
from engines.core.trace import RecordInfo, Span
from engines.watching.draws import Drew
from engines.watching.facts import Facts
from engines.watching.iteration import Turn, Written

SLACK = 1e-4  # nats by which entropies of ours and of the loop may differ
AGREED = 0.9  # share of the tokens that must be those drawn again; less than one where a loop hands back rounded logits
TOKENS = ("before", "after", "sampled", "noise", "argmax")
KEPT = {"noise": "kept", "renoised": "kept"}  # with its noise the canvas is the answer
POSITIONS = ("start", "accepted", "edited", "kept", "renoised")
INFO = RecordInfo(
    "A forward over a canvas, as it was watched: what stood there, what was drawn and what the model would write; what "
    "is not known is left out.",
    {
        **dict.fromkeys(TOKENS, "token"),
        **dict.fromkeys(POSITIONS, "position"),
        "entropies": "nats",
        "joint": "nats",
        "chances": "probability",
    },
)


@dataclass
class Bound:
    """What the steps seen so far say of a bound on joint entropy: at least `low`, below `high`. seen: whether any step
    followed one."""

    low: float = 0.0
    high: float = float("inf")
    seen: bool = False

    def learn(self, joint: Tensor, accepted: Tensor, sure: Tensor) -> None:
        """From a step whose accepted positions are known. All [L]."""
        self.seen = True
        self.low = max(self.low, float(joint[accepted].max()))
        if bool((sure & ~accepted).any()):
            self.high = min(self.high, float(joint[sure & ~accepted].min()))


@dataclass
class Denoised:
    """A forward whose outcome is open. before, was: what the model read, and where a token of the model's stood, [L].
    z: its logits [L, V], as it made them; state: of the generator behind it."""

    iteration: Turn
    number: int
    step: int
    start: int
    before: Tensor
    was: Tensor
    z: Tensor | None = None
    state: Tensor | None = None

    @property
    def places(self) -> list[int]:
        """Positions of the canvas."""
        return list(range(self.start, self.start + len(self.before)))

    def at(self, mask: Tensor) -> list[int]:
        """Positions on the board of a mask [L]."""
        return [self.start + i for i in mask.nonzero()[:, 0].tolist()]

    def record(self, **known: Any) -> dict[str, Any]:
        """The record of this step with what is known of it."""
        own = {"kind": "denoise", "number": self.number, "step": self.step, "start": self.start}
        return own | {"before": self.before.tolist()} | {k: v for k, v in known.items() if v is not None}


@dataclass
class Seen:
    """What is known of a forward apart from its outcome. t: the temperature, None where it is not known; facts: of the
    logits with it."""

    drew: Drew
    argmax: Tensor
    t: float | None
    facts: Facts | None
    joint: Tensor | None = field(init=False, default=None)  # [L]: the entropies before each one's own

    def __post_init__(self) -> None:
        if self.facts is not None:
            rising, order = self.facts.entropy.sort()
            self.joint = torch.empty_like(rising).scatter(0, order, rising.cumsum(-1) - rising).cpu()

    def known(self) -> dict[str, Any]:
        """The fields of a record that it fills."""
        tokens, noise, facts = self.drew.tokens, self.drew.noise, self.facts
        fields: dict[str, Any] = {"argmax": self.argmax.tolist(), "temperature": self.t}
        fields["sampled"] = None if tokens is None else tokens.tolist()
        fields["noise"] = None if noise is None else noise.tolist()
        if facts is not None and self.joint is not None:
            fields |= {"entropies": exact(facts.entropy), "joint": exact(self.joint)}
            fields["mean_entropy"] = float(facts.entropy.mean())
        if facts is not None and tokens is not None and facts.probabilities is not None:
            fields["chances"] = exact(facts.probabilities.gather(-1, tokens[:, None].to(facts.entropy.device))[:, 0])
        return fields


def temperature(raw: Tensor, used: Tensor) -> float | None:
    """By which a row of logits [V] was divided to give another; None where it was not."""
    a, b = raw.double(), used.double()
    size = float((b * b).sum())
    t = float((a * b).sum()) / size if size else 0.0
    return t if t > 0 and bool(torch.allclose(a / t, b, rtol=0.02, atol=0.02)) else None


def settle(denoised: Denoised, after: Tensor, seen: Seen, bound: Bound) -> Tensor:
    """Write what a step left where another one follows it; returns where a token of the model's stands then [L]."""
    drew = seen.drew
    if drew.noise is None:
        return _unknown(denoised, after, seen)
    taken = after != drew.noise
    if follows_bound(taken, after, seen):
        return _bounded(denoised, after, taken, seen, bound)
    drew.tokens = None  # if there were any, they came from another distribution than the one that is known
    same = after == denoised.before
    kept = same & denoised.was | same & taken & drew.routes
    edited = taken & ~kept & denoised.was & (not drew.routes)
    own = taken & ~kept & ~edited
    record = denoised.record(
        after=after.tolist(),
        accepted=denoised.at(own),
        edited=denoised.at(edited),
        kept=denoised.at(kept),
        renoised=denoised.at(denoised.was & ~taken & ~kept),
        **seen.known(),
    )
    causes = {"changed": record["edited"], "accepted": record["accepted"], "renoised": record["renoised"]}
    _write(denoised, after, ~kept, causes, "noise", seen)
    source = own | edited | kept & denoised.was
    _close(denoised, record, seen, f"{int(source.sum())} of {len(after)} hold tokens of the model")
    if doubt := int((kept & ~taken).sum()):
        denoised.iteration.notes.append(f"{doubt} of the tokens kept may be noise that happens to be the same.")
    if doubt := int((~taken & ~kept & (after == seen.argmax)).sum()):
        denoised.iteration.notes.append(
            f"{doubt} of the tokens left as noise may be the model's: its likeliest is the same."
        )
    return source


def follows_bound(taken: Tensor, after: Tensor, seen: Seen) -> bool:
    """Whether the positions taken [L] are those of the lowest entropies, and hold what was drawn from the model."""
    tokens = seen.drew.tokens
    if tokens is None or seen.drew.routes:
        return False
    if bool(taken.any()) and float((tokens == after)[taken].float().mean()) < AGREED:
        return False
    if seen.facts is None:
        return True
    entropies, sure = seen.facts.entropy.cpu(), taken | (tokens != seen.drew.noise)
    inside, outside = entropies[taken], entropies[sure & ~taken]
    return not len(inside) or not len(outside) or bool(inside.max() <= outside.min() + SLACK)


def _bounded(denoised: Denoised, after: Tensor, taken: Tensor, seen: Seen, bound: Bound) -> Tensor:
    tokens, noise, joint = seen.drew.tokens, seen.drew.noise, seen.joint
    assert tokens is not None and noise is not None
    alike, doubt = ~taken & (tokens == noise), 0
    seen.drew.tokens = torch.where(taken, after, tokens)
    accepted = taken
    if joint is not None:
        within = float(joint[taken].max()) if bool(taken.any()) else 0.0
        accepted = taken | (alike & (joint <= max(within, bound.low)))
        unsure = alike & ~accepted & (joint < bound.high)
        doubt = int(unsure.sum())
        if bool(accepted.any()):
            bound.learn(joint, accepted, ~unsure)
    renoised = denoised.was & ~accepted
    record = denoised.record(
        after=after.tolist(), accepted=denoised.at(accepted), renoised=denoised.at(renoised), **seen.known()
    )
    causes = {"accepted": record["accepted"], "renoised": record["renoised"]}
    _write(denoised, after, torch.ones_like(taken), causes, "noise", seen)
    n, again = int(accepted.sum()), int(renoised.sum())
    what = f"{n} {'is' if n == 1 else 'are'} accepted"
    what += f", {again} accepted before {'is' if again == 1 else 'are'} noise again" if again else ""
    _close(denoised, record, seen, what)
    if doubt:
        denoised.iteration.notes.append(
            f"{doubt} of the tokens left as noise may have been accepted: both draws gave the same."
        )
    return accepted


def _unknown(denoised: Denoised, after: Tensor, seen: Seen) -> Tensor:
    changed = after != denoised.before
    _write(denoised, after, changed, {}, "changed", seen)
    record = denoised.record(after=after.tolist(), **seen.known())
    _close(denoised, record, seen, f"{int(changed.sum())} of {len(after)} change")
    denoised.iteration.notes.append(
        "What was drawn could not be repeated, so accepted tokens and noise are not told apart."
    )
    return torch.zeros_like(denoised.was)


def finish(denoised: Denoised, final: Tensor, seen: Seen, bound: Bound, ends: Iterable[int]) -> bool:
    """Write the last step of a canvas, which is `final` [L] afterwards; whether that are its likeliest tokens, with
    padding behind an end perhaps. Otherwise it is the canvas that another step would have read."""
    stops = [i for i, token in enumerate(final.tolist()) if token in set(ends)]
    behind = torch.arange(len(final)) > (stops[0] if stops else len(final))
    other = final != seen.argmax
    if bool((other & ~behind).any()) or len(set(final[other].tolist())) > 1:
        settle(denoised, final, seen, bound)
        denoised.iteration.commits = [w._replace(cause=KEPT.get(w.cause, w.cause)) for w in denoised.iteration.commits]
        denoised.iteration.records["canvas"]["last"] = True
        return False
    padded = behind & (final == final[other][0]) if bool(other.any()) else torch.zeros_like(behind)
    record = denoised.record(**seen.known(), last=True)
    _write(denoised, final, torch.ones_like(other), {"padding": denoised.at(padded)}, "settled", seen)
    _close(denoised, record, seen, "The likeliest tokens are kept")
    return True


def accept_last(denoised: Denoised, seen: Seen, bound: Bound) -> None:
    """What the last step of a canvas accepted before its likeliest tokens were kept, which nothing showed: by the bound
    that the other steps kept to, where that says it of every position."""
    joint, tokens, noise = seen.joint, seen.drew.tokens, seen.drew.noise
    record = denoised.iteration.records["canvas"]
    if joint is None or tokens is None or noise is None or not bound.seen:
        return
    accepted, refused = joint <= bound.low, joint >= bound.high
    if bool((accepted | refused).all()):
        record["accepted"], record["renoised"] = denoised.at(accepted), denoised.at(denoised.was & ~accepted)
        record["after"] = torch.where(accepted, tokens, noise).tolist()


def _write(
    denoised: Denoised, after: Tensor, shown: Tensor, causes: dict[str, list[int]], rest: str, seen: Seen
) -> None:
    """The tokens of a step with their causes. shown [L]; causes: positions by cause, `rest` for all others."""
    why = {position: name for name, those in causes.items() for position in those}
    denoised.iteration.commits = []
    for row in shown.nonzero()[:, 0].tolist():
        token, cause = int(after[row]), why.get(denoised.start + row, rest)
        known = seen.facts is not None and cause in ("accepted", "changed", "settled")
        p = seen.facts.of(row, token) if known and seen.facts is not None else None
        denoised.iteration.commits.append(Written(denoised.start + row, token, cause, p, p))


def _close(denoised: Denoised, record: dict[str, Any], seen: Seen, what: str) -> None:
    """Leave scores, numbers, record and sentence with the step."""
    iteration, facts = denoised.iteration, seen.facts
    iteration.facts, iteration.open, iteration.records = (
        facts,
        denoised.places if facts is not None else [],
        {"canvas": record},
    )
    if seen.joint is not None and seen.drew.tokens is not None:
        iteration.lanes = {"joint": (denoised.places, seen.joint)}
    iteration.recorded_facts = {name: float(record[name]) for name in ("temperature", "mean_entropy") if name in record}
    mean = f"; the mean entropy is {record['mean_entropy']:.3f}." if "mean_entropy" in record else "."
    iteration.notes = [what + mean]
    if facts is not None:
        facts.forget()


def spans(start: int, length: int) -> list[Span]:
    """The canvas, and what is encoded before it."""
    return [Span("canvas", start, start + length), Span("cache", 0, start, "exact")]
