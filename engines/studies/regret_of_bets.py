"""What the bets of adaptive drafts cost against the best fixed draft in hindsight (ours): the method writes texts from
copies and its table, and each text is replayed under every fixed choice, with the same costs. A store and a draft model
are not asked.

    regret = cost of the method's rounds - cost of the best fixed choice's

A fixed choice takes its sources, its number of rows and its depth for a whole text and never weighs what rows cost. The
best one is known only afterwards. Both are compared with plain decoding, which is a fixed choice too, and with one who
foresees the text and drafts nothing but what will be accepted."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engines.core.costs import row_costs_of
from engines.core.errors import UserError
from engines.core.params import Float, Int, Params, Text
from engines.core.row_costs import RowCosts
from engines.core.study import Axis, Column, Figure, Progress, Receipt, Series, Study, Table, study
from engines.methods.speculative.adaptive_drafts import decode
from engines.studies._bet_replay import Known, Round, Rule, foreseen, replay, spent

SOURCES = {"copies": (True, False), "table": (False, True), "both sources": (True, True)}
DEPTHS, ROWS = (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32)
PLAIN = Rule("plain", False, False, 0, 1)
FIXED = [
    PLAIN,
    *(
        Rule(f"{name}, {rows} row{'s' * (rows > 1)}, {depth} deep", *on, rows, depth)
        for name, on in SOURCES.items()
        for depth in DEPTHS
        for rows in ROWS
        if rows >= depth
    ),
]
BETS = Rule("bets", True, True, ROWS[-1], DEPTHS[-1], bets=True)
UNIT = "forwards"
UNITS = "All costs are in forwards of one row."
RULES = (
    "A fixed choice drafts its likeliest rows, by the same counts as the bets; where there are no guesses it has no "
    "draft. One who foresees the text has a table that learnt from the text's own rows alone."
)
PARTS = 4  # of a text, for what regret does over its length
PROMPTS = (
    "Rewrite this text in the past tense: The pool is shut on Wednesday because the water is changed. The choir meets "
    "on Thursday at seven in room 12 and sings for two hours. The flea market is on Sunday in front of the town hall, "
    "and the library opens at nine on every day but Monday. | Write a Python function that adds two numbers, then one "
    "that subtracts them. | Tell a short story about a lighthouse keeper. | Explain why the sky is blue."
)


@dataclass(frozen=True)
class Replayed:
    """A text and its rounds: those of the bets, of each fixed choice by its name, and of one who foresees it. exact:
    whether the replay of the bets gives what the run recorded. asked: forwards for refused rows."""

    prompt: str
    bets: list[Round]
    fixed: Mapping[str, list[Round]]
    foreseen: list[Round]
    exact: bool
    asked: int

    @property
    def label(self) -> str:
        """The prompt's first words."""
        return textwrap.shorten(self.prompt, 40, placeholder=" …")

    @property
    def tokens(self) -> int:
        """Of the answer."""
        return sum(one.came for one in self.bets)

    def best(self, upto: int) -> tuple[str, float]:
        """The fixed choice that had spent least when so many tokens stood, and what it had spent."""
        return min(((name, spent(rounds)[upto - 1]) for name, rounds in self.fixed.items()), key=lambda one: one[1])

    def regret(self, upto: int) -> float:
        """What the bets had spent more than the best fixed choice for this text."""
        return spent(self.bets)[upto - 1] - self.best(upto)[1]


@study(
    "regret-of-bets",
    "What bets on drafts cost against the best fixed draft in hindsight",
    "ours",
    summary="Adaptive drafts write texts from copies and their table; each is replayed under fixed choices of source, "
    "rows and depth, and with the text foreseen, at the same costs of rows.",
    inputs=[
        Text("model", "smollm2", help="A causal model; it is read in float32."),
        Text("prompts", PROMPTS, help="Prompts to answer, with | between them."),
        Int("tokens", 64, 8, 256, help="Tokens written behind each prompt."),
        Float(
            "row_cost",
            0.03,
            -1.0,
            1.0,
            step=0.05,
            symbol="c",
            help="What a further row costs, as a share of the first; below 0 it is measured on this machine.",
        ),
    ],
    runs_models=True,
)
def regret_of_bets(p: Params, progress: Progress) -> Study:
    """Write each text with the method, then replay it."""
    from engines import load_model

    model = load_model(p.model, dtype="float32")
    if model.record.kind != "causal":
        raise UserError(f"'{p.model}' is a {model.record.kind} model; a draft is verified by a causal one: give that.")
    prompts = [text.strip() for text in p.prompts.split("|") if text.strip()]
    if not prompts:
        raise UserError("no prompt was given; write one or several with | between them.")
    C = row_costs_of(model) if p.row_cost < 0 else RowCosts.sloped(p.row_cost)
    found = list[Replayed]()
    for done, prompt in enumerate(prompts):
        by_now = partial(told, found[:], C, p.row_cost < 0, [model.record]) if found else None

        def ready(rules: int, done: int = done, by_now: Callable[[], Study] | None = by_now) -> None:
            progress(done * len(FIXED) + rules, len(prompts) * len(FIXED), by_now)

        found.append(replayed(model, prompt, p, C, ready))
    return told(found, C, p.row_cost < 0, [model.record])


