"""Prophet: diffusion language models know the answer before decoding (arXiv:2508.19982; code pixeli99/Prophet).

The tokens of the answer often stop changing halfway through the schedule. LLaDA's loop runs as usual, but after every
forward the gap between the best and the second-best logit is averaged over the region where the answer stands. Once it
passes a bar, which falls from phase to phase, all masks left are filled at once from this forward.

Follows `generate_earlyexit.py` and, for where the region stands, the released evaluation: constraint tokens are written
into the answer, and the region starts two positions behind the last one. The bars are in units of LLaDA-8B's logits;
other models have other gaps, see `calibrated_bars`.
We depart in these points: the mask token is never proposed; the length of the region can be set (the code always takes
5); a constraint outside of the answer, or on another one, is refused; a word stands there without the space before it
where that takes fewer tokens; without constraints and without a given start the region begins in the middle of the
answer (the code then watches nothing); a constraint that a person's edit changes is not written back. Constraints stand
among the tokens of the first step and are counted with them, though nobody decoded them."""

from engines.kit import (
    Choice,
    Decision,
    Float,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    Text,
    exact,
    gumbel_argmax,
    mask_positions,
    on_board,
    token_probability,
    torch,
    transfer_schedule,
)
from engines.methods.diffusion._forward import some, unmasking
from engines.methods.diffusion.llada import check_schedule, guided
from engines.methods.diffusion.prophet.constraints import behind, parse, placed, region, require_region
from engines.methods.diffusion.prophet.rule import Watched, bars_of, gaps, verdict


def check(p: Params) -> None:
    """LLaDA's divisors; constraints and the region of the answer stand inside of it."""
    check_schedule(p)
    require_region(p, [offset for offset, _ in parse(p.constraints, p.max_new_tokens) if offset is not None])


@unmasking(
    "prophet",
    title="Prophet",
    paper="arXiv:2508.19982",
    code="https://github.com/pixeli99/Prophet",
    summary="LLaDA's loop, watched: when the logits of the answer's region are far enough apart, everything left is "
    "filled at once.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b", source="32 official"),
        Int("steps", 0, 0, 1024, symbol="S"),
        Int("answer_start", -1, -1, 1023),
        Int("answer_length", 5, 0, 64, neutral=0, source="5 official"),
        Float("bar_early", 7.5, 0.0, 100.0, step=0.1, source="official"),
        Float("bar_mid", 5.0, 0.0, 100.0, step=0.1, source="official"),
        Float("bar_late", 2.5, 0.0, 100.0, step=0.1, source="official"),
        Text("constraints", ""),
        Choice("remasking", "low_confidence", ["low_confidence", "random"]),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Float("cfg_scale", 0.0, 0.0, 4.0, step=0.1, symbol="w"),
    ],
    signature="watched",
    emits={"choice", "facts"},
    records={"watched": Watched},
    lanes={"gap": "nats", "confidence": "probability", "order": "score"},
    baseline="llada",
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The official `generate_earlyexit.py`; g counts the forwards over all blocks, [r, s) is the region."""
    P, G, b, S = len(prompt), p.max_new_tokens, p.block_length, p.steps or p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    pinned = {P + offset: token for offset, token in placed(p, model).items()}
    x[list(pinned)] = torch.tensor(list(pinned.values()), dtype=x.dtype, device=x.device)
    given = x != model.mask_id  # [L]: the prompt and the constraints
    g, all_in, reading, unchanged = 0, False, "", 0
    for start in range(P, P + G, b):
        end = start + b
        plan = transfer_schedule(
            int((x[start:end] == model.mask_id).sum()), run.remaining_steps(S * b // G, start, end)
        )  # n_i
        i = 0
        while (i < len(plan) and not all_in) or len(
            mask_positions(x[:end], model.mask_id)
        ):  # the second half only after an edit hid something again
            n = plan[i] if i < len(plan) else 1
            z = guided(model, x, given, p.cfg_scale)  # [L, V]
            x0 = gumbel_argmax(z, p.temperature, run.rng)  # [L]
            masks = mask_positions(x, model.mask_id)  # [m]
            z_masks = z[masks]  # [m, V]
            conf = token_probability(z_masks, x0[masks], torch.float32)  # [m]
            order = torch.rand(len(x), generator=run.rng).to(x.device)[masks] if p.remasking == "random" else conf
            i, g = i + 1, g + 1
            r, s = (P + q for q in region(p.answer_start, p.answer_length, G, [q - P for q in pinned]))
            reads = torch.where(x == model.mask_id, x0, x)[r:s]
            before, reading = reading, model.tokenizer.decode(reads.tolist())
            unchanged = unchanged + 1 if reading == before and g > 1 else 0
            watch = verdict(z[r:s], g, S, p)
            leap = watch is not None and watch.chosen == "all-in"
            all_in = all_in or leap
            ready = masks < end  # [m]
            board = on_board(order[ready], masks[ready], len(x))  # [L]
            chosen = masks if leap else board.topk(min(n, int(ready.sum()))).indices
            best = torch.searchsorted(masks, chosen)
            x[chosen] = x0[chosen]
            edit = yield run.step(
                records={
                    "watched": lambda: Watched(r, reads.tolist(), exact(gaps(z[r:s])), g, S, bars_of(p), len(masks))
                }
                if watch
                else {},
                commits=behind(
                    pinned if g == 1 else {}, chosen, x0[chosen], "all-in" if leap else p.remasking, conf[best]
                ),
                scores=lambda: {
                    "gap": (range(P, P + G), gaps(z[P:])),
                    "confidence": (masks, conf),
                    **({"order": (masks, order)} if p.remasking == "random" else {}),
                },
                candidates=lambda: (masks, z_masks),
                spans=[
                    Span("block", start, end),
                    *([Span("answer", r, s, reading)] if r < s else []),
                    *(Span("constraint", q, q + 1) for q in pinned),
                ],
                choice=watch,
                facts={"answer_unchanged_for": unchanged} if watch else {},
                note=note(watch, reading, len(chosen), int(ready.sum())),
            )
            x = run.apply_edit(edit, x)


def note(watch: Decision | None, reading: str, filled: int, ready: int) -> str:
    """A sentence on what decided."""
    plan = f"the schedule fills {some(filled, ready)} in this block"
    if watch is None or watch.value is None:
        return f"No answer region is watched; {plan}."
    gap = f"mean gap {watch.value:.2f}, threshold {watch.threshold:g}"
    if watch.chosen == "all-in":
        return (
            f"The answer region reads '{reading}', {gap}: reached, so "
            f"{'the only mask left is filled' if filled == 1 else f'the last {filled} masks are filled at once'}."
        )
    return f"The answer region would read '{reading}', {gap}: not reached; {plan}."
