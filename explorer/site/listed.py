"""Tables that are sorted and searched: what runs, what was published, measured and trained."""

from explorer.export.markup import Html, Node, crumbs, h, join, link, page, table
from explorer.papers import listing, tables
from explorer.papers.tables import Link, Table
from explorer.site.markdown import markdown

SORT = {"data-sort": ""}


def pages() -> dict[str, str]:
    """Path -> page of each table that is a page; what was measured is on `sweeps.html`."""
    by_name = {name: listing.table(name) for name in listing.TITLES if name != "measured"}
    return {f"docs/{name}.html": _page(name, shown) for name, shown in by_name.items()}


def _page(name: str, shown: Table) -> str:
    way = crumbs(link("../docs.html", "Docs"), " / ", shown.title)
    main = join(way, h("h1", {}, shown.title), listed(name, shown))
    return page(shown.title, shown.about[0][:200], main, here=f"docs/{name}.html")


def measured() -> Html:
    """The index of all measured tables, and each of them."""
    every = [
        join(h("h3", {"id": name}, measured_table.title), listed("", tables.shown(measured_table)))
        for name, measured_table in listing.by_name().items()
    ]
    return join(h("h2", {"id": "tables"}, "All tables"), listed("measured", listing.table("measured")), every)


def listed(name: str, shown: Table) -> Html:
    """A table below what is said of it; one that has a name is searched."""
    about = [markdown(text, resolve=lambda target: "") for text in shown.about]
    rows = [[_cell(cell) for cell in row] for row in shown.rows]
    named = {"id": name} if name else {}
    return join(about, search(name) if name else None, table(shown.columns, rows, **SORT, **named))


def _cell(cell: str | Link) -> Node:
    if isinstance(cell, str):
        return cell
    return link(cell.to if cell.to.startswith("https://") else f"#{cell.to}", cell.text)


def search(name: str, words: str = "Search the table") -> Html:
    """The field that narrows the table of this id; shown where scripts run."""
    field: dict[str, str | bool | None] = {"data-filter": name, "type": "search"}
    field |= {"placeholder": words, "aria-label": words}
    count = h("output", {"id": f"{name}-count", "aria-live": "polite"})
    return h("div", {"class": "filters", "hidden": True}, h("input", field), count)
