"""Mirror-SD: the draft writes the next window while the target still verifies this one (Bhendawade et al.,
arXiv:2510.13161).

Half-way up its layers the target has a rough idea of what it will say. Behind layer l_e it sends the kappa likeliest
tokens of every row of the window to the draft, which writes the next window behind each of them while the target runs
its upper layers. If the token that the target adds is among the guesses, the next window is there already; else it is
drafted anew. Tokens are accepted where they equal the target's own, drawn or first choice, so the text is the
target's.

The paper's equations name guesses for the first position only; its figure and appendix D.1 have them behind every row
of the window, and so does rooting=every row. We depart in: a linear map (ridge regression) in front of the early head,
which is ours (exits=raw leaves it out); the draft has no lookahead streams, as training them takes a draft of its own,
so every internal step emits one token.

With execution=turns the stages run one after another; beside their measured times they are laid out on two devices
("scheduled"). With execution=threads both models really run at once and share this machine's cores.

Letters: N layers, l_e the exit, gamma tokens d of a window, kappa guesses of a row, A accepted, c rows of text that the
cache lacked, d hidden size, V vocabulary."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from engines.core.lazy import without_gradients
from engines.kit import (
    Choice,
    Decision,
    Float,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    distribution,
    many,
    part,
    torch,
)
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft
from engines.methods.system.mirror_sd import rounds
from engines.models.networks.exits import exits_of, maps_of, scaled

EVERY, FIRST, REUSED, ANEW = "every row", "first row", "reuse", "fresh draft"


@drafting(
    "mirror-sd",
    title="Mirror-SD",
    own="second device modelled",
    paper="arXiv:2510.13161",
    summary="From half-way up the target tells the draft its guesses; windows for all of them are written while its "
    "upper layers run.",
    needs={"target": "layered", "draft": "causal", "maps": part("exit-maps")},
    new_tokens=48,
    params=[
        Int("gamma", 3, 1, rounds.LONGEST, symbol="γ", source="7 in the paper"),
        Int("kappa", 2, 1, rounds.WIDEST, symbol="κ", source="8 in the paper"),
        Float("depth", 0.8, 0.05, 0.95, step=0.05, symbol="ℓ/N", source="0.5 in the paper"),
        Choice("exits", "maps", ["maps", "raw"]),
        Choice("rooting", EVERY, [EVERY, FIRST]),
        Choice("execution", "turns", ["turns", "threads"]),
    ],
    signature="schedule",
    emits={"intervals", "branches", "choice"},
    lanes={"overlap": "probability"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: a fresh window if there is none, lower layers, guesses, then branches beside upper layers."""
    target, N = models.target, models.target.num_layers
    side = Target(target, prompt, p, rows=rounds.LONGEST + 1)
    draft = rounds.Rollouts(models.draft, side.end, target.vocab_size)
    ids, window = prompt, list[int]()
    with ThreadPoolExecutor(1, "draft") as pool:
        while side.unfinished(ids):
            stages, base, gamma = rounds.Stages(), side.cache.length, min(p.gamma, side.room(ids))
            was_fresh, d = not window, window[:gamma] or draft.fresh(ids, gamma, stages)
            fed, c = [*ids[base:], *d], len(ids) - base - 1
            l_e, R = exit_of(models.maps, N, p.depth, p.exits == "raw", target.record.device)
            with stages.during(rounds.LOWER, "layers", f"1–{l_e}"):
                h = target.layers(target.embed(fed), side.cache, 0, l_e)  # [c + 1 + gamma, d]
            sent = nothing(h)
            if draft.worth(ids):
                with stages.during(rounds.EXIT, "exit", "head"):
                    x = h[c:] if R is None else scaled(h[c:]) @ R.T
                    z_e = target.unembed(x, normed=R is not None, predicts=len(ids), counts=False)
                    sent = rounds.channel(z_e[: 1 if p.rooting == FIRST else None], p.kappa)
            threads = p.execution == "threads"
            work = pool.submit(without_gradients(draft.grow), ids, d, sent, p.gamma, stages) if threads else None
            with stages.during(rounds.UPPER, "layers", f"{l_e + 1}–{N}"):
                z = target.unembed(target.layers(h, side.cache, l_e, N), predicts=base + 1)
            if work:
                work.result()
            else:
                draft.grow(ids, d, sent, p.gamma, stages)
            with stages.during(rounds.END, "rendezvous"):
                proposed = Draft.of([ids[-1], *d], range(-1, len(d)), "draft")
                iteration = side.judge(ids, proposed, z, run.rng)
                best = draft.settle(ids, d, iteration.verdict)
            window = draft.window(best, iteration.accepted)
            omega = rounds.overlap(distribution(iteration.z[: len(sent[0])].double(), p.temperature or 1.0), sent[0])
            edit = yield run.step(
                **iteration.groups(lanes=partial(overlaps, iteration, omega)),
                intervals=stages.intervals(run, modelled=not threads),
                choice=decision(iteration, z_e, best, p.kappa) if draft.grown else None,
                facts=iteration.facts(
                    exit_layer=l_e, fresh=int(was_fresh and bool(d)), **draft.facts(best, iteration.accepted)
                ),
                note=note(iteration, len(d) * was_fresh, len(draft.grown), window),
                branches=draft.branches(len(ids), best),
            )
            ids = run.apply_edit(edit, iteration.ids, side.cache, draft.cache)
            if edit is not None:  # the text or the rules have changed, and what was prepared for the old ones with it
                window = []


