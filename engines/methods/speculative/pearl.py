"""PEARL: parallel speculative decoding with adaptive draft length (Liu et al., arXiv:2408.11850; code
smart-lty/ParallelSpeculativeDecoding).

In plain speculative decoding each model waits for the other. Here both work at once. While the drafter writes gamma
tokens, the target already looks at the first of them (pre-verify: a bad start is found before the block is done); while
the target verifies a block, the drafter writes the next one (post-verify). Where they agree the text flows without a
break; there is no bonus token, because the drafter's next one is under test already.

We depart from the released code in: the text holds verified tokens only (theirs may end in up to gamma - 1 that nobody
has looked at) and stops at an end mark (theirs goes on); every test draws a uniform of its own (theirs uses one for the
last test of pre-verify and the first of post-verify, which bends the distribution above temperature 0).

With execution=turns the models run one after the other; beside the measured times stand the same calls laid out on two
devices ("scheduled"), each model busy from the start of the iteration. With execution=threads they really run at once
on this machine and share its cores: two cores gain little, the matrix products of each model are already spread over
them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from engines.core.lazy import without_gradients
from engines.kit import (
    Bool,
    Choice,
    Decision,
    Int,
    Interval,
    Params,
    Record,
    Recorder,
    Roles,
    Steps,
    Tensor,
    TokenId,
    many,
)
from engines.kit import Generator as Rng
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft

LONGEST = 12


class Guess(NamedTuple):
    """A drafted token: q(x), and the distribution q [V] that it was drawn from, None for a first choice."""

    token: int
    chance: float
    distribution: Tensor | None


class AtOnce(Record):
    """What both models did in an iteration: the drafter wrote a block while the target tested what was there."""

    mode: str  # "pre": the block's first token alone, "post": the drafts of the block before, and that token
    block: list[TokenId]
    tested: list[TokenId]
    kept: int  # of the tested ones
    discarded: int  # drafts, the block among them where it does not follow the text any more


@drafting(
    "pearl",
    title="PEARL",
    paper="arXiv:2408.11850",
    code="https://github.com/smart-lty/ParallelSpeculativeDecoding",
    summary="Drafter and target work at the same time: one writes the next block while the other verifies the last.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Int("gamma", 4, 1, LONGEST, symbol="γ", source="code"),
        Bool("pre_verify", True, source="paper"),
        Bool("post_verify", True, source="paper"),
        Choice("execution", "turns", ["turns", "threads"]),
        temperature(),
        draft_temperature(),
    ],
    signature="atonce",
    emits={"intervals", "choice"},
    records={"at_once": AtOnce},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One iteration per step. `pending`: drafts behind the text that the target has not looked at."""
    target = Target(models.target, prompt, p, rows=LONGEST + 1)
    drafter = Drafter(models.draft, prompt, p, rows=2 * LONGEST, vocab_size=models.target.vocab_size)
    ids, pending, mode, clock = prompt, [], "pre", 0.0
    with ThreadPoolExecutor(1, "drafter") as pool:
        while target.unfinished(ids):
            gamma = min(p.gamma, target.end - len(ids) - len(pending))
            text, looks = [*ids, *(guess.token for guess in pending)], mode == "post" or p.pre_verify
            if p.execution == "threads":
                work = pool.submit(without_gradients(draft_block), drafter, text, gamma, run.rng)
                z = look(target, ids, pending) if looks else None
                block = work.result()
            else:
                block = draft_block(drafter, text, gamma, run.rng)
                z = look(target, ids, pending) if looks else None
            measured = sorted(run.calls(VERBS), key=lambda call: (call.track, call.start))
            scheduled, clock = on_two_devices(measured, clock) if p.execution == "turns" else ([], clock)
            lanes, was = [*measured, *scheduled], mode
            if z is None:
                pending, mode = block, "post"
                facts = {"drafted": len(block), "accepted": 0, "rows": 0, "pending": len(block), "discarded": 0}
                edit = yield run.step(
                    intervals=lanes,
                    facts=facts,
                    choice=ribbon(was, mode, 0, 0),
                    records={"at_once": partial(at_once, was, block)},
                    note=untested(block),
                )
            else:
                tested = [*pending, *block[:1]] if was == "pre" or p.post_verify else pending
                iteration = verify_block(target, ids, tested, z, run.rng)
                passed = iteration.verdict.source == "draft"
                discarded = 0 if passed else len(pending) + len(block) - iteration.accepted
                pending, mode = (block[1:], "post") if passed else ([], "pre")
                if not passed:
                    drafter.cache.crop(min(drafter.cache.length, len(iteration.ids) - 1))
                facts = iteration.facts(drafted=len(block), rows=len(z), pending=len(pending), discarded=discarded)
                choice = ribbon(was, mode, iteration.accepted, len(tested))
                edit = yield run.step(
                    **iteration.groups(),
                    intervals=lanes,
                    facts=facts,
                    choice=choice,
                    records={"at_once": partial(at_once, was, block, tested, iteration.accepted, discarded)},
                    note=note(iteration, was, discarded),
                )
                ids = iteration.ids
            ids = run.apply_edit(edit, ids, target.cache, drafter.cache)
            if edit is not None:  # the text or the rules have changed; what was drafted for the old ones is forgotten
                pending, mode = [], "pre"


