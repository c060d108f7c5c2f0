"""Adaptive drafts: never slower than one token at a time. Ours, not a paper's.

Three sources guess for nothing: the text itself (prompt lookup), a table of what the model ranked highest when it last
read a token (Token Recycling), and a store of texts in the model's tokens where there is one (REST). A draft model,
where the target has one beside it, guesses for a forward of its own (`draft_model`). What a guess is worth is counted
in the run; what a forward of n rows costs is measured on the machine. Each round takes the draft tree with the most
expected tokens for its cost (`tree_choice`), and where nothing pays, one plain row.

Nothing has to be tried out: what each source would have guessed is compared with the text as it comes, drafted or not.
So the means of the counts decide: choices by their lower sides, while a run is behind plain decoding, were no safer on
18 replayed prompts (the worst 0.96 of plain decoding's speed by the costs, 1.00 without) and in no class faster.

The trees weigh cost against expected tokens as SpecMemo, Sequoia and DySpec do; there the drafts' own probabilities or
fixed budgets decide, here counts and a clock."""

from collections.abc import Sequence
from functools import partial

from engines.kit import Bool, Float, Int, Params, Recorder, Roles, RowCosts, Steps, many, torch
from engines.methods.speculative._turn import Target, Turn, drafting
from engines.methods.speculative._verify import Draft
from engines.methods.speculative.adaptive_drafts.draft_model import DraftModel
from engines.methods.speculative.adaptive_drafts.sources import LONGEST, Guess, SeenTable, StoreCopy, TextCopy, ranked
from engines.methods.speculative.adaptive_drafts.tree_choice import Acceptance, DraftTree, TreeChoice, choose_tree
from engines.models.parts.stores import index_of

Source = TextCopy | SeenTable | StoreCopy | DraftModel

MOST = 64  # rows of a draft
READ = 128  # of a longer prompt only so many rows go through the output head, for the table
MEASURED = -1.0


@drafting(
    "adaptive-drafts",
    title="Adaptive drafts",
    own="ours",
    summary="Each round takes the draft that promises most tokens for what its rows cost on this machine, or none.",
    needs={"target": "causal", "draft": "causal"},
    params=[
        Bool("copies", True, source="ours"),
        Bool("table", True, source="ours"),
        Bool("store", True, source="ours"),
        Bool("draft", True, source="ours"),
        Int("rows", 32, 0, MOST, symbol="n", neutral=0, source="ours"),
        Int("depth", 16, 1, MOST, symbol="D", source="ours"),
        Float("row_cost", MEASURED, MEASURED, 1.0, step=0.05, symbol="c", source="ours"),
    ],
    signature="bets",
    records={"bets": TreeChoice},
    optional={"draft"},
    costs=True,
)
def decode(models: Roles, prompt: list[int], p: Params, run: Recorder) -> Steps:
    """Choose a tree, verify it, count what came, learn: one round per step."""
    model, costs = models.target, Costs(models, p)
    target, C = Target(model, prompt, p, rows=1 + MOST), costs.target
    text, table, a = TextCopy(prompt), SeenTable(), Acceptance()
    index, helper = index_of(model.record) if p.store else None, models.models.get("draft") if p.draft else None
    store = StoreCopy(index) if index else None
    draft_model = DraftModel(helper, prompt, p, model.vocab_size, costs.draft) if helper else None
    spent, gained, ids, warned = 0.0, 0, prompt, ""
    if len(prompt) > READ:
        model.extend(prompt[:-READ], target.cache, last_only=True)

    def free() -> list[TextCopy | SeenTable | StoreCopy]:
        return [source for source, on in ((text, p.copies), (table, p.table), (store, p.store)) if source and on]

    def guesses(context: Sequence[int]) -> list[Guess]:
        return [guess for source in free() for guess in source.guesses(context)]

    while target.unfinished(ids):
        unread = len(ids) - target.cache.length  # the prompt is read with the first draft, and in any case
        if draft_model:
            draft_model.begin(ids)
        chosen = choose_tree(
            ids,
            guesses,
            a,
            [1 + C(unread + n) - C(unread) for n in range(p.rows + 1)],
            depth=min(p.depth, target.room(ids)),
            branches=model.takes_trees,
            ends=model.eos_ids,
            draft_model=draft_model,
        )
        iteration = target.verify(ids, drafted(ids[-1], chosen), run.rng)
        places = range(len(ids), len(iteration.ids))
        known = [a.observe(guesses(iteration.ids[max(0, at - LONGEST) : at]), iteration.ids[at]) for at in places]
        if draft_model:
            draft_model.settle(iteration.gained, known, a)
        text.read(iteration.gained)
        learn(table, iteration)
        if ids is not prompt:
            spent, gained = spent + chosen.cost[chosen.taken], gained + len(iteration.gained)
        sources = [*free(), draft_model] if draft_model else free()
        calls = {"asked": chosen.queries} if draft_model else {}
        edit = yield run.step(
            **iteration.groups(),
            facts=iteration.facts(expected=chosen.expected[chosen.taken], cost=chosen.cost[chosen.taken], **calls),
            records={"bets": partial(account, chosen, len(iteration.gained), gained, spent, a, sources)},
            note=note(chosen, iteration, p, C.warning if C.warning != warned else ""),
        )
        warned = C.warning
        ids = run.apply_edit(edit, iteration.ids, target.cache, *([draft_model.cache] if draft_model else []))
        if ids != iteration.ids:  # someone has changed it
            text = TextCopy(ids)