def replayed(model: Any, prompt: str, p: Params, C: RowCosts, ready: Callable[[int], None]) -> Replayed:
    """One text: written by the method, replayed by all rules. ready: told how many fixed choices were replayed."""
    from engines import run

    ready(0)
    given = {"max_new_tokens": p.tokens, "row_cost": p.row_cost, "rows": BETS.rows, "depth": BETS.depth}
    given |= {"store": False, "draft": False}
    trace = run(decode.info.slug, model, prompt, params=given, detail="light")
    start = len(trace.header.prompt_ids)
    text = Known(model, [*trace.header.prompt_ids, *trace.output_ids], start, start + p.tokens)
    bets = replay(text, BETS, C)
    recorded = [(len(step.commits.tokens), step.facts["drafted"]) for step in trace.steps if step.commits]
    rounds = dict[str, list[Round]]()
    for done, rule in enumerate(reversed(FIXED)):  # the largest drafts first: they ask for what the others need
        ready(done)
        rounds[rule.name] = replay(text, rule, C)
    fixed = {rule.name: rounds[rule.name] for rule in FIXED}
    exact = recorded == [(one.came, one.taken) for one in bets]
    return Replayed(prompt, bets, fixed, foreseen(text, C, BETS.rows, BETS.depth), exact, text.asked)


def told(texts: Sequence[Replayed], C: RowCosts, measured: bool, models: list[Any]) -> Study:
    """Tables, both figures, receipts."""
    bets = sum(total(one.bets) for one in texts)
    each = sum(one.best(one.tokens)[1] for one in texts)
    name, least = best_for_all(texts, [one.tokens for one in texts])
    return Study(
        tables=[by_text(texts, name), by_length(texts), by_choice(texts)],
        figures=[over_length(texts), costs(texts)],
        receipts=[
            Receipt("regret, a choice for each text", "bets - best", {"bets": bets, "best": each}, bets - each, UNIT),
            Receipt("regret, one choice for all", "bets - best", {"bets": bets, "best": least}, bets - least, UNIT),
        ],
        notes=[
            growth(texts),
            checked(texts),
            RULES,
            f"{C.warning} A round with {BETS.rows} drafted rows costs {C(1 + BETS.rows):.2f} {UNIT} of one row, "
            f"{'as measured here' if measured else 'as given'}.".strip(),
        ],
        models=models,
    )


def total(rounds: Sequence[Round]) -> float:
    """The cost of all rounds."""
    return sum(one.cost for one in rounds)


def best_for_all(texts: Sequence[Replayed], upto: Sequence[int]) -> tuple[str, float]:
    """The one fixed choice that had spent least on all texts together when so many tokens of each stood."""
    costs = {
        rule.name: sum(spent(one.fixed[rule.name])[n - 1] for one, n in zip(texts, upto, strict=True)) for rule in FIXED
    }
    return min(costs.items(), key=lambda one: one[1])


def standing(texts: Sequence[Replayed], part: int) -> list[int]:
    """How many tokens of each text its first `part` of PARTS parts are."""
    return [math.ceil(one.tokens * part / PARTS) for one in texts]


def regrets(texts: Sequence[Replayed], part: int) -> tuple[list[float], float]:
    """After so many parts: of each text against its own best choice, and of all against the best one for all."""
    upto = standing(texts, part)
    all_bets = sum(spent(one.bets)[n - 1] for one, n in zip(texts, upto, strict=True))
    return [one.regret(n) for one, n in zip(texts, upto, strict=True)], all_bets - best_for_all(texts, upto)[1]


