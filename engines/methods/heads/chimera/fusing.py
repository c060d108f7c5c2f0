"""What the two encoders fuse at each row of a tree, for the record: with each length of window, since the weights were
trained with all of them."""

from typing import Any

from engines.kit import Packed, Record, Tensor, pack, torch
from engines.methods.heads._rankings import Ranking, rankings_of
from engines.methods.heads.chimera.drafter import WINDOW, Drafter, TreeEncoder, run_of
from engines.methods.speculative._turn import Turn

SHOWN = 5  # tokens of a ranking


class Reading(Record):
    """What is ranked after each row with a window of some length, and where the encoder looked."""

    rankings: list[Ranking]
    # [rows, T + K]: the true states of the text, what was foreseen for the rows above, itself; the mean of the heads,
    # in steps of 1/254, missing where a row does not see
    attention: Packed


class Fusing(Record):
    """Tokens and states that were fused at each row of the tree which the drafter went on from."""

    window: int  # W of the run
    rows: list[int]  # of the tree
    readings: list[Reading]  # with windows of 1, 2 and 3 tokens
    cosines: list[float | None]  # of each row's foreseen state with the true one, where it became known


def fusing_of(drafter: Drafter, model: Any, iteration: Turn, true: Tensor) -> Fusing | None:
    """The record of a turn, None where nothing was drafted. model: on a meter that no run reads. true [n, d]: the last
    states of the tree's rows."""
    draft = iteration.draft
    if len(draft) == 1:
        return None
    rows, kept = sorted(set(draft.parents[1:])), set(iteration.verdict.path)
    cosines = [
        float(torch.nn.functional.cosine_similarity(drafter.foreseen[row], true[row].float(), dim=-1))
        if row in kept
        else None
        for row in rows
    ]
    readings = [_reading(drafter, model, iteration, rows, window) for window in range(1, WINDOW + 1)]
    return Fusing(drafter.p.window, rows, readings, [None if c is None else round(c, 5) for c in cosines])


def _reading(drafter: Drafter, model: Any, iteration: Turn, rows: list[int], window: int) -> Reading:
    draft, ids, net = iteration.draft, iteration.before, drafter.net
    encoder, depths = TreeEncoder(net.layer, *drafter.seen, drafter.p.sees_drafts), draft.depths()
    T, K = drafter.seen[0].shape[1], 1 + max(depths[row] for row in rows)
    attention = torch.full((len(rows), T + K), torch.nan)
    rankings: dict[int, Ranking] = {}
    for i in range(K):
        level = [row for row in rows if depths[row] == i]
        tokens = [token for row in level for token in run_of(ids, draft.path(row))]
        g = net.encoded(model.embed(tokens).unflatten(0, (len(level), WINDOW)), window)
        for row, looks in zip(level, encoder.looks(g, level, draft.parents, i), strict=True):
            at = [*range(T), *(range(T, T + i) if drafter.p.sees_drafts else ()), T + i]
            attention[rows.index(row), at] = looks.cpu()
        f = encoder.foresee(g, level, draft.parents, i)
        x = net.said(drafter.last.expand(len(level), -1), f, i)
        z = model.unembed(x, drafter.vocabulary, normed=True, predicts=[len(ids) + i] * len(level))
        rankings |= zip(level, rankings_of(z, drafter.vocabulary), strict=True)
    return Reading([rankings[row].rounded(SHOWN) for row in rows], pack(attention.numpy(), 0, 1))
