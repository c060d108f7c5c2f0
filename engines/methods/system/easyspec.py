"""EasySpec: several layers of the draft attend at once, from one slightly old state (Wu et al., arXiv:2502.02493).

A small draft leaves most of the target's devices idle. So its layers stand in groups of N: the attention of all layers
of a group reads the state that entered the group, which N devices can do at the same time; the feed-forward parts stay
in order. Such a forward is fuzzy, and so are the keys and values that it leaves behind. Before each round one ordinary
forward over the accepted tokens writes them exactly (calibration) and gives the first drafted token. The target
verifies as ever, so the text is the target's own for every N.

Written from reading notes, as the authors' text and code were not available. The draft is the target itself, run
fuzzily: that shows what fuzzy attention costs, and is no speed on one device. The order inside a group, and the rest
group at the end, are our reading. Attention and feed-forward in parallel, which breaks the model, are left out.

Letters: L layers, N layers of a group, gamma drafted tokens, n rows fed, d hidden size, V vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.kit import (
    Bool,
    Int,
    KVCache,
    Params,
    Recorder,
    Steps,
    Taps,
    distribution,
    draw,
    max_new_tokens,
    method,
)
from engines.methods.speculative._turn import EMITS, LANES, Target, temperature
from engines.methods.speculative._verify import Draft

if TYPE_CHECKING:
    from torch import Generator, Tensor

MOST, WIDEST, ENDS = 8, 7, 3


@method(
    "easyspec",
    title="EasySpec",
    family="system",
    paper="arXiv:2502.02493",
    summary="The draft's layers attend in groups, all from the state that entered the group; one exact forward a round "
    "puts its memory right.",
    needs="layered",
    params=[
        max_new_tokens(48),
        Int("gamma", 5, 1, MOST, symbol="γ", sees="Tokens drafted per round.", source="ours"),
        Int(
            "size",
            4,
            1,
            WIDEST,
            symbol="N",
            sees="Layers whose attention reads one state; at 1 the draft is the exact model.",
            source="paper",
        ),
        Int("ends", 1, 0, ENDS, sees="Layers at either end that stay alone.", source="paper"),
        Bool("calibrate", True, sees="Whether accepted tokens are read again exactly before each round."),
        temperature(),
    ],
    signature="tree",
    emits=EMITS,
    lanes=LANES,
    baseline="greedy",
    lossless=True,
    departures="Written from reading notes. The draft is the target itself run fuzzily, on one device: its layers run "
    "one after another, and nothing gets faster. Only attention is grouped.",
)
def decode(model: Any, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: calibrate, draft fuzzily, verify."""
    target = Target(model, prompt, p, rows=1 + MOST)
    drafter = model.playing("draft")
    cache = model.new_cache(len(prompt) + p.max_new_tokens + MOST)
    ids, exact = prompt, 0  # rows of the draft's cache that an ordinary forward wrote
    while target.unfinished(ids):
        first = groups_of(model.num_layers, p.size, p.ends)
        cache.crop(min(cache.length, exact if p.calibrate else len(ids) - 1))
        began, gamma = cache.length, min(p.gamma, target.room(ids))
        draft = Draft(ids[-1])
        if gamma:
            plain = p.calibrate or not began  # the prompt is read exactly in any case
            z = forward(drafter, ids[began:], cache, {} if plain else first)
            exact = len(ids) if plain else exact
            for row in range(gamma):
                z = forward(drafter, draft.tokens[-1:], cache, first) if row else z
                propose(draft, row, z, p.temperature, run.rng)
        turn = target.verify(ids, draft, run.rng)
        edit = yield run.step(
            **turn.groups(),
            lanes=run.calls({"draft": "draft", "target": "verify"}),
            facts=turn.facts(
                calibrated=len(ids) - began if gamma and p.calibrate else 0,
                fuzzy_rows=cache.length - min(exact, cache.length),
            ),
            note=turn.note(),
        )
        ids = run.apply_edit(edit, turn.ids, target.cache, cache)
        exact = min(exact, cache.length)


def groups_of(layers: int, size: int, ends: int, last: int | None = None) -> dict[int, int]:
    """layer -> the first layer of its group: `ends` layers at the beginning and `last` at the end (as many, if not
    said) alone, groups of `size` between them, a smaller one behind those."""
    inner = range(ends, layers - (ends if last is None else last))
    return {layer: layer - (layer - ends) % size if layer in inner else layer for layer in range(layers)}


def forward(model: Any, tokens: list[int], cache: KVCache, first: dict[int, int]) -> Tensor:
    """Logits [V] behind tokens fed to the cache; the attention of each layer reads what entered the layer first[layer]
    (its own input without an entry)."""
    entered: dict[int, Tensor] = {}

    def reads(layer: int, x: Tensor) -> Tensor | None:
        entered[layer] = x
        return entered[first[layer]] if first[layer] < layer else None

    taps = Taps(reads=reads, layers=set(first)) if any(a < b for b, a in first.items()) else None
    h = model.layers(model.embed(tokens), cache, 0, model.num_layers, taps=taps)  # [n, d]
    return model.unembed(h[-1:], predicts=cache.length)[0]


def propose(draft: Draft, row: int, z: Tensor, temperature: float, rng: Generator) -> None:
    """Put the draft's token behind a row: its first choice, or above temperature 0 one that is drawn."""
    q = distribution(z.double(), temperature)
    token = draw(q, rng) if temperature else int(z.argmax())
    if temperature:
        draft.distributions[row] = q
    draft.add(row, token, chance=float(q[token] if temperature else z.softmax(-1)[token]))


def schedule(
    attention: list[float], feed_forward: list[float], first: dict[int, int], sync: float
) -> tuple[float, float]:
    """(time of all layers one after another, time where the attention of a group runs at once): the longest attention
    of each group, `sync` for a group of several, and all feed-forward parts in order. All in one unit."""
    groups: dict[int, list[int]] = {}
    for layer, start in first.items():
        groups.setdefault(start, []).append(layer)
    serial = sum(attention) + sum(feed_forward)
    fuzzy = sum(max(attention[i] for i in g) + sync * (len(g) > 1) for g in groups.values()) + sum(feed_forward)
    return serial, fuzzy


if __name__ == "__main__":
    from engines.kit import show

    show("easyspec", "tiny-ar-l", "add: 457 + 86")