def draft_block(drafter: Drafter, text: Sequence[int], gamma: int, rng: Rng) -> list[Guess]:
    """gamma tokens behind the text, one draft forward each."""
    block: list[Guess] = []
    for _ in range(gamma):
        z = drafter.read([*text, *(guess.token for guess in block)]).logits[0]  # [V]
        next_token = Draft(0)
        chance = drafter.propose(next_token, 0, z, rng)
        block.append(Guess(next_token.tokens[1], chance, next_token.distributions.get(0)))
    return block


def look(target: Target, ids: Sequence[int], pending: Sequence[Guess]) -> Tensor:
    """The target's logits [1 + len(pending), V] behind the text and behind each pending token."""
    fed = [*ids[target.cache.length :], *(guess.token for guess in pending)]
    return target.model.extend(fed, target.cache, last_only=not pending).logits[-1 - len(pending) :]


def verify_block(target: Target, ids: list[int], tested: Sequence[Guess], z: Tensor, rng: Rng) -> Turn:
    """Walk down the tested tokens with fresh uniforms. Where all pass and the last has not been read by the target,
    nothing follows it yet."""
    draft = Draft(ids[-1])
    for row, guess in enumerate(tested):
        if guess.distribution is not None:
            draft.distributions[row] = guess.distribution
        draft.add(row, guess.token, guess.chance)
    return target.judge(ids, draft, z, rng)


def on_two_devices(calls: Sequence[Interval], start: float) -> tuple[list[Interval], float]:
    """The measured calls of one iteration as if each model had a device: both begin at `start`, and the slower one ends
    the iteration."""
    laid, ends = [], {}
    for call in calls:
        begin = ends.get(call.track, start)
        ends[call.track] = begin + call.end - call.start
        track = f"{call.track} on its own device"
        laid.append(replace(call, track=track, start=begin, end=ends[call.track], measured=False))
    return laid, max(ends.values(), default=start)


def at_once(
    mode: str, block: Sequence[Guess], tested: Sequence[Guess] = (), kept: int = 0, discarded: int = 0
) -> AtOnce:
    """The record of an iteration; nothing was tested where the target waited."""
    return AtOnce(mode, [guess.token for guess in block], [guess.token for guess in tested], kept, discarded)


def ribbon(was: str, mode: str, accepted: int, tested: int) -> Decision:
    """The mode of the iteration, decided by whether every test before it passed."""
    return Decision(["pre", "post"], was, "drafts that passed", accepted, tested, unit="count", switched=mode != was)


def untested(block: Sequence[Guess]) -> str:
    """One sentence on an iteration without pre-verify."""
    return f"The drafter wrote {many(len(block), 'token')} while the target waited; none has been verified yet."


def note(iteration: Turn, was: str, discarded: int) -> str:
    """One sentence on an iteration in which the target looked at something."""
    n = len(iteration.draft) - 1
    if was == "pre":
        outcome = "it is accepted" if iteration.accepted else f"it is refused and {many(discarded, 'draft')} discarded"
        return f"Pre-verify: while the block was drafted, the target tested its first token; {outcome}."
    if iteration.verdict.source == "draft" and iteration.accepted < n:
        return (
            f"Post-verify: {iteration.accepted} of {many(n, 'token')} accepted, the last of them the end mark; "
            "what was "
            "drafted after it is discarded."
        )
    if iteration.verdict.source == "draft":
        return f"Post-verify: all {many(n, 'tested token')} accepted, the first of the next block among them."
    return (
        f"Post-verify: {iteration.accepted} of {many(n, 'token')} accepted, {many(discarded, 'draft')} "
        "discarded, and one "
        "token comes from the target."
    )
