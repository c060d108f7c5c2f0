"""Falcon: semi-autoregressive drafting (Gao et al., arXiv:2412.12639; code Bestpay-inc/Falcon, models/cnets.py and
train/glance.py).

EAGLE's layer foresees one hidden state in a pass. Falcon's foresees k: row t estimates the state at t + k, inside a
block of k rows each sees the others, and an LSTM in front carries the order of the tokens. Blocks guess worse; coupled
sequential glancing trains them on inputs in which the teacher has filled in some places, more of them where a first
pass was wrong. The levels of the draft tree come in groups of k, so m passes draft k m levels, which one forward
verifies.

The released drafter runs its LSTM over the batch and cannot run as it is, so the paper is followed. We depart from both
in: the tree comes from measured accuracies; a linear path beside the LSTM, begun by a ridge regression; a small layer,
trained here (see its card); borders of blocks laid so that the last block ends at the newest token, in training and in
decoding; exact verification above temperature 0.

Letters: k rows of a block, m passes, lambda share of wrong places that is filled in."""

from __future__ import annotations

from typing import Any

from engines.kit import (
    Bool,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    UserError,
    max_new_tokens,
    method,
    part,
    torch,
)
from engines.methods.heads._blocks import Drafter, grown
from engines.methods.heads._template import Path, likeliest, parents_of
from engines.methods.speculative._turn import EMITS, LANES, Target, temperature
from engines.methods.speculative._verify import Draft

MOST = 63


@method(
    "falcon",
    title="Falcon",
    family="heads",
    paper="arXiv:2412.12639",
    code="https://github.com/Bestpay-inc/Falcon",
    summary="A layer foresees a block of tokens in each pass, and its draft tree grows in groups of levels.",
    needs={"target": "layered", "layer": part("falcon-layer")},
    params=[
        max_new_tokens(64),
        Int("nodes", 12, 0, MOST, neutral=0, sees="Guesses that are verified.", source="75 to 166 in the code"),
        Int("k", 2, 1, 2, symbol="k", sees="Tokens foreseen in a pass; 1 foresees one, as EAGLE.", source="2"),
        Int("m", 2, 1, 4, symbol="m", sees="Passes of the layer, so that a draft has up to k m tokens.", source="4"),
        Bool("glancing", True, sees="Off: the layer that was trained without glancing, on the same text."),
        temperature(),
    ],
    signature="tree",
    emits=EMITS - {"lanes"},
    lanes=LANES,
    baseline="greedy",
    lossless=True,
    departures="A small layer with a linear path beside the LSTM, trained here on the text of Medusa's heads; the tree "
    "from measured accuracies; blocks that end at the newest token. The layer's own work is method time, not layer "
    "rows.",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """H holds the true hidden states of the text but its last token; a turn without all of them (the first, and after a
    person's change) reads the text and drafts nothing."""
    model, n = models.target, models.target.num_layers
    drafter, using = drafter_of(models, p), (p.k, p.glancing)
    target, ids, H = Target(model, prompt, p, rows=MOST + 1), prompt, None
    while target.unfinished(ids):
        if using != (p.k, p.glancing):  # a person changed it
            drafter, using = drafter_of(models, p), (p.k, p.glancing)
        draft, paths = Draft(ids[-1], "draft"), list[Path]()
        deepest = min(target.room(ids), (model.max_positions or target.end) - len(ids), p.k * p.m)
        drafter.rows = drafter.passes = 0
        if H is not None and len(H) == len(ids) - 1 and p.nodes and deepest > 0 and (first := drafter.read(ids, H)):
            paths, parents = template(models.layer, name_of(p.k, p.glancing), p.nodes, deepest)
            tokens, chances = grown(drafter, paths, ids, first)
            draft = Draft.of(tokens, parents, "draft")
            draft.chances[1:] = chances[1:]
            draft.values, draft.value_name = [float(-(-len(path) // p.k)) for path in paths], "pass that drafted it"
        turn = target.verify(ids, draft, run.rng, hidden=(n,))
        rows = [turn.hidden_chain[n], turn.hidden[n][turn.verdict.path]]
        known = torch.cat(rows if H is None else [H, *rows])
        size = "" if H is not None else f" {drafter.parameters:,} trained numbers guess from here on."
        facts = turn.facts(passes=drafter.passes, layer_rows_of_draft=drafter.rows, depth=max(draft.depths()))
        edit = yield run.step(
            **turn.groups([path[-1] if path else -1 for path in paths] or [-1]),
            facts=facts,
            note=note(turn.note(), drafter.passes, p.k) + size,
        )
        ids = run.apply_edit(edit, turn.ids, target.cache)
        H = known[: target.cache.length]
        drafter.forget(target.cache.length)


def name_of(k: int, glancing: bool) -> str:
    """How the part calls the layer for blocks of k; a block of one has nothing to glance at."""
    return f"k{k}" if glancing or k == 1 else f"k{k}-unglanced"


def drafter_of(models: Roles, p: Params) -> Drafter:
    """The layer for this k, with nothing read. Raises UserError for one that the part does not have."""
    from engines.models.networks.falcon_layer import layer_of  # it needs torch, which listing methods does not load

    name, known = name_of(p.k, p.glancing), models.layer.card["layers"]
    if name not in known:
        raise UserError(f"{models.layer.name} has no layer '{name}'; it has {', '.join(known)}: change k or glancing.")
    layer = layer_of(models.layer, name).to(models.target.record.device)
    return Drafter(models.target.playing("draft"), layer, p.k, models.layer.tensors.get("vocabulary"))


def template(layer: Any, name: str, nodes: int, deepest: int) -> tuple[list[Path], list[int]]:
    """The paths of the tree, root first, and their parents: the likeliest of the part's measured accuracies."""
    a = layer.tensors["accuracy"][layer.card["layers"].index(name)][:deepest].tolist()
    return parents_of(path for path, _ in likeliest(a, nodes))


def note(said: str, passes: int, k: int) -> str:
    """One sentence on the round."""
    turns, wide = f"{passes} pass{'' if passes == 1 else 'es'}", f"{k} column{'' if k == 1 else 's'}"
    return f"{said[:-1]}; {turns} of {wide} drafted." if passes else said


if __name__ == "__main__":
    from engines.kit import show

    show("falcon", "tiny-ar-l", "add: 457 + 86")
