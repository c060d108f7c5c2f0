"""Hidden Transfer: pseudo hidden states enter in the middle of the network (Wu et al., arXiv:2404.12022; no code is
public).

Behind layer l the state h of a row is sent through m linear maps; the results stand as pseudo rows at the m places
behind it from layer l + 1 on. The remaining layers of the frozen model refine them with full attention, and what the
output head says of them are guesses. In the tree every candidate carries pseudo rows, so one forward verifies these
guesses and makes the next ones. Pseudo rows exist above layer l only, and nothing of them stays.

The abstract gives the maps, their training by distillation and the tree; the rest is our design: all maps at one layer
l; a pseudo row sees the text, its candidate and the pseudo rows before it; each candidate carries all m; the tree comes
from accuracies on held-out text; exact verification above temperature 0.

Letters: l the transfer layer of n, m maps W, b; N rows of the tree, c rows of text that the cache lacked, d hidden
size."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from engines.kit import (
    Generator,
    Int,
    Params,
    Probability,
    Record,
    Recorder,
    Roles,
    Steps,
    Taps,
    Tensor,
    TokenId,
    UserError,
    many,
    part,
    torch,
)
from engines.methods.heads import _template as template
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft


class Transfer(Record):
    """The pseudo rows that guessed a round's drafts, as the output head reads them after each layer from the transfer
    layer on. They stood after `source`, whose state was mapped, and were made in the call before; where nothing was
    drafted there are none."""

    layer: int  # l
    layers: int  # n
    source: TokenId | None = None
    tokens: list[list[TokenId]] = []  # [n - l + 1, m]: after l, l + 1 ... n layers; the last are the first guesses
    chances: list[list[Probability]] = []  # of the same shape


def above(streams: dict[int, Tensor], first: int) -> Taps:
    """Taps that put the rows from `first` on behind each layer into `streams`, [rows, d]."""
    return Taps(stream=lambda layer, x: streams.update({layer: x[first:].clone()}))


def read(
    model: Any,
    streams: Mapping[int, Tensor],
    vocabulary: Tensor | None,
    source: int,
    predicts: int,
    guesses: Sequence[template.Ranking],
) -> Transfer:
    """The record of pseudo rows [m, d] behind l ... n layers, the first of which speaks of position `predicts`. Of the
    last layer it has what was guessed [m], and computes nothing again."""
    *below, n = sorted(streams)
    tokens, sure = [], []
    if below:
        m = len(guesses)
        places = [*range(predicts, predicts + m)] * len(below)
        rows = torch.cat([streams[layer] for layer in below])
        z = model.unbooked().unembed(rows, vocabulary, predicts=places)
        p, best = z.softmax(-1).max(-1)  # [(n - l) m]
        best = best if vocabulary is None else vocabulary[best]
        tokens, sure = best.view(-1, m).tolist(), p.view(-1, m).tolist()
    tokens.append([ranking.tokens[0] for ranking in guesses])
    sure.append([ranking.chances[0] for ranking in guesses])
    rounded = [[round(chance, 4) for chance in row] for row in sure]
    return Transfer(min(streams), n, source, tokens, rounded)


@drafting(
    "hidden-transfer",
    title="Hidden Transfer",
    own="after the abstract, own layer and training",
    paper="arXiv:2404.12022",
    summary="Pseudo hidden states enter in the middle of the network, and its upper layers refine them into guesses.",
    needs={"target": "layered", "maps": part("transfer-maps")},
    params=[
        Int("transfer_layer", 0, 0, 80, symbol="l", source="ours"),
        Int("nodes", 8, 0, 40, neutral=0),
        Int("m", 3, 1, 3, symbol="m"),
    ],
    signature="transferred",
    records={"transfer": Transfer},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One forward per step. guesses [m] are those of the last kept row's pseudo rows; none at first and after a
    person's change."""
    model, l = models.target, layer_of(models.maps, p.transfer_layer)  # noqa: E741 - the paper's letter
    W, b, a = maps_of(models.maps, l, p.m, model.record.device)
    vocabulary = template.vocabulary_of(models.maps, model.record.device)
    paths, _ = template.parents_of(path for path, _ in template.likeliest(a, p.nodes))
    target = Target(model, prompt, p, rows=len(paths) * (1 + p.m))
    ids, guesses = prompt, list[template.Ranking]()
    nothing = partial(Transfer, l, model.num_layers)
    lens: Callable[[], Transfer] = nothing
    while target.unfinished(ids):
        places = (model.max_positions or len(ids) + 2 * template.RANKS) - len(ids)  # behind the text, for rows
        deepest = min(target.room(ids), places, len(guesses))
        known = [path for path in paths if len(path) <= deepest]
        draft = template.laid(known, ids[-1], guesses, "pseudo row")
        draft.tails = [max(0, min(p.m if p.nodes else 0, places - len(path))) for path in known]
        iteration, streams = forward(target, ids, draft, l, W, b, run.rng)
        h = model.normed(streams[model.num_layers])  # [k, d]: pseudo rows of the last row kept
        size = "" if guesses else f" {W.numel() + b.numel():,} trained parameters draft from here on."
        guesses, made_by = [], lens if draft.parents[1:] else nothing
        if len(h):
            z = model.unembed(h, vocabulary, normed=True, predicts=len(iteration.ids), counts=False)
            guesses = template.rankings_of(z, vocabulary)
            lens = partial(read, model, streams, vocabulary, iteration.ids[-2], len(iteration.ids), guesses)
        extra, upper = sum(draft.tails), model.num_layers - l
        way = f"went through the upper {upper} layers" if upper else "went straight to the output head"
        edit = yield run.step(
            **iteration.groups(template.ranks_of(known)),
            records={"transfer": made_by},
            facts=iteration.facts(pseudo_rows=extra, pseudo_row_layers=extra * upper),
            note=f"{iteration.note()[:-1]}; {many(extra, 'pseudo row')} {way}.{size}",
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        if ids != iteration.ids:
            guesses = []


def layer_of(maps: Any, layer: int) -> int:
    """A transfer layer that the part was trained for, the middle one for 0. Raises UserError for any other."""
    known = [int(layer_id) for layer_id in maps.tensors["layers"]]
    if layer and layer not in known:
        raise UserError(
            f"transfer_layer {layer} was given and {maps.name} was trained for {', '.join(map(str, known))}; choose "
            "one of them, or 0 for the middle one."
        )
    return layer or known[len(known) // 2]


def maps_of(maps: Any, layer: int, m: int, device: str) -> tuple[Tensor, Tensor, list[list[float]]]:
    """(W [m, d, d], b [m, d], accuracies [m][RANKS]) of a transfer layer that the part was trained for."""
    known = [int(layer_id) for layer_id in maps.tensors["layers"]]
    W, b = (maps.tensors[f"{name}.{layer}"][:m].float().to(device) for name in ("W", "b"))
    return W, b, maps.tensors["accuracy"][known.index(layer)][:m].tolist()


def forward(
    target: Target, ids: list[int], draft: Draft, layer: int, W: Tensor, b: Tensor, rng: Generator
) -> tuple[Turn, dict[int, Tensor]]:
    """One forward: text that the cache lacks and candidates through all layers, pseudo rows through those above the
    transfer layer; the walk; the cache then has the text but its last token, in every layer. Returns the turn and the
    states [k, d] of the pseudo rows of the last row kept, behind l ... n layers."""
    model: Any = target.model
    cache, base, n = target.cache, target.cache.length, model.num_layers
    c, N, hang, speaks = len(ids) - 1 - base, len(draft), target.hang(ids, draft.parents), target.speaks(ids, draft)
    x = model.layers(model.embed([*ids[base:-1], *draft.tokens]), cache, 0, layer, parents=hang)  # [c + N, d]
    pseudo, below = layout(draft.tails, c)
    made = x[c:].float() @ W.mT + b[:, None]  # [m, N, d]
    entering = [made[i, v] for v, i in pseudo]
    y = torch.cat([x, torch.stack(entering).to(x.dtype)]) if entering else x
    streams: dict[int, Tensor] = {}
    y = model.layers(y, cache, layer, n, parents=[*hang, *below], taps=above(streams, c + N))  # [c + N + pseudo, d]
    iteration = target.judge(ids, draft, model.unembed(y[: c + N], predicts=speaks), rng)
    streams[n], last = y[c + N :], iteration.verdict.path[-1]
    first = sum(draft.tails[:last])
    kept = slice(first, first + draft.tails[last])
    return iteration, {after: rows[kept] for after, rows in streams.items()}


def layout(tails: Sequence[int], c: int) -> tuple[list[tuple[int, int]], list[int]]:
    """The pseudo rows (candidate, i) in order, behind c rows of text and the candidates, and the row that each hangs
    on: the first on its candidate, the others on the one before."""
    pseudo = [(v, i) for v, k in enumerate(tails) for i in range(k)]
    return pseudo, [c + len(tails) + r - 1 if i else c + v for r, (v, i) in enumerate(pseudo)]
