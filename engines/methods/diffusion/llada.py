"""LLaDA: masked diffusion with a fixed schedule (Nie et al., arXiv:2502.09992; code ML-GSAI/LLaDA `generate.py`,
weights MIT).

The answer starts as masks. Every forward proposes a token for every mask; the schedule says how many of them are kept:
the most confident ones, or random ones. Blocks are filled from left to right; nothing is ever hidden again. The number
of forwards is `steps`, whatever happens.

We depart in one point: the mask token is never proposed (its logit is -inf), where the official loop could leave holes.
The caches are those that Fast-dLLM adds to this loop (arXiv:2505.22618, see `_forward`)."""

from engines.kit import (
    Choice,
    Float,
    Int,
    MaskedLM,
    Params,
    Recorder,
    Span,
    Steps,
    Tensor,
    UserError,
    entropy,
    gumbel_argmax,
    mask_positions,
    on_board,
    require_divisor,
    token_probability,
    torch,
    transfer_schedule,
)
from engines.methods.diffusion._forward import CACHE, Distributions, Forward, some, unmasking


def check_schedule(p: Params) -> None:
    """b | G and (G / b) | S, as the paper's code demands."""
    require_divisor("block_length", p.block_length, "max_new_tokens", p.max_new_tokens)
    require_divisor("the number of blocks", p.max_new_tokens // p.block_length, "steps", p.steps or p.max_new_tokens)


def check(p: Params) -> None:
    """The schedule, and no cache with guidance: the official cached loops have none."""
    check_schedule(p)
    if p.cache != "none" and p.cfg_scale > 0:
        raise UserError(
            f"cache={p.cache} and cfg_scale={p.cfg_scale:g} do not go together; set cache=none or cfg_scale=0."
        )


@unmasking(
    "llada",
    title="LLaDA base",
    paper="arXiv:2502.09992",
    code="https://github.com/ML-GSAI/LLaDA",
    summary="Masked diffusion with a fixed schedule: every forward keeps the planned number of most confident (or "
    "random) proposals.",
    params=[
        Int("block_length", 16, 1, 1024, symbol="b", source="32 in the paper's scripts"),
        Int("steps", 0, 0, 1024, symbol="S"),
        Choice("remasking", "low_confidence", ["low_confidence", "random"]),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="τ"),
        Float("cfg_scale", 0.0, 0.0, 4.0, step=0.1, symbol="w"),
        CACHE,
    ],
    signature="bars",
    lanes={"confidence": "probability", "entropy": "nats", "order": "score"},
    check=check,
)
def decode(model: MaskedLM, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """LLaDA's `generate`, with Fast-dLLM's caches."""
    G, b, S = p.max_new_tokens, p.block_length, p.steps or p.max_new_tokens
    x = run.canvas(G, model.record.device)  # [L]
    forward, given = Forward(model), torch.arange(len(x), device=x.device) < len(prompt)
    for start in range(len(prompt), len(prompt) + G, b):
        end = start + b
        plan = transfer_schedule(
            int((x[start:end] == model.mask_id).sum()), run.remaining_steps(S * b // G, start, end)
        )  # n_i
        i = 0
        while i < len(plan) or len(
            mask_positions(x[:end], model.mask_id)
        ):  # the second half only after an edit hid something again
            n = plan[i] if i < len(plan) else 1
            masks = mask_positions(x, model.mask_id)
            distributions = (
                Distributions(guided(model, x, given, p.cfg_scale), 0, len(x))
                if p.cfg_scale
                else forward(x, masks, (start, end), p.cache)
            )
            masks = masks[masks < distributions.end]  # those that were fed
            inside = masks[masks < end]  # [m], they come first
            rows = masks - distributions.start
            z_masks = distributions.z[rows]  # [masks, V]
            x0 = gumbel_argmax(z_masks, p.temperature, run.rng, rows, len(distributions.z))  # [masks]
            conf = token_probability(z_masks[: len(inside)], x0[: len(inside)], torch.float32)  # [m]
            noise = torch.rand(len(x), generator=run.rng).to(x.device)[masks] if p.remasking == "random" else None
            order = conf if noise is None else noise[: len(inside)]  # [m]
            chosen = on_board(order, inside, len(x)).topk(min(n, len(inside))).indices
            best = torch.searchsorted(inside, chosen)
            x[chosen] = x0[best]
            i += 1
            edit = yield run.step(
                commits=(chosen, x0[best], "quota" if p.remasking == "low_confidence" else "random", conf[best]),
                scores=lambda: {
                    "confidence": (masks, token_probability(z_masks, x0, torch.float32)),
                    "entropy": (masks, entropy(z_masks)),
                    **({"order": (masks, noise)} if noise is not None else {}),
                },
                candidates=lambda: (masks, z_masks),
                spans=[Span("block", start, end), *distributions.spans],
                note=f"The schedule fills {some(len(chosen), len(inside))} in this block.{distributions.note}",
            )
            x = run.apply_edit(edit, x)


def guided(model: MaskedLM, x: Tensor, given: Tensor, w: float) -> Tensor:
    """Step 3's guidance, logits [L, V]: u + (w + 1)(c - u), where u does not see what is given [L], such as the prompt.
    One forward of two rows; without guidance c alone."""
    if w == 0:
        return model(x)
    c, u = model(torch.stack([x, x.masked_fill(given, model.mask_id)]))
    z = u + (w + 1) * (c - u)
    return z.masked_fill(z.isnan(), -torch.inf)  # a logit of -inf in both rows
