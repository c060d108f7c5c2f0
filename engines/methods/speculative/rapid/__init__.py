"""RAPID: on a long document the drafter reads retrieved passages, the target everything (Chen et al.,
arXiv:2502.20330).

A draft model that has to read the whole document is slow, too, so it reads the passages that speak of the question and
the same model verifies with all of them in view. As the short view is sometimes the better one, the target's logits
first take a step towards the drafter's distribution: z' = z - eta (p - q), where q is not small. Not lossless for
eta > 0: what is emitted then follows neither p nor p', and the recorded shift says how far it is from p.

Ours: passages are found by BM25, not by an embedding model, and their floor is a share of the best score; k follows
from the tokens to keep alone. The mask is that of the official code, which looks at the drafter's probabilities. At
temperature 0, which the code has not, a draft is kept if it is the first choice of z or of z', and p and q of the step
are those of temperature 1.

Letters: gamma drafted tokens, p and q of target and drafter, p' = softmax(z'), eta strength, alpha mask, c tokens of a
passage, rho floor, V vocabulary."""

from collections.abc import Sequence
from typing import Any

from engines.kit import (
    Float,
    Generator,
    Int,
    Params,
    Recorder,
    Steps,
    Tensor,
    draw,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, Turn, drafting, temperature
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.rapid.opinions import Opinions, pack_opinions
from engines.methods.speculative.rapid.passages import retrieve
from engines.methods.speculative.rapid.transfer import Look, Transfer

MOST = 16
LISTED, LIKELY = 12, 4  # tokens of a drafted place whose p and q are recorded, and of them the likeliest of p


@drafting(
    "rapid",
    title="RAPID",
    paper="arXiv:2502.20330",
    code="https://github.com/John-AI-Lab/RAPID",
    summary="The drafter reads only retrieved passages of a long prompt; the target reads all of it and leans towards "
    "the draft. Lossless only at η = 0.",
    needs="layered",
    new_tokens=24,
    params=[
        Int("gamma", 5, 1, MOST, symbol="γ", source="10 in the code"),
        Float("eta", 10.0, 0.0, 50.0, step=0.5, symbol="η", neutral=0.0, source="paper: 5 to 20"),
        Float("alpha", 0.1, 0.0, 1.0, step=0.05, symbol="α", source="code"),
        Float("confidence", 0.1, 0.0, 0.9, step=0.05, source="code"),
        Int("chunk", 32, 8, 512, symbol="c", source="512 in the paper"),
        Int("keep", 256, 8, 4096, source="4,096 in the paper"),
        Float("rho", 0.1, 0.0, 1.0, step=0.05, symbol="ρ", source="ours; 0.3 of a cosine in the paper"),
        temperature(help=""),
    ],
    signature="passages",
    emits={"intervals", "spans"},
    records={"opinions": Opinions},
    lanes={"short": "probability", "moved": "probability", "shift": "probability"},
    lossless={"eta": 0.0},
)
def decode(model: Any, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: draft on the short context, verify on the long one."""
    target = Target(model, prompt, p, rows=1 + MOST)
    short = retrieve(prompt, model.tokenizer, p.chunk, p.keep, p.rho)
    drafter = Drafter(model.playing("draft"), short.ids, p, rows=1 + MOST, vocab_size=model.vocab_size)
    ids, passages = prompt, short.spans()
    while target.unfinished(ids):
        T = p.temperature or 1.0  # of the distributions that the transfer compares
        draft, q = chain(drafter, short.text(ids), min(p.gamma, target.room(ids)), p, run.rng)
        look = Look(p.eta, p.alpha, T, q)
        iteration = target.verify(ids, draft, run.rng, rule=look.verdict)
        drafter.settle(iteration.verdict.path)
        edit = yield run.step(
            **groups(iteration, look, p),
            spans=passages,
            intervals=run.calls(VERBS),
            facts=iteration.facts(
                transferred=len(look.transferred),
                lost=len(look.lost),
                long_context=len(ids),
                short_context=len(ids) - short.offset,
            ),
            note=note(iteration, look),
        )
        passages = []  # they stay as they are, and the first step has told them
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        if edit is not None and edit.force:  # what the drafter has read from there on is void
            drafter.cache.crop(min(drafter.cache.length, min(edit.force) - short.offset))


def chain(drafter: Drafter, text: Sequence[int], gamma: int, p: Params, rng: Generator) -> tuple[Draft, list[Tensor]]:
    """At most gamma tokens, one behind the other, with the distribution q behind each row; at temperature 0 first
    choices, and q at temperature 1. What the drafter doubts is the last one and stays; so is an end mark."""
    draft = Draft(text[-1], source="retrieval")
    q: list[Tensor] = []
    for row in range(gamma):
        z = drafter.behind(text, draft, [row]).logits[0].double()
        q.append((z / (p.temperature or 1.0)).softmax(-1))
        x = draw(q[-1], rng) if p.temperature else int(z.argmax())
        draft.add(row, x, chance=float(q[-1][x]))
        if q[-1][x] < p.confidence or x in drafter.model.eos_ids:
            break
    return draft, q


def groups(iteration: Turn, look: Look, p: Params) -> dict[str, Any]:
    """The groups of a round; tokens that only the transfer let pass are the retrieved view's."""
    at = range(len(iteration.before), len(iteration.ids))

    def lanes() -> dict[str, Any]:
        moves = [look.at(iteration.z, row) for row in range(min(len(look.q), len(iteration.gained)))]
        lanes = {}
        if drafted := list(zip(range(iteration.accepted), moves, iteration.gained, strict=False)):
            places = at[: len(drafted)]
            lanes["short"] = (places, [float(transfer.q[token]) for _, transfer, token in drafted])
            lanes["moved"] = (places, [float(transfer.p_hat[token]) for _, transfer, token in drafted])
        if moves and iteration.verdict.tests[0].u is not None:
            lanes["shift"] = (at[: len(moves)], [transfer.shift for transfer in moves])
        return lanes

    usual = iteration.groups(
        causes={row - 1: "transferred" for row in look.transferred},
        authors={"accepted": "draft", "transferred": "retrieval"},
        lanes=lanes,
    )
    return {**usual, "records": {"opinions": lambda: opinions(iteration, look, p)}}


def opinions(iteration: Turn, look: Look, p: Params) -> Opinions | None:
    """What both readers give the tokens of each drafted place, so that another eta can be tried on them."""
    moves = [look.at(iteration.z, row) for row in range(len(look.q))]
    tokens_listed = [listed(transfer, token) for transfer, token in zip(moves, iteration.draft.tokens[1:], strict=True)]
    left = [
        int(transfer.mask.sum() - transfer.mask[tokens].sum())
        for transfer, tokens in zip(moves, tokens_listed, strict=True)
    ]
    rule = {"eta": look.eta, "alpha": look.alpha, "temperature": p.temperature}
    views = ("everything", "passages")
    return pack_opinions(
        tokens_listed, [transfer.p for transfer in moves], [transfer.q for transfer in moves], views, left, rule
    )


def listed(transfer: Transfer, token: int) -> list[int]:
    """The drafted token, then by q what some eta could make the first choice: the likeliest of p and the first of p',
    the likeliest one that the mask keeps where it is, and what it moves."""
    moved = transfer.q.masked_fill(~transfer.mask, 0).topk(min(LISTED, len(transfer.q))).indices.tolist()
    likely = transfer.p.topk(min(LIKELY, len(transfer.p))).indices.tolist()
    first = [int(shares.argmax()) for shares in (transfer.p_hat, transfer.p.masked_fill(transfer.mask, 0))]
    others = [t for t in dict.fromkeys([*first, *likely, *(t for t in moved if transfer.mask[t])]) if t != token]
    return [token, *sorted(others[: LISTED - 1], key=lambda t: -float(transfer.q[t]))]


def note(iteration: Turn, look: Look) -> str:
    """One sentence on the round."""
    parts = [iteration.note()[:-1]]
    if look.transferred:
        parts.append(f"{len(look.transferred)} accepted only because the logits moved towards the retrieved view")
    if look.lost:
        parts.append("refused a token that the target alone accepts")
    return "; ".join(parts) + "."
