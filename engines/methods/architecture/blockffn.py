"""BlockFFN: experts that neighbouring tokens share, so that verifying a chunk of drafts reads few of them (Song et al.,
arXiv 2507.08771; thunlp/BlockFFN).

A router of ReLU and RMSNorm lets each token decide how many experts it uses, and two losses of the training make
neighbours agree. A chunk of drafts then reads the weights of its union of experts alone, once for all its tokens: what
speculation saves is not eaten up by experts that only one of the drafts needs.

We depart from the paper in: prompt lookup drafts in place of EAGLE-2, so a draft is a chain; the models are of 1.6 M
parameters, trained here (`engines/training/architectures/blockffn.py`); the union is multiplied by stock kernels, so
the bytes are the figure and the seconds are not; a twin that takes its best experts for each token, if there is one,
reads the same rows beside it; above temperature 0 the usual rule accepts.

Letters: n tokens of a draft, S_t the experts of token t, U their union over the chunk, N experts in a layer."""

import numpy as np

from engines.kit import (
    Int,
    Params,
    Recorder,
    Roles,
    Routing,
    Steps,
    Taps,
    pack_routing,
)
from engines.methods.architecture._routed import arena, reading
from engines.methods.speculative._retrieval import find, spans
from engines.methods.speculative._turn import Target, drafting
from engines.methods.speculative._verify import Draft

MOST = 32  # tokens of a draft


@drafting(
    "blockffn",
    title="BlockFFN",
    paper="arXiv:2507.08771",
    code="https://github.com/thunlp/BlockFFN",
    summary="Verifies copied drafts in one forward that reads only the experts which some token of the chunk uses.",
    needs={"target": "moe", "twin": "moe"},
    params=[
        Int("draft_length", 8, 0, MOST, symbol="n", neutral=0, source="32"),
        Int("longest", 2, 1, 8),
    ],
    signature="experts",
    emits={"intervals", "routing", "spans"},
    beside={"twin"},
    optional={"twin"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One look-up and one verifying forward per step. Before each the cache holds all ids but the last."""
    model, ids, target = models.target, prompt, Target(models.target, prompt, p, rows=MOST)
    cache, twin = target.cache, Twin(models, target.end + MOST)
    while target.unfinished(ids):
        n = min(p.draft_length, target.room(ids))
        matches = [m for m in find(np.array(ids), ids, p.longest, 1, n, model.eos_ids, slice(1)) if m.tokens]
        copied = matches[0].tokens if matches else ()
        draft = Draft.of([ids[-1], *copied], range(-1, len(copied)), "retrieval")
        base, routings = cache.length, list[Routing]()
        rows = [*ids[base:-1], *draft.tokens]
        x = model.layers(model.embed(rows), cache, 0, model.num_layers, taps=Taps(router=routings.append))
        z = model.unembed(x, predicts=base + 1)  # [c + 1 + n, V]
        iteration = target.judge(ids, draft, z, run.rng)
        positions, beside = range(base, base + len(rows)), twin.read(rows, base) if run.detail != "none" else []
        U = reading(routings, model.mixtures)
        facts = iteration.facts(
            union=U.union,
            union_share=U.union_share,
            tls=1 - U.row_share,
            ffn_bytes_read=U.bytes_read,
            ffn_bytes_dense=U.bytes_dense,
        )
        edit = yield run.step(
            **iteration.groups(),
            routing=[
                packed
                for packed in (pack_routing(routings, positions), pack_routing(beside, positions, "twin"))
                if packed
            ],
            spans=spans(matches, len(ids)),
            intervals=arena(U),
            facts={**facts, "rows": len(rows), **twin.facts(beside)},
            note=(
                f"{iteration.note()} Experts read: {U.union_share:.0%} by all rows, {U.row_share:.0%} by one "
                "on average."
            ),
        )
        ids = run.apply_edit(edit, iteration.ids, cache)


class Twin:
    """A mixture of as many experts, if the model has one beside it, on the rows of the model."""

    def __init__(self, models: Roles, capacity: int) -> None:
        self.model = models.models.get("twin")
        self.cache = self.model.new_cache(capacity) if self.model else None

    def read(self, rows: list[int], base: int) -> list[Routing]:
        """What its routers choose for the rows from position `base` on."""
        routings = list[Routing]()
        if self.model:
            self.cache.crop(min(base, self.cache.length))
            if self.cache.length == base:  # an edit may have gone back and changed what was read
                embedded = self.model.embed(rows)
                self.model.layers(embedded, self.cache, 0, self.model.num_layers, taps=Taps(router=routings.append))
        return routings

    def facts(self, routings: list[Routing]) -> dict[str, float]:
        """Experts that some row uses, mean over the layers, and bytes of theirs."""
        if not self.model or not routings:
            return {}
        U = reading(routings, self.model.mixtures)
        return {"twin_union": U.union, "twin_bytes_read": U.bytes_read}