def growth(texts: Sequence[Replayed]) -> str:
    """What regret per token did over the texts, and no more than was seen."""
    parts = [sum(regrets(texts, part)[0]) / sum(standing(texts, part)) for part in range(1, PARTS + 1)]
    fell = parts[-1] < parts[PARTS // 2 - 1]
    per_token = ", ".join(f"{one:.3f}" for one in parts)
    return (
        f"Regret per token, after each of {PARTS} parts of the texts: {per_token} {UNIT} of one row. From half of "
        f"the texts to their end it {'fell' if fell else 'did not fall'}, so regret grew "
        f"{'more slowly than' if fell else 'at least as fast as'} the texts there. So few tokens show no law. Below 0 "
        "the bets cost less than every fixed choice."
    )


def checked(texts: Sequence[Replayed]) -> str:
    """Whether the replay is to be trusted, and what it asked of the model."""
    exact, asked = sum(one.exact for one in texts), sum(one.asked for one in texts)
    every = f"all {len(texts)}" if exact == len(texts) else f"{exact} of {len(texts)}"
    return (
        f"The replay of the bets gives the recorded rounds of {every} texts. {asked} forwards read rows that fixed "
        "choices would have drafted and the text does not hold, for the table that learns from them."
    )


def by_text(texts: Sequence[Replayed], best: str) -> Table:
    """A row for each text, and one for all of them. best: the name of the one choice for all."""
    columns = [
        Column("text"),
        Column("tokens", "", "measured"),
        Column("rounds of the bets", "", "measured"),
        Column("plain", UNIT, "derived", 2),
        Column("foreseen", UNIT, "derived", 2),
        Column("bets", UNIT, "derived", 2),
        Column("best fixed choice"),
        Column("cost of the best", UNIT, "derived", 2),
        Column("regret", UNIT, "derived", 2),
        Column("regret per token", UNIT, "derived", 3),
    ]
    rows: list[list[str | int | float | bool | None]] = []
    for i, one in enumerate(texts, 1):
        name, least = one.best(one.tokens)
        rows.append(cells(f"{i}. {one.label}", [one], name, least))
    least = sum(total(one.fixed[best]) for one in texts)
    rows.append(cells("all, one choice for them", texts, best, least))
    return Table("texts", "What each text cost", columns, rows, UNITS)


def cells(text: str, texts: Sequence[Replayed], name: str, least: float) -> list[str | int | float | bool | None]:
    """A row of that table, for texts together."""
    tokens, bets = sum(one.tokens for one in texts), sum(total(one.bets) for one in texts)
    plain, ideal = (sum(total(r) for r in rounds) for rounds in zip(*map(ends, texts), strict=True))
    rounds = sum(len(one.bets) for one in texts)
    return [text, tokens, rounds, plain, ideal, bets, name, least, bets - least, (bets - least) / tokens]


def ends(one: Replayed) -> tuple[list[Round], list[Round]]:
    """The rounds of plain decoding, and those of one who foresees the text."""
    return one.fixed[PLAIN.name], one.foreseen


def by_length(texts: Sequence[Replayed]) -> Table:
    """What regret does over the texts' lengths."""
    columns = [
        Column("part of each text", "", "given"),
        Column("tokens", "", "measured"),
        Column("regret, a choice for each text", UNIT, "derived", 2),
        Column("per token", UNIT, "derived", 3),
        Column("regret, one choice for all", UNIT, "derived", 2),
        Column("per token, one for all", UNIT, "derived", 3),
    ]
    rows: list[list[str | int | float | bool | None]] = []
    for part in range(1, PARTS + 1):
        tokens, (own, together) = sum(standing(texts, part)), regrets(texts, part)
        rows.append([f"{part} of {PARTS}", tokens, sum(own), sum(own) / tokens, together, together / tokens])
    note = "The best choice is that of the text up to there. A round's cost is spread evenly over its tokens. " + UNITS
    return Table("lengths", "Regret over the length of the texts", columns, rows, note)


def by_choice(texts: Sequence[Replayed]) -> Table:
    """Every fixed choice over all texts, the cheapest first."""
    columns = [
        Column("fixed choice"),
        Column("rounds", "", "derived"),
        Column("cost", UNIT, "derived", 2),
        Column("cost over plain", "", "derived", 3),
    ]
    plain = sum(total(one.fixed[PLAIN.name]) for one in texts)
    costs = {rule.name: sum(total(one.fixed[rule.name]) for one in texts) for rule in FIXED}
    rows: list[list[str | int | float | bool | None]] = [
        [name, sum(len(one.fixed[name]) for one in texts), cost, cost / plain]
        for name, cost in sorted(costs.items(), key=lambda one: one[1])
    ]
    return Table("choices", "All fixed choices, all texts together", columns, rows, UNITS)


def over_length(texts: Sequence[Replayed]) -> Figure:
    """Regret by tokens, a line for each text."""
    series = [
        Series(
            f"{i}. {one.label}",
            [float(n) for n in range(1, one.tokens + 1)],
            [one.regret(n) for n in range(1, one.tokens + 1)],
            "derived",
        )
        for i, one in enumerate(texts, 1)
    ]
    return Figure(
        "regret", "Regret against the best fixed choice up to there", Axis("tokens"), Axis("regret", UNIT), series,
        note=f"Below 0 the bets have cost less than every fixed choice. {UNITS}",
    )  # fmt: skip


def costs(texts: Sequence[Replayed]) -> Figure:
    """What a token cost in each text."""
    x = [float(i) for i in range(len(texts))]
    lines = {
        "plain": [total(one.fixed[PLAIN.name]) for one in texts],
        "best fixed choice": [one.best(one.tokens)[1] for one in texts],
        "bets": [total(one.bets) for one in texts],
        "foreseen": [total(one.foreseen) for one in texts],
    }
    series = [
        Series(name, x, [cost / one.tokens for cost, one in zip(spent_, texts, strict=True)], "derived", "points")
        for name, spent_ in lines.items()
    ]
    labels = Axis("text", labels=[f"text {i + 1}" for i in range(len(texts))])
    return Figure("costs", "Cost of a token", labels, Axis("cost", UNIT), series, UNITS)
