"""Kangaroo: lossless self-speculative decoding by leaving early twice (Liu et al., arXiv:2404.18911; code
Equationliu/Kangaroo, evaluation/inference_kangaroo.py).

The first l layers of the model and a small adapter with attention draft; the other layers verify all drafts at once, on
the streams that the first ones left behind, so no row goes through a layer twice. That is the first early exit. The
second: drafting stops once a drafted token's probability falls below eta. That token is still verified; what would
stand behind it would mostly be refused.

We depart from the code in: the adapter has a linear path R where theirs has a residual and a last norm, so that a ridge
regression can begin it; all drafts of a turn come from one exit that is fixed for a run; where a model's vocabulary is
large the adapter drafts from its 8,192 most frequent tokens; the prompt is read in the first turn; above temperature 0,
which the code lacks, drafts are drawn and tested by speculative sampling.

Letters: l layers of n in front of the exit, gamma drafts at most, eta the line; c rows of text that the cache lacked, d
hidden size, V vocabulary, v draft vocabulary."""

from collections.abc import Sequence

from engines.kit import (
    Alternatives,
    Decision,
    Float,
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    Stops,
    many,
    part,
    slider,
    torch,
)
from engines.methods.speculative._turn import VERBS, Target, Turn, drafting, propose
from engines.methods.speculative._verify import Draft
from engines.models.networks.exits import Past

MOST = 10


class EarlyExit(Record):
    """Where the drafts of a round left the network, and the confidence in each, which is what ends drafting."""

    exit_layer: int  # l of n
    layers: int  # n
    eta: Probability
    confidence: list[Probability]  # of each drafted token, in their order

    def alternatives(self, _: Alternatives) -> dict[str, Stops]:
        """How many of these drafts are made with another eta, and why drafting ends then: the threshold, or "" where it
        would go on."""
        sure = self.confidence

        def drafted(eta: float) -> tuple[int, str]:
            n = next((n for n in range(len(sure)) if stopped(sure[:n], eta, len(sure))), len(sure))
            return n, stopped(sure[:n], eta, len(sure) + 1)

        return {"eta": Stops.over(slider(0, 1, 0.01, self.eta), drafted)}


@drafting(
    "kangaroo",
    title="Kangaroo",
    paper="arXiv:2404.18911",
    code="https://github.com/Equationliu/Kangaroo",
    summary="The model's first layers and a small adapter draft until their confidence falls below a threshold; its "
    "other layers verify.",
    needs={"target": "layered", "adapter": part("exit-adapters")},
    params=[
        Int("exit_layer", 2, 1, 80, symbol="l", source="2 of 32 layers"),
        Float("eta", 0.6, 0.0, 1.05, step=0.05, symbol="η", source="0.6 in the README's run"),
        Int("gamma", 6, 0, MOST, symbol="γ", neutral=0, source="6 in the code"),
    ],
    signature="earlyexit",
    emits={"intervals", "choice"},
    records={"early_exit": EarlyExit},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step. Before each round every layer and the adapter hold all ids but the last."""
    from engines.models.networks.exit_adapter import adapter_of  # it needs torch, which listing methods does not load

    target, l, n = models.target, p.exit_layer, models.target.num_layers  # noqa: E741 - the paper's letter
    adapter, draft = adapter_of(models.adapter, l, n).to(target.record.device), target.playing("draft")
    vocabulary = models.adapter.tensors.get("vocabulary")
    ids, past, side = prompt, Past(), Target(target, prompt, p, rows=MOST)
    cache = side.cache
    while side.unfinished(ids):
        base, d = cache.length, Draft(ids[-1])
        h = [target.layers(target.embed(ids[base:]), cache, 0, l)]  # [c + 1, d], then a row for each draft
        sure: list[float] = []
        gamma = min(p.gamma, side.room(ids))
        while not (stop := stopped(sure, p.eta, gamma)):
            z = draft.unembed(adapter(h[-1], past)[-1:], vocabulary, normed=True, predicts=len(ids) + len(sure))[0]
            sure.append(propose(d, len(sure), z.double(), p.temperature, run.rng, vocabulary, target.vocab_size))
            d.taken(len(d) - 1, "layer", f"layer {l} of {n}")
            h.append(draft.layers(draft.embed(d.tokens[-1:]), cache, 0, l))
        lengths = cache.lengths
        rows = torch.cat(h)  # [c + 1 + drafts, d]
        z = target.unembed(target.layers(rows, cache, l, n), predicts=base + 1)
        iteration = side.judge(ids, d, z, run.rng)
        kept = cache.length
        past.crop(kept)
        if past.length < kept:  # all were accepted, and the adapter has not read the last one
            adapter(rows[past.length - base : kept - base], past)
        facts = iteration.facts(
            layer_evals=len(rows) * n,
            shallow_rows=len(rows),
            deep_rows=len(rows),
            rows_first_layer=lengths[0],
            rows_last_layer=lengths[-1],
            adapter_rows=past.length,
        )
        choice = Decision(
            ["threshold", "length"],
            stop,
            "probability of the last draft",
            sure[-1] if sure else None,
            min(p.eta, 1.0),
            unit="probability",
        )
        edit = yield run.step(
            **iteration.groups(),
            choice=choice,
            intervals=run.calls(VERBS),
            records={"early_exit": lambda: EarlyExit(l, n, p.eta, sure)},
            facts=facts,
            note=note(iteration, stop, sure, l),
        )
        ids = run.apply_edit(edit, iteration.ids, cache)
        past.crop(cache.length)


def stopped(sure: Sequence[float], eta: float, gamma: int) -> str:
    """Why drafting ends behind tokens of these probabilities: length, threshold, or not yet ("")."""
    if len(sure) >= gamma:
        return "length"
    return "threshold" if sure and sure[-1] < eta else ""


def note(iteration: Turn, stop: str, sure: Sequence[float], exit_layer: int) -> str:
    """One sentence on the round."""
    if not sure:
        return iteration.note()
    first = "The first layer" if exit_layer == 1 else f"The first {exit_layer} layers"
    why = f"the last below the threshold ({sure[-1]:.0%})" if stop == "threshold" else "the maximum"
    return f"{first} drafted {many(len(sure), 'token')}, {why}: {iteration.note()}"
