"""Entropy Adaptive Decoding: dynamic model switching for efficient inference (Simonds, arXiv:2502.06833; no official
code found).

A small and a large model share a tokenizer. While the entropy of the next token, averaged over the last w tokens, stays
low, the small one writes; when it rises above tau the large one takes over. Nothing is verified: the text may differ
from the large model's.

From the paper: the entropy in bits before any temperature, the rolling mean, the rule with a shortest stay d_min. Ours,
where it says nothing: the entropy read is the writer's own; a decision takes effect at the next token; equality means
small; prompt tokens do not count; the window lives through a switch; the model that takes over first reads what it
missed in one forward, whose positions and seconds are counted."""

from functools import partial
from typing import ClassVar

from engines.core.trace import Count, Detail
from engines.kit import (
    Alternatives,
    CausalLM,
    Choice,
    Decision,
    Float,
    Int,
    Params,
    Record,
    Recorder,
    Roles,
    Steps,
    Stops,
    distribution,
    draw,
    entropy,
    many,
    max_new_tokens,
    method,
    slider,
)


class Relay(Record):
    """Who wrote a token, and the entropy by which the next writer is chosen."""

    KEPT_FROM: ClassVar[Detail] = "light"
    writer: str
    entropy: float
    mean: float  # of the last tokens; bits, as the entropy
    tau: float
    switched: bool
    read: Count  # tokens that the writer had missed

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """Whom another tau calls for."""
        return {"tau": Stops.over(slider(0, 4, 0.01, self.tau), partial(called, self.mean))}


@method(
    "ead",
    title="Entropy Adaptive Decoding",
    own="after the abstract and reviews",
    paper="arXiv:2502.06833",
    summary="A small model writes while it is confident; a large one takes over when the rolling entropy rises.",
    needs={"large": "causal", "small": "causal"},
    params=[
        max_new_tokens(),
        Float("tau", 0.1, -0.01, 16.0, step=0.01, symbol="τ", source="swept in the paper"),
        Int("window", 5, 1, 16, symbol="w", source="paper"),
        Int("d_min", 4, 1, 16, symbol="d_min", source="ours"),
        Choice("start", "small", ["small", "large"], source="ours"),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    signature="baton",
    emits={"commits", "scores", "candidates", "choice", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "bits"},
    records={"relay": Relay},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The switching rule of 2502.06833: the rolling mean of H over w tokens against tau. c counts the tokens of the
    active model since it took over."""
    ids, active, c, read = prompt, p.start, 0, []
    room = len(prompt) + p.max_new_tokens
    caches = {role: models.models[role].new_cache(room) for role in ("small", "large")}
    vocab = min(m.vocab_size for m in models.models.values())  # a family may pad its vocabularies differently
    while len(ids) < room and not (len(ids) > len(prompt) and ids[-1] in models.large.eos_ids | models.small.eos_ids):
        model: CausalLM = models.models[active]
        missed = ids[caches[active].length :]
        z = model.extend(missed, caches[active], last_only=True).logits[:, :vocab]  # [1, V]
        H = float(entropy(z, base=2))
        token = int(z[0].argmax()) if p.temperature == 0 else draw(distribution(z[0], p.temperature), run.rng)
        chance, at = float(z[0].softmax(-1)[token]), len(ids)
        ids, c, read = [*ids, token], c + 1, [*read, H]
        mean = sum(read[-p.window :]) / len(read[-p.window :])
        writer, active, c = active, *next_model(active, mean, c, p.tau, p.d_min)
        catch_up = len(missed) - 1 if len(read) > 1 else 0
        edit = yield run.step(
            commits=([at], [token], "greedy" if p.temperature == 0 else "sampled", [chance]),
            scores=lambda: {"confidence": ([at], [chance]), "entropy": ([at], [H])},
            candidates=lambda: ([at], z),
            choice=Decision(
                ["small", "large"],
                writer,
                "rolling entropy",
                mean,
                p.tau,
                unit="bits",
                raw=H,
                switched=active != writer,
                detail=f"read {many(catch_up, 'missed token')} first" if catch_up else "",
            ),
            records={"relay": Relay(writer, H, mean, p.tau, active != writer, catch_up)},
            facts={"catch_up_tokens": catch_up},
            note=f"The {writer} model {f'hands over to the {active} one' if active != writer else 'continues'}: "
            f"rolling entropy {mean:.2f} bits.",
        )
        ids = run.apply_edit(edit, ids, *caches.values())


def called(mean: float, tau: float) -> str:
    """The model that a rolling mean calls for."""
    return "large" if mean > tau else "small"


def next_model(active: str, mean: float, c: int, tau: float, d_min: int) -> tuple[str, int]:
    """Who writes the next token, and its count so far: large if the rolling mean is above tau, once the active one has
    written d_min."""
    chosen = called(mean, tau)
    return (chosen, 0) if chosen != active and c >= d_min else (active, c)
