"""Read-ME: a dense model cut into experts, and a router that runs ahead of it (Cai et al., arXiv:2410.19123).

Some channels of the feed-forward parts are busy on every kind of text, others on one. So each domain gets an expert,
the channels that are busiest on it; those that all experts share are permanent. Instead of a router in every layer one
tiny causal transformer reads token ids alone and names one expert for the whole depth of the model. It needs nothing of
the large model, so the experts of all queued tokens are known before its first layer runs: they can be fetched ahead,
and a cache of few slots can throw out what is needed latest instead of what was used longest ago.

We depart in: experts are not tuned (the paper spends a billion tokens on that), so a small share of channels costs
quality, and the run says how much is kept; the router reads the model's own frozen embedding; channels are multiplied
by the mask, as in the paper's training, so nothing gets faster here. Bytes that an expert needs are counted from its
channels, the time to load them is modelled from a bandwidth. The caches serve tokens in the order of the text, the
prompt first; look-ahead knows the rest of the prompt and nothing of what is not written yet.

Letters: E experts, L layers, F channels, c slots, W tokens looked ahead, V vocabulary."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engines.kit import (
    Decision,
    Float,
    Int,
    Interval,
    Params,
    Recorder,
    Roles,
    Span,
    Steps,
    Taps,
    Tensor,
    many,
    max_new_tokens,
    method,
    part,
    torch,
)
from engines.methods.baselines._plain import chosen, token_groups
from engines.methods.routing.read_me.experts import (
    HIT,
    LOOKAHEAD,
    LRU,
    RANDOM,
    Cache,
    Requests,
    check_expert,
    everywhere,
    masks,
    permanent,
    runs,
)

RULES = (LRU, LOOKAHEAD, RANDOM)
MATRICES, GB, MB = 3, 1e9, 1e6  # gate, up and down have a row or column for each channel


@method(
    "read-me",
    title="Read-ME",
    paper="arXiv:2410.19123",
    summary="A dense model cut into experts by domain; a router that reads only token ids names one for all layers, "
    "ahead of the model.",
    needs={"target": "layered", "experts": part("domain-experts")},
    params=[
        max_new_tokens(48),
        Float("keep", 0.85, 0.5, 1.0, step=0.05, source="0.5 in the paper, with tuning", neutral=1.0),
        Int("fixed", 0, 0, 16),
        Int("slots", 2, 1, 8, symbol="c", source="2 to 5 in the paper"),
        Int("window", 64, 0, 512, symbol="W"),
        Float("bandwidth", 16.0, 0.5, 2000.0, step=0.5),
        Float("temperature", 0.0, 0.0, 2.0, step=0.05, symbol="T"),
    ],
    records={"requests": Requests},
    signature="slots",
    emits={"commits", "scores", "candidates", "choice", "routing", "intervals", "spans", "facts", "note"},
    lanes={"confidence": "probability", "entropy": "nats"},
    baseline="greedy",
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One token per step: route what is queued before any layer runs, serve the caches, run the layers with the
    experts' channels. The router has keys and values of its own, `read`, as long as the model's."""
    model, L = models.target, models.target.num_layers
    from engines.models.networks.exits import Past
    from engines.models.networks.pregate import router_of  # needs torch, and the list of methods does not wait for it

    router, ranks = router_of(models.experts).to(model.record.device), models.experts.tensors["ranks"]
    names = [str(name) for name in models.experts.card["domains"]]
    ids, end, experts, shelf = prompt, len(prompt) + p.max_new_tokens, list[int](), Shelves(p, run, router.I.shape[1])
    cache, read = model.new_cache(end), Past()
    while len(ids) < end and not (len(ids) > len(prompt) and ids[-1] in model.eos_ids):
        check_expert(p.fixed, names)
        mask = masks(ranks, p.keep).to(model.record.device)  # [E, L, F]
        began = time.perf_counter()
        base = cache.length
        e = model.embed(ids[base:])
        G = run.call("router", model.record.device, len(e), partial(router, e, read), layer_rows=len(e))  # [n, E]
        routed = run.interval("router", began, time.perf_counter(), "route", kind="route")
        queued = [p.fixed - 1] * len(e) if p.fixed else G.argmax(-1).tolist()
        experts = [*experts[:base], *queued]
        z = model.unembed(through(model, ids[base:], cache, mask[queued])[-1:], predicts=len(ids))  # [1, V]
        token = chosen(z, p.temperature, run.rng)
        slots = shelf.serve(base, queued, names)
        edit = yield run.step(
            **token_groups(len(ids), token, z, p.temperature, torch.float32),
            choice=decision(G[-1], queued[-1], experts, names),
            routing=[everywhere(base, queued, L, len(names))] if run.detail != "none" else [],
            spans=[Span("expert", base + a, base + z, names[e]) for e, a, z in runs(queued)],
            records={"requests": Requests(base, queued, p.slots, p.window)},
            intervals=[*routed, *slots] if run.detail != "none" else [],
            facts={
                **shelf.facts(mask, model),
                "active_share": float(mask[queued].float().mean()),
                "experts": len(set(experts)),
            },
            note=note(base, queued, names),
        )
        ids = run.apply_edit(edit, [*ids, token], cache)
        experts = experts[: cache.length]
        read.crop(cache.length)
        shelf.crop(cache.length)


