"""Learn2PD with EoTP: learning to parallel, adaptive parallel decoding (arXiv:2509.25188; code
ims-kdks/Learning-to-Parallel-Decoding, no licence file).

A tiny filter network, trained on the confidences of one model, reads those of the current block and says of each
proposal whether it is final already: what it accepts is committed, and always the most confident one. It imitates an
oracle that knows the text that one token per forward would give. Apart from that, end-of-text prediction (EoTP) cuts
the board behind a proposed end mark, so that padding is never decoded.

What the published filter learned is close to one threshold: at its default, 0.96, it accepts what has a confidence of
about 0.80 (measured on the authors' checkpoint), so a fair comparison puts Fast-dLLM with threshold 0.8 beside it. And
what EoTP saves is not the filter's: switch one of them off to see which.

With a cache (Fast-dLLM's, see `_forward`) only the block's end marks are looked at, so EoTP cuts inside of it, and a
cut leaves what is stored of the positions before it as it is.

Follows `llada/generate.py` @ 342293ce, where a *proposed* end mark cuts at any confidence; the paper speaks of a
decoded one. The abstract and the code were read, not the whole paper. We depart in these points: the mask token is
never proposed; every end mark of the model counts (the code knows one); of equally confident end marks the first one
cuts; the plan is one token per forward (S = G, as in all scripts); the last block may be shorter; what a cut removed is
not looked at again, where the official dual cache keeps its keys and values. Filters are read from safetensors; the
authors' file is converted once, see `engines/models/parts/filters.py`.

The oracle knows the text that one token per forward would give, and commits every proposal that is right already. It
belongs to the training of the filter; here it can be watched: a reference is decoded first, one token per forward,
greedily and without a cache, counted apart. Then the oracle decides, or the filter does and the oracle is shown beside
it: what of the right tokens it missed, and what it accepts that is wrong. Ours: where all proposals stay wrong, the
reference is copied."""

from collections.abc import Generator
from functools import cache

from engines.kit import (
    Choice,
    Edit,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Step,
    Steps,
    Tensor,
    block_of,
    mask_positions,
    token_probability,
    torch,
)
from engines.methods.diffusion._forward import Forward, unmasking
from engines.methods.diffusion.learn2pd.board import LANES, SHARED, Filtering, Judged, Proposed, check_filter, commit
from engines.models.parts.filters import filter_of, read_filter


@unmasking(
    "learn2pd",
    title="Learn2PD + EoTP",
    paper="arXiv:2509.25188",
    code="https://github.com/ims-kdks/Learning-to-Parallel-Decoding",
    summary="A tiny trained filter says which proposals are final already, and the board is cut after the end mark. "
    "Compare with a plain threshold of 0.8.",
    params=[*SHARED],
    signature="filtering",
    emits={"facts"},
    records={"filtering": Filtering},
    lanes=LANES,
    check=check_filter,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `llada/generate.py`; g is the filter."""
    x, forward, first = run.canvas(p.max_new_tokens, model.record.device), Forward(model), True  # [L], L falls
    # Once per run, and again where an edit names another file.
    filter_at = cache(lambda path: read_filter(path) if path else filter_of(model.record))
    while len(mask_positions(x, model.mask_id)):
        f = Proposed.of(model, forward, x, p, run)
        g = filter_at(p.filter) if p.accept_thres < 1 else None
        x, step = commit(x, f, Judged.by_filter(f, g, p.accept_thres), p, run, first=first)
        edit = yield step
        first = False
        x = run.apply_edit(edit, x)


@unmasking(
    "learn2pd-oracle",
    title="Learn2PD's oracle",
    paper="arXiv:2509.25188",
    code="https://github.com/ims-kdks/Learning-to-Parallel-Decoding",
    summary="What a perfect filter would write: every proposal that agrees with the text of one token per forward. "
    "The trained filter can be compared with it.",
    params=[
        Choice("decides", "filter", ["oracle", "filter"]),
        *SHARED,
    ],
    signature="filtering",
    emits={"facts"},
    records={"filtering": Filtering},
    lanes={
        **LANES,
        "oracle": "probability",
    },
    check=check_filter,
)
def decode_oracle(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """y is the reference, right [b] where the block's proposals are y's, q [b] what the filter says, e the last
    position."""
    x, y = yield from reference(model, run.canvas(p.max_new_tokens, model.record.device), p, run)  # [L], [G + prompt]
    before: tuple[int, list[int]] = (-1, [])  # the block and its proposals one forward ago
    filter_at, forward = cache(lambda path: read_filter(path) if path else filter_of(model.record)), Forward(model)
    while len(mask_positions(x, model.mask_id)):
        f = Proposed.of(model, forward, x, p, run)
        x0, right, now = f.x0, f.x0[f.a : f.b] == y[f.a : f.b], (f.a, f.x0[f.a : f.b].tolist())
        if p.decides == "oracle":
            accept, cause = f.hidden & right, "oracle"
            stuck = now == before if p.temperature == 0 else not accept.any()
            if stuck:  # what is proposed stays wrong, so the reference is copied
                accept, cause = f.hidden, "reference"
                known = f.hidden & (y[f.a : f.b] != model.mask_id)
                x0[f.a : f.b] = torch.where(known, y[f.a : f.b], x0[f.a : f.b])
            judged, agree = Judged(None, None, accept, accept), accept
        else:
            g = filter_at(p.filter) if p.accept_thres < 1 else None
            judged, agree, cause = Judged.by_filter(f, g, p.accept_thres), right, "filter"
        x, step = commit(x, f, judged, p, run, first=before[0] < 0, cause=cause, right=right, agree=agree)
        edit = yield step
        before = now
        x, y = run.apply_edit(edit, x), allowed(y, edit, model.mask_id)


def reference(
    model: MaskedLM, x: Tensor, p: Params, run: Recorder
) -> Generator[Step, Edit | None, tuple[Tensor, Tensor]]:
    """What one token per forward writes, greedily: (board [L] after edits, reference [L]). Its steps write nothing on
    the board and are counted apart."""
    y = x.clone()
    while len(masks := mask_positions(y, model.mask_id)):
        a, b = block_of(int(masks[0]), run.prompt_length, p.block_length, len(y))
        inside = masks[masks < b]  # [m]
        z = model(y)[inside]  # [m, V]
        tokens = z.argmax(-1)
        conf = token_probability(z, tokens, torch.float32)
        best = int(conf.argmax())
        y[inside[best]] = tokens[best]
        run.count_as("reference")
        edit = yield run.step(
            scores=lambda: {"confidence": (inside, conf)},
            candidates=lambda: (inside, z),
            spans=[Span("block", a, b)],
            note=f"The reference is decoded first, one token per forward, and not shown: {len(masks) - 1} to go.",
        )
        x = run.apply_edit(edit, x)
        y = allowed(torch.where(x == model.mask_id, y, x), edit, model.mask_id)
    return x, y


def allowed(y: Tensor, edit: Edit | None, mask_id: int) -> Tensor:
    """The reference [L], open where an edit forbids what it holds: while it is decoded that place is decoded again,
    later the proposal there is as good as any."""
    for position, tokens in edit.forbid.items() if edit else ():
        if position < len(y) and int(y[position]) in tokens:
            y[position] = mask_id
    return y
