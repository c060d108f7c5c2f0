"""Chimera: a drafter that fuses all tokens (Zeng et al., arXiv:2402.15758; code kafkayu/Chimera,
model/Chimera_model.py).

Short range first: the embeddings of the last three tokens go through a small network (the trigram encoder), one vector
for each run of three. Then one transformer layer (the full context encoder) reads that vector together with the model's
own last hidden states of the whole text and foresees the hidden state there. A head for each depth joins it with the
last true state and ranks the next guess. A tree of guesses is verified in one forward.

We depart from the released code in: heads that end in the model's own output head; token encoder and heads begin as
ridge regressions; a row sees those of the guesses above it, as the paper says (in the code a sign hides them; there is
a switch); rows of older tokens are not read again, their states are there; the tree comes from accuracies on held-out
text; a draft vocabulary where the model's is large; exact verification above temperature 0.

Letters: h the model's last states, g the vector of a run of tokens, f what the encoder foresees, W tokens of a run, K
heads A_i, T rows of text with true states."""

from collections.abc import Callable
from functools import partial
from typing import Any

from engines.kit import (
    Bool,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    part,
    torch,
)
from engines.methods.heads._template import likeliest, parents_of, ranks_of, vocabulary_of
from engines.methods.heads.chimera.drafter import Drafter, Fusing, fusing_of
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft


@drafting(
    "chimera",
    title="Chimera",
    paper="arXiv:2402.15758",
    code="https://github.com/kafkayu/Chimera",
    summary="Guesses from the last three tokens and from one layer over the model's own states of the whole text.",
    needs={"target": "layered", "drafter": part("chimera-drafter")},
    params=[
        Int("nodes", 12, 0, 63, neutral=0, source="25 in the code"),
        Int("K", 3, 1, 3, symbol="K", source="4 in the code"),
        Int("window", 3, 1, 3, symbol="W", source="3 in the code"),
        Bool("sees_drafts", True, source="on in the paper, off in the code"),
    ],
    signature="fusion",
    records={"fusing": Fusing},
    lanes={"attention": "score", "foreseen": "score"},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """The encoder's keys of true states grow by the accepted tokens and one, behind the verification. A turn without
    all of them (the first, and after a person's change) reads the text and drafts nothing."""
    from engines.models.networks.chimera_drafter import drafter_of  # it needs torch, which listing does not load

    model, n, device = models.target, models.target.num_layers, models.target.record.device
    drafter = Drafter(model.playing("draft"), drafter_of(models.drafter), vocabulary_of(models.drafter, device), p)
    accuracy = models.drafter.tensors["accuracy"][p.window - 1][: p.K].tolist()  # [K][RANKS]
    paths, parents = parents_of(path for path, _ in likeliest(accuracy, p.nodes))
    target, ids, ready = Target(model, prompt, p, rows=len(paths)), prompt, False
    while target.unfinished(ids):
        drafter.begin()
        draft, known = Draft(ids[-1], "draft"), paths[:1]
        if ready and len(paths) > 1:
            deepest = target.deepest(ids)
            known = [path for path in paths if len(path) <= deepest]
            draft = drafter.grown(known, parents[: len(known)], ids)
        base = target.cache.length
        iteration = target.verify(ids, draft, run.rng, hidden=(n,))
        drafter.read(iteration.states[n][: target.cache.length - base])
        size = "" if ready else f" {models.drafter.parameters:,} trained parameters draft from here on."
        cosines, lanes = lanes_of(iteration, drafter, n)
        facts = iteration.facts(heads=max(map(len, known)), runs_seen_before=drafter.hits, **cosines)
        records = {"fusing": partial(fusing_of, drafter, model.unbooked(), iteration, iteration.hidden[n])}
        edit = yield run.step(
            **iteration.groups(ranks_of(known), lanes=lanes), records=records, facts=facts, note=iteration.note() + size
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache)
        drafter.past.crop(target.cache.length)
        ready = ids == iteration.ids


def lanes_of(iteration: Turn, drafter: Drafter, n: int) -> tuple[dict[str, float], Callable[[], dict[str, Any]]]:
    """What became known of the foreseen states of rows that were kept: their mean cosine with the true ones; and the
    lanes of the encoder's attention and of these cosines."""
    rows = [row for row in iteration.verdict.path if row in drafter.foreseen]
    if not rows or drafter.looks is None:
        return {}, dict
    f, h = torch.stack([drafter.foreseen[row] for row in rows]), iteration.hidden[n][rows].float()
    cosines, looks = torch.nn.functional.cosine_similarity(f, h, dim=-1), drafter.looks
    start = len(iteration.before) - 1
    lanes = {"attention": (range(len(looks)), looks), "foreseen": (range(start, start + len(rows)), cosines)}
    return {"cosine_of_foreseen_states": float(cosines.mean())}, lambda: lanes
