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
not looked at again, where the official dual cache keeps its keys and values. The oracle, which belongs to the training,
is a method of its own, `learn2pd_oracle`. Filters are read from safetensors; the authors' file is
converted once, see `engines/models/parts/filters.py`."""

from functools import cache

from engines.kit import MaskedLM, Params, Recorder, Steps, mask_positions, max_new_tokens, method
from engines.methods.diffusion._forward import Forward
from engines.methods.diffusion.learn2pd.board import LANES, SHARED, Filtering, Judged, Proposed, check_filter, commit
from engines.models.parts.filters import filter_of, read_filter


@method(
    "learn2pd",
    title="Learn2PD + EoTP",
    paper="arXiv:2509.25188",
    code="https://github.com/ims-kdks/Learning-to-Parallel-Decoding",
    summary="A tiny trained filter says which proposals are final already, and the board is cut after the end mark. "
    "Compare with a plain threshold of 0.8.",
    needs="masked",
    params=[max_new_tokens(), *SHARED],
    signature="filtering",
    emits={"commits", "scores", "candidates", "spans", "facts", "note"},
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
