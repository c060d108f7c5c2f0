"""Adaptive drafts: never slower than one token at a time. Ours, not a paper's.

Two sources guess for nothing: the text itself (prompt lookup) and a table of what the model ranked highest when it last
read a token (Token Recycling). What a guess is worth is counted in the run; what a forward of n rows costs is measured
on the machine. Each round takes the draft tree with the most expected tokens for its cost (`bets`), and where nothing
pays, one plain row.

Nothing has to be tried out: what each source would have guessed is compared with the text as it comes, drafted or not.
So the means of the counts decide: bets by their lower sides, while a run is behind plain decoding, were no safer on 18
replayed prompts (the worst 0.96 of plain decoding's speed by the costs, 1.00 without) and in no class faster.

The trees weigh cost against expected tokens as SpecMemo, Sequoia and DySpec do; there the drafts' own probabilities or
fixed budgets decide, here counts and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from engines.kit import (
    Bool,
    CountedCausal,
    Float,
    Int,
    Params,
    Recorder,
    RowCosts,
    Steps,
    many,
    max_new_tokens,
    method,
    top_ids,
    torch,
)
from engines.methods.speculative._turn import EMITS, LANES, Target, Turn, temperature
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.adaptive_drafts.bets import Acceptance, Bet, Bets, bet
from engines.methods.speculative.adaptive_drafts.sources import LONGEST, Guess, SeenTable, TextCopy

if TYPE_CHECKING:
    from torch import Tensor

MOST, RANKS = 64, 8  # rows of a draft, ranks of a row that the table keeps
READ = 128  # of a longer prompt only so many rows go through the output head, for the table
MEASURED = -1.0


@method(
    "adaptive-drafts",
    title="Adaptive drafts",
    own="ours",
    family="speculative",
    paper="",
    summary="Each round takes the draft that promises most tokens for what its rows cost on this machine, or none.",
    needs="causal",
    params=[
        max_new_tokens(64),
        Bool("copies", True, source="ours"),
        Bool("table", True, source="ours"),
        Int("rows", 32, 0, MOST, symbol="n", neutral=0, source="ours"),
        Int("depth", 16, 1, MOST, symbol="D", source="ours"),
        Float("row_cost", MEASURED, MEASURED, 1.0, step=0.05, symbol="c", source="ours"),
        temperature(),
    ],
    signature="bets",
    emits=EMITS - {"intervals"},
    records={"bets": Bets},
    lanes=LANES,
    baseline="greedy",
    lossless=True,
    costs=True,
)
def decode(model: CountedCausal, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Bet, verify, look at what came, learn: one round per step."""
    target = Target(model, prompt, p, rows=1 + MOST)
    text, table, a = TextCopy(prompt), SeenTable(), Acceptance()
    spent, gained, ids, warned = 0.0, 0, prompt, ""
    if len(prompt) > READ:
        model.extend(prompt[:-READ], target.cache, last_only=True)

    def guesses(context: Sequence[int]) -> list[Guess]:
        return [*(text.guesses(context) if p.copies else ()), *(table.guesses(context) if p.table else ())]

    while target.unfinished(ids):
        C = model.row_costs if p.row_cost < 0 else RowCosts.sloped(p.row_cost)
        unread = len(ids) - target.cache.length  # the prompt is read with the first draft, and in any case
        chosen = bet(
            ids,
            guesses,
            a,
            [1 + C(unread + n) - C(unread) for n in range(p.rows + 1)],
            depth=min(p.depth, target.room(ids)),
            branches=model.takes_trees,
            ends=model.eos_ids,
        )
        turn = target.verify(ids, drafted(ids[-1], chosen), run.rng)
        for at in range(len(ids), len(turn.ids)):
            a.see(guesses(turn.ids[max(0, at - LONGEST) : at]), turn.ids[at])
        text.read(turn.gained)
        learn(table, turn)
        if ids is not prompt:
            spent, gained = spent + chosen.cost[chosen.taken], gained + len(turn.gained)
        odds = [source for source, on in ((text, p.copies), (table, p.table)) if on]
        edit = yield run.step(
            **turn.groups(),
            facts=turn.facts(expected=chosen.expected[chosen.taken], cost=chosen.cost[chosen.taken]),
            records={"bets": partial(account, chosen, len(turn.gained), gained, spent, a, odds)},
            note=note(chosen, turn, p, C.warning if C.warning != warned else ""),
        )
        warned = C.warning
        ids = run.apply_edit(edit, turn.ids, target.cache)
        if ids != turn.ids:  # someone has changed it
            text = TextCopy(ids)


def drafted(root: int, chosen: Bet) -> Draft:
    """The rows that were taken as a draft tree."""
    draft, rows = Draft(root), {(): 0}
    for path, source in zip(chosen.paths[: chosen.taken], chosen.sources, strict=False):
        rows[path] = draft.add(rows[path[:-1]], path[-1], source=source)
    draft.values, draft.value_name = [None, *chosen.chances[: chosen.taken]], "chance to be reached"
    return draft


def learn(table: SeenTable, turn: Turn) -> None:
    """The table takes the highest ranks of all rows that were read, refused ones too."""
    table.learn([*turn.chain, *turn.draft.tokens], *ranked(torch.cat([turn.z_chain, turn.z])))


def ranked(z: Tensor) -> tuple[list[list[int]], list[list[float]]]:
    """The likeliest tokens behind each row of the logits z [n, V], and their probabilities."""
    best = top_ids(z, RANKS)
    return best.tolist(), (z.gather(-1, best) - z.logsumexp(-1, keepdim=True)).exp().tolist()


def account(
    chosen: Bet,
    came: int,
    gained: int,
    spent: float,
    a: Acceptance,
    sources: Sequence[TextCopy | SeenTable],
) -> Bets:
    """The round's bet for the record."""
    odds = [a.odds(source.name) for source in sources]
    return Bets(chosen.expected, chosen.cost, chosen.taken, came, gained, spent, odds)


def note(chosen: Bet, turn: Turn, p: Params, warning: str) -> str:
    """One sentence on the round; before it the warning of the costs it bet by."""
    promised, cost = chosen.expected[chosen.taken], chosen.cost[chosen.taken]
    if not (p.copies or p.table):
        outcome = "Both sources are switched off, so nothing can be drafted; one plain row."
    elif not p.rows:
        outcome = "A draft may have 0 rows, so nothing can be drafted; one plain row."
    elif not chosen.taken:
        outcome = "No draft promises more tokens for its cost than one plain row, so none is made."
    else:
        outcome = (
            f"{many(chosen.taken, 'drafted row')}: {promised:.1f} tokens expected for the time of {cost:.1f} plain "
            f"rows; {many(len(turn.gained), 'token')} came{turn.ending()}."
        )
    return f"{warning} {outcome}" if warning else outcome