class Costs:
    """What rows cost in forwards of one row of the target, for both models: measured, or by the parameter, where a
    draft model's forward costs as its parameters are to the target's."""

    def __init__(self, models: Roles, p: Params) -> None:
        measured, draft = p.row_cost < 0, models.models.get("draft")
        self.target = models.target.row_costs if measured else RowCosts.sloped(p.row_cost)
        self._draft, self._share = self.target, 1.0
        if draft and measured:
            self._draft, self._share = draft.row_costs, draft.row_costs.seconds[0] / self.target.seconds[0]
        elif draft:
            self._share = draft.record.parameters / max(1, models.target.record.parameters)

    def draft(self, n: int) -> float:
        """Of a forward of n rows of the draft model."""
        return self._share * self._draft(n)


def drafted(root: int, chosen: DraftTree) -> Draft:
    """The rows that were taken as a draft tree."""
    draft, rows = Draft(root), {(): 0}
    for path, source in zip(chosen.paths[: chosen.taken], chosen.sources, strict=False):
        rows[path] = draft.add(rows[path[:-1]], path[-1], source=source)
    draft.values, draft.value_is = [None, *chosen.chances[: chosen.taken]], ("chance to be reached", "chance")
    return draft


def learn(table: SeenTable, iteration: Turn) -> None:
    """The table takes the highest ranks of all rows that were read, refused ones too."""
    z = torch.cat([iteration.z_chain, iteration.z]) if iteration.chain else iteration.z
    table.learn([*iteration.chain, *iteration.draft.tokens], *ranked(z))


def account(
    chosen: DraftTree, came: int, gained: int, spent: float, a: Acceptance, sources: Sequence[Source]
) -> TreeChoice:
    """The round's choice for the record."""
    odds = [a.odds(source.name) for source in sources]
    return TreeChoice(chosen.expected, chosen.cost, chosen.taken, came, gained, spent, odds)


def note(chosen: DraftTree, iteration: Turn, p: Params, warning: str) -> str:
    """One sentence on the round; before it the warning of the costs it chose by."""
    promised, cost = chosen.expected[chosen.taken], chosen.cost[chosen.taken]
    if not (p.copies or p.table or p.store or p.draft):
        outcome = "All sources are switched off, so nothing can be drafted; one plain row."
    elif not p.rows:
        outcome = "A draft may have 0 rows, so nothing can be drafted; one plain row."
    elif not chosen.taken:
        outcome = "No draft promises more tokens for its cost than one plain row, so none is made."
    else:
        outcome = (
            f"{many(chosen.taken, 'drafted row')}: {promised:.1f} tokens expected for the time of {cost:.1f} plain "
            f"rows; {many(len(iteration.gained), 'token')} came{iteration.ending()}."
        )
    if chosen.queries:
        outcome += f" The draft model was asked about {many(chosen.queries, 'row')}."
    return f"{warning} {outcome}" if warning else outcome
