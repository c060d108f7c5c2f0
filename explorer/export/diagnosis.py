"""A diagnosis of a drafter as one page without scripts, to be shared: what was found, every table, the first
differences, and the conditions."""

from typing import Any

from explorer.export.markup import Html, h, join, table
from explorer.export.report import framed
from explorer.figures import diagnosed
from explorer.figures.diagnosed import best, lengths

ASSUMED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
FOOT = (
    "Made by Decoding Explorer. Acceptance, ranks, log-probabilities and times were measured; speeds and break-even "
    "are derived from them."
)


def diagnosis_page(diagnosis: Any) -> str:
    """The page's text. diagnosis: an `engines.Diagnosis`."""
    title = f"Why is {diagnosis.drafter} slow?"
    notes = [h("li", {}, note) for note in (*diagnosis.notes, *diagnosed.findings(diagnosis))]
    tables = [_section(t.title, t.note, table(t.columns, t.rows)) for t in diagnosed.tables(diagnosis) if t.rows]
    places = [
        _section(place.title, "", h("pre", {}, f"target: {place.target}\ndraft:  {place.draft}"))
        for place in diagnosed.places(diagnosis)
    ]
    conditions = _section("Conditions", "", table(["Condition", ""], _conditions(diagnosis)))
    head = h("h1", {}, title), h("p", {}, diagnosed.headline(diagnosis)), h("ul", {}, notes)
    return framed(title, join(head, tables, _assumed(diagnosis), places, conditions, h("footer", {}, FOOT)))


def _section(title: str, note: str, *children: Html) -> Html:
    return h("section", {}, h("h2", {}, title), h("p", {"class": "quiet"}, note) if note else None, *children)


def _assumed(diagnosis: Any) -> Html | None:
    """What drafts would be worth with other acceptances."""
    rows = []
    for chance in ASSUMED:
        if top := best(lengths(diagnosis, chance)):
            rows.append([f"{100 * chance:g} %", str(top.k), f"{top.accepted:.2f}", f"{top.speed:.2f}x"])
    note = "Derived from the measured seconds: the best length if every drafted token were accepted with this chance."
    heads = ["accepted at every depth", "best drafted", "accepted a round", "speed"]
    return _section("What if acceptance were ...?", note, table(heads, rows)) if rows else None


def _conditions(diagnosis: Any) -> list[tuple[str, str]]:
    conditions = [
        ("Target", diagnosis.target),
        ("Drafter", f"{diagnosis.drafter}, format {diagnosis.format}, sha256 {diagnosis.sha256}"),
        ("Prompts", f"{diagnosis.prompts}, {diagnosis.tokens} tokens written greedily behind them"),
        ("Drafts", f"of {diagnosis.k} tokens"),
        ("Machine", diagnosis.cost.machine if diagnosis.cost else ""),
        ("Command", diagnosis.command),
        ("Date", diagnosis.date),
    ]
    return [(name, value) for name, value in conditions if value]
