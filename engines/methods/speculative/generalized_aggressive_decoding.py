"""Generalized aggressive decoding: a model that fills masks drafts, the autoregressive one verifies (Ge et al.,
arXiv:2205.10350; first in Xia et al., arXiv:2203.16487).

Where the output copies no input, the draft comes from a non-autoregressive model: one forward over the text and k masks
fills them all at once. The verifier reads the block in one forward; the first slot whose token it does not allow (the
bifurcation) ends the block, and its own best token is written there.

Greedy verification (GAD) allows the verifier's first choice alone, so the text is the greedy one. GAD++ allows its best
beta tokens whose logits are at most tau below the best one's: fewer rounds, and no longer the greedy text.

Written after the authors' loop (microsoft/unilm, decoding/GAD, MIT). Ours: the drafter is a masked-diffusion model with
the verifier's tokens, which was not trained to draft for it."""

from engines.kit import (
    Choice,
    Float,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Roles,
    Steps,
    Tensor,
    many,
    token_probability,
    top_ids,
    torch,
)
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft, Test, Verdict

MOST = 25  # masks of a block
VERBS = {"filler": "fill", "target": "verify"}


@drafting(
    "generalized-aggressive-decoding",
    title="Generalized aggressive decoding",
    paper="arXiv:2205.10350",
    code="https://github.com/microsoft/unilm/tree/master/decoding/GAD",
    summary="A masked model drafts a block in one forward, the causal one verifies it; GAD++ accepts near misses.",
    needs={"target": "causal", "filler": "masked"},
    greedy=True,
    params=[
        Int("k", 8, 1, MOST, symbol="k", source="ours; 5 and 25 in the official code"),
        Choice("canvas", "block", ["block", "answer"], source="official code"),
        Choice("accept", "greedy", ["greedy", "gad++"], neutral="greedy", source="official code"),
        Int("beta", 5, 1, 10, symbol="β", source="official"),
        Float("tau", 3.0, 0.0, 10.0, step=0.1, symbol="τ", source="official code"),
    ],
    signature="tree",
    emits={"intervals"},
    lanes={"filled": "probability"},
    lossless={"accept": "greedy"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One block per step: fill k masks, verify them, keep what stands before the bifurcation."""
    target = Target(models.target, prompt, p, rows=1 + MOST)
    ids = prompt
    while target.unfinished(ids):
        k = min(p.k, target.room(ids))
        masks = target.end - len(ids) if p.canvas == "answer" else k
        block, q = fill(models.filler, ids, k, masks) if k else ([], torch.zeros(0))
        iteration = verify_block(target, ids, block, q, *((p.beta, p.tau) if p.accept == "gad++" else (1, 0.0)))
        first, start = iteration.z.argmax(-1).tolist(), len(ids)
        relaxed = [i for i in range(iteration.accepted) if iteration.gained[i] != first[i]]
        edit = yield run.step(
            **iteration.groups(
                causes=dict.fromkeys(relaxed, "relaxed"),
                authors=dict.fromkeys(("accepted", "relaxed"), "filler"),
                lanes=lambda: {"filled": (range(start, start + k), q)},
            ),
            intervals=run.calls(VERBS),
            facts=iteration.facts(relaxed=len(relaxed)),
            note=note(iteration, len(relaxed)),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def fill(model: MaskedLM, ids: list[int], k: int, masks: int) -> tuple[list[int], Tensor]:
    """The most likely tokens of the first k of `masks` masks behind the text, each by itself, and their probabilities
    [k]."""
    x = torch.tensor([*ids, *[model.mask_id] * masks], device=model.record.device)
    z = model(x)[len(ids) : len(ids) + k]  # [k, V]
    best = z.argmax(-1)
    return best.tolist(), token_probability(z, best)


def bifurcation(z: Tensor, block: list[int], beta: int, tau: float) -> int:
    """The first slot whose drafted token is not among the verifier's best beta, or more than tau below its best; k if
    there is none. z [k + 1, V]."""
    best = top_ids(z, beta)  # [k + 1, beta]
    for b, token in enumerate(block):
        allowed = best[b][z[b, best[b]] >= z[b, best[b, 0]] - tau]
        if token not in allowed.tolist():
            return b
    return len(block)


def verify_block(target: Target, ids: list[int], block: list[int], q: Tensor, beta: int, tau: float) -> Turn:
    """One forward of the verifier over what its cache lacks and the block; the cache then holds the text but its last
    token."""
    draft = Draft(ids[-1], "filler")
    for i, token in enumerate(block):
        draft.add(i, token, chance=float(q[i]))
    rows = target.read(ids, draft)
    b = bifurcation(rows.z, block, beta, tau)
    ends = [i for i, token in enumerate(block[:b]) if token in target.model.eos_ids]
    b = ends[0] + 1 if ends else b  # what was drafted behind an end mark is not text
    looked = b if ends else min(b + 1, len(block))
    tests = [Test(i, float(i <= b), None, i <= b) for i in range(1, looked + 1)]
    emitted, source = (-1, "draft") if ends else (int(rows.z[b].argmax()), "argmax")
    return target.keep(rows, Verdict(list(range(b + 1)), emitted, source, tests))


def note(iteration: Turn, relaxed: int) -> str:
    """One sentence on the block."""
    k, b = len(iteration.draft) - 1, iteration.accepted
    if not k:
        return "No room for a block: one token from the verifier."
    kept = f"{b} of {many(k, 'token')} filled in at once accepted"
    near = f", {relaxed} of them by the relaxed rule only" if relaxed else ""
    return (
        f"{kept}{near}; "
        f"{'then one from the verifier' if iteration.verdict.emitted >= 0 else 'the last is the end mark'}."
    )