def through(model: Any, tokens: Sequence[int], cache: Any, mask: Tensor) -> Tensor:
    """Rows [n, d] behind all layers, every row with the channels of its own expert: mask [n, L, F]."""
    taps = None if bool(mask.all()) else Taps(channels=lambda layer, u: u * mask[:, layer])
    return model.layers(model.embed(tokens), cache, 0, model.num_layers, taps=taps)


def decision(logits: Tensor, expert: int, experts: Sequence[int], names: Sequence[str]) -> Decision:
    """The expert of the last token, and the router's probability of it."""
    sure = float(logits.softmax(-1)[expert])
    stays = len(experts) > 1 and experts[-2] == expert
    return Decision(
        list(names), names[expert], "router's probability", sure, 1 / len(names), unit="probability", switched=not stays
    )


@dataclass
class Shelves:
    """The caches that serve the same requests side by side, and when each expert came to its slot."""

    p: Params
    run: Recorder
    d: int  # of the model's hidden state
    caches: dict[str, Cache] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def serve(self, base: int, queued: Sequence[int], names: Sequence[str]) -> list[Interval]:
        """Serve the tokens from position `base` on. What each slot holds as intervals in tokens; each says where an
        expert came in, and what it threw out."""
        intervals = list[Interval]()
        for rule in RULES:
            cache = self.caches.setdefault(rule, Cache(self.p.slots, rule, self.p.window, self.run.rng))
            cache.c, cache.window = max(self.p.slots, len(cache.slots)), self.p.window
            last = dict[int, Interval]()
            for i, expert in enumerate(queued, base):
                out = cache.ask(expert, queued[i - base + 1 :])
                for place, loaded in enumerate(cache.slots):
                    came = loaded == expert and out != HIT
                    if place in last and not came:
                        last[place].end = i + 1
                        continue
                    how = f": miss, evicts {names[out]}" if out >= 0 else ": miss"
                    label = names[loaded] + (how if came else "")
                    about: dict[str, bool | int | float | str] = {
                        "rule": rule,
                        "slot": place + 1,
                        "expert": names[loaded],
                    }
                    about |= {"miss": True} if came else {}
                    about |= {"out": names[out]} if came and out >= 0 else {}
                    last[place] = Interval(f"{rule}: {place + 1}", i, i + 1, label, True, "tokens", about, "slot")
                    intervals.append(last[place])
        self.asked += queued
        return intervals

    def crop(self, length: int) -> None:
        """Forget what was asked for by tokens that an edit took back; what the caches hold stays."""
        del self.asked[length:]

    def facts(self, mask: Tensor, model: Any) -> dict[str, float]:
        """Hits so far, and what a miss costs: bytes of the largest expert beside the permanent part, and the time to
        load them, all layers in turn or all but the first behind the layer before."""
        own = (mask & ~permanent(mask)).sum((1, 2)).float()  # channels of each expert
        channel = MATRICES * self.d * getattr(torch, model.record.dtype).itemsize  # bytes
        size = float(own.max()) * channel
        first = float((mask & ~permanent(mask))[:, 0].sum(-1).max()) * channel
        return {
            **{f"hits_{rule.replace('-', '_')}": cache.hits for rule, cache in self.caches.items()},
            "requests": len(self.asked),
            "slots": self.p.slots,
            "window": self.p.window,
            "load_mb": size / MB,
            "load_ms": 1000 * size / (self.p.bandwidth * GB),
            "exposed_ms": 1000 * first / (self.p.bandwidth * GB),
            "permanent_share": float(permanent(mask).float().mean()),
        }


def note(base: int, queued: Sequence[int], names: Sequence[str]) -> str:
    """One sentence on what was routed."""
    if len(queued) > 1:
        parts = len(runs(queued))
        return f"{len(queued)} tokens routed before the first layer ran: {many(parts, 'run')} of one expert."
    return f"Token {base} goes to the expert for {names[queued[0]]}."
