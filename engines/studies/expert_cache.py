"""A stream of interleaved requests to a model that was cut into experts (Read-ME, arXiv:2410.19123): hits of caches by
what they know of the future, and experts per batch.

The experts are what the trained router says of real held-out texts; the texts stand for what the requests write. Each
request has one token that is known and not yet served, so in a round of all requests the look-ahead cache knows the
rest of the round and nothing more. Belady knows the whole stream, which no server does: it is the upper bound."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

from engines.core.errors import UserError
from engines.core.lazy import torch
from engines.core.params import Int, Params, Text
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.routing.read_me.experts import BELADY, HIT, LOOKAHEAD, LRU, RANDOM, Cache, batch_of, served

RULES = (RANDOM, LRU, LOOKAHEAD, BELADY)


@study(
    "expert-cache",
    "Caches and batches for experts",
    "arXiv:2410.19123",
    summary="Hit rates of four caches on one stream of interleaved requests, and experts per batch in order and "
    "grouped, with the trained router's choices.",
    inputs=[
        Text("model", "smollm2", help="A model that was cut into experts."),
        Int("requests", 16, 2, 64, help="Texts that are written at once, a token of each in every round."),
        Int("tokens", 96, 8, 400, help="Tokens of each request."),
        Int("batch", 8, 1, 64, help="Tokens of a batch; the others wait for the next one."),
        Int("seed", 0, 0, 1000, help="Which held-out texts are taken."),
    ],
    departures="The texts are held-out ones and stand for what would be written: only the router runs. No expert is "
    "loaded, so nothing is timed.",
    runs_models=True,
)
def expert_cache(p: Params, progress: Progress) -> Study:
    """Route every request, then serve the same stream by every rule."""
    from engines import load_model

    model: Any = load_model(p.model)
    experts, names = routed(model, p, progress)  # [requests][tokens]
    stream = [row[i] for i in range(p.tokens) for row in experts]
    E = len(names)
    rows = [[c, *(rate(stream, c, rule, p.requests, p.seed) for rule in RULES)] for c in range(1, E + 1)]
    in_order, grouped = batches(experts, p.batch, by_expert=False), batches(experts, p.batch, by_expert=True)
    same, pairs = sum(a == b for row in experts for a, b in pairwise(row)), len(experts) * (p.tokens - 1)
    stays = same / pairs
    shares = [stream.count(e) / len(stream) for e in range(E)]
    columns = [Column("slots", "experts", "given"), *(Column(rule, "share of hits", "measured", 3) for rule in RULES)]
    x: list[float] = [float(row[0]) for row in rows]
    series = [Series(rule, x, [float(row[i + 1]) for row in rows], "measured") for i, rule in enumerate(RULES)]
    return Study(
        tables=[
            Table("hits", "Hits on the same stream", columns, [list(row) for row in rows]),
            Table(
                "experts",
                "What was asked for",
                [Column("expert", "", "given"), Column("share of tokens", "", "measured", 3)],
                [[name, share] for name, share in zip(names, shares, strict=True)],
            ),
        ],
        figures=[Figure("hits", "Hits by slots", Axis("slots"), Axis("share of hits"), series)],
        receipts=[
            Receipt(
                "a request's next token keeps its expert",
                "kept / all",
                {"kept": same, "all": pairs},
                stays,
                "",
                "measured",
            ),
            Receipt(
                "experts per batch, in order and grouped",
                "grouped / in order",
                {"in order": in_order, "grouped": grouped, "batch": p.batch},
                grouped / in_order,
                "",
                "measured",
            ),
        ],
        notes=[
            "Look-ahead knows the tokens of this round that were not served yet: what is really known while every "
            "request writes one token after another. Belady knows what nobody knows.",
        ],
        models=[model.record],
    )


def routed(model: Any, p: Params, progress: Progress) -> tuple[list[list[int]], list[str]]:
    """(expert of each token of each request, names of the experts), every request a held-out text of a domain drawn at
    random. Raises UserError for a model that has not been cut."""
    from engines.models.networks.pregate import router_of
    from engines.models.parts import load_part
    from engines.tasks.domains import domains_of, tokens

    if model.record.kind != "causal":
        raise UserError(
            f"'{p.model}' is a {model.record.kind} model; experts were cut out of causal ones: give smollm2."
        )
    part = load_part("domain-experts", [model.record])
    router, domains, rng = router_of(part), domains_of(model), random.Random(p.seed)
    streams = {name: tokens(model, texts, "held-out", p.seed, p.tokens) for name, texts in domains.items()}
    found = []
    for done in range(p.requests):
        progress(done, p.requests)
        (ids,) = islice(streams[rng.choice(list(domains))], 1)
        with torch.inference_mode():
            found.append(router(model.embed(ids)).argmax(-1).tolist())
    return found, list(part.card["domains"])


def rate(stream: Sequence[int], c: int, rule: str, requests: int, seed: int) -> float:
    """The share of hits of a cache on the stream; look-ahead knows the rest of each round."""
    if rule != LOOKAHEAD:
        return served(stream, c, rule, rng=torch.Generator().manual_seed(seed)).count(HIT) / len(stream)
    cache = Cache(c, LOOKAHEAD)
    for i, expert in enumerate(stream):
        cache.ask(expert, stream[i + 1 : i - i % requests + requests])
    return cache.hits / len(stream)


def batches(experts: Sequence[Sequence[int]], capacity: int, *, by_expert: bool) -> float:
    """Experts per batch, on average over all batches until every request is served: those that wait longest first, or
    the longest queues of one expert first. A request has one token in the queue at a time."""
    at, order, found = [0] * len(experts), list(range(len(experts))), list[int]()
    while waiting := [i for i in order if at[i] < len(experts[i])]:
        if by_expert:
            queues: list[list[str]] = [[] for _ in range(1 + max(max(row) for row in experts))]
            for i in waiting:
                queues[experts[i][at[i]]].append(str(i))
            taken = [int(name) for name in batch_of(queues, capacity)[0]]
        else:
            taken = waiting[:capacity]
        found.append(len({experts[i][at[i]] for i in taken}))
        for i in taken:
            at[i] += 1
        order = [*(i for i in order if i not in taken), *taken]
    return sum(found) / len(found)
