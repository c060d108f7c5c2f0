"""Reflective verification: the target reads the draft a second time behind a request to check it (Wang et al.,
arXiv:2505.18629).

One forward of the target holds the draft, a reflective prompt r, the tail s of the verified text and the draft once
more. Rows of the first copy cannot see what follows, so their logits z0 are those of ordinary verification; those of
the second copy are zr. The draft is verified against z = (1 - alpha) * z0 + alpha * zr. Not lossless for alpha > 0.

The authors' text and code were not available: the mixture is read from public reviews, alpha = 0.3 from an independent
implementation that cites the paper; prompt, prefix and window are ours. At alpha = 0 the second copy changes nothing
and is not fed: that run is plain speculative sampling, and the time of both runs side by side is the price of the
extra rows.

Letters: gamma drafted tokens d, R tokens of r, S of s, c rows of text that the cache lacked, V vocabulary."""

from functools import partial

from engines.kit import (
    Float,
    Generator,
    Int,
    Params,
    Recorder,
    Roles,
    Steps,
    Text,
    Tokenizer,
    UserError,
    torch,
)
from engines.methods.speculative._turn import VERBS, Drafter, Target, draft_temperature, drafting, temperature
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.reflective_verification.look import Look, Reflection, fuse

MOST, PREFIX, REQUEST = 10, 32, 64  # tokens of a draft, of s and of r
ASK = "\nCheck the draft and write the corrected continuation:\n"


@drafting(
    "reflective-verification",
    title="Reflective verification",
    own="after reviews of the paper, own wording of the prompt",
    paper="arXiv:2505.18629",
    summary="After the draft the target reads a request to check it and the draft once more; both opinions together "
    "decide. Lossless only at α = 0.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Int("gamma", 5, 1, MOST, symbol="γ", source="ours, for a CPU"),
        Float(
            "alpha",
            0.3,
            0.0,
            1.0,
            step=0.05,
            symbol="α",
            neutral=0.0,
            source="0.3 in an implementation that cites the paper",
        ),
        Text("request", ASK, source="ours; the paper's was not available"),
        Int("prefix", 8, 0, PREFIX, symbol="S", source="ours"),
        Int("poison", 0, 0, 16, source="ours"),
        temperature(help=""),
        draft_temperature(),
    ],
    signature="reflected",
    emits={"intervals"},
    records={"reflection": Reflection},
    lanes={"own": "probability", "reflected": "probability"},
    lossless={"alpha": 0.0},
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """One round per step: draft, one forward over both copies, verify against the mixture."""
    target = Target(models.target, prompt, p, rows=1 + 2 * MOST + PREFIX + REQUEST)
    drafter = Drafter(models.draft, prompt, p, rows=MOST + 1, vocab_size=models.target.vocab_size)
    r = words(models.target.tokenizer, p.request)
    ids, n = prompt, 0
    while target.unfinished(ids):
        n += 1
        poisoned = bool(p.poison) and n % p.poison == 0 and target.room(ids) > 0
        first = int(torch.randint(drafter.vocab_size, (), generator=run.rng)) if poisoned else None
        draft = drafter.chain(ids, min(p.gamma, target.room(ids)), run.rng, first)
        look = verify_twice(target, ids, draft, r, p, run.rng)
        iteration = look.iteration
        drafter.settle(iteration.verdict.path)
        rescued, lost = look.changed(p.temperature)
        facts = iteration.facts(
            rows=len(draft) + look.extra,  # all that the target read for the draft
            rescued=len(rescued),
            lost=len(lost),
            poisoned=int(poisoned),
            poisoned_kept=int(poisoned and iteration.accepted > 0),
        )
        edit = yield run.step(
            **iteration.groups(causes={row - 1: "rescued" for row in rescued}, lanes=look.lanes),
            intervals=run.calls(VERBS),
            records={"reflection": partial(look.record, p)},
            facts=facts,
            note=note(look, facts),
        )
        ids = run.apply_edit(edit, iteration.ids, target.cache, drafter.cache)


def words(tokenizer: Tokenizer, request: str) -> list[int]:
    """The tokens of r. A model that knows token ids only takes ids; the default request is left out there. Raises
    UserError for another text, and for more than REQUEST tokens."""
    try:
        r = tokenizer.encode(request) if request.strip() else []
    except UserError:
        if request != ASK:
            raise
        r = []
    if len(r) > REQUEST:
        raise UserError(f"the request has {len(r)} tokens; at most {REQUEST} are read a second time, so shorten it.")
    return r


def verify_twice(target: Target, ids: list[int], draft: Draft, r: list[int], p: Params, rng: Generator) -> Look:
    """One forward over the text that the cache lacks, the draft, r, s and the draft again; the cache then holds the
    text but its last token. The second copy is left out where it has no weight, nothing to read or no place."""
    base = target.cache.length
    fed, d = [*ids[base:-1], *draft.tokens], draft.tokens[1:]
    c, s = len(fed) - len(draft), ids[-p.prefix :] if p.prefix else []
    second = [*r, *s, *d]
    limit = target.model.max_positions or base + len(fed) + len(second)
    if not (p.alpha and d and (r or s)) or base + len(fed) + len(second) > limit:
        second = []
    z = target.model.extend([*fed, *second], target.cache).logits  # [c + 1 + gamma + R + S + gamma, V]
    z0 = z[c : len(fed)]
    zr = z[-len(draft) :] if second else z0  # from the last token of s (or r) on, which predicts the first of the copy
    mixed = fuse(z0, zr, p.alpha) if second else z0
    rows = (c, len(draft), len(r), len(s), len(d)) if second else (c, len(draft), 0, 0, 0)
    return Look(target.judge(ids, draft, torch.cat([z[:c], mixed]), rng), z0, zr, rows)


def note(look: Look, facts: dict[str, float]) -> str:
    """One sentence on the round."""
    parts = [look.iteration.note()[:-1]]
    if look.extra:
        parts.append(f"{look.extra} more rows read for the second opinion")
    if facts["rescued"]:
        parts.append(f"{facts['rescued']} accepted that plain verification refuses")
    if facts["lost"]:
        parts.append("refused a token that plain verification accepts")
    if facts["poisoned"]:
        parts.append(f"the random token was {'accepted' if facts['poisoned_kept'] else 'refused'}")
    return "; ".join(parts) + "."