def exit_of(maps: Any, N: int, depth: float, raw: bool, device: str) -> tuple[int, Tensor | None]:
    """(l_e, R): the exit nearest to this share of the N layers, of those that have a map R [d, d] unless `raw`."""
    layer = min(max(round(depth * N), 1), N - 1)
    if raw:
        return layer, None
    l_e = min(exits_of(maps.tensors), key=lambda i: (abs(i - layer), -i))
    return l_e, maps_of(maps, [l_e], N)[l_e].to(device)


def nothing(h: Tensor) -> tuple[Tensor, Tensor]:
    """A channel without guesses."""
    return h.new_zeros((0, 1), dtype=torch.long), h.new_zeros((0, 1))


def overlaps(iteration: Turn, omega: Tensor) -> dict[str, Any]:
    """The lane of omega of the row that decided each token, where guesses were sent for it."""
    rows = iteration.verdict.path[: len(iteration.gained)]
    tested = [row for row in rows if row < len(omega)]  # a chain: row i decided the token i behind the text
    return {"overlap": ([len(iteration.before) + row for row in tested], omega[tested])} if tested else {}


def decision(iteration: Turn, z_e: Tensor, best: int | None, kappa: int) -> Decision | None:
    """Whether the next window is there already, and where the target's token stood among the exit's; None where the
    target added none."""
    token, row = iteration.verdict.emitted, z_e[iteration.accepted]
    if token < 0:
        return None
    rank = 1 + int((row > row[token]).sum()) + int((row[:token] == row[token]).sum())
    chosen = ANEW if best is None else REUSED
    return Decision([REUSED, ANEW], chosen, "rank among the early exit's guesses", rank, kappa, unit="count")


def note(iteration: Turn, fresh: int, branches: int, window: list[int]) -> str:
    """One sentence on the round."""
    first = f"{many(fresh, 'token')} drafted anew while the target waited; " if fresh else ""
    if not branches:
        return f"{first}{iteration.note()}"
    if iteration.verdict.emitted < 0:
        outcome = "all discarded, as the text ends"
    elif window:
        outcome = f"one of them matches and holds {many(len(window), 'more token')}"
    else:
        outcome = "none of them matches what was written"
    return f"{first}{iteration.note()[:-1]}; {many(branches, 'branch', 'branches')} drafted meanwhile, {outcome}."
