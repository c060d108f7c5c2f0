"""A diagnosis of a drafter as one page without scripts, to be shared: what was found, every table, the first
differences, and the conditions."""

from __future__ import annotations

from typing import Any

from explorer.export.markup import Html, h, join, table
from explorer.export.report import framed
from explorer.figures import diagnosed
from explorer.figures.drafting import best, lengths

ASSUMED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
FOOT = (
    "Made by Decoding Explorer. Acceptance, ranks, log-probabilities and times were measured; speeds and break-even "
    "are derived from them."
)


def diagnosis_page(found: Any) -> str:
    """The page's text. found: an `engines.Diagnosis`."""
    said = f"Why is {found.drafter} slow?"
    body = join(
        h("h1", {}, said),
        h("p", {}, diagnosed.headline(found)),
        h("ul", {}, [h("li", {}, one) for one in (*found.notes, *diagnosed.findings(found))]),
        *[
            _section(one.title, one.note, table(list(one.columns), [list(row) for row in one.rows]))
            for one in diagnosed.tables(found)
            if one.rows
        ],
        _assumed(found),
        *[
            _section(one.title, "", h("pre", {}, f"target: {one.target}\ndraft:  {one.draft}"))
            for one in diagnosed.places(found)
        ],
        _section("Conditions", "", table(["Condition", ""], [list(row) for row in _conditions(found)])),
        h("footer", {}, FOOT),
    )
    return framed(said, body)


def _section(title: str, note: str, *children: Html) -> Html:
    return h("section", {}, h("h2", {}, title), h("p", {"class": "quiet"}, note) if note else None, *children)


def _assumed(found: Any) -> Html | None:
    """What drafts would be worth with other acceptances."""
    rows = []
    for chance in ASSUMED:
        if top := best(lengths(found, chance)):
            rows.append([f"{100 * chance:g} %", str(top.k), f"{top.accepted:.2f}", f"{top.speed:.2f}x"])
    note = "Derived from the measured seconds: the best length if every drafted token were accepted with this chance."
    heads = ["accepted at every depth", "best drafted", "accepted a round", "speed"]
    return _section("What if acceptance were ...?", note, table(heads, rows)) if rows else None


def _conditions(found: Any) -> list[tuple[str, str]]:
    told = [
        ("Target", found.target),
        ("Drafter", f"{found.drafter}, format {found.format}, sha256 {found.sha256}"),
        ("Prompts", f"{found.prompts}, {found.tokens} tokens written greedily behind them"),
        ("Drafts", f"of {found.k} tokens"),
        ("Machine", found.cost.machine if found.cost else ""),
        ("Command", found.command),
        ("Date", found.date),
    ]
    return [(name, value) for name, value in told if value]
