"""DEL: dynamic exit layer and draft length for self-speculative decoding (arXiv:2504.05598; code hoenza/DEL, read as
the unchanged first commit in the fork 359171110/DEL).

The first l layers of the model draft, the others verify. After every round the streams of its rows behind every
eligible exit go through the output head: these shadow tokens say how often each exit would have drafted what the model
wrote. Fading counts give alpha of each exit, and the next exit and draft length d are those with the most expected
tokens per layer loaded, (1 + alpha + ... + alpha^d) / (L + d l). The confidence of the same shadow tokens says where a
draft ends: below the middle tau between its means over matches and mismatches.

The paper needs a model trained for early exits. exits=raw takes ours as they are, and DEL mostly refuses to speculate;
exits=maps puts a linear map (ridge regression) in front of the head, which is ours and no longer training-free.
We depart in: an exit without counts is skipped (infinite in the code); cost_verify and cost_draft add the output head
to the cost (0 as in the paper); the shadow product is booked as a draft's forward.

Letters: L layers, l the exit, d drafts, T columns of a round, c rows of text that the cache lacked."""

from collections.abc import Sequence
from functools import partial

from engines.kit import (
    Choice,
    Decision,
    Float,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Taps,
    Tensor,
    many,
    part,
    torch,
)
from engines.methods.heads.del_.exit_choice import Best, Counts, ShadowTokens, choose
from engines.methods.speculative._turn import VERBS, Target, drafting, propose
from engines.methods.speculative._verify import Draft
from engines.models.networks.exits import exits_of, maps_of, scaled

MOST, CONTEXT = 18, 32
ENDS = {"eos": "the end mark was drafted", "tau": "a draft fell below the threshold", "cap": "at the maximum length"}


