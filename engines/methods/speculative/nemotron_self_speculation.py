"""Nemotron-Labs-Diffusion, self-speculation: one network drafts and verifies (arXiv:2607.05722; `linear_spec_generate`
of the models' files on the hub).

The text is in the cache but for its last token. Draft: that token and a block of masks behind it are read in both
directions, all to all, and the masks are filled; nothing of it is kept. Verify: the filled block is read again, now
causally. The draft is accepted as far as it is what the causal rows say, one token of theirs follows, and the cache is
cropped to it. Drafting costs whole forwards of the model, so a round of one drafting pass gains only if it writes more
than two tokens; both are counted as calls here.

The official function fills all masks in one pass. With a threshold it fills the most likely one and all that reach it,
pass by pass, and each pass is one more call.

We depart in: above temperature 0 the drafts are still the first choices and one draw of the model decides (officially
they are drawn, too); a draft ends where the model has no positions left, the text where no more tokens are wanted (the
official one may be a round longer); a token that a person put there is read before anything is drafted.

Letters: B the block with the token that begins it, V vocabulary."""

from engines.kit import (
    Float,
    Int,
    KVCache,
    Params,
    Probability,
    Record,
    Recorder,
    Steps,
    TokenId,
    TwoWayLM,
    torch,
)
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft

MOST = 256


class TwoRoles(Record):
    """What the network said of a block in both ways. The first token is the text's last one; of the others row i was
    guessed by the block, and then said by the causal row before it."""

    start: int  # the first token's position
    drafted: list[TokenId]  # [B]
    chances: list[Probability]  # [B] of the guesses when they were written, 1 for the first
    passes: list[int]  # [B]: the drafting pass that wrote it, 0 for the first
    verdict: list[TokenId]  # [B]: the causal first choice behind each row
    accepted: int  # of the B - 1 guesses


@drafting(
    "nemotron-self-speculation",
    title="Self-speculation (Nemotron-Labs-Diffusion)",
    paper="arXiv:2607.05722",
    code="https://huggingface.co/nvidia/Nemotron-Labs-Diffusion-8B",
    summary="One network, two roles: it fills a block of masks in both directions, then checks it left to right.",
    needs="two-way",
    params=[
        Int("block_length", 0, 0, MOST, symbol="B", neutral=1, source="32 in the published models"),
        Float("threshold", 0.0, 0.0, 1.0, symbol="θ", source="official code"),
    ],
    signature="tworoles",
    records={"tworoles": TwoRoles},
)
def decode(model: TwoWayLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """A turn whose cache lacks more than the text's last token (the first, and after a person's change) reads the text
    and drafts nothing."""
    B = p.block_length or model.block_size
    target, ids = Target(model, prompt, p, rows=B), prompt
    while target.unfinished(ids):
        draft, filled, chances, passes = Draft(ids[-1], "block"), [ids[-1]], [1.0], [0]
        n = min(B, model.max_positions - len(ids) + 1)
        if n > 1 and target.cache.length == len(ids) - 1:
            filled, chances, passes = fill(model, target.cache, ids[-1], n, p.threshold)
            for row in range(1, n):
                draft.add(row - 1, filled[row], chances[row])
        iteration = target.verify(ids, draft, run.rng)
        roles = TwoRoles(len(ids) - 1, filled, chances, passes, iteration.z.argmax(-1).tolist(), iteration.accepted)
        edit = yield run.step(
            **iteration.groups(),
            records={"tworoles": lambda roles=roles: roles},
            facts=iteration.facts(passes=max(passes)),
            note=iteration.note(),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)


def fill(
    model: TwoWayLM, cache: KVCache, first: int, n: int, threshold: float
) -> tuple[list[int], list[float], list[int]]:
    """The drafting passes over the token and n - 1 masks behind the cache: all masks in one pass, or with a threshold
    in each pass the most likely one and all that reach it. Returns tokens [n], their probabilities when they were
    written, and the passes that wrote them."""
    block = torch.tensor([first] + [model.mask_id] * (n - 1))
    chances, passes = torch.ones(n), torch.zeros(n, dtype=torch.long)
    unfilled = torch.arange(n) > 0
    while unfilled.any():
        z = model.denoise(block, cache)  # [n, V]
        chance, tokens = (x.cpu() for x in z.softmax(-1).max(-1))
        reached = unfilled & (chance >= threshold)
        reached[chance.masked_fill(~unfilled, -1).argmax()] = True
        block[reached], chances[reached], passes[reached] = tokens[reached], chance[reached], int(passes.max()) + 1
        unfilled &= ~reached
    return block.tolist(), chances.tolist(), passes.tolist()
