"""The texts of `assets/docs` as pages of the site, and tables that are sorted and searched: what runs, what was
published, measured and trained."""

from explorer.export.markup import Html, Node, cards, crumbs, h, join, lead, link, page, table
from explorer.papers import listing, tables
from explorer.papers.documents import PICTURES, document, documents
from explorer.papers.tables import Link, Table
from explorer.site.markdown import markdown

SORT = {"data-sort": ""}


def pages() -> dict[str, str]:
    """Path -> page: the list, one page for each text and each table (what was measured is on `sweeps.html`), and the
    pictures that the texts show."""
    texts = {name: document(name) for name in documents()}
    made = {f"docs/{name}.html": _page(name, title, texts[name]) for name, title in documents().items()}
    entries = [
        [h("h3", {}, link(f"docs/{name}.html", title)), markdown(_lead(texts[name]), resolve=lambda target: "")]
        for name, title in documents().items()
    ]
    about = "How to use it from the page, the command line and Python, what runs, and what was measured."
    places = {name: f"docs/{name}.html" for name in listing.TITLES} | {"measured": "sweeps.html#tables"}
    main = join(
        h("h1", {}, "Docs"),
        lead(about),
        cards(entries),
        h("h2", {}, "Tables"),
        h("ul", {}, [h("li", {}, link(places[name], title)) for name, title in listing.TITLES.items()]),
    )
    listed_tables = {name: listing.table(name) for name in listing.TITLES if name != "measured"}
    made |= {f"docs/{name}.html": _table_page(name, shown) for name, shown in listed_tables.items()}
    pictures = {f"docs/pictures/{file.name}": file.read_text("utf-8") for file in sorted(PICTURES.glob("*.svg"))}
    return {"docs.html": page("Docs", about, main, here="docs.html"), **made, **pictures}


def _lead(text: str) -> str:
    """The paragraph under the title."""
    return text.split("\n\n")[1]


def _page(name: str, title: str, text: str) -> str:
    way = crumbs(link("../docs.html", "Docs"), " / ", title)
    main = join(way, h("div", {"class": "doc"}, markdown(text, places=True, resolve=_resolve)))
    return page(title, " ".join(_lead(text).split())[:200], main, here=f"docs/{name}.html")


def _resolve(target: str) -> str:
    """Links between texts lead to their pages; files of the repository are not on the site."""
    file, place, head = target.partition("#")
    if target.startswith(("https://", "#")) or (PICTURES.parent / file).is_relative_to(PICTURES):
        return target
    known = file.removesuffix(".md") in documents()
    return f"{file.removesuffix('.md')}.html{place}{head}" if known else ""


# --- tables


def _table_page(name: str, shown: Table) -> str:
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