@drafting(
    "del",
    title="DEL",
    paper="arXiv:2504.05598",
    code="https://github.com/hoenza/DEL",
    summary="Measures after every round which layer would have drafted right, and picks exit and draft length anew.",
    needs={"target": "layered", "maps": part("exit-maps")},
    params=[
        Choice("exits", "maps", ["maps", "raw"]),
        Choice("stop", "tau", ["tau", "length"]),
        Int("gamma_max", MOST, 2, MOST, source="18 in the code"),
        Int("gamma_min", 0, 0, 3, source="code"),
        Float("omega", 0.95, 0.5, 1.0, step=0.05, symbol="ω"),
        Float("cost_verify", 0.0, 0.0, 8.0, step=0.5),
        Float("cost_draft", 0.0, 0.0, 8.0, step=0.5),
    ],
    signature="exitmap",
    emits={"intervals", "choice"},
    records={"shadow_tokens": ShadowTokens},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: draft at exit l, verify, look at all exits, choose l and d anew."""
    target, L, drafter = models.target, models.target.num_layers, models.target.playing("draft")
    exits = exits_of(models.maps.tensors)
    maps = {i: R.to(target.record.device) for i, R in maps_of(models.maps, exits, L).items()}
    vocabulary = models.maps.tensors.get("vocabulary")
    side, ids, seen = Target(target, prompt, p, rows=MOST), prompt, Counts(exits)
    cache, exit_layer, chosen = side.cache, exits[0], 1

    def logits(h: dict[int, Tensor], predicts: int | None = None) -> Tensor:
        """What these exits say, [sum of rows, v]."""
        raw = p.exits == "raw"
        x = torch.cat([rows if raw else scaled(rows) @ maps[i].T for i, rows in h.items()])
        return drafter.unembed(x, vocabulary, normed=not raw, predicts=predicts)

    while side.unfinished(ids):
        base, draft = cache.length, Draft(ids[-1])
        streams: dict[int, list[Tensor]] = {i: [] for i in exits}
        keep = collect(streams, [i for i in exits if i <= exit_layer])  # the drafting layers
        rest = collect(streams, [i for i in exits if i > exit_layer])
        h = [target.layers(target.embed(ids[base:]), cache, 0, exit_layer, taps=keep)]
        most, first = min(p.gamma_max, side.room(ids)), not seen.known
        sure: list[float] = []
        most = min(most, 1 if first else chosen if p.stop == "length" else most)
        tau = None if first or p.stop == "length" else seen.tau()[exits.index(exit_layer)]
        while not (why := ended(sure, tau, most, draft.tokens[-1] in target.eos_ids)):
            z = logits({exit_layer: h[-1][-1:]}, len(ids) + len(sure))[0]
            sure.append(propose(draft, len(sure), z.double(), p.temperature, run.rng, vocabulary, target.vocab_size))
            draft.taken(len(sure), "layer", f"layer {exit_layer} of {L}")
            h.append(drafter.layers(drafter.embed(draft.tokens[-1:]), cache, 0, exit_layer, taps=keep))
        c, x = len(ids) - 1 - base, target.layers(torch.cat(h), cache, exit_layer, L, taps=rest)
        z = target.unembed(x, predicts=base + 1)  # [c + 1 + d, V]
        iteration = side.judge(ids, draft, z, run.rng)
        context = min(CONTEXT, c)
        s = logits({i: torch.cat(x)[c - context :] for i, x in streams.items()}).softmax(-1).max(-1)
        shadow = s.indices if vocabulary is None else vocabulary.to(s.indices.device)[s.indices]
        T = len(z) - c + context
        match = shadow.view(len(exits), T) == z[c - context :].argmax(-1)
        T = seen.update(match, s.values.view(len(exits), T), exits.index(exit_layer), context, chosen, p.omega)
        best = choose(seen.alpha(), exits, L, p.gamma_max, p.gamma_min, p.cost_verify, p.cost_draft)
        plan = next_plan(best, exits, p.stop == "length")
        choice, drafted = decision(best, exit_layer, len(sure), exits, L + p.cost_verify, plan), len(sure)
        loaded = drafted * exit_layer + L
        facts = iteration.facts(exit_layer=exit_layer, chosen_d=chosen, layers_loaded=loaded, counted=T)
        facts |= {"tokens_per_layer": len(iteration.gained) / loaded, **seen.facts()}
        shown = partial(ShadowTokens, exits, exit_layer, L, context=context, counted=T, alpha=seen.alpha())
        shown = partial(shown, most=p.gamma_max, next_exit=best.exit_layer, next_d=best.d)
        rows = [z[c - context :].argmax(-1), shadow.view(len(exits), -1)]  # [T], [exits, T]
        sentence = f"Exit {exit_layer}, {ENDS[why]}: {iteration.note()} {choice.detail.capitalize()}."
        edit = yield run.step(
            **iteration.groups(),
            choice=choice,
            intervals=run.calls(VERBS),
            records={
                "shadow_tokens": lambda: shown(*(row.tolist() for row in rows), costs=(p.cost_verify, p.cost_draft))
            },
            facts=facts,
            note=sentence,
        )
        exit_layer, chosen = (best.exit_layer if best.d else exits[0]), best.d
        ids = run.apply_edit(edit, iteration.ids, cache)


def ended(sure: Sequence[float], tau: float | None, most: int, end_mark: bool) -> str:
    """Why a draft ends here: eos, tau, cap, or not yet ("")."""
    if sure and end_mark:
        return "eos"
    if sure and tau is not None and sure[-1] < tau:
        return "tau"
    return "cap" if len(sure) >= most else ""


def collect(into: dict[int, list[Tensor]], exits: Sequence[int]) -> Taps:
    """Taps that add the rows [n, d] behind these exits to `into`."""

    def keep(i: int, x: Tensor) -> None:
        if i in exits:
            into[i].append(x)

    return Taps(stream=keep)


def next_plan(best: Best, exits: Sequence[int], fixed: bool) -> str:
    """What the next round does. fixed: it drafts the chosen length (DELE); else the chosen exit drafts until its
    confidence ends it, whatever length was best, and where no draft would pay the lowest exit still tries one."""
    if fixed:
        return f"next is exit {best.exit_layer}, {many(best.d, 'draft')}" if best.d else "next is plain decoding"
    if best.d:
        return f"next is exit {best.exit_layer}, best with {many(best.d, 'draft')}; its confidence ends the draft"
    return f"plain decoding is best; exit {exits[0]} still drafts until its confidence ends the draft"


def decision(best: Best, exit_layer: int, drafted: int, exits: Sequence[int], cost: float, plan: str) -> Decision:
    """The exit that drafted, and what was chosen for the next round against plain decoding: one token per `cost`
    layers."""
    return Decision(
        [*(f"exit {i}" for i in exits), "plain"],
        f"exit {exit_layer}" if drafted else "plain",
        "expected tokens per layer",
        best.tpl,
        1 / cost,
        switched=best.exit_layer != exit_layer,
        detail=plan,
    )
